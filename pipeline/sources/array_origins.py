"""Find where arrays of xarray and Dask are read from, whatever is computed of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import zarr
from dask.base import is_dask_collection

from chunkfold.errors import SourceError
from chunkfold.sources.xarray_layers import unwrapped
from chunkfold.sources.zarr_arrays import disk_path_of

_ORIGINAL = "original-"
"""Layers of Dask's graphs that hold a stored array have names that begin so."""
_MOST_LAYERS = 16
"""Layers that xarray lays around an array of a file, at most."""


def array_origins(given: Any) -> tuple[str, ...]:
    """Return the paths and URLs that an array is read from, as far as it tells.

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
        yield from [source] if isinstance(source, str) else []
        given = variable._data
    if not is_dask_collection(given):
        yield from _stored(given)
        return
    for name, layer in getattr(given.__dask_graph__(), "layers", {}).items():
        if str(name).startswith(_ORIGINAL):
            for one in dict(layer).values():
                yield from _stored(getattr(one, "value", one))


def _stored(lazy: Any) -> Iterator[str]:
    """Yield the path or URL of an array of a store, or of what xarray lays around one."""
    try:
        array = lazy if isinstance(lazy, zarr.Array) else unwrapped(lazy)[0]
    except SourceError:
        array = None
    if isinstance(array, zarr.Array):
        yield disk_path_of(array) or str(array.store_path)
        return
    for _ in range(_MOST_LAYERS):
        lazy = getattr(lazy, "array", lazy)
    file = getattr(getattr(lazy, "datastore", None), "_filename", None)
    yield from [file] if isinstance(file, str) else []
