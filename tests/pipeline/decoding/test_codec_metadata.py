"""Codecs in metadata: missing ones are named when an array is opened; pickles are never decoded.

An array that nobody named is decoded only if its codecs make nothing but data.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numcodecs.pickles
import numpy as np
import pytest
import zarr
from zarr.codecs import TransposeCodec
from zarr.codecs.numcodecs import BZ2

import chunkfold as cf
from chunkfold.decoding.codec_metadata import codec_names, names_at_any_depth, why_not_decoded
from chunkfold.errors import SourceError
from chunkfold.sources.opening import Unopened, open_each, open_neighbour, open_source
from tests.strangers import pickled, texts, with_coordinate
from tests.web import served

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


PICKLE = {"id": "pickle", "protocol": 4}
UTF8 = {"id": "vlen-utf8"}
CHAINS = {
    "text": ("|O", [UTF8, PICKLE], None),
    "bytes": ("|O", [{"id": "vlen-bytes"}, PICKLE], None),
    "first": ("|O", [PICKLE, UTF8], None),
    "last": ("|O", [UTF8], PICKLE),
    "alone": ("|O", [PICKLE], None),
    "numbers": ("<f8", [PICKLE], None),
    "compressed": ("<i4", [], PICKLE),
    "times": ("<M8[s]", [{"id": "shuffle", "elementsize": 8}, PICKLE], None),
}


@pytest.fixture(autouse=True)
def _allowed(monkeypatch):
    """As NUMCODECS_ALLOW_UNSAFE_PICKLE_DECODE=1 has it, or a numcodecs that never asks."""
    monkeypatch.setattr(numcodecs.pickles, "ALLOW_UNSAFE_PICKLE_DECODE", True)


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("remote", [False, True])
def test_no_pickle_is_decoded_whoever_allows_it(tmp_path: Path, chain: str, remote: bool):
    dtype, filters, compressor = CHAINS[chain]
    told = tmp_path / "told"
    stored = {"told": told, "dtype": dtype, "filters": filters, "compressor": compressor}
    array = with_coordinate(tmp_path / "g.zarr", **stored)
    with served(tmp_path) as web:
        named = f"{web.url}/g.zarr/" if remote else f"{tmp_path}/g.zarr/"
        with pytest.raises(SourceError, match="pickle"):
            open_neighbour(open_source(f"{named}{array.name}"), "x")
        with pytest.raises(SourceError, match="pickle"):
            cf.reduce(f"{named}x", "max")
    (unopened,) = [one for one in open_each(tmp_path / "g.zarr") if one.name.endswith("x")]
    assert "pickle" in str(unopened.error)
    assert not told.exists()


def test_the_payload_would_run(tmp_path: Path):
    pickled(tmp_path / "x", tmp_path / "told", "|O", [UTF8, PICKLE])
    with pytest.raises(Exception):  # noqa: B017, PT011 # what came of it is no text
        zarr.open_array(tmp_path / "x", mode="r")[...]
    assert (tmp_path / "told").exists()


@pytest.mark.parametrize(
    ("dtype", "filters", "compressor", "reason"),
    [
        ("|O", [UTF8], None, ""),
        ("|O", [UTF8], {"id": "zstd", "level": 1, "checksum": False}, ""),
        ("|O", [{"id": "vlen-bytes"}], {"id": "zlib", "level": 1}, ""),
        ("<U3", [], None, ""),
        ("|S3", [], {"id": "lz4", "acceleration": 1}, ""),
        ("<f8", [{"id": "delta", "dtype": "<f8", "astype": "<f8"}], None, ""),
        ("<M8[ns]", [], None, ""),
        ("<c16", [], None, ""),
        ("|b1", [{"id": "packbits"}], None, ""),
        ("|O", [UTF8, UTF8], None, "does not fit the codecs vlen-utf8, vlen-utf8"),
        ("|O", [UTF8, {"id": "vlen-bytes"}], None, "does not fit"),
        ("|O", [UTF8, {"id": "msgpack2"}], None, "its codec 'msgpack2' is not known"),
        ("|O", [UTF8, {"id": "vlen-array", "dtype": "<i4"}], None, "codec 'vlen-array'"),
        ("|V3", [], None, "dtype '|V3' is not numeric"),
        ([["a", "<i4"], ["b", "<f8"]], [], None, "is not numeric"),
        (
            "<U3",
            [{"id": "categorize", "labels": ["a"], "dtype": "|O", "astype": "|u1"}],
            None,
            "one of its codecs makes '|O'",
        ),
        (
            "<f8",
            [{"id": "astype", "encode_dtype": "|O", "decode_dtype": "<f8"}],
            None,
            "one of its codecs makes '|O'",
        ),
    ],
)
def test_only_numbers_times_and_texts_are_data(tmp_path: Path, dtype, filters, compressor, reason):
    if any(one["id"] == "msgpack2" for one in filters):
        pytest.importorskip("msgpack")
    pickled(tmp_path / "x", tmp_path / "told", dtype, filters, compressor=compressor)
    found = why_not_decoded(zarr.open_array(tmp_path / "x", mode="r"))
    assert (reason in found) if reason else not found


@pytest.mark.parametrize("dtype", ["str", "<U4", "|S4", "M8[s]", "variable_length_bytes"])
def test_texts_of_the_third_format_are_data(dtype: str):
    made = zarr.create_array({}, shape=(3,), shards=(3,), chunks=(1,), dtype=dtype)
    assert why_not_decoded(made) == ""


def test_codecs_are_found_wherever_they_are():
    def shard(codec):
        inner = {"codecs": [{"name": "bytes"}], "index_codecs": [{"name": codec}]}
        return {"codecs": [{"name": "sharding_indexed", "configuration": inner}]}

    assert list(names_at_any_depth(shard("numcodecs.pickle")))[-1] == "pickle"
    nested = {"filters": [{"id": "theirs", "of": [{"codec": {"id": "pickle"}}]}]}
    assert list(names_at_any_depth(nested)) == ["theirs", "pickle"]


@pytest.mark.parametrize(
    ("codec", "values"),
    [
        (numcodecs.VLenUTF8(), ["é", "", "long " * 9]),
        (numcodecs.VLenBytes(), [b"a", b"", b"\0z\0"]),
    ],
)
def test_texts_of_others_are_read(tmp_path: Path, codec, values):
    array = with_coordinate(tmp_path / "g.zarr", told=tmp_path, dtype="<f8", filters=[])
    texts(tmp_path / "g.zarr/names", codec, values)
    found = open_neighbour(open_source(array), "names")
    assert found is not None
    assert list(np.asarray(found[...])) == values
