"""Plan how leaves are read where files feed devices that have memory of their own.

Native threads share the pieces of all leaves that are under way (`kernels/feed`), so few threads of
Python suffice, and leaves are as large as they may be: what Python does is for each leaf. Devices
decode what they can (`kernels/decode`): many chunks at once, so that all of a device works.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from chunkfold.decoding.codecs import stored_bound
from chunkfold.errors import PlanError
from chunkfold.kernels.decode.codec_chain import CODECS, CodecChain
from chunkfold.kernels.decode.decode_rates import DecodeRates
from chunkfold.kernels.decode.device_decoder import decode_bytes
from chunkfold.planning.request import Request
from chunkfold.planning.workers import Terms
from chunkfold.plural import counted
from chunkfold.sources.source import Source
from chunkfold.units import rate_text, size_text

LEAF_BYTES, LEAF_BYTES_DECODED = 256 << 20, 512 << 20
"""A leaf of small cells has so many decoded bytes at most; more where a device decodes them."""
READERS, READERS_DECODED = 3, 5
"""Leaves that are read at once: one ends while others go on, and others are decoded."""
LEAVES_OF_A_BLOCK = 8
"""A block may have so many: those that end and begin are few among them."""
MOST_CHUNK_BYTES = {"lz4": 4 << 20}
"""Larger chunks of a codec are decoded by the host: each is one stream, and there are too few at a
time to fill a device. Frames of zstd and Blosc are of many blocks."""
_LEAVES_EACH = 8
"""Leaves for each worker, at least."""
_OF_A_BUFFER, _OF_A_BUFFER_DECODED = 8, 32
"""A leaf takes this part, at most, of the largest buffer that every device has room for."""


class DeviceDecoding(NamedTuple):
    """The decision whether devices decode, and its reason; empty if there is nothing to decode."""

    used: bool
    because: str


def device_decoding(request: Request, terms: Terms) -> DeviceDecoding:
    """Decide who decodes the chunks of a request's sources.

    By default it is who was measured to be faster: devices with memory of their own, where that is
    equal or unknown.

    Raises
    ------
    PlanError
        If devices are to decode, and cannot.
    """
    wanted, refused = request.options.decode, _why_host(request.sources, terms)
    if wanted == "device" and refused and terms.kinds:
        raise PlanError(f"decode is 'device', but {refused}; give decode='auto' or 'host'")
    if all(source.as_it_is for source in request.sources):
        return DeviceDecoding(used=False, because="")
    if wanted == "host" or refused:
        because = "decode is 'host'" if wanted == "host" else refused
        return DeviceDecoding(used=False, because=because)
    if wanted == "auto" and (few := _why_too_few(request.sources)):
        return DeviceDecoding(used=False, because=few)
    rates = {one.codec: one for one in terms.decode_rates}
    codecs = _codecs(request.sources)
    slow = [rates[codec] for codec in codecs if codec in rates and rates[codec].gain < 1]
    if wanted == "auto" and slow:
        return DeviceDecoding(used=False, because="; ".join(map(_compared, slow)))
    chains = {source.device_codecs for source in request.sources} - {None}
    known = sorted(_described(chain, rates) for chain in chains if chain is not None)
    return DeviceDecoding(
        used=True, because=f"{'; '.join(filter(None, known))}: compressed bytes are uploaded"
    )


def codecs_to_measure(request: Request) -> tuple[str, ...]:
    """Return the codecs of which it is to be known who decodes them faster."""
    sources = request.sources
    if request.options.decode != "auto" or _why_unknown(sources) or _why_too_few(sources):
        return ()
    return _codecs(sources)


def _compared(rates: DecodeRates) -> str:
    """Say how fast a device and its host decode a codec, the faster one first.

    >>> _compared(DecodeRates("zstd", 52e9, 0.2e9, cores=16))
    'zstd, measured 52 GB/s by the device against 3.2 GB/s by 16 cores'
    >>> _compared(DecodeRates("zstd", 0.4e9, 0.2e9, cores=16))
    'zstd, measured 3.2 GB/s by 16 cores against 0.4 GB/s by the device'
    """
    if rates.failure:
        return f"{rates.codec}: {rates.failure}"
    cores = counted(rates.cores, "core")
    both = [(rates.device, "the device"), (rates.host, cores)]
    first, second = (
        f"{rate_text(rate)} by {who}" for rate, who in both[:: 1 if rates.gain >= 1 else -1]
    )
    return f"{rates.codec}, measured {first} against {second}"


def _described(chain: CodecChain, rates: Mapping[str, DecodeRates]) -> str:
    """Name the codecs of a chain, with the rates of the compressor."""
    first = [_compared(rates[name]) if name in rates else name for name in chain.compressors]
    return " and ".join([*first, *(one.name for one in chain.filters)])


def _codecs(sources: Sequence[Source]) -> tuple[str, ...]:
    """Return the compressors that devices would decode."""
    chains = (source.device_codecs for source in sources)
    return tuple(sorted({name for chain in chains if chain for name in chain.compressors}))


def _why_host(sources: Sequence[Source], terms: Terms) -> str:
    """Say why devices cannot decode; empty if they can."""
    if not terms.own_memory and terms.kinds == {"cpu"}:
        return "CPU devices have the host's cores, which decode"
    if not terms.own_memory:
        return "devices share the host's memory, whose cores decode"
    if terms.not_decoding:
        return f"a device cannot decode: {terms.not_decoding}"
    for source in sources:
        codecs = source.device_codecs
        if codecs is not None and codecs.needs_float64 and not terms.fp64:
            return f"{source.name} was scaled in float64, which a device lacks"
    return _why_unknown(sources)


def _why_unknown(sources: Sequence[Source]) -> str:
    """Say which source no device can decode; empty if none is such."""
    known = ", ".join(CODECS)
    return next(
        (
            f"{source.name} is not a Zarr array of {known} chunks, or has other filters"
            for source in sources
            if source.device_codecs is None and not source.as_it_is
        ),
        "",
    )


def _why_too_few(sources: Sequence[Source]) -> str:
    """Say of which source too few chunks are decoded at a time; empty if none is such."""
    for source in sources:
        chain, chunk = source.device_codecs, _chunk_bytes(source)
        if chain is not None and chunk > MOST_CHUNK_BYTES.get(chain.compressor, chunk):
            return f"{chain}: chunks of {size_text(chunk)} are too few at a time to fill a device"
    return ""


def is_fed(request: Request, terms: Terms) -> bool:
    """Tell whether devices are fed from files: of what is stored as it is, or they decode."""
    decodes = device_decoding(request, terms).used
    plain = all(one.as_it_is and one.local_path is not None for one in request.sources)
    return terms.own_memory and (decodes or plain)


def readers_per_worker(request: Request, terms: Terms) -> int:
    """Return how many threads of a worker read."""
    if not is_fed(request, terms):
        return terms.readers
    decodes = device_decoding(request, terms).used
    return min(READERS_DECODED if decodes else READERS, terms.readers)


def max_leaf_bytes(request: Request, terms: Terms, usual_bytes: int) -> int:
    """Return how many bytes a leaf of small cells has at most: `usual_bytes` where none is fed."""
    if not is_fed(request, terms):
        return usual_bytes
    selected = math.prod(axis.length for axis in request.chosen)
    nbytes = selected * max(source.dtype.itemsize for source in request.sources)
    each = nbytes // (_LEAVES_EACH * terms.workers)
    most, part = LEAF_BYTES, _OF_A_BUFFER
    if device_decoding(request, terms).used:
        most, part = LEAF_BYTES_DECODED, _OF_A_BUFFER_DECODED
    if terms.buffer_bytes is not None:
        most = min(most, terms.buffer_bytes // part)
    return max(usual_bytes, min(most, 1 << max(0, each.bit_length() - 1)))


def block_bytes(request: Request, terms: Terms, leaf_bytes: int) -> int:
    """Return how many bytes a block may have at least, of leaves of that size; 0 if none is fed."""
    return LEAVES_OF_A_BLOCK * leaf_bytes if is_fed(request, terms) else 0


def decoding_bytes(source: Source, touched_bytes: int) -> int:
    """Return what a device takes to decode a leaf that touches so many decoded bytes of chunks.

    It is none if the host reads or decodes them.
    """
    codecs, chunk = source.device_codecs, _chunk_bytes(source)
    if codecs is None:
        return 0
    count = -(-touched_bytes // chunk)
    return count * stored_bound(codecs.sizes(chunk)[0]) + decode_bytes(codecs, count, chunk)


def _chunk_bytes(source: Source) -> int:
    return math.prod(max(1, n) for n in source.chunks) * source.dtype.itemsize
