"""Blosc chunks are decoded bit for bit as numcodecs does, or are left to the host."""

from __future__ import annotations

import collections
import itertools
import os
import struct

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numcodecs import Blosc as Codec
from numcodecs import blosc

from chunkfold.kernels import DeviceContext
from chunkfold.kernels.decode.blosc import Blosc, blosc_stage_bytes
from chunkfold.kernels.decode.codec_chain import BLOSC_COMPRESSORS
from tests.kernels.decode.frames import KINDS, Bench, damaged, field

MUTANTS = int(os.environ.get("CHUNKFOLD_MUTATED_FRAMES", "150"))
SHUFFLES = (Codec.NOSHUFFLE, Codec.SHUFFLE, Codec.BITSHUFFLE)
WIDTHS = (1, 2, 4, 8, 16)
NOT_SPLIT = 0x10


@pytest.fixture
def bench(opened: DeviceContext) -> Bench:
    return Bench(opened, Blosc(opened))


def compressed(
    raw: bytes,
    name: str = "lz4",
    level: int = 5,
    shuffle: int = Codec.SHUFFLE,
    width: int = 4,
    block: int = 0,
) -> bytes:
    return bytes(
        blosc.compress(np.frombuffer(raw, f"V{width}"), name.encode(), level, shuffle, block)
    )


def by_host(chunk: bytes, nbytes: int) -> bytes | None:
    """Decode one as `pipeline.decoding.codecs` does: it looks at the sizes in the header first."""
    if len(chunk) < 16:
        return None
    size, _, whole = struct.unpack_from("<III", chunk, 4)
    if size != nbytes or whole > len(chunk):
        return None
    try:
        return bytes(blosc.decompress(chunk))
    except RuntimeError:
        return None


def with_header(chunk: bytes, form: str, at: int, value: int) -> bytes:
    changed = bytearray(chunk)
    struct.pack_into(form, changed, at, value)
    return bytes(changed)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("name", BLOSC_COMPRESSORS)
def test_each_kind_of_data_comes_out_as_it_went_in(
    bench: Bench, name: str, shuffle: int, width: int
):
    size = 131_000 // width * width
    raws = [field(kind, size, seed) for seed, kind in enumerate(KINDS)]
    chunks = [compressed(raw, name, 5, shuffle, width) for raw in raws]
    assert bench.decode(chunks, size) == raws
    assert bench.taken <= blosc_stage_bytes(size * len(raws), size)


@pytest.mark.parametrize("level", range(10))
def test_each_level_is_decoded(bench: Bench, level: int):
    """With level 0, and without use of the others, chunks are copied."""
    raws = [field(kind, 1 << 17, 1) for kind in ("noise", "random", "zeros")]
    for name, shuffle in itertools.product(BLOSC_COMPRESSORS, SHUFFLES):
        chunks = [compressed(raw, name, level, shuffle) for raw in raws]
        assert bool(chunks[0][2] & 2) == (level == 0)
        assert bench.decode(chunks, 1 << 17) == raws


@pytest.mark.parametrize("block", [128, 1000, 4096, 10_000, 30_016, 1 << 20])
@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("name", ["lz4", "zstd"])
def test_blocks_of_any_size_are_put_together(bench: Bench, name: str, shuffle: int, block: int):
    for width in WIDTHS:
        raw = field("smooth", 5_001 * width, 1)
        assert bench.decode([compressed(raw, name, 5, shuffle, width, block)], len(raw)) == [raw]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.sampled_from(KINDS),
    elements=st.integers(1, 60_000),
    seed=st.integers(0, 2**20),
    how=st.tuples(
        st.sampled_from(BLOSC_COMPRESSORS),
        st.integers(0, 9),
        st.sampled_from(SHUFFLES),
        st.sampled_from(WIDTHS),
        st.sampled_from([0, 5000, 65_536]),
    ),
)
def test_any_size_and_setting_is_decoded(
    bench: Bench, kind: str, elements: int, seed: int, how: tuple[str, int, int, int, int]
):
    width = how[3]
    raw = field(kind, elements * width, seed)
    assert bench.decode([compressed(raw, *how)], len(raw)) == [raw]


def test_bytes_behind_the_last_element_stay_where_they_are(bench: Bench):
    """A header may count bytes that are no multiple of elements."""
    for name, flag, size in itertools.product(("lz4", "zstd"), (0, 1, 4), (5, 131, 4099, 70_003)):
        chunk = compressed(field("skewed", size, 1), name, 5, Codec.NOSHUFFLE, 1)
        chunk = with_header(chunk, "B", 2, chunk[2] | NOT_SPLIT | flag)
        for width in WIDTHS:
            other = with_header(chunk, "B", 3, width)
            assert bench.decode([other], size) == [by_host(other, size)]


def test_chunks_of_unlike_settings_are_decoded_together(bench: Bench):
    raws = [field(kind, 50_000, 1) for kind in ("noise", "random", "text", "smooth", "sparse")]
    chunks = [
        compressed(raws[0]),
        compressed(raws[1]),
        compressed(raws[2], "zstd", 3, Codec.BITSHUFFLE),
        compressed(raws[3], "lz4hc", 9, Codec.NOSHUFFLE, 2),
        compressed(raws[4], "zstd", 1, Codec.NOSHUFFLE, 1, 8192),
    ]
    assert bench.decode(chunks, 50_000) == raws
    # What stands behind the bytes that a header counts is nothing to Blosc.
    assert bench.decode([chunk + b"x" for chunk in chunks], 50_000) == raws
    assert bench.decode([compressed(raws[0]), compressed(raws[0], width=2)], 50_000) is None


def test_what_the_host_is_better_asked_for_is_refused(bench: Bench):
    raw = field("sparse", 50_000, 1)
    right, copied = compressed(raw), compressed(raw, level=0)
    for chunk in (
        b"",
        right[:15],
        right[:-1],
        with_header(right, "B", 0, 3),
        with_header(right, "B", 1, 2),
        with_header(right, "B", 2, right[2] | 8),
        with_header(right, "B", 3, 0),
        with_header(right, "<I", 8, 0),
        with_header(right, "<I", 8, 50_001),
        with_header(right, "<I", 8, 1 << 31),
        with_header(right, "<I", 12, 15),
        with_header(right, "<I", 12, len(right) - 1),
        with_header(right, "<I", 16, 1 << 31),
        with_header(right, "<I", 16, len(right) - 3),
        with_header(copied, "<I", 12, len(copied) - 1),
        compressed(raw, "blosclz"),
        compressed(raw, "zlib"),
        compressed(raw, width=5),
        compressed(raw + b"x", width=1),
    ):
        assert bench.decode([right, chunk], 50_000) is None
    assert bench.decode([right], 50_000) == [raw]


def test_a_chunk_of_many_blocks_takes_no_more_room_than_its_size_can_need(bench: Bench):
    raw = field("noise", 50_000, 1)
    chunk = with_header(compressed(raw, level=0), "<I", 8, 1)
    assert by_host(chunk, 50_000) == raw
    assert bench.decode([chunk], 50_000) is None


def test_a_stream_that_serves_many_blocks_is_left_to_the_host(bench: Bench):
    raw = field("noise", 4096, 1) * 16
    right = compressed(raw, "zstd", block=4096)
    first = struct.unpack_from("<I", right, 16)[0]
    chunk = right[:16] + struct.pack("<16I", *[first] * 16) + right[80:]
    end = first + 4 + struct.unpack_from("<I", right, first)[0]
    chunk = with_header(chunk[:end], "<I", 12, end)
    assert by_host(chunk, len(raw)) == raw
    assert bench.decode([chunk], len(raw)) is None


def test_damaged_chunks_are_never_decoded_to_anything_else(bench: Bench):
    found: collections.Counter[str] = collections.Counter()
    kinds = itertools.cycle(itertools.product(BLOSC_COMPRESSORS, SHUFFLES, (1, 4, 8)))
    for seed, (name, shuffle, width) in zip(range(MUTANTS), kinds, strict=False):
        raw = field(KINDS[seed % len(KINDS)], 20_000, seed)
        chunk = compressed(raw, name, seed % 9 + 1, shuffle, width)
        headers = 40 if seed % 4 == 0 else len(chunk)  # where little is damage
        chunk = damaged(chunk[:headers], seed) + chunk[headers:]
        decoded, host = bench.decode([chunk], len(raw)), by_host(chunk, len(raw))
        if decoded is not None:
            assert decoded == [host]
            found["decoded"] += 1
        else:
            found["refused" if host is None else "left to the host"] += 1
    assert bench.taken <= blosc_stage_bytes(20_000, 20_000)
    assert found["decoded"]
    assert found["refused"]
    assert found["left to the host"] <= 0.1 * MUTANTS
