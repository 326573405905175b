"""References: as kerchunk writes them of an HDF5 file, as JSON and as tables."""

from __future__ import annotations

import json
import os
import pickle
import sys
from pathlib import Path

import fsspec
import h5py
import numpy as np
import pytest
import zarr
from fsspec.implementations.reference import LazyReferenceMapper
from kerchunk.hdf import SingleHdf5ToZarr

import chunkfold as cf
from chunkfold.sources.opening import open_source
from chunkfold.stores.references import are_references, references_in

VALUES = np.arange(60, dtype="i4").reshape(10, 6)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    """Return where there are references to a file, two of whose five chunks were never written."""
    with h5py.File(tmp_path / "a.nc", "w") as file:
        made = file.create_dataset(
            "x", VALUES.shape, "i4", chunks=(2, 6), compression="gzip", shuffle=True, fillvalue=-1
        )
        made[:6] = VALUES[:6]
        made.attrs["units"] = "K"
    found = SingleHdf5ToZarr(str(tmp_path / "a.nc"), inline_threshold=0).translate()
    (tmp_path / "refs.json").write_text(json.dumps(found))
    made = LazyReferenceMapper.create(
        f"{tmp_path}/refs.parquet", fs=fsspec.filesystem("file"), record_size=2, engine="pyarrow"
    )
    for key, to in sorted(found["refs"].items()):
        made[key] = to
    made.flush()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["refs.json", "refs.parquet"])
def test_the_chunks_of_a_file_are_read_where_they_are(folder: Path, name: str, monkeypatch):
    source = open_source(f"{name}/x")
    sent = pickle.dumps(source)
    assert len(sent) < 4000
    monkeypatch.chdir("/")  # workers are elsewhere
    found = np.empty(VALUES.shape, "i4")
    pickle.loads(sent).read([slice(0, 10, 1), slice(0, 6, 1)], found)
    assert (found[:6] == VALUES[:6]).all()
    assert (found[6:] == -1).all()
    assert source.attributes["units"] == "K"


def test_tables_may_have_any_name_and_groups_of_format_2_are_none(folder: Path):
    (folder / "refs.parquet").rename(folder / "tables")
    assert references_in(folder / "tables" / "x") == (str(folder / "tables"), "x")
    assert open_source("tables/x").shape == VALUES.shape
    zarr.open_group("g.zarr", mode="w", zarr_format=2).create_array("x", data=VALUES)
    zarr.consolidate_metadata("g.zarr", zarr_format=2)
    assert not are_references(folder / "g.zarr")
    (folder / "other.json").write_text('{"a": 1}')
    assert not are_references(folder / "other.json")


def test_tables_that_were_written_anew_are_read_anew(folder: Path):
    before = open_source("refs.parquet/x").shape
    metadata = Path("refs.parquet/.zmetadata")
    told = json.loads(metadata.read_text())
    told["metadata"]["x/.zarray"]["shape"] = [8, 6]
    metadata.write_text(json.dumps(told))
    assert (before, open_source("refs.parquet/x").shape) == ((10, 6), (8, 6))


@pytest.mark.parametrize("name", ["refs.json", "refs.parquet"])
@pytest.mark.parametrize("how", ["gone", "cut"])
def test_what_references_lead_to_may_be_gone_or_cut(folder: Path, name: str, how: str):
    source = open_source(f"{name}/x")
    if how == "gone":
        Path("a.nc").unlink()
    else:
        os.truncate("a.nc", 3000)
    with pytest.raises(cf.ChunkError, match=f"{name}/x: cannot read chunk '[01]"):
        source.read([slice(0, 10, 1), slice(0, 6, 1)], np.empty(VALUES.shape, "i4"))


def test_codecs_that_run_code_are_not_decoded_there_either(folder: Path):
    told = json.loads(Path("refs.json").read_text())
    array = json.loads(told["refs"]["x/.zarray"])
    array |= {"dtype": "|O", "filters": [{"id": "pickle", "protocol": 5}], "fill_value": None}
    told["refs"]["x/.zarray"] = json.dumps(array)
    Path("refs.json").write_text(json.dumps(told))
    with pytest.raises(cf.SourceError, match=r"refs.json/x: .*pickle"):
        open_source("refs.json/x")


def test_without_pyarrow_the_extra_is_named(folder: Path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(cf.SourceError, match=r"pyarrow.*pip install 'chunkfold\[parquet\]'"):
        open_source("refs.parquet/x")


def test_bad_references_are_told_in_one_sentence(folder: Path):
    Path("bad.json").write_text('{"version": 1, "refs": {"x/.zarray": ')
    with pytest.raises(cf.SourceError, match=r"bad.json/x: ") as found:
        open_source("bad.json/x")
    assert "\n" not in str(found.value)
