"""Chunks of numcodecs' `lz4` are decoded bit for bit as numcodecs does, or are left to the host."""

from __future__ import annotations

import collections
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numcodecs import lz4

from chunkfold.kernels import DeviceContext
from chunkfold.kernels.decode.lz4 import Lz4
from tests.kernels.decode.frames import KINDS, Bench, damaged, field

MUTANTS = int(os.environ.get("CHUNKFOLD_MUTATED_FRAMES", "150"))


@pytest.fixture
def bench(opened: DeviceContext) -> Bench:
    return Bench(opened, Lz4(opened))


def compressed(raw: bytes, acceleration: int = 1) -> bytes:
    return bytes(lz4.compress(raw, acceleration))


def sized(size: int, *sequences: bytes) -> bytes:
    return size.to_bytes(4, "little") + b"".join(sequences)


def by_host(chunk: bytes, nbytes: int) -> bytes | None:
    """Decode one as `pipeline.decoding.codecs` does: it looks at the size first."""
    if len(chunk) < 4 or int.from_bytes(chunk[:4], "little") != nbytes:
        return None
    try:
        return bytes(lz4.decompress(chunk))
    except RuntimeError:
        return None


def test_each_kind_of_data_comes_out_as_it_went_in(bench: Bench):
    raws = [field(kind, 150_001, seed) for seed, kind in enumerate(KINDS)]
    assert bench.decode([compressed(raw, 1 + n) for n, raw in enumerate(raws)], 150_001) == raws


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kind=st.sampled_from(KINDS), size=st.integers(1, 400_000), seed=st.integers(0, 2**20),
       acceleration=st.integers(1, 100))  # fmt: skip
def test_any_size_is_decoded(bench: Bench, kind: str, size: int, seed: int, acceleration: int):
    raw = field(kind, size, seed)
    assert bench.decode([compressed(raw, acceleration)], size) == [raw]


@pytest.mark.parametrize("offset", [1, 2, 3, 7, 31, 32, 33, 63, 64, 100, 299])
@pytest.mark.parametrize("length", [4, 18, 19, 32, 33, 65, 273, 274, 275, 3000])
def test_a_match_that_overlaps_itself_repeats_what_is_before_it(
    bench: Bench, offset: int, length: int
):
    head, tail = field("random", 300, 1), b"12345678"
    more, rest = divmod(length - 19, 255)
    lengths = b"" if length < 19 else b"\xff" * more + bytes([rest])
    chunk = sized(
        308 + length,
        bytes([0xF0 | min(length - 4, 15), 255, 30]) + head,
        offset.to_bytes(2, "little") + lengths,
        b"\x80" + tail,
    )
    raw = head + (head[-offset:] * 3000)[:length] + tail
    assert by_host(chunk, len(raw)) == raw
    assert bench.decode([chunk], len(raw)) == [raw]


def test_what_the_host_is_better_asked_for_is_refused(bench: Bench):
    raw = field("text", 50_000, 1)
    right = compressed(raw)
    for chunk in (
        b"",
        right[:3],
        right[:4],
        right[:-1],
        right + b"x",
        sized(50_001, right[4:]),
        sized(49_999, right[4:]),
        compressed(raw + b"x"),
    ):
        assert bench.decode([right, chunk], 50_000) is None
    assert bench.decode([right], 50_000) == [raw]


def test_a_block_ends_as_its_format_says(bench: Bench):
    """Its last five bytes are literals, and its last match begins twelve bytes before its end."""
    head = bytes(range(16))
    begins = bytes([0xF0, 1]) + head + b"\x10\x00"  # 16 literals and a match of 4
    right = sized(28, begins, b"\x80" + b"x" * 8)
    assert bench.decode([right], 28) == [head + head[:4] + b"x" * 8]
    for wrong in (
        sized(27, begins, b"\x70" + b"x" * 7),
        sized(20, begins, b"\x00"),
        sized(28, begins[:-2] + b"\x00\x00", b"\x80" + b"x" * 8),
        sized(28, begins[:-2] + b"\x11\x00", b"\x80" + b"x" * 8),
        sized(28, begins, b"\xf0" + b"\xff" * 40),
    ):
        assert bench.decode([wrong], int.from_bytes(wrong[:4], "little")) is None


def test_damaged_chunks_are_never_decoded_to_anything_else(bench: Bench):
    found: collections.Counter[str] = collections.Counter()
    for seed in range(MUTANTS):
        raw = field(KINDS[seed % len(KINDS)], 20_000, seed)
        chunk = damaged(compressed(raw, 1 + seed % 9), seed)
        decoded, host = bench.decode([chunk], len(raw)), by_host(chunk, len(raw))
        if decoded is not None:
            assert decoded == [host]
            found["decoded"] += 1
        else:
            found["refused" if host is None else "left to the host"] += 1
    assert found["decoded"]
    assert found["refused"]
    assert found["left to the host"] <= 0.1 * MUTANTS
