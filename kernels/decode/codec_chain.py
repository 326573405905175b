"""The codecs of an array's chunks that a device can undo: a compressor, and filters before it."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

CODECS = ("zstd", "blosc", "lz4")
"""Compressors whose chunks a device decodes."""
BLOSC_COMPRESSORS = ("lz4", "lz4hc", "zstd")
"""Compressors whose streams it decodes, within Blosc."""
PLAIN = "bytes"
"""The compressor of chunks that have none."""
FILTERS = ("shuffle", "delta", "fixedscaleoffset")
"""Filters of numcodecs that are undone without zarr."""
_SHUFFLED = (1, 2, 4, 8, 16)
_LEAST_TOO_LARGE = 1 << 31


class Filter(NamedTuple):
    """A filter of numcodecs, by which elements were encoded before they were compressed."""

    name: str
    decoded: np.dtype
    """Dtype of decoded elements, with its byte order; raw bytes for a shuffle."""
    encoded: np.dtype
    scale: float = 1
    offset: float = 0

    @property
    def on_devices(self) -> bool:
        """True if a device decodes the same bits as numcodecs.

        Differences of floats are added up in one order, and NaN has bits that devices do not keep:
        the host decodes these.
        """
        if self.name == "shuffle":
            return self.decoded.itemsize in _SHUFFLED
        if self.encoded.kind not in "iu":
            return False
        if self.name == "delta":  # NumPy adds uint64 and what has a sign in float64
            both = np.result_type(self.decoded, self.encoded)
            return self.decoded.kind in "iu" and both.kind in "iu"
        return self.decoded.kind == "f" and self.decoded.itemsize >= 4 and self._divides_float64

    @property
    def _divides_float64(self) -> bool:
        """True if numcodecs divides by its scale in float64, and by a number that is not 0."""
        numbers = (self.scale, self.offset)
        if not all(type(one) in (int, float) for one in numbers) or self.scale == 0:
            return False
        try:
            with np.errstate(all="ignore"):
                quotient = np.ones(1, self.encoded) / self.scale
            finite = all(math.isfinite(float(one)) for one in numbers)
        except OverflowError:  # an integer that has no room in their dtype
            return False
        return finite and quotient.dtype == np.float64


class CodecChain(NamedTuple):
    """The codecs of a chunk that a device decodes: the compressor, and then the filters."""

    compressor: str
    filters: tuple[Filter, ...] = ()
    """In the order in which they are undone."""

    def __str__(self) -> str:
        """Return the names, in the order in which they are undone."""
        return " and ".join([*self.compressors, *(one.name for one in self.filters)])

    @property
    def compressors(self) -> tuple[str, ...]:
        """The compressor, if there is one."""
        return () if self.compressor == PLAIN else (self.compressor,)

    @property
    def needs_float64(self) -> bool:
        """True if a device that decodes it must have float64."""
        return any(one.name == "fixedscaleoffset" for one in self.filters)

    def sizes(self, nbytes: int) -> list[int]:
        """Return the bytes of a chunk behind the compressor, and behind each filter.

        The last are `nbytes`.

        >>> delta = Filter("delta", np.dtype("i4"), np.dtype("i2"))
        >>> CodecChain("zstd", (delta,)).sizes(400)
        [200, 400]
        """
        sizes = [nbytes]
        for one in reversed(self.filters):
            sizes.append(sizes[-1] // one.decoded.itemsize * one.encoded.itemsize)
        return sizes[::-1]

    def on_devices(self, nbytes: int) -> bool:
        """Tell whether devices know its codecs, and decode chunks of so many bytes."""
        whole = all(
            one.on_devices and size % one.decoded.itemsize == 0
            for one, size in zip(self.filters, self.sizes(nbytes)[1:], strict=True)
        )
        small = not self.filters or max(self.sizes(nbytes)) < _LEAST_TOO_LARGE
        return self.compressor in (PLAIN, *CODECS) and whole and small
