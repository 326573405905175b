"""Undo the codecs of stored chunks, into given memory.

Codecs do not notice if the memory is larger than the decoded chunk: old bytes would stay behind the
end of a chunk that is too short. So the decoded size is read from the frame's header first, and a
chunk whose header has another size is refused.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import google_crc32c
import numpy as np
from numcodecs import blosc, lz4, zstd

from chunkfold.kernels.decode.codec_chain import Filter

StoredBytes = memoryview
"""Bytes as they are stored."""


@dataclass(frozen=True)
class Codec:
    """One codec, undone."""

    name: str
    decode: Callable[[StoredBytes, int], Any]
    """Returns the decoded bytes, in memory of its own or that of its argument; at most so many and
    one more, where the format allows to stop."""
    size: Callable[[StoredBytes], int | None] | None = None
    """Returns the decoded bytes that the header promises; None if it does not say.

    Raises ValueError where the stored bytes cannot be whole: some decoders would read on.
    """
    into: Callable[[StoredBytes, np.ndarray], Any] | None = None
    """Decodes into memory of the promised size; where `size` is, this is too."""
    whole: Callable[[StoredBytes], int | None] | None = None
    """Returns the decoded bytes of what is one whole frame, if frames one behind another are
    decoded in one call; None if it is anything else. It may raise IndexError or ValueError.

    Decoders do not notice a cut frame: they read the next frame as its end.
    """
    filter: Filter | None = None
    """The kind of filter; None: it is no filter."""


NUMCODECS = "numcodecs."
"""Prefix by which format 3 names codecs of numcodecs that are not in its standard."""
Chain = tuple[Codec, ...]
"""Codecs in the order in which they are undone."""


def chain_of(names: Sequence[str]) -> Chain | None:
    """Return how codecs, named in the order they were applied in, are undone.

    None if one of them is not known here.
    """
    known = [_CODECS.get(name.removeprefix(NUMCODECS)) for name in names]
    return None if None in known else tuple(codec for codec in reversed(known) if codec)


def undo(chain: Chain, stored: StoredBytes, out: np.ndarray) -> None:
    """Decode a chunk into `out`, uint8, of exactly its decoded size.

    Raises
    ------
    ValueError
        If it does not have that size, or is damaged. Decoders raise other exceptions too.
    """
    last = chain[-1] if chain else _PLAIN
    for codec in chain[:-1]:
        most = most_stored(out.nbytes)
        promised = codec.size(stored) if codec.size is not None else None
        if promised is not None and promised > most:
            raise ValueError(f"its {codec.name} header says {promised:,} bytes, more than {most:,}")
        stored = memoryview(codec.decode(stored, most))
    size = last.size(stored) if last.size is not None else None
    if size == out.nbytes and last.into is not None:
        last.into(stored, out)
        return
    if size is not None and size > out.nbytes:
        raise of_another_size(size, out.nbytes)
    # Frames behind the first are not in its header.
    decoded = np.frombuffer(last.decode(stored, out.nbytes), np.uint8)
    if decoded.nbytes != out.nbytes:
        raise of_another_size(decoded.nbytes, out.nbytes)
    out[:] = decoded


def of_another_size(size: int, needed: int) -> ValueError:
    """Return the error of a chunk that decodes to `size` bytes where its shape needs `needed`."""
    more = " or more" if size == needed + 1 else ""  # where decoders stopped
    return ValueError(f"it decodes to {size:,} bytes{more}, but its shape needs {needed:,}")


def stored_bound(nbytes: int) -> int:
    """Return a bound of the stored bytes of a chunk of `nbytes` decoded bytes.

    Codecs add little to bytes that they cannot shrink.
    """
    return nbytes + nbytes // 128 + (64 << 10)


def most_stored(nbytes: int) -> int:
    """Return the stored bytes beyond which a chunk is damaged: to read it could take all memory."""
    return 4 * stored_bound(nbytes)


_ZSTD_BEGIN = struct.Struct("<IB")
"""A frame's magic number, and the descriptor of its header."""
_ZSTD_GOT = re.compile(r"expected to decompress \d+, got (\d+)")
_ZSTD_RLE = 1
"""The type of a block that is one byte, many times over."""


def _zstd_size(stored: StoredBytes) -> int | None:
    """Read the content size off a frame's header (RFC 8878, 3.1.1.1)."""
    magic, descriptor = _ZSTD_BEGIN.unpack_from(stored) if len(stored) >= 5 else (0, 0)
    if magic != 0xFD2FB528:
        if len(stored) >= 8 and magic & ~0xF == 0x184D2A50:
            return None  # a frame to be skipped (3.1.2)
        raise ValueError("it does not begin as a zstd frame")
    at, width = _ZSTD_CONTENT_SIZE[descriptor]
    if not width or len(stored) < at + width:
        return None
    size = int.from_bytes(stored[at : at + width], "little")
    return size + 256 if width == 2 else size


def _zstd_content_size(descriptor: int) -> tuple[int, int]:
    """Return the offset of the content size in a frame, and its bytes; 0 bytes if it is missing."""
    single_segment = descriptor >> 5 & 1
    at = 5 + (1 - single_segment) + (0, 1, 2, 4)[descriptor & 3]
    return at, (single_segment, 2, 4, 8)[descriptor >> 6]


_ZSTD_CONTENT_SIZE = [_zstd_content_size(descriptor) for descriptor in range(256)]


def _zstd_whole(stored: StoredBytes) -> int | None:
    """Go from block to block of a frame (RFC 8878, 3.1.1.2); return its size if it ends there.

    Raises
    ------
    IndexError
        If it ends before the last block's header does.
    """
    size, descriptor = _zstd_size(stored), stored[4]
    at = sum(_ZSTD_CONTENT_SIZE[descriptor])
    last = 0
    while not last:
        block = stored[at] | stored[at + 1] << 8 | stored[at + 2] << 16
        last = block & 1
        at += 4 if block >> 1 & 3 == _ZSTD_RLE else 3 + (block >> 3)
    return size if at + 4 * (descriptor >> 2 & 1) == len(stored) else None  # with a checksum


def _unzstd(stored: StoredBytes, most: int) -> Any:
    """Decode frames, some of which do not name their size: numcodecs has no bound but its memory.

    If the memory is larger than the data, its error names their size, unless each frame does.
    """
    with suppress(IndexError, ValueError):
        if (size := _zstd_whole(stored)) is not None and size <= most:
            return zstd.decompress(stored)
    out = np.empty(most + 1, np.uint8)
    try:
        zstd.decompress(stored, out)
    except RuntimeError as error:
        if "too small" in str(error):
            return out
        if (got := _ZSTD_GOT.search(str(error))) is None:
            raise
        return out[: int(got[1])]
    return zstd.decompress(stored)


def _blosc_size(stored: StoredBytes) -> int:
    """Read the sizes off the header; Blosc itself would read beyond the end of a short chunk.

    Blosc ignores bytes behind those that the header counts.
    """
    if len(stored) < 16:
        raise ValueError(f"it has {len(stored)} bytes, less than Blosc's header")
    size, _, whole = struct.unpack_from("<III", stored, 4)
    if whole > len(stored):
        raise ValueError(f"it has {len(stored):,} bytes, but its Blosc header says {whole:,}")
    return int(size)


def _lz4_size(stored: StoredBytes) -> int:
    if len(stored) < 4:
        raise ValueError(f"it has {len(stored)} bytes, less than the header of lz4")
    return int.from_bytes(stored[:4], "little")


def _without_crc32c(stored: StoredBytes) -> StoredBytes:
    """Check the checksum behind the bytes."""
    if len(stored) < 4:
        raise ValueError(f"it has {len(stored)} bytes, less than a crc32c")
    data, kept = stored[:-4], int.from_bytes(stored[-4:], "little")
    found = google_crc32c.value(np.frombuffer(data, np.uint8))  # it takes no memoryview
    if found != kept:
        raise ValueError(f"its crc32c is {kept:#010x}, but its bytes have {found:#010x}")
    return data


def _unzlib(stored: StoredBytes, most: int) -> bytes:
    """Decode one stream; ignore bytes behind it, as zlib.decompress does."""
    return _inflated(zlib.decompressobj(), stored, most)


def _ungzip(stored: StoredBytes, most: int) -> bytes:
    """Decode members that stand one behind another, as gzip.decompress does, which has no bound."""
    found, rest = b"", stored
    while rest and len(found) <= most:
        member = zlib.decompressobj(_GZIP)
        found += _inflated(member, rest, most - len(found))
        rest = memoryview(member.unused_data.lstrip(b"\0"))
    return found


def _inflated(stream: Any, stored: StoredBytes, most: int) -> bytes:
    """Decode at most `most` bytes and one more: 4 MB that are damaged may become 4 GB."""
    found: bytes = stream.decompress(stored, most + 1)
    if len(found) <= most and not stream.eof:
        raise EOFError("it ends before its stream does")
    return found


_GZIP = 16 + zlib.MAX_WBITS
"""To zlib: a stream with the header and checksum of gzip."""
_PLAIN = Codec("bytes", lambda stored, _: stored)
_CODECS: Mapping[str, Codec] = {
    codec.name: codec
    for codec in (
        Codec(
            *("zstd", _unzstd, _zstd_size, zstd.decompress),
            whole=_zstd_whole,
        ),
        Codec("blosc", lambda stored, _: blosc.decompress(stored), _blosc_size, blosc.decompress),
        Codec("lz4", lambda stored, _: lz4.decompress(stored), _lz4_size, lz4.decompress),
        Codec("gzip", _ungzip),
        Codec("zlib", _unzlib),
        Codec("crc32c", lambda stored, _: _without_crc32c(stored)),
    )
}
