"""Find where xarray's and Dask's arrays are read from, also if they are computed from others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import zarr
from dask.base import is_dask_collection

from chunkfold.sources.xarray_layers import ZARR_WRAPPER
from chunkfold.sources.zarr_arrays import disk_path_of

_ORIGINAL = "original-"
"""Prefix of the layers of Dask's graphs that hold an array that was given to `from_array`."""
_MOST_WRAPPERS = 16
"""Most wrappers of xarray's around a file's array."""


def array_origins(given: Any) -> tuple[str, ...]:
    """Return the paths and URLs that an array is read from; empty where none is found.

    Parameters
    ----------
    given
        A DataArray, its Variable, a Dask array, or what one of these holds.
    """
    return tuple(dict.fromkeys(_origins(given)))


def _origins(given: Any) -> Iterator[str]:
    variable = getattr(given, "variable", given)
    if hasattr(variable, "_data") and hasattr(variable, "encoding"):
        source = variable.encoding.get("source")
        if isinstance(source, str):
            yield source
        given = variable._data
    if not is_dask_collection(given):
        yield from _address(given)
        return
    for name, layer in getattr(given.__dask_graph__(), "layers", {}).items():
        inlined = [one for one, _ in getattr(layer, "indices", ())]
        original = dict(layer).values() if str(name).startswith(_ORIGINAL) else ()
        for one in (*inlined, *original):
            yield from _address(getattr(one, "value", one))


def _address(array: Any) -> Iterator[str]:
    """Yield the path or URL of a Zarr array, or of the file that xarray's wrappers read."""
    for _ in range(_MOST_WRAPPERS):
        array = getattr(array, "array", array)
    if type(array).__name__ == ZARR_WRAPPER:
        array = array.get_array()
    if isinstance(array, zarr.Array):
        yield disk_path_of(array) or str(array.store_path)
    file = getattr(getattr(array, "datastore", None), "_filename", None)
    if isinstance(file, str):
        yield file
