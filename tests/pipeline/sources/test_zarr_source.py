"""Sources: what opens, and the sentence for what does not."""

from __future__ import annotations

import pickle
import resource
from pathlib import Path

import numpy as np
import pytest
import zarr
from zarr.codecs import TransposeCodec

import chunkfold as cf
from chunkfold import ChunkError, SourceError
from chunkfold.sources.opening import open_source

pytestmark = pytest.mark.unoptimised


@pytest.fixture
def store(tmp_path: Path) -> Path:
    group = zarr.open_group(str(tmp_path / "s.zarr"), mode="w")
    group.create_array("a", shape=(10, 10), chunks=(3, 3), dtype="f4")[:] = 1
    group.create_group("deep").create_array("b", shape=(4,), chunks=(2,), dtype="i2")[:] = 2
    return tmp_path / "s.zarr"


def test_an_array_has_not_vanished_where_no_file_can_be_opened(store: Path):
    source = open_source(store / "a")
    source.check_unchanged()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
        for look in (source.check_unchanged, source.reopened):
            with pytest.raises(cf.ClusterError, match=r"a: cannot be opened again .*Too many open"):
                look()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_paths_inside_a_store_open(store: Path):
    assert open_source(store / "a").shape == (10, 10)
    assert open_source(str(store / "deep" / "b")).dtype == np.int16
    assert open_source(f"file://{store}/a").shape == (10, 10)


def test_a_source_travels_small(store: Path):
    source = open_source(store / "a")
    again = pickle.loads(pickle.dumps(source))
    assert len(pickle.dumps(source)) < 3000
    assert again.shape == source.shape


@pytest.mark.parametrize(
    ("path", "match"),
    [
        ("nowhere/at/all", r"no such path \(.* exists\)|no such path"),
        ("s.zarr/c", r"no such path .*s.zarr is a Zarr group; its arrays: .*s.zarr/a, .*deep/b"),
        ("s.zarr/a/b", r"no such path .*s.zarr/a is an array"),
        ("s.zarr", r"is a Zarr group, not an array; its arrays: .*s.zarr/a, .*s.zarr/deep/b"),
        ("plain", "not a Zarr array or group$"),
        ("", "a folder, but not a Zarr .*, though these in it are: .*s.zarr$"),
        ("file.txt", "a file, not a Zarr array or group"),
        ("old.nc", r"a NetCDF file of the classic format, not a Zarr.*to_zarr"),
        ("cut.nc/t2m", r"cut.nc/t2m: cannot be opened as HDF5 \("),
        ("/proc/self/mem", "/proc/self/mem: not a Zarr array or group"),
        ("old.nc/t2m", r"no such path \(.*old.nc is a NetCDF file of the classic"),
    ],
)
def test_what_is_no_array_is_said_so(store: Path, path: str, match: str):
    (store.parent / "plain").mkdir()
    (store.parent / "file.txt").write_text("hello")
    (store.parent / "old.nc").write_bytes(b"CDF\x01")
    (store.parent / "cut.nc").write_bytes(b"\x89HDF\r\n\x1a\n")
    with pytest.raises(SourceError, match=match):
        open_source(store.parent / path)


def test_an_empty_group_has_no_arrays(tmp_path: Path):
    zarr.open_group(str(tmp_path / "e.zarr"), mode="w")
    with pytest.raises(SourceError, match="it has no arrays"):
        open_source(tmp_path / "e.zarr")


def test_other_objects_are_refused():
    with pytest.raises(SourceError, match="not list"):
        open_source([1, 2, 3])


@pytest.mark.parametrize("dtype", ["str", "S4", "V6"])
def test_dtypes_that_cannot_be_reduced_are_named(tmp_path: Path, dtype: str):
    zarr.create_array(str(tmp_path / "t.zarr"), shape=(3,), dtype=dtype)
    with pytest.raises(SourceError, match=r"t.zarr: dtype .* cannot be reduced; supported are"):
        open_source(tmp_path / "t.zarr")


def test_object_arrays_of_v2_are_refused(tmp_path: Path):
    zarr.create_array(str(tmp_path / "o.zarr"), shape=(3,), dtype="str", zarr_format=2)
    with pytest.raises(SourceError, match="cannot be reduced"):
        open_source(tmp_path / "o.zarr")


def test_damaged_metadata_is_no_array(store: Path):
    (store / "a" / "zarr.json").write_text("{ not json")
    with pytest.raises(SourceError, match="not a Zarr array"):
        open_source(store / "a")


def test_a_chunk_that_does_not_decode_is_named(store: Path):
    (store / "a" / "c" / "1" / "2").write_bytes(b"garbage")
    with pytest.raises(ChunkError, match=r"cannot read chunk 'c/1/2' .codecs zstd.*zstd frame"):
        cf.reduce(store / "a")


def test_a_chunk_that_zarr_does_not_decode_is_named(tmp_path: Path):
    transposed = TransposeCodec(order=(1, 0))
    array = zarr.create_array(tmp_path / "t", shape=(9, 9), dtype="f4", filters=transposed)
    array[...] = 1
    (tmp_path / "t" / "c" / "0" / "0").write_bytes(b"garbage")
    with pytest.raises(
        ChunkError, match=r"cannot read chunk 'c/0/0' .*codecs transpose, zstd; .*/t\)"
    ):
        cf.reduce(tmp_path / "t")


@pytest.mark.parametrize("zipped", [False, True])
def test_a_source_is_where_it_was_whatever_folder_workers_are_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zipped: bool
):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    values = np.arange(20.0)
    if zipped:
        with zarr.storage.ZipStore("a.zip", mode="w") as store:
            zarr.create_array(store, data=values, chunks=(7,))
    else:
        zarr.create_array("a.zarr", data=values, chunks=(7,))
    given = "a.zip" if zipped else "a.zarr"
    store = zarr.storage.ZipStore(given, mode="r") if zipped else given
    named, opened = open_source(given), open_source(zarr.open_array(store, mode="r"))
    monkeypatch.chdir(tmp_path / "elsewhere")
    for source in (named, opened):
        found = np.empty(20)
        pickle.loads(pickle.dumps(source)).read([slice(0, 20, 1)], found)
        assert (found == values).all()
    assert named.name == given
