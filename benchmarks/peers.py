"""What else a user could take for a reduction of a Zarr array, on the same cores."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import dask
import dask.array
import numpy as np
import zarr

Timed = Callable[[], object]
PIPELINES = {
    "dask+fused": ("zarr.core.codec_pipeline", "FusedCodecPipeline", "zarr 3.3 (Python 3.12)"),
    "dask+zarrs": ("zarrs", "ZarrsCodecPipeline", "zarrs"),
}
"""Pipelines by which zarr decodes, other than its default: module, name, and what has it."""
NAMES = ("dask threads", "dask workers", *PIPELINES, "xarray+flox", "cubed")
_STEPS = 8
"""Of the first axis in a block, so that a call has several chunks to decode."""


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
    for name in PIPELINES:
        found |= _with_pipeline(name, path, op, axis, cores)
    for make in (_flox, _cubed):
        try:
            found |= make(path, array, op, axis, cores)
        except ImportError as error:
            _left_out(f"{error.name} is not installed")
    return found


@cache
def _left_out(why: str) -> None:
    """Say once why."""
    print(f"left out: {why} (pip install 'chunkfold[peers]')", flush=True)


def _with_pipeline(
    name: str, path: Path, op: str, axis: int | None, cores: int
) -> dict[str, Timed]:
    """Reduce with Dask's threads what another pipeline of zarr's decodes."""
    module, pipeline, origin = PIPELINES[name]
    try:
        getattr(importlib.import_module(module), pipeline)
    except (ImportError, AttributeError):
        _left_out(f"{name} needs {origin}; zarr {zarr.__version__} is here")
        return {}
    words = {
        "codec_pipeline.path": f"{module}.{pipeline}",
        "codec_pipeline.max_workers": cores,
        "threading.max_workers": cores,
    }
    with zarr.config.set(words):
        stored = zarr.open_array(path, mode="r")
    array = dask.array.from_array(stored, chunks=(_STEPS, *stored.shape[1:]))
    reduce = _in_threads(getattr(array, op)(axis=axis, dtype="f8"), cores)

    def run() -> object:
        with zarr.config.set(words):  # chunks within shards are decoded by what it says then
            return reduce()

    return {name: run}


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
