"""Filters of numcodecs, by which elements were encoded before they were compressed.

numcodecs undoes them. Each takes its input for bytes, whatever the one before has made of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numcodecs
import numpy as np

from chunkfold.decoding.codecs import NUMCODECS, Codec, StoredBytes, most_stored
from chunkfold.kernels.decode.codec_chain import FILTERS, PLAIN, CodecChain, Filter

_NUMBERS = "biufcmM"
"""Kinds of dtypes whose elements are numbers or times."""
_ARITHMETIC_BYTES = 16
"""Bytes of the two quotients and sums that a scale and an offset make from an element."""


def filter_codec(settings: Mapping[str, Any]) -> Codec | None:
    """Return the codec that undoes a filter; None if it is not one of `FILTERS`.

    `settings` are those of numcodecs, with the name as `id`.

    >>> filter_codec({"id": "delta", "dtype": "<i4", "astype": "<i2"}).filter.encoded
    dtype('int16')
    """
    name = str(settings["id"]).removeprefix(NUMCODECS)
    if name not in FILTERS:
        return None
    try:
        codec: Any = numcodecs.get_codec({**settings, "id": name})
        if isinstance(codec, numcodecs.Shuffle):
            raw = np.dtype(f"V{max(1, codec.elementsize)}")
            found = Filter(name, raw, raw)
            return Codec(name, partial(_undone, codec, found), len, codec.decode, filter=found)
        scaled = (codec.scale, codec.offset) if hasattr(codec, "scale") else ()
        found = Filter(name, codec.dtype, codec.astype, *scaled)
        dtypes = found.decoded, found.encoded
        if not all(one.itemsize and one.kind in _NUMBERS for one in dtypes):
            return None
        if not all(type(one) in (int, float) for one in scaled):  # NumPy would broadcast a list
            return None
    except Exception:  # noqa: BLE001 # whatever it is: zarr says what is wrong with the settings
        return None
    return Codec(name, partial(_undone, codec, found), filter=found)


def _undone(codec: Any, one: Filter, stored: StoredBytes, most: int) -> np.ndarray:
    size = memoryview(stored).nbytes // one.encoded.itemsize * one.decoded.itemsize
    if size > most:
        raise ValueError(f"{one.name} makes {size:,} bytes, but {most:,} are left for them")
    return np.ascontiguousarray(codec.decode(stored)).reshape(-1).view(np.uint8)


def is_bounded(filters: tuple[Filter, ...], nbytes: int) -> bool:
    """Tell whether chunks of so many decoded bytes have no more between codecs than others."""
    return max(CodecChain(PLAIN, filters).sizes(nbytes)) <= most_stored(nbytes)


def filters_bytes(filters: tuple[Filter, ...], nbytes: int) -> int:
    """Return what the host takes to undo filters of a chunk of so many decoded bytes, at most."""
    sizes = CodecChain(PLAIN, filters).sizes(nbytes)
    each = zip(filters, sizes[:-1], sizes[1:], strict=True)
    return max((_bytes_of(one, before, behind) for one, before, behind in each), default=0)


def _bytes_of(one: Filter, before: int, behind: int) -> int:
    scaled = one.name == "fixedscaleoffset"
    return before + behind + scaled * _ARITHMETIC_BYTES * (behind // one.decoded.itemsize)
