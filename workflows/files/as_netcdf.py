"""Results as a NetCDF file, written by xarray: variables, coordinates, attributes."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chunkfold.results.companions import COORDINATES
from chunkfold.results.results import Results
from chunkfold.workflows.as_json import jsonable
from chunkfold.workflows.files.names import refuse_taken_results

if TYPE_CHECKING:
    import xarray
    from typing_extensions import Buffer


def write_netcdf(path: Path, reduced: Mapping[str, Results]) -> None:
    """Write results as NetCDF: those of several sources in groups, by their names.

    What it has no type for is written as what holds the same: complex numbers as two variables, a
    half-precision float as one of 32 bits.

    Raises
    ------
    PlanError
        If a result has the name of something that comes along.
    """
    import h5netcdf
    from xarray.backends import H5NetCDFStore

    for one in reduced.values():
        refuse_taken_results(one)
    with _Forgiving(path, "w+") as file:
        with h5netcdf.File(file, "w") as made:
            for key, one in reduced.items():
                group = made.create_group(key) if key else made
                dataset_of(one).dump_to_store(H5NetCDFStore(group))
                file.check()
        file.check()


class _Forgiving(io.FileIO):
    """A file that HDF5 never sees fail: its library ends the process if it cannot close a file.

    What cannot be written is dropped, and `check` says so.
    """

    _failure: BaseException | None = None

    def write(self, data: Buffer) -> int:
        """Write all of it, unless something could not be written before."""
        left = memoryview(data).cast("B")
        whole = len(left)
        try:
            while self._failure is None and left:
                left = left[super().write(left) :]
        except BaseException as error:  # noqa: BLE001 # an interrupt too: it is raised later
            self._failure = error
        return whole

    def truncate(self, size: int | None = None) -> int:
        """Change its length."""
        try:
            return super().truncate(size)
        except OSError as error:
            self._failure = self._failure or error
            return size or 0

    def check(self) -> None:
        """Raise why something could not be written."""
        if self._failure is not None:
            raise self._failure


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
    along = results.to_xarray().coords
    coords: dict[Any, Any] = {name: one for name, one in along.items() if name not in made}
    for label in results.plan.labels:
        if label.intervals is not None:  # which NetCDF has no type for
            coords[label.axis] = (label.axis, label.groups, dict(label.attrs))
    return xarray.Dataset(made, coords).set_coords([name for name in made if name in along])


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
