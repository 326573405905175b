"""Decode stored chunks that are in a device's memory, and put what is taken in place."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Lock

import numpy as np
import pyopencl as cl

from chunkfold.kernels.decode import blosc, zstd
from chunkfold.kernels.decode.blosc import Blosc
from chunkfold.kernels.decode.codec_chain import CODECS, CodecChain, Filter
from chunkfold.kernels.decode.decode_batch import (
    ALIGNED,
    DecodeBatch,
    aligned_offsets,
    one_behind_another,
)
from chunkfold.kernels.decode.decode_trial import ChunkCodec, DecodeStage, tried
from chunkfold.kernels.decode.filter_kernel import FilterKernel
from chunkfold.kernels.decode.lz4 import Lz4
from chunkfold.kernels.decode.workspace import StageInput, Workspace
from chunkfold.kernels.decode.zstd import Zstd
from chunkfold.kernels.program.device_context import DeviceContext

_KERNELS: Mapping[str, Callable[[DeviceContext], ChunkCodec]] = dict(
    zip(CODECS, (Zstd, Blosc, Lz4), strict=True)
)
_STAGE_BYTES: Mapping[str, Callable[[int, int], int]] = {
    "zstd": zstd.zstd_stage_bytes,
    "blosc": blosc.blosc_stage_bytes,
}
"""Bytes of buffers of the codecs that need more than a few words for each chunk."""
_BUFFERS = ("decoded", "filtered")
"""The buffers that codecs decode into, in turn."""
_UNITS = {16: "uint4", 8: "uint2", 4: "uint", 2: "ushort", 1: "uchar"}
_PLACE_LANES = 64


class DeviceDecoder:
    """The queue, buffers and kernels with which one thread decodes at a time."""

    def __init__(self, opened: DeviceContext) -> None:
        self._opened, self._workspace = opened, Workspace(opened)
        self._codecs: dict[DecodeStage, ChunkCodec | None] = {}

    def stored_buffer(self, chunks: DecodeBatch) -> cl.Buffer:
        """Return the buffer that chunks are to be brought into; raises as `decode`."""
        return self._workspace.buffer("stored", chunks.stored_bytes)

    def bring(self, contents: Iterable[tuple[int, memoryview]], chunks: DecodeBatch) -> DecodeBatch:
        """Bring chunks from the host's memory, as they come; raises as `decode`.

        Parameters
        ----------
        contents
            Yields the number of a chunk, and its bytes, no more than `chunks.sizes` has for it.

        Returns
        -------
        The chunks with the sizes of those that came; the others are not stored.
        """
        buffer, sizes = self.stored_buffer(chunks), np.zeros_like(chunks.sizes)
        for number, content in contents:
            self._workspace.upload(content, buffer, int(chunks.places[number]))
            sizes[number] = len(content)
        return chunks._replace(sizes=sizes)

    def uploaded_s(self) -> float:
        """Return the seconds that `bring` took by the device's clock since this was last asked."""
        return self._workspace.uploaded_s()

    def decode(self, chunks: DecodeBatch, region: cl.Buffer, after: Sequence[cl.Event]) -> bool:
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
        workspace, stored = self._workspace, self.stored_buffer(chunks)
        workspace.after(after)
        stages = self._stages(chunks.codecs)
        if stages is None:
            return False
        if not chunks.sizes.all():
            workspace.fill(region, chunks.fill)
            chunks = chunks.stored_ones()
        places = chunks.places
        if not len(places):
            workspace.finish()
            return True
        sizes, given = chunks.codecs.sizes(chunks.nbytes), chunks.sizes
        made = sizes[len(sizes) - len(stages) :]
        straight = chunks.boxes is None and chunks.nbytes % ALIGNED == 0
        for number, (stage, nbytes) in enumerate(zip(stages, made, strict=True)):
            to = aligned_offsets(np.full(len(places), nbytes))
            if straight and number == len(stages) - 1:
                into = region
            else:
                into = workspace.buffer(_BUFFERS[number % 2], int(to[-1]) + nbytes)
            if not stage.decode(workspace, StageInput(stored, places, given, into, to, nbytes)):
                workspace.finish()  # the host writes to the region then
                return False
            stored, places, given = into, to, np.full(len(to), nbytes)
        if stages and straight:
            workspace.finish()
        else:
            self._place(stored, places, chunks, region)
        return True

    def _stages(self, codecs: CodecChain) -> list[ChunkCodec] | None:
        """Return the kernels of codecs; None if some decode wrong on this device."""
        names: list[DecodeStage] = [*codecs.compressors, *codecs.filters]
        found = [self._codec(name) for name in names]
        return [one for one in found if one is not None] if None not in found else None

    def _codec(self, name: DecodeStage) -> ChunkCodec | None:
        """Return a codec's kernels; None if they decode wrong on this device."""
        if name not in self._codecs:
            kernels = FilterKernel if isinstance(name, Filter) else _KERNELS[name]
            given = (self._opened, name) if isinstance(name, Filter) else (self._opened,)
            # Not in the workspace: chunks are there already.
            make = partial(kernels, *given)
            self._codecs[name] = tried(self._opened, name, make, Workspace(self._opened))
        return self._codecs[name]

    def _place(
        self, decoded: cl.Buffer, begins: np.ndarray, chunks: DecodeBatch, region: cl.Buffer
    ) -> None:
        """Copy boxes from chunks, which begin there, into a region; wait until it is done."""
        boxes, itemsize = chunks.boxes or one_behind_another(chunks), chunks.itemsize
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
        geometry = workspace.buffer("geometry", table.nbytes + steps.nbytes)
        given = workspace.pinned("geometry", table.size + steps.size, table.dtype)
        given[: steps.size], given[steps.size :] = steps.reshape(-1), table.reshape(-1)
        workspace.write(geometry, given)
        workspace.launch(
            *(cl.Kernel(program, "place_boxes"), (most, len(table)), (_PLACE_LANES, 1)),
            *(decoded, region, geometry, np.uint32(axes), np.uint64(most)),
        )
        workspace.read(geometry, given[:1])


def decode_bytes(codecs: CodecChain, count: int, chunk_bytes: int) -> int:
    """Return the most bytes that so many chunks take of a device, beside what is stored.

    `chunk_bytes` are those of one, decoded.
    """
    stages = len(codecs.compressors) + len(codecs.filters)
    sizes = codecs.sizes(chunk_bytes)
    buffers = min(stages, len(_BUFFERS)) * count * max(sizes)
    stage_bytes = _STAGE_BYTES.get(codecs.compressor)
    return buffers + (0 if stage_bytes is None else stage_bytes(count * sizes[0], sizes[0]))


class DeviceDecoders:
    """The decoders of a device: each thread borrows one, and its buffers stay for the next."""

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

    def drop_idle(self) -> None:
        """Drop those that no thread uses, and their buffers."""
        with self._lock:
            self._idle.clear()
