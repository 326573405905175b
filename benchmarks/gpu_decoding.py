"""Decoding in a device's memory, and nothing else: by chunkfold, and by nvCOMP where it is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numcodecs
import numpy as np
import pyopencl as cl
import zarr
from numcodecs import zstd

from chunkfold.kernels import DeviceContext
from chunkfold.kernels.decode.blosc import Blosc
from chunkfold.kernels.decode.decode_batch import aligned_offsets
from chunkfold.kernels.decode.lz4 import Lz4
from chunkfold.kernels.decode.workspace import StageInput, Workspace
from chunkfold.kernels.decode.zstd import Zstd

CODECS: Mapping[str, Any] = {
    "zstd": zarr.codecs.ZstdCodec(),
    "blosc-lz4": zarr.codecs.BloscCodec(cname="lz4", shuffle="shuffle"),
    "blosc-zstd": zarr.codecs.BloscCodec(cname="zstd", shuffle="bitshuffle"),
}
"""Of arrays, by what rows call them."""
_LZ4, _ZSTD = (numcodecs.Blosc(name, 5, shuffle) for name, shuffle in (("lz4", 1), ("zstd", 2)))
ENCODERS: Mapping[str, Callable[[bytes], bytes]] = {
    "zstd": zstd.compress,
    "lz4": numcodecs.LZ4().encode,
    "blosc-lz4": lambda raw: _LZ4.encode(np.frombuffer(raw, "f4")),
    "blosc-zstd": lambda raw: _ZSTD.encode(np.frombuffer(raw, "f4")),
}
"""Make chunks of bytes."""
_DECODERS = {"zstd": Zstd, "lz4": Lz4, "blosc-lz4": Blosc, "blosc-zstd": Blosc}
NVCOMP = {"zstd": "Zstd"}
"""What nvCOMP calls a codec that it has, too."""


def ours_decoding(
    opened: DeviceContext, how: str, frames: Sequence[bytes], count: int, nbytes: int
) -> Callable[[], object]:
    """Return what decodes so many chunks, the same ones over and over, once they are right."""
    workspace, codec = Workspace(opened), _DECODERS[how](opened)
    sizes = np.array([len(frames[n % len(frames)]) for n in range(count)])
    places = aligned_offsets(sizes)
    memory = np.zeros(int(places[-1] + sizes[-1]), np.uint8)
    for n, place in enumerate(places):
        frame = frames[n % len(frames)]
        memory[place : place + len(frame)] = np.frombuffer(frame, np.uint8)
    stored = workspace.buffer("stored", memory.nbytes)
    decoded = workspace.buffer("decoded", count * nbytes)
    cl.enqueue_copy(workspace.queue, stored, memory)
    given = StageInput(stored, places, sizes, decoded, np.arange(count) * nbytes, nbytes)

    def decode() -> bool:
        done: bool = codec.decode(workspace, given)
        if not done:
            raise SystemExit(f"{how}: chunks were refused")
        return done

    decode()
    found = np.empty(count * nbytes, np.uint8)
    cl.enqueue_copy(workspace.queue, found, decoded)
    ends = [n * nbytes for n in (1, count)]
    firsts, lasts = (found[end - nbytes : end].tobytes() for end in ends)
    for got, frame in ((firsts, frames[0]), (lasts, frames[(count - 1) % len(frames)])):
        if got != bytes(_plain(how, frame)):
            raise SystemExit(f"{how}: chunks are decoded to other bytes")
    return decode


def _plain(how: str, frame: bytes) -> Any:
    codecs: Mapping[str, Any] = {"zstd": numcodecs.Zstd(), "lz4": numcodecs.LZ4()}
    return codecs.get(how, numcodecs.Blosc()).decode(frame)


def nvcomp_decoding(
    algorithm: str, frames: Sequence[bytes], count: int
) -> dict[str, Callable[[], object]]:
    """Return the same by nvCOMP; nothing where it is not installed."""
    try:
        import cupy
        from nvidia import nvcomp
    except ImportError as error:
        print(f"no nvCOMP here: {error}", file=sys.stderr)
        return {}
    codec = nvcomp.Codec(algorithm=algorithm, bitstream_kind=nvcomp.BitstreamKind.RAW)
    each = [cupy.asarray(np.frombuffer(one, np.uint8)) for one in frames]
    given = nvcomp.as_arrays([each[n % len(each)] for n in range(count)])

    def decode() -> object:
        found = codec.decode(given)
        cupy.cuda.Device().synchronize()
        return found

    return {"nvCOMP": decode}
