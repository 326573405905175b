"""Results as a NetCDF file, written by xarray: variables, coordinates, attributes."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chunkfold.errors import PlanError
from chunkfold.results.companions import COORDINATES
from chunkfold.results.results import Results
from chunkfold.workflows.as_json import jsonable
from chunkfold.workflows.names import refuse_taken_results

if TYPE_CHECKING:
    import xarray

_NEEDED = ("xarray", "h5netcdf", "h5py")
_ENGINE: Any = "h5netcdf"


def check_netcdf(out: str | Path) -> None:
    """Find out before the work starts whether NetCDF can be written.

    Raises
    ------
    PlanError
        If a package is missing for it.
    """
    lacking = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if str(out).endswith(".nc") and lacking:
        raise PlanError(
            f"output {out}: NetCDF needs {' and '.join(lacking)}: pip install 'chunkfold[netcdf]', "
            "or write .zarr"
        )


def write_netcdf(path: Path, reduced: Mapping[str, Results]) -> None:
    """Write results as NetCDF: those of several sources in groups, by their names.

    What it has no type for is written as what holds the same: complex numbers as two variables, a
    half-precision float as one of 32 bits.

    Raises
    ------
    PlanError
        If a result has the name of something that comes along.
    """
    for key, one in reduced.items():
        refuse_taken_results(one)
        mode: Any = "a" if path.exists() else "w"
        dataset_of(one).to_netcdf(path, mode=mode, group=key or None, engine=_ENGINE)


def dataset_of(results: Results) -> xarray.Dataset:
    """Return results as NetCDF can hold them."""
    import xarray

    named = dict(results.stored.along.attributes)
    named.pop(COORDINATES, None)  # xarray writes it
    made: dict[str, Any] = {}
    for op, one in results.items():
        for name, part in (one.parts or {op: one}).items():
            said = {**part.attrs, "chunkfold": {"op": op, **results.made_of}}
            said |= named if part.ndim == one.ndim else {}
            attributes = {key: _attribute(value) for key, value in said.items()}
            for called, values in _known(name.replace("/", "_"), np.asarray(part)):
                made[called] = (part.dims, values, attributes)
    coords: dict[Any, Any] = dict(results.as_xarray().coords)
    for label in results.plan.labels:
        if label.intervals is not None:  # which NetCDF has no type for
            coords[label.axis] = (label.axis, label.groups, dict(label.attrs))
    return xarray.Dataset(made, coords)


def _known(name: str, values: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """Return values as NetCDF can hold them, and what they are then called."""
    if values.dtype.kind == "c":
        return [(f"{name}_real", values.real), (f"{name}_imag", values.imag)]
    narrow = values.dtype == np.float16 or values.dtype.name == "bfloat16"
    return [(name, values.astype(np.float32) if narrow else values)]


def _attribute(value: Any) -> Any:
    """Return an attribute as NetCDF can hold it: what is neither text nor number is JSON.

    >>> _attribute([1, 2]), _attribute({"op": "mean"}), _attribute(True)
    ([1, 2], '{"op": "mean"}', 'true')
    """
    alike = value if isinstance(value, list) else [value]
    numbers = all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in alike)
    texts = all(isinstance(one, str) for one in alike)
    return value if alike and (numbers or texts) else json.dumps(jsonable(value))
