"""Chunks read without zarr are those that zarr reads, or named errors."""

from __future__ import annotations

import gzip
import itertools
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import google_crc32c
import numpy as np
import pytest
import zarr
import zarr.codecs
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from numcodecs import LZ4, Blosc, GZip, Zlib, Zstd
from obstore.store import LocalStore as ByObstore
from zarr.storage import LocalStore, MemoryStore, ObjectStore
from zarr.testing.strategies import arrays, basic_indices, node_names, numpy_arrays

from chunkfold import ChunkError
from chunkfold.decoding import codecs
from chunkfold.sources.opening import open_source
from chunkfold.sources.zarr_source import ZarrSource

pytestmark = pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning")
_CODECS = zarr.codecs
CHAINS: dict[str, dict] = {
    "2-none": {"zarr_format": 2, "compressors": None},
    "2-zstd": {"zarr_format": 2, "compressors": Zstd()},
    "2-blosc": {"zarr_format": 2, "compressors": Blosc()},
    "2-lz4": {"zarr_format": 2, "compressors": LZ4()},
    "2-gzip": {"zarr_format": 2, "compressors": GZip()},
    "2-zlib": {"zarr_format": 2, "compressors": Zlib()},
    "3-none": {"compressors": None},
    "3-zstd": {"compressors": _CODECS.ZstdCodec()},
    "3-blosc": {"compressors": _CODECS.BloscCodec()},
    "3-gzip": {"compressors": _CODECS.GzipCodec()},
    "3-lz4": {"compressors": _CODECS.numcodecs.LZ4()},
    "3-crc32c": {"compressors": _CODECS.Crc32cCodec()},
    "3-zstd, crc32c": {"compressors": [_CODECS.ZstdCodec(), _CODECS.Crc32cCodec()]},
    "3-crc32c, gzip": {"compressors": [_CODECS.Crc32cCodec(), _CODECS.GzipCodec()]},
    "3-big": {"serializer": _CODECS.BytesCodec(endian="big")},
}
NOT_PLAIN: dict[str, dict] = {
    "2-F": {"zarr_format": 2, "order": "F"},
    "3-transpose": {"filters": _CODECS.TransposeCodec(order=(1, 0))},
    "3-bz2": {"compressors": _CODECS.numcodecs.BZ2()},
}


_METADATA = {"zarr.json", ".zgroup", ".zarray", ".zattrs", ".zmetadata"}
"""Files of a group: no array in it can be called so."""
DTYPES = ["?", "u1", "<i2", ">i4", "<f2", ">f4", "<f8", "<c8", "<M8[s]", "<m8[ns]"]


def read(source: ZarrSource, region: tuple[slice, ...]) -> np.ndarray:
    shape = [len(range(cut.start, cut.stop, cut.step or 1)) for cut in region]
    out = np.full(shape, 99).astype(source.dtype)
    source.read(region, out)
    return out


def chunk_after_chunk(
    source: ZarrSource, region: tuple[slice, ...], values: np.ndarray
) -> np.ndarray:
    """Order a region's elements by their objects, the chunks of these, and where they are there."""
    along = [range(cut.start, cut.stop, cut.step or 1) for cut in region]
    places = [axis.ravel() for axis in np.meshgrid(*along, indexing="ij")]
    assert source.in_turn is not None
    keys = [
        [place // size for place, size in zip(places, shape, strict=True)]
        for shape in source.in_turn
    ]
    order = np.lexsort([*places[::-1], *keys[1][::-1], *keys[0][::-1]]) if places else slice(None)
    return values.ravel()[order]


@given(st.data())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.usefixtures("far_folders")
def test_what_zarr_makes_is_read_as_zarr_reads_it(data: st.DataObject):
    with tempfile.TemporaryDirectory() as folder:
        values = numpy_arrays(dtype=np.dtype(data.draw(st.sampled_from(DTYPES), "dtype")))
        array = data.draw(
            arrays(
                stores=st.sampled_from([LocalStore(folder), ObjectStore(ByObstore(folder))]),
                paths=st.just("p"),
                array_names=node_names.filter(lambda name: name not in _METADATA),
                attrs=st.none(),
                arrays=values,
            ),
            "array",
        )
        source = open_source(array)
        index = data.draw(basic_indices(shape=array.shape, allow_ellipsis=False), "index")
        index = index if isinstance(index, tuple) else (index,)
        cuts = [slice(n, n + 1) if isinstance(n, (int, np.integer)) else n for n in index]
        cuts += [slice(None)] * (array.ndim - len(cuts))
        region = tuple(
            slice(*cut.indices(size)) for cut, size in zip(cuts, array.shape, strict=True)
        )
        assume(all(cut.step > 0 for cut in region))
        want = np.asarray(array[region]).astype(source.dtype)  # one just made may say another
        assume(want.size)
        assert read(source, region).tobytes() == want.tobytes()


@pytest.mark.parametrize("dtype", ["<f4", ">i2", "u1", "c8"])
@pytest.mark.parametrize("name", CHAINS)
@given(data=st.data())
@settings(max_examples=6)
def test_any_region_of_any_chain_is_read(name: str, dtype: str, data: st.DataObject):
    shape = tuple(data.draw(st.lists(st.integers(1, 12), min_size=0, max_size=3), "shape"))
    chunks = tuple(data.draw(st.integers(1, 7), "chunk") for _ in shape)
    values = np.arange(1, 1 + np.prod(shape, dtype=int)).astype(dtype).reshape(shape)
    with tempfile.TemporaryDirectory() as folder:
        sharded = shape and name[0] == "3" and data.draw(st.booleans(), "sharded")
        within = [data.draw(st.integers(1, 3), "chunks of a shard") for _ in shape]
        array = zarr.create_array(
            folder,
            shape=shape,
            chunks=chunks,
            shards=tuple(c * n for c, n in zip(chunks, within, strict=True)) if sharded else None,
            dtype=dtype,
            fill_value=7,
            **CHAINS[name],
        )
        written = tuple(slice(data.draw(st.integers(0, size - 1), "from"), None) for size in shape)
        array[written] = values[written]
        stored = sorted(path for path in Path(folder).rglob("*") if path.name[0] not in ".z")
        for path in data.draw(st.lists(st.sampled_from(stored)), "missing") if stored else []:
            if path.is_file():
                path.unlink(missing_ok=True)
        source = open_source(folder)
        assert source.direct is not None
        assert source.dtype.str[0] == ">" or name != "3-big" or dtype == "u1"
        region = tuple(
            slice(start, data.draw(st.integers(start + 1, size)), data.draw(st.integers(1, 4)))
            for size in shape
            for start in [data.draw(st.integers(0, size - 1))]
        )
        want = np.asarray(zarr.open_array(folder)[region]).astype(source.dtype)
        assert read(source, region).tobytes() == want.tobytes()
        out = np.full(want.size, 99).astype(source.dtype)
        source.read(region, out)
        assert out.tobytes() == chunk_after_chunk(source, region, want).tobytes()


@pytest.mark.parametrize("name", ["2-zstd", "3-zstd, crc32c"])
def test_of_a_chunk_with_codecs_no_call_asks_for_the_size(tmp_path: Path, monkeypatch, name: str):
    """Each call gives Python's lock away, and sixteen threads wait for it."""
    made = zarr.create_array(
        str(tmp_path / "a"), shape=(9, 10), chunks=(4, 10), dtype="i4", **CHAINS[name]
    )
    made[:8] = np.arange(80).reshape(8, 10)
    source, want = open_source(tmp_path / "a"), made[...]
    regions = [(slice(1, 9), slice(0, 10)), (slice(8, 9), slice(0, 10))]
    source.read(regions[0], np.empty((8, 10), "i4"))
    with monkeypatch.context() as patched:
        patched.setattr(os, "fstat", None)
        got = [read(source, region) for region in regions]
    for found, region in zip(got, regions, strict=True):
        np.testing.assert_array_equal(found, want[region])


def test_a_chunk_that_is_longer_than_codecs_make_it_is_read_whole(tmp_path: Path):
    """Frames of nothing may stand before the one that counts."""
    made = zarr.create_array(
        str(tmp_path / "a"), shape=(4,), chunks=(4,), dtype="i4", **CHAINS["2-zstd"]
    )
    made[...] = np.arange(4)
    file = tmp_path / "a/0"
    file.write_bytes(Zstd().encode(b"") * 20_000 + file.read_bytes())
    np.testing.assert_array_equal(read(open_source(tmp_path / "a"), (slice(0, 4),)), np.arange(4))


def test_of_a_chunk_without_codecs_only_the_rows_taken_are_read(tmp_path: Path, monkeypatch):
    spans: list[tuple[int, int]] = []
    true_preadv = os.preadv

    def counted(descriptor: int, buffers: list, offset: int) -> int:
        spans.append((offset, sum(map(len, buffers))))
        return true_preadv(descriptor, buffers, offset)

    monkeypatch.setattr("chunkfold.stores.objects.os.preadv", counted)
    values = np.arange(6 * 5 * 4, dtype="u1").reshape(6, 5, 4)
    array = zarr.create_array(
        tmp_path, shape=(6, 5, 4), chunks=(4, 5, 4), dtype="u1", compressors=None
    )
    array[...] = values
    source = open_source(tmp_path)
    for region, wanted in (
        ((slice(1, 3), slice(0, 5), slice(0, 4)), [(20, 40)]),
        ((slice(2, 3), slice(1, 4, 2), slice(2, 3)), [(44, 12)]),
        ((slice(3, 5), slice(4, 5), slice(1, 2)), [(77, 1), (17, 1)]),
    ):
        spans.clear()
        np.testing.assert_array_equal(read(source, region), values[region])
        assert spans == wanted
    (tmp_path / "c/0/0/0").write_bytes(values[:4].tobytes()[:-1])
    with pytest.raises(ChunkError, match=r"'c/0/0/0'.*it has 79 bytes, but its shape needs 80"):
        read(source, (slice(0, 1), slice(0, 5), slice(0, 4)))


def test_frames_that_are_to_be_skipped_are(tmp_path: Path):
    """RFC 8878, 3.1.2: they may stand before one that counts, and behind it."""
    values = np.arange(8.0)
    zarr.create_array(str(tmp_path / "a"), data=values, chunks=(4,), **CHAINS["3-zstd"])
    skipped = b"\x5a\x2a\x4d\x18\x04\x00\x00\x00abcd"
    for name, made in (("0", lambda frame: skipped + frame), ("1", lambda frame: frame + skipped)):
        chunk = tmp_path / "a" / "c" / name
        chunk.write_bytes(made(chunk.read_bytes()))
    source = open_source(tmp_path / "a")
    np.testing.assert_array_equal(read(source, (slice(0, 8),)), zarr.open_array(tmp_path / "a")[:])
    np.testing.assert_array_equal(read(source, (slice(0, 8),)), values)


@pytest.mark.parametrize("name", NOT_PLAIN)
def test_what_is_not_plain_goes_through_zarr(tmp_path: Path, name: str):
    array = zarr.create_array(tmp_path, shape=(9, 7), chunks=(4, 3), dtype="i4", **NOT_PLAIN[name])
    array[...] = np.arange(63).reshape(9, 7)
    source = open_source(tmp_path)
    assert source.direct is None
    np.testing.assert_array_equal(read(source, (slice(1, 9), slice(0, 7))), array[1:])


def test_other_stores_go_through_zarr():
    array = zarr.create_array(MemoryStore(), shape=(9,), chunks=(4,), dtype="i4")
    assert open_source(array).direct is None


def cut_short(stored: bytes) -> bytes:
    return stored[: len(stored) // 2]


def without_the_last(stored: bytes) -> bytes:
    return stored[:-1]


def of_no_bytes(_: bytes) -> bytes:
    return b""


def made_longer(stored: bytes) -> bytes:
    return stored + stored


def flipped(stored: bytes) -> bytes:
    return stored[:-9] + bytes([stored[-9] ^ 255]) + stored[-8:]


def chunk_file(folder: Path) -> Path:
    return next(path for path in (folder / "c" / "0", folder / "0") if path.exists())


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("damage", [cut_short, without_the_last, of_no_bytes])
def test_chunks_that_were_cut_are_named(
    tmp_path: Path, name: str, damage: Callable[[bytes], bytes]
):
    array = zarr.create_array(tmp_path, shape=(50,), chunks=(50,), dtype="i4", **CHAINS[name])
    array[...] = np.random.default_rng(0).integers(0, 999, 50)
    file = chunk_file(tmp_path)
    file.write_bytes(damage(file.read_bytes()))
    codec = name.partition("-")[2].split(",")[0].replace("none", "no codec").replace("big", "zstd")
    with pytest.raises(ChunkError, match=rf"{tmp_path}: cannot read chunk '(c/)?0' .*{codec}"):
        read(open_source(tmp_path), (slice(0, 50),))


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("length", [49, 51])
def test_chunks_of_another_size_are_named(tmp_path: Path, name: str, length: int):
    """Whole frames, of fewer or more elements than the chunk's shape."""
    values = np.arange(60, dtype="i4")
    for folder, chunk in (("right", 50), ("other", length)):
        array = zarr.create_array(
            tmp_path / folder, shape=(chunk,), chunks=(chunk,), dtype="i4", **CHAINS[name]
        )
        array[...] = values[:chunk]
    chunk_file(tmp_path / "other").replace(chunk_file(tmp_path / "right"))
    with pytest.raises(
        ChunkError, match=rf"({4 * length} bytes|201 bytes or more), but its shape needs 200"
    ):
        read(open_source(tmp_path / "right"), (slice(0, 50),))


@pytest.mark.parametrize("name", ["2-gzip", "3-crc32c", "3-zstd, crc32c", "3-crc32c, gzip"])
def test_checksums_are_checked(tmp_path: Path, name: str):
    array = zarr.create_array(tmp_path, shape=(50,), chunks=(50,), dtype="i4", **CHAINS[name])
    array[...] = np.random.default_rng(0).integers(0, 999, 50)
    file = chunk_file(tmp_path)
    file.write_bytes(flipped(file.read_bytes()))
    with pytest.raises(ChunkError, match=r"crc|CRC|EOFError|decompressing|201 bytes or more"):
        read(open_source(tmp_path), (slice(0, 50),))


@pytest.mark.parametrize("name", ["2-none", "3-crc32c", "2-lz4", "3-zstd"])
def test_chunks_with_more_behind_them_are_not_folded_wrongly(tmp_path: Path, name: str):
    array = zarr.create_array(tmp_path, shape=(50,), chunks=(50,), dtype="i4", **CHAINS[name])
    array[...] = np.arange(50)
    file = chunk_file(tmp_path)
    file.write_bytes(made_longer(file.read_bytes()))
    with pytest.raises(ChunkError, match=r"bytes|too small|error"):
        read(open_source(tmp_path), (slice(0, 50),))


_MORE = (b"\0", bytes(64), b"what an older, longer chunk has left")
_BLOSC = (
    Blosc("zstd"),
    Blosc("lz4", shuffle=Blosc.BITSHUFFLE),
    Blosc("blosclz", shuffle=Blosc.NOSHUFFLE),
)


@pytest.mark.parametrize(
    ("codec", "more"),
    [*itertools.product([*_BLOSC, Zlib()], _MORE), (GZip(), bytes(64))],
)
def test_bytes_behind_the_end_that_a_frame_itself_names_are_nothing(
    tmp_path: Path, codec, more: bytes
):
    array = zarr.create_array(
        tmp_path, shape=(50,), chunks=(50,), dtype="i4", zarr_format=2, compressors=codec
    )
    array[...] = np.arange(50)
    file = chunk_file(tmp_path)
    file.write_bytes(file.read_bytes() + more)
    assert array[...].tolist() == list(range(50))  # to zarr too
    source = open_source(tmp_path)
    assert source.direct is not None
    assert read(source, (slice(0, 50),)).tolist() == list(range(50))


@pytest.mark.parametrize("at", [12, 13, 14, 15])
@pytest.mark.parametrize("name", ["2-blosc", "3-blosc", "3-crc32c, blosc"])
def test_a_blosc_frame_that_says_more_is_missing_is_not_decoded(tmp_path: Path, name: str, at: int):
    """Its decoder would read on behind the end of the chunk, and zarr lets it."""
    chain = [_CODECS.Crc32cCodec(), _CODECS.BloscCodec(typesize=1)]
    given = CHAINS.get(name, {"compressors": chain})
    array = zarr.create_array(tmp_path, shape=(50,), chunks=(50,), dtype="i4", **given)
    array[...] = np.arange(50)
    file = chunk_file(tmp_path)
    stored = bytearray(file.read_bytes())
    stored[at] += 1  # of the frame's bytes
    file.write_bytes(stored)
    with pytest.raises(ChunkError, match=r"bytes, but its Blosc header says"):
        read(open_source(tmp_path), (slice(0, 50),))


def test_what_codecs_behind_others_promise_is_bounded(tmp_path: Path):
    chain = [_CODECS.Crc32cCodec(), _CODECS.BloscCodec(typesize=1)]
    array = zarr.create_array(tmp_path, shape=(50,), chunks=(50,), dtype="i4", compressors=chain)
    array[...] = np.arange(50)
    file = chunk_file(tmp_path)
    stored = bytearray(file.read_bytes())
    stored[7] = 64  # a gigabyte
    file.write_bytes(stored)
    with pytest.raises(ChunkError, match=r"its blosc header says 1,073,742,028 bytes, more than"):
        read(open_source(tmp_path), (slice(0, 50),))


def test_flags_of_gzip_that_nobody_knows_are_an_error(tmp_path: Path):
    """As the format asks for (RFC 1952, 2.3.1.2); Python's gzip passes over them."""
    array = zarr.create_array(
        tmp_path, shape=(50,), chunks=(50,), dtype="i4", compressors=_CODECS.GzipCodec()
    )
    array[...] = np.arange(50)
    file = chunk_file(tmp_path)
    stored = bytearray(file.read_bytes())
    stored[3] |= 0x80
    file.write_bytes(stored)
    with pytest.raises(ChunkError, match="unknown header flags"):
        read(open_source(tmp_path), (slice(0, 50),))


@pytest.mark.parametrize("sharded", [False, True])
def test_of_a_chunk_that_has_grown_no_memory_is_taken(tmp_path: Path, monkeypatch, sharded: bool):
    shards = {"shards": (100,)} if sharded else {}
    made = zarr.create_array(tmp_path, shape=(100,), chunks=(50,), dtype="i4", **shards)
    made[...] = 1
    if sharded:
        file = chunk_file(tmp_path)
        whole, index = file.read_bytes(), 2 * 16 + 4
        spans = np.frombuffer(whole[-index:-4], "<u8").copy()
        spans[1] = 1 << 40
        kept = google_crc32c.value(spans.tobytes()).to_bytes(4, "little")
        file.write_bytes(whole[:-index])
        os.truncate(file, (1 << 40) + (1 << 20))  # nowhere on the disk
        with file.open("ab") as end:
            end.write(spans.tobytes() + kept)
    else:
        os.truncate(tmp_path / "c" / "0", 1 << 40)
    with pytest.raises(
        ChunkError, match=r"it has 1,\d+,\d+,\d+,\d+ bytes, more than .*: it cannot"
    ):
        read(open_source(tmp_path), (slice(0, 50),))


@pytest.mark.parametrize("codec", [GZip(9), Zlib(9)], ids=["gzip", "zlib"])
def test_no_more_is_inflated_than_a_chunk_needs(tmp_path: Path, monkeypatch, codec):
    zarr.create_array(
        tmp_path, data=np.ones(50, "i4"), chunks=(50,), zarr_format=2, compressors=codec
    )
    (tmp_path / "0").write_bytes(codec.encode(bytes(1 << 20)))
    inflated, plain = [], codecs._inflated
    monkeypatch.setattr(
        codecs, "_inflated", lambda *given: (inflated.append(plain(*given)), inflated[-1])[1]
    )
    with pytest.raises(ChunkError, match="decodes to 201 bytes or more, but its shape needs 200"):
        read(open_source(tmp_path), (slice(0, 50),))
    assert {len(found) for found in inflated} == {201}


@given(
    st.lists(st.binary(max_size=40), min_size=1, max_size=3), st.integers(0, 3), st.integers(0, 200)
)
def test_members_are_inflated_as_python_does(members: list[bytes], zeros: int, most: int):
    stored = b"".join(map(gzip.compress, members)) + bytes(zeros)
    whole = gzip.decompress(stored)
    found = codecs._ungzip(memoryview(stored), most)
    assert found == whole[: len(found)]
    assert len(found) == len(whole) or len(found) > most


def test_frames_that_follow_each_other_are_one_chunk(tmp_path: Path):
    values = np.arange(50, dtype="i4")
    zarr.create_array(tmp_path, data=values, chunks=(50,))
    frames = [Zstd().encode(values[:20]), Zstd().encode(values[20:])]
    chunk_file(tmp_path).write_bytes(b"".join(frames))
    assert read(open_source(tmp_path), (slice(0, 50),)).tolist() == values.tolist()


@pytest.fixture
def shard(tmp_path: Path) -> Path:
    """The file of a shard of five chunks of 100 bytes, and an index of 84 behind them."""
    array = zarr.create_array(
        tmp_path, shape=(125,), chunks=(25,), shards=(125,), dtype="i4", compressors=None
    )
    array[...] = np.arange(125)
    file = chunk_file(tmp_path)
    assert file.stat().st_size == 584
    return file


@pytest.mark.parametrize(
    ("at", "found"),
    [
        (slice(0, 0), "0 bytes, but its index needs 84"),
        (slice(0, 50), "50 bytes, but its index needs 84"),
        (slice(0, 583), "its crc32c is"),
        (slice(100, 584), "inner chunk .4,.: ValueError: its index says .400, 100., but"),
    ],
)
def test_shards_that_were_cut_are_named(shard: Path, at: slice, found: str):
    shard.write_bytes(shard.read_bytes()[at])
    for first in (101, 0):  # zarr takes an empty one that is wanted whole for one of fill values
        with pytest.raises(ChunkError, match=rf"cannot read shard 'c/0' .*{found}"):
            read(open_source(shard.parent.parent), (slice(first, 125),))


@pytest.mark.parametrize("location", ["start", "end"])
@pytest.mark.parametrize("checked", [True, False])
def test_an_index_may_stand_before_chunks_and_have_no_checksum(
    tmp_path: Path, location: str, checked: bool
):
    checksum = [_CODECS.Crc32cCodec()] if checked else []
    codec = _CODECS.ShardingCodec(
        chunk_shape=(3,),
        index_codecs=[_CODECS.BytesCodec(), *checksum],
        index_location=location,
    )
    made = zarr.create(shape=(20,), chunks=(9,), dtype="i4", codecs=[codec], store=tmp_path)
    made[4:] = values = np.arange(16)
    source = open_source(tmp_path)
    assert source.direct is not None
    assert read(source, (slice(0, 20),)).tolist() == [0, 0, 0, 0, *values.tolist()]
    if location == "start":  # more behind the chunks is nobody's, to zarr too
        for file in (tmp_path / "c").iterdir():
            file.write_bytes(file.read_bytes() + b"more")
        assert read(source, (slice(0, 20),)).tolist() == made[...].tolist()


def test_of_a_shard_only_what_is_asked_for_is_read(shard: Path):
    whole = bytearray(shard.read_bytes())
    whole[:400] = b"x" * 400
    shard.write_bytes(whole)
    source = open_source(shard.parent.parent)
    assert source.unit == (25,)
    assert read(source, (slice(101, 125),)).tolist() == list(range(101, 125))


def test_a_folder_in_a_chunks_place_is_no_chunk(tmp_path: Path):
    """As to zarr."""
    array = zarr.create_array(tmp_path, shape=(5,), chunks=(5,), dtype="i4", fill_value=7)
    array[...] = 1
    file = chunk_file(tmp_path)
    file.unlink()
    file.mkdir()
    assert read(open_source(tmp_path), (slice(0, 5),)).tolist() == array[...].tolist() == [7] * 5


def test_a_pipe_in_a_chunks_place_is_an_error(tmp_path: Path):
    zarr.create_array(tmp_path, shape=(5,), chunks=(5,), dtype="i4")[...] = 1
    file = chunk_file(tmp_path)
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(ChunkError, match="not a file or a folder"):
        read(open_source(tmp_path), (slice(0, 5),))


def test_of_what_zarr_decodes_the_bad_chunk_is_named_too(tmp_path: Path):
    made = zarr.create_array(
        tmp_path, shape=(20, 20), chunks=(10, 10), dtype="i4", zarr_format=2, order="F"
    )
    made[...] = np.random.default_rng(0).integers(0, 99, (20, 20))
    (tmp_path / "0.1").write_bytes(b"")
    with pytest.raises(ChunkError, match=rf"cannot read chunk '0.1' \(codecs zstd; .*{tmp_path}"):
        read(open_source(tmp_path), (slice(0, 20), slice(0, 20)))
