"""Decode stored chunks that files bring into a device's memory, and put what is taken in place."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock

import numpy as np
import pyopencl as cl

from chunkfold.kernels.decode import blosc, zstd
from chunkfold.kernels.decode.blosc import Blosc
from chunkfold.kernels.decode.lz4 import Lz4
from chunkfold.kernels.decode.scratch import Scratch
from chunkfold.kernels.decode.stored_chunks import ALIGNED, Boxes, StoredChunks
from chunkfold.kernels.decode.zstd import Zstd
from chunkfold.kernels.feed.feeder import Feeder
from chunkfold.kernels.program.device_context import DeviceContext

_Codec = Zstd | Blosc | Lz4
CODECS: Mapping[str, Callable[[DeviceContext], _Codec]] = {
    "zstd": Zstd,
    "blosc": Blosc,
    "lz4": Lz4,
}
"""Codecs that a device decodes."""
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
        self._opened, self._scratch = opened, Scratch(opened)
        self._codecs: dict[str, _Codec] = {}

    def decode(
        self, feeder: Feeder, chunks: StoredChunks, region: cl.Buffer, after: Sequence[cl.Event]
    ) -> bool:
        """Bring chunks from their files, and decode them into a region once events are complete.

        Returns
        -------
        False if one is not as its codec's format says, or is one that is left to the host: some of
        the region may be written then.

        Raises
        ------
        NotFed
            If a file is not as it was planned.
        DeviceError
            If the device fails, or has no room.
        """
        scratch, count = self._scratch, len(chunks.runs.runs)
        stored = scratch.room("stored", chunks.stored_bytes)
        feeder.feed(chunks.runs, stored)
        scratch.after(after)
        _, _, places, sizes = chunks.runs.runs.T
        step = -(-chunks.nbytes // ALIGNED) * ALIGNED
        straight = chunks.boxes is None and step == chunks.nbytes
        decoded = region if straight else scratch.room("decoded", count * step)
        codec, to = self._codec(chunks.codec), np.arange(count) * step
        if not codec.decode(scratch, stored, places, sizes, decoded, to, chunks.nbytes):
            return False
        if not straight:
            boxes = chunks.boxes or _one_behind_another(chunks)
            self._place(decoded, step, boxes, chunks.itemsize, region)
        return True

    def _codec(self, name: str) -> _Codec:
        if name not in self._codecs:
            self._codecs[name] = CODECS[name](self._opened)
        return self._codecs[name]

    def _place(
        self, decoded: cl.Buffer, step: int, boxes: Boxes, itemsize: int, region: cl.Buffer
    ) -> None:
        """Copy boxes from chunks, `step` bytes apart, into a region; wait until it is done."""
        scratch, axes = self._scratch, len(boxes.chunk)
        steps = np.array(
            [
                [math.prod(extents[n + 1 :]) * itemsize for extents in (boxes.chunk, boxes.region)]
                for n in range(axes)
            ],
            np.int64,
        ).reshape(axes, 2)
        table = boxes.boxes.copy()
        table[:, :2] *= itemsize
        table[:, 0] += np.arange(len(table)) * step
        table[:, 1 + axes] *= itemsize if axes else 1
        # The widest unit by which all places and rows can be counted.
        along = [table[:, :2], steps[:-1], table[:, 1 + axes]] if axes else [table[:, :2]]
        common = math.gcd(itemsize * ALIGNED, *(int(np.gcd.reduce(one, None)) for one in along))
        unit = next(size for size in _UNITS if common % size == 0)
        table[:, :2] //= unit
        table[:, 1 + axes] //= unit
        steps[:-1] //= unit
        steps[-1:] = 1
        most = int(table[:, 2:].max(axis=0).prod()) if axes else itemsize // unit
        program = self._opened.standalone("place_boxes.cl", options=(f"-DUNIT={_UNITS[unit]}",))
        geometry = scratch.room("geometry", table.nbytes + steps.nbytes)
        given = scratch.pinned("geometry", table.size + steps.size, table.dtype)
        given[: steps.size], given[steps.size :] = steps.reshape(-1), table.reshape(-1)
        scratch.write(geometry, given)
        scratch.launch(
            *(cl.Kernel(program, "place_boxes"), (most, len(table)), (_PLACE_LANES, 1)),
            *(decoded, region, geometry, np.uint32(axes), np.uint64(most)),
        )
        scratch.read(geometry, given[:1])


def room_bytes(codec: str, nbytes: int, chunk_bytes: int) -> int:
    """Return the most bytes that chunks take of a device; `nbytes` are those of all, decoded."""
    return _ROOMS[codec](nbytes, chunk_bytes) if codec in _ROOMS else 0


def _one_behind_another(chunks: StoredChunks) -> Boxes:
    """Return the boxes of chunks that are taken whole, each behind the one before."""
    count, extent = len(chunks.runs.runs), chunks.nbytes // chunks.itemsize
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
