"""Try on chunks whose bytes are known whether a device decodes right, before it decodes others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numcodecs
import numpy as np
import pyopencl as cl

from chunkfold.kernels.decode.codec_chain import Filter
from chunkfold.kernels.decode.decode_batch import aligned_offsets, packed
from chunkfold.kernels.decode.workspace import StageInput, Workspace
from chunkfold.kernels.errors import BuildError, DeviceError, DeviceMemoryError
from chunkfold.kernels.program.device_context import DeviceContext

_NBYTES = 200_000
"""Decoded bytes of a chunk that is tried: of several blocks."""
_ELEMENTS, _CHUNKS = 10_007, 3
"""Elements of a chunk whose filter is tried, and such chunks."""
DecodeStage = str | Filter
"""A compressor, by its name, or a filter."""
_known: WeakKeyDictionary[DeviceContext, dict[DecodeStage, bool]] = WeakKeyDictionary()
_lock = Lock()


class ChunkCodec(Protocol):
    """The kernels of a codec."""

    def decode(self, workspace: Workspace, given: StageInput) -> bool:
        """Decode chunks: see `zstd.Zstd.decode`."""


def tried(
    opened: DeviceContext, name: DecodeStage, make: Callable[[], ChunkCodec], workspace: Workspace
) -> ChunkCodec | None:
    """Make a codec's kernels; None if they do not build or decode wrong on this device.

    That is tried once for each device.
    """
    with _lock:
        known = _known.setdefault(opened, {})
        if known.get(name) is False:
            return None
        try:
            codec = make()
            known.setdefault(name, _decodes_right(name, codec, workspace))
        except DeviceMemoryError:
            return None  # which says nothing of the kernels
        except (BuildError, DeviceError, cl.Error):
            known[name] = False
        return codec if known[name] else None


def _decodes_right(name: DecodeStage, codec: ChunkCodec, workspace: Workspace) -> bool:
    stored, wanted = _filtered(name) if isinstance(name, Filter) else _compressed(name)
    nbytes, (places, sizes, memory) = wanted[0].nbytes, packed(stored)
    to = aligned_offsets(np.full(len(stored), nbytes))
    found = np.empty(int(to[-1]) + nbytes, np.uint8)
    given, decoded = (
        workspace.buffer("stored", memory.nbytes),
        workspace.buffer("decoded", found.nbytes),
    )
    cl.enqueue_copy(workspace.queue, given, memory)
    if not codec.decode(workspace, StageInput(given, places, sizes, decoded, to, nbytes)):
        return False
    cl.enqueue_copy(workspace.queue, found, decoded)
    return all(
        found[at : at + nbytes].tobytes() == one.tobytes()
        for at, one in zip(to, wanted, strict=True)
    )


_Samples = tuple[Sequence[bytes], Sequence[np.ndarray]]
"""Chunks as they are stored, and what they decode to: of each as many bytes."""


def _compressed(name: str) -> _Samples:
    raws = list(_raws())
    stored = [bytes(encoder.encode(raw)) for encoder in _ENCODERS[name] for raw in raws]
    return stored, raws * len(_ENCODERS[name])


def _filtered(name: Filter) -> _Samples:
    """Return elements of any bits, which every filter that devices undo decodes."""
    rng, settings = np.random.default_rng(0), {"dtype": name.decoded, "astype": name.encoded}
    codec: Any = numcodecs.Shuffle(name.decoded.itemsize)
    if name.name == "delta":
        codec = numcodecs.Delta(**settings)
    elif name.name == "fixedscaleoffset":
        codec = numcodecs.FixedScaleOffset(name.offset, name.scale, **settings)
    stored = [rng.bytes(_ELEMENTS * name.encoded.itemsize) for _ in range(_CHUNKS)]
    with np.errstate(all="ignore"):
        return stored, [np.asarray(codec.decode(one)) for one in stored]


def _raws() -> Iterator[np.ndarray]:
    """Yield float32 values with few and many matches, near and far, and such as have none."""
    rng, count = np.random.default_rng(0), _NBYTES // 4
    yield np.round(rng.normal(280, 15, count), 2).astype("f4")
    yield np.resize(np.round(rng.normal(280, 15, 997), 1).astype("f4"), count)
    yield np.repeat(rng.integers(0, 9, count // 50), 50).astype("f4")
    yield rng.integers(0, 2**32, count, np.uint32).view("f4")


_ENCODERS: Mapping[str, Sequence[numcodecs.abc.Codec]] = {
    "zstd": [
        numcodecs.Zstd(level, checksum) for level, checksum in ((1, True), (3, False), (19, True))
    ],
    "blosc": [numcodecs.Blosc(name, 5, how) for name in ("lz4", "zstd") for how in (0, 1, 2)],
    "lz4": [numcodecs.LZ4()],
}
