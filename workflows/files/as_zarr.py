"""Results in a Zarr: one array each, with its labels, and what comes along."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.dtype import VariableLengthBytes, VariableLengthUTF8

from chunkfold.errors import PlanError
from chunkfold.outputs.output_places import out_text
from chunkfold.outputs.outputs import format_of
from chunkfold.planning.options import Options
from chunkfold.results.companions import COORDINATES, Companions
from chunkfold.results.coordinates import Auxiliary
from chunkfold.results.results import Results
from chunkfold.sources.cf_packing import attributes_for_zarr
from chunkfold.sources.consolidated_metadata import consolidate
from chunkfold.workflows.as_json import json_text
from chunkfold.workflows.files.groups import write_groups
from chunkfold.workflows.files.names import refuse_taken_results
from chunkfold.workflows.images.ome_projection import projected

_CALLED = {".zarr": "Zarr", ".parquet": "Parquet", ".nc": "NetCDF"}


def write_zarr(folder: Path, reduced: Mapping[str, Results]) -> None:
    """Write results as a Zarr group, those of each source at a path of their own, for xarray too.

    Raises
    ------
    PlanError
        If a result has the name of something that comes along.
    """
    for path, one in reduced.items():
        group = zarr.open_group(str(folder), mode="a", zarr_format=3)
        _write(group.require_group(path) if path else group, one)
    consolidate(folder)


def _write(into: zarr.Group, results: Results) -> None:
    """Write the results of one source; records become groups, of an array for each field."""
    along = results.stored.along
    arrays = {op: dict(one.parts) or {op: one} for op, one in results.items()}
    refuse_taken_results(results)
    for op, parts in arrays.items():
        for name, part in parts.items():
            own = part.ndim < results[op].ndim  # the same for every output
            attributes = {
                **part.attrs,
                # As text: xarray writes no mappings to NetCDF.
                "chunkfold": json_text({"op": op, **results.made_of}),
                **({} if own else along.attributes),
            }
            if name in into:  # it was written as it came
                into[name].attrs.update(attributes)
                continue
            into.create_array(
                name,
                data=np.asarray(part),
                attributes=attributes_for_zarr(attributes, np.asarray(part).dtype),
                dimension_names=results.names(part),
            )
    into.attrs.update(projected(results))
    for name, values in results.own_labels.items():
        if name not in into:  # several quantiles are called as their axis is
            into.create_array(name, data=values, dimension_names=[name])
    # Records stand in groups of their own, which xarray opens one by one.
    records = [into.require_group(op) for op, parts in arrays.items() if op not in parts]
    for holding in [into, *records]:
        write_companions(holding, along)
        for label in results.plan.labels:
            write_groups(holding, label)


def write_companions(group: zarr.Group, along: Companions) -> None:
    """Write what comes along with the results in a group."""
    for one in along.all:
        if one.name not in group:
            _write_beside(group, one)
    if along.declared:
        group.attrs[COORDINATES] = " ".join(along.declared)


def _write_beside(group: zarr.Group, one: Auxiliary) -> None:
    """Write an array that comes along into a group, by its name."""
    one = one.averaged() if any(one.windows) else one
    values = np.asarray(one.values)
    # NumPy has no dtype for texts of any length, or knows it as one of objects.
    texts = all(isinstance(value, str) for value in values.flat)
    dtype: Any = VariableLengthUTF8() if texts else VariableLengthBytes()
    made = group.create_array(
        one.name,
        shape=values.shape,
        dtype=dtype if values.dtype.kind == "O" else values.dtype,
        attributes=attributes_for_zarr(one.attributes, values.dtype),
        dimension_names=list(one.axes),
    )
    made[...] = values


def check_results(out: str | Path, options: Options) -> None:
    """Find out before the work starts whether an output's format can hold these results.

    Raises
    ------
    PlanError
        If it has no data type for Python's integers, or is a table and results have axes of
        their own.
    """
    ending, cast = format_of(out), options.cast
    if cast is not None and cast.kind == "O" and ending in _CALLED:
        raise PlanError(
            f"output {out_text(out)}: {_CALLED[ending]} has no data type for "
            f"Python's integers (dtype {options.dtype}); use .json"
        )
    if ending in (".csv", ".parquet"):
        refuse_own_axes(
            options, f"write it as .json, .nc or .zarr, not into the table {out_text(out)}"
        )


def refuse_own_axes(options: Options, remedy: str) -> None:
    """Refuse reductions whose results have axes beside those that are left.

    Raises
    ------
    PlanError
        If there is one.
    """
    for one in options.monoids:
        if one.last_axis:
            raise PlanError(f"{one.name} has its own axes: {remedy}")
