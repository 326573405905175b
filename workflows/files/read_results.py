"""Results are read again from what `--out` wrote: NetCDF, Zarr, JSON; and from manifests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chunkfold.errors import PlanError
from chunkfold.outputs.output_places import is_url, out_text
from chunkfold.outputs.outputs import format_of
from chunkfold.results.as_xarray import array_of, needed, with_edges
from chunkfold.results.coordinate import Coordinate
from chunkfold.results.result import Result
from chunkfold.stores.addresses import node_type

if TYPE_CHECKING:
    from chunkfold.results.pictures import Drawable

_ENGINES = {".nc": "h5netcdf", ".zarr": "zarr"}


def read_results(address: str) -> Drawable:
    """Return the results that a file has, by their names, with their coordinates.

    Raises
    ------
    PlanError
        If it is not there, or is of a format that does not say which of it are axes.
    """
    ending = format_of(address)
    if ending not in (*_ENGINES, ".json"):
        raise PlanError(
            f"{out_text(address)} ends in {ending!r}: only .nc, .zarr and .json say which of their "
            "numbers are axes and which are results; write one of these by --out"
        )
    if not is_url(address) and not Path(address).exists():
        raise PlanError(f"{address} does not exist: give a file that --out wrote")
    if ending == ".zarr" and not is_url(address) and node_type(Path(address)) == "array":
        raise PlanError(f"{address} is an array: give the group that --out wrote")
    try:
        if ending == ".json":
            return of_json(json.loads(Path(address).read_text("utf-8")))
        return _groups(address, _ENGINES[ending])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        told = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise PlanError(
            f"{out_text(address)} cannot be read as results ({told}): give a file that --out wrote"
        ) from error


def _groups(address: str, engine: str) -> dict[str, Any]:
    """Return arrays by their names, those of groups by theirs."""
    found: dict[str, Any] = {}
    for path, dataset in needed().open_groups(address, engine=engine).items():
        made = dataset.reset_coords(  # a result of several quantiles is called as their axis is
            [name for name, one in dataset.coords.items() if name in one.dims and one.ndim > 1]
        )
        prefixes = [
            str(name).removesuffix("left") for name in made.variables if str(name).endswith("left")
        ]
        name = path.strip("/")
        for called, one in with_edges(made, prefixes).data_vars.items():
            found[f"{name}_{called}".replace("/", "_") if name else str(called)] = one
    return found


def of_json(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the results of a JSON file; of several sources or questions by their names."""
    labels = entry.get("labels", {})
    if labels or not any(isinstance(one, Mapping) for one in entry.values()):
        coordinates = {
            name: Coordinate(name, tuple(one["dims"]), _values(one["values"]), one["attrs"])
            for name, one in labels.get("coordinates", {}).items()
        }
        told = labels.get("results", {})
        return {
            name: array_of(_result(name, value, told.get(name, {}), coordinates))
            for name, value in entry.items()
            if name not in ("labels", "groups") and not _is_summary(value)
        }
    return {name: of_json(one) for name, one in entry.items() if isinstance(one, Mapping)}


def _is_summary(value: Any) -> bool:
    """Return True if a manifest says of a value what it is, rather than has it."""
    return isinstance(value, Mapping) and "sha256" in value


def _result(
    name: str, value: Any, told: Mapping[str, Any], coordinates: Mapping[str, Coordinate]
) -> Result:
    values = _values(value)
    dims = tuple(told.get("dims") or (f"dim_{n}" for n in range(values.ndim)))
    parts = {
        f"{name}/{field}": _field(name, field, values, dims, told, coordinates)
        for field in values.dtype.names or ()
    }
    return Result(name, values, dims, told.get("attrs", {}), parts=parts, read=lambda: coordinates)


def _field(
    name: str,
    field: str,
    records: np.ndarray,
    dims: tuple[str, ...],
    told: Mapping[str, Any],
    coordinates: Mapping[str, Coordinate],
) -> Result:
    """Take a field of records; edges of bins, which are the same for every output, come once."""
    part, attrs = records[field], told.get("fields", {}).get(field, {})
    if field in ("left", "right"):
        part, dims = part.reshape(-1, part.shape[-1])[0], dims[-1:]
    return Result(f"{name}/{field}", part, dims, attrs, read=lambda: coordinates)


def _values(held: Any) -> np.ndarray:
    """Return what JSON has as an array: numbers, dates, texts, records."""
    flat = _flat(held)
    if flat and all(isinstance(one, Mapping) for one in flat):
        fields = [(name, _values([one[name] for one in flat])) for name in flat[0]]
        records = np.zeros(len(flat), [(name, one.dtype) for name, one in fields])
        for name, one in fields:
            records[name] = one
        return records.reshape(_shape(held))
    if any(isinstance(one, str) for one in flat):
        for kind in (float, "M8[ns]"):
            with suppress(ValueError):
                return np.array(held).astype(kind)
    return np.array(held)


def _flat(held: Any) -> list[Any]:
    return [one for inner in held for one in _flat(inner)] if isinstance(held, list) else [held]


def _shape(held: Any) -> tuple[int, ...]:
    return (len(held), *_shape(held[0])) if isinstance(held, list) and held else ()
