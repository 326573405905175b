"""Which group each element is in, as workers have it, and as devices do."""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyopencl as cl

from chunkfold.grid import Piece
from chunkfold.kernels import DeviceContext
from chunkfold.kernels.program.device_context import device_errors

HELD_BYTES = 64 << 20
"""Keys that a block keeps on the device, for the boxes that come."""
COUNTED_BYTES = 4 << 20
"""Counts of keys that are kept."""
Place = tuple[slice, ...]


@dataclass(frozen=True, eq=False)
class Keys:
    """The number of the group of each element, along some axes; the same along all others."""

    axes: tuple[int, ...]
    """Of the source, ascending."""
    codes: np.ndarray
    """Integers over what is selected of these axes; -1 of what is in no group."""
    count: int
    """Number of groups."""
    _counted: dict[tuple[tuple[int, int], ...], np.ndarray] = field(default_factory=dict)

    def packed(self) -> PackedKeys:
        """Return them as they travel: labels mostly repeat."""
        codes = self.codes
        packed = zlib.compress(codes.tobytes(), 1)
        return PackedKeys(self.axes, packed, codes.dtype.name, codes.shape, self.count)

    def place(self, pieces: Sequence[Piece], within: Sequence[slice]) -> Place:
        """Return where the keys are of a part of a leaf."""
        return tuple(
            slice(pieces[n].position + within[n].start, pieces[n].position + within[n].stop)
            for n in self.axes
        )

    def counts(self, place: Place) -> np.ndarray:
        """Count the keys of each group at a place: int64, (count,), not to be written to.

        Those of the latest places are kept: what lies above each other has the same.
        """
        name = _name(place)
        if name not in self._counted:
            codes = self.codes[place]
            found = np.bincount(codes[codes >= 0].astype(np.intp), minlength=self.count)
            if (len(self._counted) + 1) * found.nbytes > COUNTED_BYTES:
                self._counted.clear()
            self._counted[name] = found
        return self._counted[name]


@dataclass(frozen=True)
class PackedKeys:
    """Keys on their way to a worker."""

    axes: tuple[int, ...]
    packed: bytes
    dtype: str
    shape: tuple[int, ...]
    count: int

    def unpacked(self) -> Keys:
        """Return them as they were."""
        codes = np.frombuffer(zlib.decompress(self.packed), self.dtype).reshape(self.shape)
        return Keys(self.axes, codes, self.count)


class DeviceKeys:
    """Keys on a device: each place's are uploaded once, as long as there is room for them."""

    def __init__(self, opened: DeviceContext, keys: Keys) -> None:
        self._opened, self._keys = opened, keys
        self._held: OrderedDict[tuple[tuple[int, int], ...], cl.Buffer] = OrderedDict()
        self._nbytes = 0

    def at(self, place: Place) -> cl.Buffer:
        """Return the keys at a place: int32, C-contiguous.

        Raises
        ------
        DeviceError
            If the device has no room for them.
        """
        name = _name(place)
        if name in self._held:
            self._held.move_to_end(name)
            return self._held[name]
        codes = np.ascontiguousarray(self._keys.codes[place], np.int32)
        while self._held and self._nbytes + codes.nbytes > HELD_BYTES:
            # OpenCL keeps the memory until the launches that were given it are done.
            self._nbytes -= self._held.popitem(last=False)[1].size
        flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
        with device_errors(self._opened.device, f"uploading {codes.nbytes:,} bytes of keys"):
            self._held[name] = cl.Buffer(self._opened.context, flags, hostbuf=codes)
        self._nbytes += codes.nbytes
        return self._held[name]


def _name(place: Place) -> tuple[tuple[int, int], ...]:
    return tuple((along.start, along.stop) for along in place)
