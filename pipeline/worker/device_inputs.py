"""What a block has on its device beside the data that it reads: keys of groups, held inputs."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

import numpy as np
import pyopencl as cl

from chunkfold.boxes import Slices, place_key
from chunkfold.kernels import DeviceContext
from chunkfold.kernels.program.device_context import device_errors
from chunkfold.planning import group_keys
from chunkfold.planning.broadcast_inputs import BroadcastInput


def uploaded(held: BroadcastInput, opened: DeviceContext) -> cl.Buffer:
    """Return a held input on a device.

    Raises
    ------
    DeviceError
        If there is no room for it.
    """
    values = np.ascontiguousarray(held.values)  # which makes one number an array of it
    return _buffer(opened, values, held.name)


class HeldKeys(NamedTuple):
    """The keys at a place: int32, C-contiguous."""

    buffer: cl.Buffer
    codes: np.ndarray | None
    """The same on the host, where they are few."""


class DeviceKeys:
    """Keys on a device: each place's are uploaded once, as long as there is room for them."""

    def __init__(self, opened: DeviceContext, keys: group_keys.Keys) -> None:
        self._opened, self._keys = opened, keys
        self._held: OrderedDict[tuple[tuple[int, int], ...], HeldKeys] = OrderedDict()
        self._nbytes = 0

    def at(self, place: Slices) -> HeldKeys:
        """Return the keys at a place.

        Raises
        ------
        DeviceError
            If the device has no room for them.
        """
        name = place_key(place)
        if name in self._held:
            self._held.move_to_end(name)
            return self._held[name]
        codes = self._keys.at(place)
        while self._held and self._nbytes + codes.nbytes > group_keys.DEVICE_KEYS_BYTES:
            # OpenCL keeps the memory until the launches that were given it are done.
            self._nbytes -= self._held.popitem(last=False)[1].buffer.size
        buffer = _buffer(self._opened, codes, "keys")
        seen = codes if codes.nbytes <= group_keys.SEEN_BYTES else None
        self._held[name] = HeldKeys(buffer, seen)
        self._nbytes += codes.nbytes
        return self._held[name]


def _buffer(opened: DeviceContext, values: np.ndarray, what: str) -> cl.Buffer:
    flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
    with device_errors(opened.device, f"uploading {values.nbytes:,} bytes of {what}"):
        return cl.Buffer(opened.context, flags, hostbuf=values)
