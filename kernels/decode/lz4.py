"""Decode LZ4 blocks on a device: those of numcodecs' `lz4`, and streams of which chunks consist."""

from __future__ import annotations

import numpy as np
import pyopencl as cl

from chunkfold.kernels.decode.workspace import StageInput, Workspace
from chunkfold.kernels.program.device_context import DeviceContext

STREAM = np.dtype(
    [
        ("from", "u8"),
        ("to", "u8"),
        ("size", "u4"),
        ("capacity", "u4"),
        ("kind", "u4"),
        ("unused", "u4"),
    ]
)
"""`stream_t` of `cl/lz4/format.clh`."""
FILES = ("bytes.clh", "lz4/format.clh")
MOST_BYTES = (1 << 31) - 32
"""Larger chunks are left to the host."""
_SIZED = 2
_SIZE_BYTES = 4
_LANES = 32


class Lz4Streams:
    """The kernel that decodes streams, by a table of them on a device."""

    def __init__(self, opened: DeviceContext) -> None:
        self._lanes = min(_LANES, opened.device.max_work_group_size)
        program = opened.standalone(*FILES, "lz4/streams.cl", options=(f"-DLANES={self._lanes}",))
        self._kernel = cl.Kernel(program, "lz4_streams")

    def decode(
        self,
        workspace: Workspace,
        stored: cl.Buffer,
        streams: cl.Buffer,
        count: int,
        decoded: cl.Buffer,
        failed: cl.Buffer,
    ) -> None:
        """Enqueue decoding; `failed` becomes 1 if a stream is not as the format says."""
        shape = (count * self._lanes,), (self._lanes,)
        workspace.launch(self._kernel, *shape, stored, streams, decoded, failed)


class Lz4:
    """Chunks that are one LZ4 block each, behind their decoded size."""

    def __init__(self, opened: DeviceContext) -> None:
        self._streams = Lz4Streams(opened)

    def decode(self, workspace: Workspace, given: StageInput) -> bool:
        """Decode chunks: see `Zstd.decode`."""
        stored, places, sizes, decoded, to, nbytes = given
        if sizes.min() < _SIZE_BYTES or max(sizes.max(), np.max(nbytes)) > MOST_BYTES:
            return False
        table = workspace.pinned("streams", len(places), STREAM)
        found = workspace.pinned("failed", 1, np.dtype(np.int32))
        table["from"], table["size"] = places + _SIZE_BYTES, sizes - _SIZE_BYTES
        table["to"], table["capacity"], table["kind"] = to, nbytes, _SIZED
        streams, failed = workspace.buffer("streams", table.nbytes), workspace.buffer("failed", 4)
        workspace.write(streams, table)
        workspace.write(failed, found)
        self._streams.decode(workspace, stored, streams, len(table), decoded, failed)
        workspace.read(failed, found)
        return not found[0]
