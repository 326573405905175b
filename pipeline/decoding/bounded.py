"""Undo any codec of numcodecs, and make no more bytes of a chunk than its shape can need.

Most decoders believe the decoded size that the stored bytes name, or have no bound at all: 40 kB
may become 32 GiB. Filters make no more than some bytes of each byte.
"""

from __future__ import annotations

import bz2
import lzma
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from chunkfold.decoding.codecs import StoredBytes, chain_of, of_another_size, stored_bound

_WIDEST = 16
"""Bytes of the widest element: a filter may turn elements of a byte into such, or back."""
_LZMA_MEMORY = 1 << 28
"""Bytes of lzma's dictionary, at most: its highest preset takes a quarter."""
_COUNTED = ("vlen-utf8", "vlen-bytes", "vlen-array")
"""Codecs whose bytes begin with a count of elements, for which they allocate memory at once."""


def most_between(nbytes: int) -> int:
    """Return the most bytes between two codecs of a chunk of `nbytes` decoded bytes."""
    return _WIDEST * stored_bound(nbytes)


def undone(codec: Any, stored: Any, most: int, elements: int) -> Any:
    """Undo a codec of numcodecs; return the decoded data.

    Parameters
    ----------
    most
        Most decoded bytes.
    elements
        Number of elements that a codec of texts must decode to.

    Raises
    ------
    ValueError
        If it decodes to more, or is damaged. Decoders raise other exceptions too.
    """
    name = codec.codec_id
    if name in _STREAMS:
        found: Any = _STREAMS[name](codec, memoryview(_bytes_of(stored)), most)
    elif name not in _OTHERWISE and (chain := chain_of([name])) is not None:
        found = undone_bytes(name, chain[0], _bytes_of(stored), most)
    else:
        if name in _COUNTED:
            refuse_count(_bytes_of(stored), elements)
        found = codec.decode(stored)
    refuse_larger(found, most)
    return found


def undone_bytes(name: str, codec: Any, stored: StoredBytes, most: int) -> Any:
    """Undo a codec that `codecs.py` knows.

    Raises
    ------
    ValueError
        If its header promises more than `most` bytes, or it decodes to more.
    """
    promised = None if codec.size is None else codec.size(stored)
    if promised is not None and promised > most:
        raise ValueError(f"its {name} header says {promised:,} bytes, more than {most:,}")
    found = codec.decode(stored, most)
    refuse_larger(found, most)
    return found


def refuse_larger(found: Any, most: int) -> None:
    """Raise ValueError if decoded data have more bytes than they may."""
    nbytes = getattr(found, "nbytes", None)
    if (len(found) if nbytes is None else nbytes) > most:
        raise ValueError(f"it decodes to more than {most:,} bytes, but its shape needs fewer")


def refuse_count(stored: StoredBytes, elements: int) -> None:
    """Raise ValueError if stored texts name another count than `elements`."""
    count = int.from_bytes(stored[:4], "little")
    if len(stored) < 4 or count != elements:  # bytes of the count
        raise ValueError(f"its header says {count:,} texts, but its shape needs {elements:,}")


class WholeChunk:
    """All codecs of a chunk of format 2 as one, which decodes to the size of its shape."""

    def __init__(
        self, compressor: Any, filters: Sequence[Any], shape: Sequence[int], dtype: np.dtype
    ) -> None:
        self._codecs = (*([] if compressor is None else [compressor]), *reversed(filters))
        self._elements = math.prod(shape)
        self._nbytes = self._elements * dtype.itemsize

    def decode(self, stored: Any) -> Any:
        """Decode a chunk.

        Raises
        ------
        ValueError
            If it does not have the size of its shape, or is damaged. Decoders raise others too.
        """
        found, most = stored, most_between(self._nbytes)
        for codec in self._codecs:
            found = undone(codec, found, most, self._elements)
        array = np.asarray(found) if isinstance(found, np.ndarray) else np.frombuffer(found, "u1")
        if array.dtype == object:
            if array.size != self._elements:
                raise ValueError(f"it has {array.size:,} texts, but needs {self._elements:,}")
        elif array.nbytes != self._nbytes:
            raise of_another_size(array.nbytes, self._nbytes)
        return array


def _bytes_of(stored: Any) -> StoredBytes:
    if isinstance(stored, np.ndarray):
        return np.ascontiguousarray(stored).reshape(-1).view(np.uint8).data
    return memoryview(stored).cast("B")


def _unbz2(_: Any, stored: StoredBytes, most: int) -> bytes:
    return _each_stream(bz2.BZ2Decompressor, stored, most)


def _unlzma(codec: Any, stored: StoredBytes, most: int) -> bytes:
    """Decode as numcodecs does: the metadata have the format and the filters."""
    filters = codec.filters
    raw = codec.format == lzma.FORMAT_RAW
    if any(one.get("dict_size", 0) > _LZMA_MEMORY for one in filters or () if raw):
        raise ValueError(f"its lzma filters take more than {_LZMA_MEMORY:,} bytes of memory")
    memory = {} if raw else {"memlimit": _LZMA_MEMORY}

    def stream() -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(format=codec.format, filters=filters, **memory)

    return _each_stream(stream, stored, most)


def _each_stream(new: Callable[[], Any], stored: StoredBytes, most: int) -> bytes:
    """Decode streams that stand one behind another; ignore bytes behind them, as Python does."""
    found, rest = bytearray(), bytes(stored)
    while rest and len(found) <= most:
        stream, some = new(), b""
        try:
            found += stream.decompress(rest, most + 1 - len(found))
            while not stream.eof and not stream.needs_input and len(found) <= most:
                some = stream.decompress(b"", most + 1 - len(found))
                found += some
        except (OSError, lzma.LZMAError):
            if not found:
                raise
            break
        if not stream.eof and len(found) <= most:
            raise EOFError("it ends before its stream does")
        rest = stream.unused_data
    return bytes(found)


_STREAMS: dict[str, Callable[[Any, StoredBytes, int], Any]] = {"bz2": _unbz2, "lzma": _unlzma}
_OTHERWISE = ("crc32c",)
"""Codecs that numcodecs has in another form than format 3."""
