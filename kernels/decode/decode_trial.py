"""Try on chunks whose bytes are known whether a device decodes right, before it decodes others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Protocol
from weakref import WeakKeyDictionary

import numcodecs
import numpy as np
import pyopencl as cl

from chunkfold.kernels.decode.stored_chunks import in_places
from chunkfold.kernels.decode.workspace import Workspace
from chunkfold.kernels.errors import BuildError, DeviceError
from chunkfold.kernels.program.device_context import DeviceContext

_NBYTES = 200_000
"""Decoded bytes of a chunk that is tried: of several blocks."""
_known: WeakKeyDictionary[DeviceContext, dict[str, bool]] = WeakKeyDictionary()
_lock = Lock()


class ChunkCodec(Protocol):
    """The kernels of a codec."""

    def decode(
        self,
        workspace: Workspace,
        stored: cl.Buffer,
        places: np.ndarray,
        sizes: np.ndarray,
        decoded: cl.Buffer,
        to: np.ndarray,
        nbytes: int,
    ) -> bool:
        """Decode chunks: see `zstd.Zstd.decode`."""


def tried(
    opened: DeviceContext, name: str, make: Callable[[], ChunkCodec], workspace: Workspace
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
        except (BuildError, DeviceError, cl.Error):
            known[name] = False
        return codec if known[name] else None


def _decodes_right(name: str, codec: ChunkCodec, workspace: Workspace) -> bool:
    raws = list(_raws())
    stored = [bytes(encoder.encode(raw)) for encoder in _ENCODERS[name] for raw in raws]
    sizes = np.array([len(one) for one in stored])
    places = in_places(sizes)
    memory = np.zeros(int(places[-1] + sizes[-1]), np.uint8)
    for place, one in zip(places, stored, strict=True):
        memory[place : place + len(one)] = np.frombuffer(one, np.uint8)
    given = workspace.room("stored", memory.nbytes)
    decoded = workspace.room("decoded", _NBYTES * len(stored))
    cl.enqueue_copy(workspace.queue, given, memory)
    to = np.arange(len(stored)) * _NBYTES
    if not codec.decode(workspace, given, places, sizes, decoded, to, _NBYTES):
        return False
    found = np.empty(_NBYTES * len(stored), np.uint8)
    cl.enqueue_copy(workspace.queue, found, decoded)
    wanted = np.concatenate([raw.view(np.uint8) for raw in raws] * len(_ENCODERS[name]))
    return bool((found == wanted).all())


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
