"""Chunks decoded in one call are those that are decoded one by one."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkfold import ChunkError
from chunkfold.decoding import batched, codecs
from chunkfold.decoding.decode_units import InTurn
from chunkfold.decoding.direct import Direct
from chunkfold.sources.opening import open_source
from chunkfold.sources.zarr_source import ZarrSource
from tests.pipeline.decoding.test_direct import CHAINS, chunk_after_chunk, read

CHUNK = (3, 5)


def opened(folder: str | Path, shape: tuple[int, ...] = (12, 10), **layout) -> ZarrSource:
    layout = CHAINS["3-zstd"] | {"chunks": CHUNK} | layout
    array = zarr.create_array(str(folder), shape=shape, dtype="i4", fill_value=7, **layout)
    array[...] = np.arange(1, 1 + np.prod(shape)).reshape(shape)
    return open_source(folder)


def counted(source: ZarrSource) -> tuple[Direct, list[int]]:
    """Let calls of the codec be counted, by the chunks that they decode."""
    assert source.direct is not None
    codec, calls = source.direct.chain[0], []
    assert codec.into is not None

    def into(stored, out):
        calls.append(out.nbytes // source.direct.nbytes)
        return codec.into(stored, out)

    return replace(source.direct, chain=(replace(codec, into=into),)), calls


EVERYTHING = (slice(0, 12), slice(0, 10))


@pytest.mark.parametrize("shards", [None, (6, 10)])
def test_chunks_side_by_side_are_one_call(tmp_path: Path, shards: tuple[int, int] | None):
    direct, calls = counted(opened(tmp_path / "a", shards=shards))
    assert direct.joins
    direct.read("a", EVERYTHING, out := np.empty(120, "i4"))
    assert calls == ([8] if shards is None else [4, 4])
    source = open_source(tmp_path / "a")
    want = np.arange(1, 121).reshape(12, 10)
    np.testing.assert_array_equal(out, chunk_after_chunk(source, EVERYTHING, want))


def test_of_a_region_those_are_that_stand_there_in_one_piece(tmp_path: Path):
    for chunks, want in (((3, 10), [4]), (CHUNK, [1] * 8), ((1, 4), [2, 1] * 12)):
        source = opened(tmp_path / str(chunks), chunks=chunks)
        direct, calls = counted(source)
        direct.read("a", EVERYTHING, out := np.empty((12, 10), "i4"))
        np.testing.assert_array_equal(out, np.arange(1, 121).reshape(12, 10))
        assert calls == want


def test_no_call_decodes_more_than_there_may_be_at_once(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(batched, "JOINED_BYTES", 3 * 60 + 1)
    direct, calls = counted(opened(tmp_path / "a"))
    direct.read("a", EVERYTHING, np.empty(120, "i4"))
    assert calls == [3, 3, 2]
    monkeypatch.setattr(batched, "JOINED_BYTES", 2 * 60 - 1)
    assert not replace(direct).joins


def test_the_first_rows_of_a_chunk_end_a_call(tmp_path: Path):
    """What stands behind them in the chunk is written over by what comes next."""
    direct, calls = counted(opened(tmp_path / "a", shape=(7, 10), chunks=(3, 10)))
    region = (slice(0, 7), slice(0, 10))
    turn = InTurn(np.empty(200, "i4"))
    assert not list(direct.each("a", [(region, None)], turn))
    assert calls == [3]
    np.testing.assert_array_equal(turn.memory[:70], np.arange(1, 71))


@pytest.mark.parametrize("name", ["3-none", "3-zstd", "3-gzip", "3-zstd, crc32c", "2-zstd"])
@given(data=st.data())
@settings(max_examples=15)
def test_what_stands_in_turn_at_each_stop_is_all_of_it(name: str, data: st.DataObject):
    with tempfile.TemporaryDirectory() as folder:
        sharded = name[0] == "3" and data.draw(st.booleans(), "sharded")
        source = opened(folder, **CHAINS[name], shards=(6, 10) if sharded else None)
        stored = sorted(path for path in Path(folder).rglob("*") if path.name[0] not in ".z")
        for path in data.draw(st.lists(st.sampled_from(stored), max_size=3), "missing"):
            if path.is_file():
                path.unlink(missing_ok=True)
        regions = [
            tuple(
                slice(start, data.draw(st.integers(start + 1, n)), data.draw(st.integers(1, 2)))
                for n in (12, 10)
                for start in [data.draw(st.integers(0, n - 1))]
            )
            for _ in range(data.draw(st.integers(1, 3), "regions"))
        ]
        array = zarr.open_array(folder)
        want = [chunk_after_chunk(source, one, np.asarray(array[one])) for one in regions]
        turn, found = InTurn(np.empty(15 * data.draw(st.integers(1, 4), "room"), "i4")), []
        for _ in source.each(((region, None) for region in regions), turn):
            assert turn.left < 15
            found.append(turn.memory[: turn.used].copy())
            turn.memory[:] = -1
            turn.used = 0
        found.append(turn.memory[: turn.used])
        np.testing.assert_array_equal(np.concatenate(found), np.concatenate(want))


@pytest.mark.parametrize("damage", ["cut", "shorter", "two frames"])
def test_one_that_is_damaged_is_named(tmp_path: Path, damage: str):
    source = opened(tmp_path / "a")
    bad = tmp_path / "a/c/1/1"
    whole = bad.read_bytes()
    bad.write_bytes(
        {
            "cut": whole[:-3],
            "shorter": codecs.zstd.compress(b"x" * 59),
            "two frames": 2 * whole,
        }[damage]
    )
    with pytest.raises(ChunkError, match=r"cannot read chunk 'c/1/1' \(codecs "):
        source.read(EVERYTHING, np.empty(120, "i4"))


@pytest.mark.parametrize("swallows", ["the frame", "a skippable frame's header"])
def test_one_that_was_cut_does_not_take_what_comes_next_for_its_end(tmp_path: Path, swallows: str):
    """A block that is stored as it is has nothing but a length."""
    random = np.random.default_rng(0).integers(0, 2**32, 4000, dtype="u4")
    values = np.concatenate([random, np.full(3 * 4000, 5, "u4")])
    array = zarr.create_array(str(tmp_path / "a"), shape=16000, chunks=4000, dtype="u4")
    array[:] = values
    bad, next_one = (tmp_path / f"a/c/{n}" for n in (0, 1))
    whole, size = bad.read_bytes(), next_one.stat().st_size
    bad.write_bytes(
        whole[:-size]
        if swallows == "the frame"
        else whole + b"\x50\x2a\x4d\x18" + size.to_bytes(4, "little")
    )
    source = open_source(tmp_path / "a")
    assert source.direct is not None
    assert source.direct.joins
    with pytest.raises(ChunkError, match="cannot read chunk 'c/0'"):
        source.read((slice(0, 16000),), np.empty(16000, "u4"))


@given(
    pieces=st.lists(st.tuples(st.integers(0, 300_000), st.booleans()), max_size=4),
    level=st.integers(-5, 9),
    checksum=st.booleans(),
    behind=st.binary(max_size=9),
)
@settings(max_examples=60)
def test_a_frame_is_whole_if_it_ends_where_its_blocks_say(
    pieces, level: int, checksum: bool, behind: bytes
):
    random = np.random.default_rng(0)
    plain = b"".join(random.bytes(n) if noise else n * b"x" for n, noise in pieces)
    frame = codecs.zstd.compress(plain, level, checksum)
    (codec,) = codecs.chain_of(["zstd"]) or ()
    assert codec.whole is not None
    assert codec.whole(memoryview(frame)) == len(plain)
    if behind:
        assert codec.whole(memoryview(frame + behind)) is None


def test_a_numcodecs_that_knows_one_frame_only_decodes_one_by_one(tmp_path: Path):
    source = opened(tmp_path / "a")
    assert source.direct is not None
    codec = source.direct.chain[0]
    direct, calls = counted(source)
    direct = replace(direct, chain=(replace(direct.chain[0], whole=None),))
    direct.read("a", EVERYTHING, out := np.empty(120, "i4"))
    assert codec.whole is not None
    assert calls == [1] * 8
    np.testing.assert_array_equal(
        out, chunk_after_chunk(source, EVERYTHING, read(source, EVERYTHING))
    )
