"""Decode stored chunks that are in a device's memory, and put what is taken in place."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Lock

import numpy as np
import pyopencl as cl

from chunkfold.kernels.decode import blosc, zstd
from chunkfold.kernels.decode.blosc import Blosc
from chunkfold.kernels.decode.decode_trial import ChunkCodec, tried
from chunkfold.kernels.decode.lz4 import Lz4
from chunkfold.kernels.decode.stored_chunks import ALIGNED, CODECS, PLAIN, Boxes, StoredChunks
from chunkfold.kernels.decode.workspace import Workspace
from chunkfold.kernels.decode.zstd import Zstd
from chunkfold.kernels.program.device_context import DeviceContext

_KERNELS: Mapping[str, Callable[[DeviceContext], ChunkCodec]] = dict(
    zip(CODECS, (Zstd, Blosc, Lz4), strict=True)
)
_ROOMS: Mapping[str, Callable[[int, int], int]] = {
    "zstd": zstd.room_bytes,
    "blosc": blosc.room_bytes,
}
"""What those take that need more than a few words for each chunk."""
_UNITS = {16: "uint4", 8: "uint2", 4: "uint", 2: "ushort", 1: "uchar"}
_PLACE_LANES = 64


class DeviceDecoder:
    """What one thread needs at a time to decode: a queue, buffers, and kernels."""

    def __init__(self, opened: DeviceContext) -> None:
        self._opened, self._workspace = opened, Workspace(opened)
        self._codecs: dict[str, ChunkCodec | None] = {}

    def room_for(self, chunks: StoredChunks) -> cl.Buffer:
        """Return the buffer that chunks are to be brought into; raises as `decode`."""
        return self._workspace.room("stored", chunks.stored_bytes)

    def decode(self, chunks: StoredChunks, region: cl.Buffer, after: Sequence[cl.Event]) -> bool:
        """Decode chunks that were brought into a region, once events are complete.

        Returns
        -------
        False if one is not as its codec's format says, or is one that is left to the host: some of
        the region may be written then.

        Raises
        ------
        DeviceError
            If the device fails, or has no room.
        """
        workspace, count, stored = self._workspace, len(chunks.places), self.room_for(chunks)
        workspace.after(after)
        if chunks.codec == PLAIN:
            self._place(stored, chunks.places, chunks, region)
            return True
        codec = self._codec(chunks.codec)
        if codec is None:
            return False
        step = -(-chunks.nbytes // ALIGNED) * ALIGNED
        straight, to = chunks.boxes is None and step == chunks.nbytes, np.arange(count) * step
        decoded = region if straight else workspace.room("decoded", count * step)
        given = workspace, stored, chunks.places, chunks.sizes, decoded, to, chunks.nbytes
        if not codec.decode(*given):
            return False
        if not straight:
            self._place(decoded, to, chunks, region)
        return True

    def _codec(self, name: str) -> ChunkCodec | None:
        """Return a codec's kernels; None if they decode wrong on this device."""
        if name not in self._codecs:
            make = partial(_KERNELS[name], self._opened)
            # Not in the workspace: chunks are there already.
            self._codecs[name] = tried(self._opened, name, make, Workspace(self._opened))
        return self._codecs[name]

    def _place(
        self, decoded: cl.Buffer, begins: np.ndarray, chunks: StoredChunks, region: cl.Buffer
    ) -> None:
        """Copy boxes from chunks, which begin there, into a region; wait until it is done."""
        boxes, itemsize = chunks.boxes or _one_behind_another(chunks), chunks.itemsize
        workspace, axes = self._workspace, len(boxes.chunk)
        steps = np.array(
            [
                [math.prod(extents[n + 1 :]) * itemsize for extents in (boxes.chunk, boxes.region)]
                for n in range(axes)
            ],
            np.int64,
        )
        table = boxes.boxes.copy()
        table[:, :2] *= itemsize
        table[:, 0] += begins
        table[:, 1 + axes] *= itemsize
        # The widest unit by which all places and rows can be counted.
        along = table[:, :2], steps[:-1], table[:, 1 + axes]
        common = math.gcd(itemsize * ALIGNED, *(int(np.gcd.reduce(one, None)) for one in along))
        unit = next(size for size in _UNITS if common % size == 0)
        table[:, :2] //= unit
        table[:, 1 + axes] //= unit
        steps[:-1] //= unit
        steps[-1:] = 1
        most = int(table[:, 2:].max(axis=0).prod())
        program = self._opened.standalone("place_boxes.cl", options=(f"-DUNIT={_UNITS[unit]}",))
        geometry = workspace.room("geometry", table.nbytes + steps.nbytes)
        given = workspace.pinned("geometry", table.size + steps.size, table.dtype)
        given[: steps.size], given[steps.size :] = steps.reshape(-1), table.reshape(-1)
        workspace.write(geometry, given)
        workspace.launch(
            *(cl.Kernel(program, "place_boxes"), (most, len(table)), (_PLACE_LANES, 1)),
            *(decoded, region, geometry, np.uint32(axes), np.uint64(most)),
        )
        workspace.read(geometry, given[:1])


def room_bytes(codec: str, nbytes: int, chunk_bytes: int) -> int:
    """Return the most bytes that chunks take of a device; `nbytes` are those of all, decoded."""
    return _ROOMS[codec](nbytes, chunk_bytes) if codec in _ROOMS else 0


def _one_behind_another(chunks: StoredChunks) -> Boxes:
    """Return the boxes of chunks that are taken whole, each behind the one before."""
    count, extent = len(chunks.places), chunks.nbytes // chunks.itemsize
    number = np.arange(count, dtype=np.int64)
    boxes = np.column_stack([0 * number, number * extent, 0 * number + extent])
    return Boxes(boxes, (extent,), (count * extent,))


class DeviceDecoders:
    """Those of a device: each thread borrows one, and its buffers stay for the next."""

    def __init__(self, opened: DeviceContext) -> None:
        self._opened = opened
        self._idle: list[DeviceDecoder] = []
        self._lock = Lock()

    @contextmanager
    def borrowed(self) -> Iterator[DeviceDecoder]:
        """Yield one that no other thread uses meanwhile."""
        with self._lock:
            one = self._idle.pop() if self._idle else None
        one = one or DeviceDecoder(self._opened)
        yield one  # after an error it is not used again: its queue may hold what failed
        with self._lock:
            self._idle.append(one)
