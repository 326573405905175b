"""What else a user could take for a reduction of a Zarr array, on the same cores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import dask.array
import numpy as np

Timed = Callable[[], object]
NAMES = ("dask threads", "dask workers", "xarray+flox", "cubed")


def peers(path: Path, op: str, axis: int | None, cores: int, client: Any) -> dict[str, Timed]:
    """Return what can be timed, by name; `client` is of a Dask cluster with a process a core.

    Sums are added in float64, as ours are.
    """
    array = dask.array.from_zarr(str(path))
    lazy = getattr(array, op)(axis=axis, dtype="f8")
    found: dict[str, Timed] = {
        "dask threads": _in_threads(lazy, cores),
        "dask workers": lambda: client.compute(lazy).result(),
    }
    for make in (_flox, _cubed):
        try:
            found |= make(path, array, op, axis, cores)
        except ImportError as error:
            print(f"left out: {error.name} is not installed (pip install 'chunkfold[peers]')")
    return found


def _in_threads(lazy: Any, cores: int) -> Timed:
    def run() -> object:
        with dask.config.set(scheduler="threads", num_workers=cores):
            return lazy.compute()

    return run


def _flox(_path: Path, array: Any, op: str, axis: int | None, cores: int) -> dict[str, Timed]:
    """Group everything that is reduced together: flox's chunked reductions under xarray."""
    import xarray
    from flox.xarray import xarray_reduce

    names = tuple("tyx")
    data = xarray.DataArray(array, dims=names)
    if axis is None:
        by = xarray.DataArray(
            dask.array.zeros(array.shape, chunks=array.chunks, dtype="i1"), dims=names, name="all"
        )
    else:
        by = xarray.DataArray(np.zeros(array.shape[axis], "i1"), dims=names[axis], name="all")
    lazy = xarray_reduce(data, by, func=op, expected_groups=np.array([0]), dtype="f8")
    return {"xarray+flox": _in_threads(lazy, cores)}


def _cubed(path: Path, _array: Any, op: str, axis: int | None, cores: int) -> dict[str, Timed]:
    import cubed
    import cubed.array_api
    from cubed.runtime.create import create_executor

    spec = cubed.Spec(work_dir=str(path.parent / "cubed"), allowed_mem="4GB")
    executor = create_executor("threads", {"max_workers": cores})
    given = {"dtype": cubed.array_api.float64} if op == "sum" else {}

    def run() -> object:
        array = cubed.from_zarr(str(path), spec=spec)
        lazy = getattr(cubed.array_api, op)(array, axis=axis, **given)
        return lazy.compute(executor=executor)

    return {"cubed": run}
