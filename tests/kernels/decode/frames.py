"""Stored chunks of many kinds of data, and what becomes of them when they are damaged."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyopencl as cl

from chunkfold.kernels import DeviceContext
from chunkfold.kernels.decode.decode_batch import aligned_offsets
from chunkfold.kernels.decode.workspace import PADDING, StageInput, Workspace

_GUARD = 0xA5
_WORDS = b"/data/store/temperature zarr.json chunk key attribute value 2026-11-28T00:00:00".split()


def field(kind: str, nbytes: int, seed: int) -> bytes:
    """Return so many bytes of a kind of data."""
    rng = np.random.default_rng(seed)
    made = _MADE[kind](rng, nbytes)
    found = made if isinstance(made, bytes) else np.asarray(made).tobytes()
    return found[:nbytes].ljust(nbytes, b"\1")


def _text(rng: np.random.Generator, nbytes: int) -> bytes:
    words = _WORDS + [rng.bytes(3).hex().encode() for _ in range(50)]
    return b" ".join(words[k] for k in rng.integers(0, len(words), nbytes // 4 + 1))


def _mixed(rng: np.random.Generator, nbytes: int) -> bytes:
    each = rng.permutation(["noise", "smooth", "zeros", "random", "runs", "text"])
    return b"".join(field(one, nbytes // 6 + 8, int(rng.integers(0, 99))) for one in each)


_MADE: dict[str, Callable[[np.random.Generator, int], np.ndarray | bytes]] = {
    "noise": lambda rng, n: (np.rint(rng.normal(280, 15, n // 4 + 1) * 100) / 100).astype("f4"),
    "smooth": lambda rng, n: np.rint(2800 + rng.normal(size=n // 4 + 1).cumsum()).astype("f4") / 10,
    "zeros": lambda _, n: np.zeros(n, "u1"),
    "random": lambda rng, n: rng.bytes(n),
    "runs": lambda rng, n: np.repeat(rng.integers(0, 999, n // 4 + 1), rng.integers(1, 99))[:n],
    "long runs": lambda rng, n: np.repeat(rng.integers(0, 3, n // 10**5 + 2).astype("u1"), 400_000),
    "text": _text,
    "mixed": _mixed,
    "int16": lambda rng, n: rng.normal(0, 40, n // 2 + 1).astype("i2"),
    "skewed": lambda rng, n: np.minimum(rng.geometric(0.3, n), 255).astype("u1"),
    "periodic": lambda rng, n: np.resize(rng.integers(0, 256, rng.integers(1, 40)).astype("u1"), n),
    "sparse": lambda rng, n: np.where(rng.random(n) < 0.01, rng.normal(size=n), 0).astype("f4"),
}
KINDS = tuple(_MADE)


def damaged(stored: bytes, seed: int) -> bytes:
    """Cut a chunk, or change bits, bytes or its end."""
    rng = np.random.default_rng(seed)
    changed, how = bytearray(stored), int(rng.integers(0, 5))
    at = int(rng.integers(0, len(changed)))
    if how == 0:
        return bytes(changed[:at])
    if how == 1:
        changed[at:] = rng.bytes(len(changed) - at)
    elif how == 2:
        changed[at : at + 8] = rng.bytes(min(8, len(changed) - at))
    else:
        for _ in range(how - 2):
            changed[int(rng.integers(0, len(changed)))] ^= 1 << int(rng.integers(0, 8))
    return bytes(changed)


class Bench:
    """Decodes chunks on a device, and sees that nothing is written beside them."""

    def __init__(self, opened: DeviceContext, codec: object) -> None:
        self.workspace, self.codec = Workspace(opened), codec

    @property
    def taken(self) -> int:
        """Bytes of memory that the codec took, beside what was stored and decoded."""
        own = self.workspace._buffers
        return sum(one.size for name, one in own.items() if name not in ("stored", "decoded"))

    def decode(self, stored: Sequence[bytes], nbytes: int) -> list[bytes] | None:
        """Return chunks of so many bytes each, decoded in one call; None if that is refused."""
        workspace, sizes = self.workspace, np.array([len(one) for one in stored])
        places, step = aligned_offsets(sizes), -(-nbytes // 16) * 16
        memory = np.full(int(places[-1] + sizes[-1]) + PADDING, _GUARD, np.uint8)
        for place, one in zip(places, stored, strict=True):
            memory[place : place + len(one)] = np.frombuffer(one, np.uint8)
        given = workspace.buffer("stored", memory.nbytes)
        room = step * len(stored)
        out = np.full(room + 4096, _GUARD, np.uint8)
        decoded = workspace.buffer("decoded", out.nbytes)
        cl.enqueue_copy(workspace.queue, given, memory)
        cl.enqueue_copy(workspace.queue, decoded, out)
        to = np.arange(len(stored)) * step
        chunks = StageInput(given, places, sizes, decoded, to, nbytes)
        done = self.codec.decode(workspace, chunks)  # type: ignore[attr-defined]
        cl.enqueue_copy(workspace.queue, out, decoded)
        assert (out[room:] == _GUARD).all()
        gaps = out[:room].reshape(len(stored), step)[:, nbytes:]
        assert (gaps == _GUARD).all()
        return [out[at : at + nbytes].tobytes() for at in to] if done else None
