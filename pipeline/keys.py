"""Which group each element is in, as workers have it, and as devices do."""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyopencl as cl

from chunkfold.grid import Piece
from chunkfold.kernels import OpenedDevice
from chunkfold.kernels.opened import device_errors

HELD_BYTES = 64 << 20
"""Keys that a block keeps on the device, for the boxes that come."""
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
        """Count the keys of each group at a place: int64, (count,)."""
        codes = self.codes[place]
        return np.bincount(codes[codes >= 0].astype(np.intp), minlength=self.count)


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

    def __init__(self, opened: OpenedDevice, keys: Keys) -> None:
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
        name = tuple((along.start, along.stop) for along in place)
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
