"""Measure how fast a device decodes chunks that are known, and how fast a core of its host does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numcodecs
import numpy as np
import pyopencl as cl

from chunkfold.kernels.decode.codec_chain import CodecChain
from chunkfold.kernels.decode.decode_batch import DecodeBatch, packed
from chunkfold.kernels.decode.device_decoder import DeviceDecoder
from chunkfold.kernels.errors import DeviceError
from chunkfold.kernels.program.device_context import DeviceContext, device_errors

_NBYTES = 1 << 20
"""Decoded bytes of a chunk."""
_ENCODERS: Mapping[str, Sequence[numcodecs.abc.Codec]] = {
    "zstd": [numcodecs.Zstd(3)],
    "blosc": [numcodecs.Blosc(name, 5, numcodecs.Blosc.SHUFFLE) for name in ("lz4", "zstd")],
    "lz4": [numcodecs.LZ4()],
}
_DISTINCT = 2
"""Chunks that differ: a device is given each of them many times."""
_FEWEST, _MOST, _TIMES = 8, 512, 4
"""Chunks that a device decodes at once: few, then so many times as many, up to those of a leaf."""
_OF_A_BUFFER = 32
"""They take this part, at most, of the largest buffer that the device has room for."""
_GAIN = 1.25
"""More chunks are tried while they bring so much."""
_LONG_S = 0.05
"""A round that takes longer is the last one."""
_ROUNDS = 2


@dataclass(frozen=True)
class DecodeRates:
    """Decoded bytes per second of a codec's chunks."""

    codec: str
    device: float = 0.0
    core: float = 0.0
    """One core of the host."""
    cores: int = 1
    """Cores that decode if the device does not."""
    failure: str = ""
    """Why the device cannot decode: nothing is measured then."""

    @property
    def host(self) -> float:
        """The rate of all cores."""
        return self.core * self.cores

    @property
    def gain(self) -> float:
        """The device's rate divided by the host's; 0 if the device failed.

        >>> DecodeRates("zstd", 6e9, 1e9, cores=4).gain, DecodeRates("zstd", failure="wrong").gain
        (1.5, 0.0)
        """
        return 0.0 if self.failure else self.device / max(self.host, 1.0)


def measured_rates(opened: DeviceContext, codec: str) -> DecodeRates | None:
    """Measure a device and a core; None if the device had no room.

    A device that decodes known chunks wrong (`decode_trial`) is not measured.
    """
    raws = list(_raws())
    encoders = [_ENCODERS[codec][n % len(_ENCODERS[codec])] for n in range(_DISTINCT)]
    stored = [bytes(one.encode(raw)) for one, raw in zip(encoders, raws, strict=True)]
    try:
        device = _device_rate(opened, codec, stored)
    except DeviceError:
        return None
    if device is None:
        return DecodeRates(codec, failure="the device decodes known chunks wrong")
    return DecodeRates(codec, device, _core_rate(encoders, stored))


def _raws() -> Iterator[np.ndarray]:
    """Yield float32 values of two decimals, as measured data often have."""
    rng = np.random.default_rng(0)
    for _ in range(_DISTINCT):
        yield np.round(rng.normal(280, 15, _NBYTES // 4), 2).astype("f4")


def _device_rate(opened: DeviceContext, codec: str, stored: Sequence[bytes]) -> float | None:
    """Return the best rate of a device; None if it decodes wrong."""
    decoder = DeviceDecoder(opened)
    places, sizes, memory = packed(stored)
    count, best = _FEWEST, 0.0
    most = max(_FEWEST, min(_MOST, opened.device.max_alloc_bytes // _OF_A_BUFFER // _NBYTES))
    while True:
        # The same places many times: few bytes are uploaded, as many decoded as of a leaf.
        given = np.resize(places, count), np.resize(sizes, count)
        chunks = DecodeBatch(*given, CodecChain(codec), _NBYTES, 1, None, b"\0")
        try:
            with device_errors(opened.device, "measuring how fast it decodes"):
                region = cl.Buffer(opened.context, cl.mem_flags.READ_WRITE, count * _NBYTES)
                cl.enqueue_copy(opened.queue(), decoder.stored_buffer(chunks), memory)
            if not decoder.decode(chunks, region, ()):  # builds, tries, takes memory
                return None
            seconds = _best(lambda: decoder.decode(chunks, region, ()))  # noqa: B023 # called now
        except DeviceError:
            if best:
                return best
            raise
        before, best = best, max(best, count * _NBYTES / seconds)
        if count * _TIMES > most or seconds > _LONG_S or best < _GAIN * before:
            return best
        count *= _TIMES


def _core_rate(encoders: Sequence[numcodecs.abc.Codec], stored: Sequence[bytes]) -> float:
    """Return the rate of one core: of this thread alone."""
    decoded = np.empty(_NBYTES, np.uint8)

    def decode() -> None:
        for codec, one in zip(encoders, stored, strict=True):
            codec.decode(one, decoded)

    before, numcodecs.blosc.use_threads = numcodecs.blosc.use_threads, False
    try:
        return len(stored) * _NBYTES / _best(decode)
    finally:
        numcodecs.blosc.use_threads = before


def _best(task: Callable[[], object]) -> float:
    """Return the seconds of the best of few rounds: what else a machine does only takes time."""
    found = list[float]()
    while len(found) < _ROUNDS and sum(found) < _LONG_S:
        began = time.perf_counter()
        task()
        found.append(time.perf_counter() - began)
    return min(found)
