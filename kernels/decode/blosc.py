"""Decode Blosc chunks on a device: the stages of `cl/blosc`, many chunks at once."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyopencl as cl

from chunkfold.kernels.decode import lz4, zstd
from chunkfold.kernels.decode.lz4 import MOST_BYTES, STREAM, Lz4Streams
from chunkfold.kernels.decode.workspace import StageInput, Workspace
from chunkfold.kernels.decode.zstd import Zstd
from chunkfold.kernels.program.device_context import DeviceContext

_CHUNK = np.dtype(
    [(name, "u8") for name in ("from", "size", "to", "first")]
    + [(name, "u4") for name in ("block", "splits", "streams", "kind", "filter", "width")]
    + [("cbytes", "u4"), ("copied", "u4")]
)
"""`chunk_t` of `cl/blosc/format.clh`."""
_FAILED = np.dtype(np.int32)
_ZSTD_STREAM = 3
_LEAST_STREAM = 128
_UNIT = 8
_HEADER_LANES, _STREAM_LANES, _UNSHUFFLE_LANES = 32, 32, 64
_FILES = (*lz4.FILES, "blosc/format.clh")


class Blosc:
    """The kernels of a device."""

    def __init__(self, opened: DeviceContext) -> None:
        self._opened = opened
        self._headers = self._kernel("blosc_headers", "blosc/headers.cl")
        self._table = self._kernel("blosc_streams", "blosc/streams.cl")
        self._streams = Lz4Streams(opened)

    def _kernel(self, name: str, *files: str, options: tuple[str, ...] = ()) -> cl.Kernel:
        return cl.Kernel(self._opened.standalone(*_FILES, *files, options=options), name)

    @cached_property
    def _zstd(self) -> Zstd:
        return Zstd(self._opened)

    def decode(self, workspace: Workspace, given: StageInput) -> bool:
        """Decode chunks of as many bytes each: see `Zstd.decode`.

        Chunks with elements of different widths, shuffled, are left to the host, too.
        """
        stored, places, sizes, decoded, to, _ = given
        nbytes = int(given.nbytes)
        if nbytes > MOST_BYTES:
            return False
        chunks, size = workspace.pinned("blosc", len(places), _CHUNK), np.uint32(nbytes)
        found = workspace.pinned("failed", 1, _FAILED)
        chunks["from"], chunks["size"], chunks["to"] = places, sizes, to
        table = workspace.buffer("blosc", chunks.nbytes)
        failed = workspace.buffer("failed", found.nbytes)
        workspace.write(table, chunks)
        workspace.launch(
            *(self._headers, (len(chunks),), (_HEADER_LANES,)),
            *(stored, table, np.uint32(len(chunks)), size, failed),
        )
        workspace.read(table, chunks)
        counts = chunks["streams"].astype(np.int64)
        widths = np.unique(chunks["width"][chunks["filter"] > 0])
        if not counts.all() or len(widths) > 1:
            return False
        chunks["first"], total = np.cumsum(counts) - counts, int(counts.sum())
        streams = workspace.buffer("streams", total * STREAM.itemsize)
        workspace.write(table, chunks)
        workspace.launch(
            *(self._table, (len(chunks) * _STREAM_LANES,), (_STREAM_LANES,)),
            *(stored, table, streams, size, failed),
        )
        target = workspace.buffer("shuffled", int(to.max()) + nbytes) if len(widths) else decoded
        self._streams.decode(workspace, stored, streams, total, target, failed)
        if (chunks["kind"] == _ZSTD_STREAM).any():
            each = workspace.pinned("streams", total, STREAM)
            workspace.read(streams, each)
            each = each[each["kind"] == _ZSTD_STREAM]
            if each["size"].sum() > sizes.sum():  # they overlap: the same is decoded many times
                return False
            frames = StageInput(
                *(stored, each["from"], each["size"], target, each["to"], each["capacity"])
            )
            if len(each) and not self._zstd.decode(workspace, frames):
                return False
        if len(widths):
            self._unshuffle(workspace, int(widths[0]), target, decoded, table, len(chunks), size)
        workspace.read(failed, found)
        return not found[0]

    def _unshuffle(
        self,
        workspace: Workspace,
        width: int,
        shuffled: cl.Buffer,
        decoded: cl.Buffer,
        table: cl.Buffer,
        count: int,
        size: np.uint32,
    ) -> None:
        files, options = ("shuffled.clh", "blosc/unshuffle.cl"), (f"-DWIDTH={width}",)
        kernel = self._kernel("unshuffle", *files, options=options)
        shape = (-(-int(size) // (_UNIT * width)), count), (_UNSHUFFLE_LANES, 1)
        workspace.launch(kernel, *shape, shuffled, decoded, table, size)


def blosc_stage_bytes(nbytes: int, chunk_bytes: int) -> int:
    """Return the most that chunks take of a device: see `zstd.zstd_stage_bytes`."""
    streams = nbytes // _LEAST_STREAM * STREAM.itemsize
    return nbytes + streams + zstd.zstd_stage_bytes(nbytes, chunk_bytes)
