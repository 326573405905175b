"""xarray's layers around an array that is not read yet: what they select, and how they decode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from chunkfold.errors import SourceError
from chunkfold.positions import as_range, index_of
from chunkfold.selections import Selection
from chunkfold.sources.cf_packing import packing_of
from chunkfold.sources.source import Source
from chunkfold.sources.zarr_arrays import AnyArray

_TRANSPARENT = (
    "MemoryCachedArray",
    "CopyOnWriteArray",
    "ImplicitToExplicitIndexingAdapter",
    "NativeEndiannessArray",
)
"""Layers of xarray's around an array that is not read yet, which change no value."""
_ELEMENTWISE, _INDEXED = "_ElementwiseFunctionArray", "LazilyIndexedArray"
ZARR_WRAPPER = "ZarrArrayWrapper"
"""The layer around a Zarr array, the innermost."""
_OTHERS = {
    "LazilyVectorizedIndexedArray": "xarray has its axes in another order, or picks positions"
}
"""Other layers, and their meaning."""
_PROBED = 256
"""Numbers by which two ways to decode are compared, beside those that mean something."""
Decode = Callable[[np.ndarray], np.ndarray]


def unwrapped(data: Any) -> tuple[AnyArray, tuple[Any, ...], list[Decode]]:
    """Take xarray's layers from an array that is not read yet.

    Returns the array of the store, what is selected of it, and the functions by which its elements
    are decoded, in order.
    """
    decodes: list[Decode] = []
    key: tuple[Any, ...] | None = None
    while (kind := type(data).__name__) != ZARR_WRAPPER:
        if kind == _ELEMENTWISE and key is None:
            decodes.insert(0, data.func)
        elif kind == _INDEXED and key is None:
            key = data.key.tuple
        elif kind not in _TRANSPARENT:
            raise SourceError(_OTHERS.get(kind, f"xarray has it as {kind}"))
        data = data.array
    stored = data.get_array()
    return stored, (slice(None),) * stored.ndim if key is None else key, decodes


def once(key: tuple[Any, ...], cuts: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what Dask selects of what xarray does, if that is all."""
    if any(one != slice(None) for one in key):
        raise SourceError("places are selected by xarray, and then by Dask")
    return cuts


def selection_of(key: Sequence[Any], shape: Sequence[int]) -> Selection:
    """Return a selection that is the same as one of xarray's."""
    cuts = tuple(_cut(one, size) for one, size in zip(key, shape, strict=True))
    whole = zip(cuts, shape, strict=True)
    return None if all(isinstance(c, slice) and c == slice(0, n, 1) for c, n in whole) else cuts


def _cut(one: Any, size: int) -> int | slice | np.ndarray:
    if isinstance(one, (int, np.integer)):
        return int(one) % size
    if isinstance(one, slice):
        return index_of(range(size)[one])
    places = np.asarray(one)
    if places.ndim != 1:
        raise SourceError("places are picked along several axes at once")
    return index_of(as_range(np.where(places < 0, places + size, places)))


def decodes_alike(source: Source, decodes: Sequence[Decode], dtype: np.dtype) -> bool:
    """Return True if stored numbers decode to the same values here and in xarray.

    The numbers tried include the ends of their dtype and the missing values.
    """
    if source.dtype.kind not in "iuf":
        return False
    packing = packing_of(source)
    numbers = _probes(source, [*packing.missing] if packing is not None else [], decodes)
    want = numbers
    try:
        for decode in decodes:
            want = decode(want)
    except Exception:  # noqa: BLE001 # whatever it is that decodes dates alone: no numbers
        return False
    got = numbers if packing is None else packing.values(numbers)
    same = np.array_equal(want, got, equal_nan=want.dtype.kind in "fM")
    return want.dtype == got.dtype == dtype and bool(same)


def _probes(source: Source, missing: Sequence[Any], decodes: Sequence[Decode]) -> np.ndarray:
    dtype = source.dtype.newbyteorder("=")
    named = [getattr(one, "keywords", {}).get("encoded_fill_values", ()) for one in decodes]
    told = [*missing, *(number for numbers in named for number in numbers)]
    bits = np.random.default_rng(0).bytes(_PROBED * dtype.itemsize)
    drawn = np.frombuffer(bits, dtype)
    ends = np.iinfo(dtype) if dtype.kind in "iu" else np.finfo(dtype)
    with np.errstate(all="ignore"):
        meant = np.array([0, 1, ends.min, ends.max, *np.asarray(told).reshape(-1)]).astype(dtype)
        return np.concatenate([meant, meant + dtype.type(1), meant - dtype.type(1), drawn])
