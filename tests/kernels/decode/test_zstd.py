"""Zstandard frames are decoded bit for bit as numcodecs does, or are left to the host."""

from __future__ import annotations

import collections
import os
import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numcodecs import zstd

from chunkfold.kernels import DeviceContext
from chunkfold.kernels.decode import zstd as zstd_stages
from chunkfold.kernels.decode.zstd import Zstd, zstd_stage_bytes
from tests.kernels.decode.frames import KINDS, Bench, damaged, field

MUTANTS = int(os.environ.get("CHUNKFOLD_MUTATED_FRAMES", "150"))
LEVELS = (-5, 1, 3, 9, 19)
SKIPPED = struct.pack("<II", 0x184D2A5F, 3) + b"abc"


@pytest.fixture
def bench(opened: DeviceContext) -> Bench:
    return Bench(opened, Zstd(opened))


def compressed(raw: bytes, level: int = 3, *, checksum: bool = False) -> bytes:
    return bytes(zstd.compress(raw, level, checksum))


def without_content_size(frame: bytes) -> bytes:
    """Put a window of 8 MB where the content size is."""
    descriptor, single = frame[4], frame[4] >> 5 & 1
    width = 1 << (descriptor >> 6) if descriptor >> 6 else single
    return frame[:4] + bytes([descriptor & 4, 13 << 3]) + frame[5 + (1 - single) + width :]


def by_host(frame: bytes) -> bytes | None:
    try:
        return bytes(zstd.decompress(frame))
    except (RuntimeError, MemoryError, SystemError):  # a damaged header may ask for any size
        return None


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_data_comes_out_as_it_went_in(bench: Bench, kind: str):
    raws = [field(kind, 150_000, seed) for seed in range(2 * len(LEVELS))]
    frames = [
        compressed(raw, LEVELS[n % len(LEVELS)], checksum=n >= len(LEVELS))
        for n, raw in enumerate(raws)
    ]
    assert bench.decode(frames, 150_000) == raws
    assert bench.taken <= zstd_stage_bytes(150_000 * len(raws), 150_000)


@pytest.mark.parametrize("size", [1, 2, 3, 15, 16, 17, 255, 256, 257, 65_792, 131_072, 131_073])
def test_every_width_of_a_content_size_is_read(bench: Bench, size: int):
    raws = [field("skewed", size, 1), field("zeros", size, 1), field("random", size, 1)]
    assert bench.decode([compressed(raw) for raw in raws], size) == raws
    bare = [without_content_size(compressed(raw)) for raw in raws]
    assert bench.decode(bare, size) == raws


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kind=st.sampled_from(KINDS), size=st.integers(1, 400_000), seed=st.integers(0, 2**20),
       level=st.sampled_from(LEVELS), checksum=st.booleans())  # fmt: skip
def test_any_size_and_level_is_decoded(
    bench: Bench, kind: str, size: int, seed: int, level: int, *, checksum: bool
):
    raw = field(kind, size, seed)
    assert bench.decode([compressed(raw, level, checksum=checksum)], size) == [raw]


def test_several_frames_and_skipped_ones_are_one_chunk(bench: Bench):
    one, other = field("noise", 70_000, 1), field("text", 50_000, 2)
    frames = [compressed(one), SKIPPED, without_content_size(compressed(other)), SKIPPED]
    assert bench.decode([b"".join(frames)], 120_000) == [one + other]
    # Matches do not reach into the frame before.
    assert bench.decode([compressed(one) + compressed(one)], 140_000) == [one + one]


def test_what_the_host_is_better_asked_for_is_refused(bench: Bench):
    raw = field("noise", 50_000, 1)
    right = compressed(raw)
    for frame in (
        b"",
        SKIPPED,
        right[:-1],
        right + b"x",
        right + SKIPPED[:-1],
        right[:4] + bytes([right[4] | 1, 7]) + right[5:],  # with a dictionary
        compressed(raw, checksum=True) * 2,
        compressed(raw + b"x"),
    ):
        assert bench.decode([right, frame], 50_000) is None
    assert bench.decode([right], 50_000) == [raw]


def test_a_checksum_that_is_wrong_is_noticed(bench: Bench):
    for size in (5, 31, 32, 100, 70_001):
        raw = field("text", size, size)
        right = compressed(raw, checksum=True)
        assert bench.decode([right], size) == [raw]
        assert bench.decode([right[:-1] + bytes([right[-1] ^ 1])], size) is None


def test_damaged_frames_are_never_decoded_to_anything_else(bench: Bench):
    found: collections.Counter[str] = collections.Counter()
    for seed in range(MUTANTS):
        raw = field(KINDS[seed % len(KINDS)], 20_000, seed)
        frame = damaged(compressed(raw, LEVELS[seed % 4], checksum=seed % 3 == 0), seed)
        decoded, host = bench.decode([frame], len(raw)), by_host(frame)
        if decoded is not None:
            assert decoded == [host]
            found["decoded"] += 1
        else:
            takes = host is not None and len(host) == len(raw)
            found["left to the host" if takes else "refused"] += 1
    assert bench.taken <= zstd_stage_bytes(20_000, 20_000)
    assert found["decoded"]
    assert found["refused"]
    assert found["left to the host"] <= 0.1 * MUTANTS


def test_a_frame_of_many_blocks_takes_no_more_room_than_its_size_can_need(bench: Bench):
    header = compressed(b"x" * 300)[:4] + bytes([0, 13 << 3])
    empty = b"\x00\x00\x00"  # a raw block of nothing
    assert bench.decode([header + empty * 100_000 + b"\x01\x00\x00"], 300) is None


@pytest.mark.parametrize("kind", KINDS)
def test_few_long_chunks_are_put_together_block_by_block(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, kind: str
):
    monkeypatch.setattr(zstd_stages, "_LONG_BLOCKS", 2)
    raws = [field(kind, 1_500_001, seed) for seed in range(2)]
    frames = [
        compressed(raw, level, checksum=True) for raw, level in zip(raws, (1, 9), strict=True)
    ]
    assert bench.decode(frames, 1_500_001) == raws
    frames[1] = frames[1][:-9] + bytes([frames[1][-9] ^ 255]) + frames[1][-8:]
    assert bench.decode(frames, 1_500_001) is None


def test_long_chunks_that_are_damaged_are_never_decoded_to_anything_else(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(zstd_stages, "_LONG_BLOCKS", 1)
    monkeypatch.setattr(zstd_stages, "_LONG", 1)
    raw, found = field("mixed", 300_000, 5), 0
    for seed in range(MUTANTS // 3):
        frame = damaged(compressed(raw, 3 + seed % 4), seed)
        decoded = bench.decode([frame], len(raw))
        found += decoded is not None
        assert decoded is None or decoded == [by_host(frame)]
    assert found
