"""Codecs that are not installed: said when an array is opened, wherever it names them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import zarr
from zarr.codecs import TransposeCodec
from zarr.codecs.numcodecs import BZ2

import chunkfold as cf
from chunkfold.decoding.codec_metadata import codec_names
from chunkfold.sources.opening import Unopened, open_each, open_source

PCODEC = {"name": "numcodecs.pcodec", "configuration": {"level": 8}}
ZFPY = {"name": "numcodecs.zfpy", "configuration": {"mode": 4}}
MINE = {"name": "my-codec/v1"}


def edited(folder: Path, edit: Callable[[dict], object], **layout: object) -> Path:
    """Store an array, then change what its metadata say of it."""
    made = zarr.create_array(folder, shape=(8,), chunks=(4,), dtype="f4", **layout)
    made[...] = 1
    file = folder / (".zarray" if layout.get("zarr_format") == 2 else "zarr.json")
    metadata = json.loads(file.read_text())
    edit(metadata)
    file.write_text(json.dumps(metadata))
    return folder


@pytest.mark.parametrize(
    ("layout", "edit", "said"),
    [
        ({}, lambda m: m.update(codecs=[PCODEC]), "'pcodec' is not inst.*'numcodecs.pcodec.' has"),
        ({}, lambda m: m.update(codecs=[ZFPY]), "'zfpy' is not installed; .*'numcodecs.zfpy.' has"),
        ({}, lambda m: m["codecs"].append(MINE), "'my-codec/v1' is not installed; install the pac"),
        ({}, lambda m: m["codecs"].insert(0, MINE), "'my-codec/v1' is not installed"),
        (
            {"shards": (8,)},
            lambda m: m["codecs"][0]["configuration"].update(codecs=[PCODEC]),
            "'pcodec' is not installed",
        ),
        (
            {"shards": (8,)},
            lambda m: m["codecs"][0]["configuration"]["codecs"].append(MINE),
            "'my-codec/v1' is not installed",
        ),
        (
            {"zarr_format": 2},
            lambda m: m.update(compressor={"id": "pcodec"}),
            "'pcodec' is not installed; .*'numcodecs.pcodec.' has it",
        ),
        (
            {"zarr_format": 2},
            lambda m: m.update(filters=[{"id": "gribscan.rawgrib"}]),
            "'gribscan.rawgrib' is not installed; pip install 'gribscan' has it",
        ),
        (
            {},
            lambda m: m["codecs"].append({"name": "numcodecs.bz2", "configuration": {"to": 1}}),
            "'numcodecs.bz2' refuses .'to': 1",
        ),
    ],
)  # fmt: skip
def test_a_codec_that_is_not_installed_is_named_before_anything_is_read(
    tmp_path: Path, layout: dict, edit: Callable, said: str
):
    folder = edited(tmp_path / "a.zarr", edit, **layout)
    with pytest.raises(cf.SourceError, match=f"a.zarr: its codec {said}") as found:
        cf.plan(folder)
    assert not isinstance(found.value, cf.ChunkError)


def test_an_array_of_a_group_says_which_codec_keeps_it_from_being_opened(tmp_path: Path):
    zarr.open_group(tmp_path / "g.zarr", mode="w")
    edited(tmp_path / "g.zarr/a", lambda m: m["codecs"].append(MINE))
    said = f"{tmp_path}/g.zarr/a: its codec 'my-codec/v1' is not installed; "
    (one,) = open_each(tmp_path / "g.zarr")
    assert isinstance(one, Unopened)
    assert str(one.error).startswith(said)
    with pytest.raises(cf.SourceError, match=said):
        open_source(tmp_path / "g.zarr/a")


def test_all_codecs_of_a_chunk_are_named(tmp_path: Path):
    codecs = {"filters": [TransposeCodec(order=(1, 0))], "compressors": [BZ2()]}
    made = zarr.create_array(
        tmp_path / "a", shape=(4, 4), chunks=(2, 2), shards=(4, 4), dtype="f4", **codecs
    )
    assert codec_names(made.metadata.to_dict()) == ("transpose", "numcodecs.bz2", "crc32c")
