"""What zarr decodes has one check: decoded bytes against the shape, with a bound on the way."""

from __future__ import annotations

import bz2
import json
import lzma
import resource
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
from zarr.codecs import BloscCodec, BytesCodec, ShardingCodec, TransposeCodec
from zarr.codecs.numcodecs import BZ2, Delta, FixedScaleOffset
from zarr.storage import ZipStore

import chunkfold as cf
from chunkfold.sources.opening import open_neighbour, open_source

VALUES = np.random.default_rng(0).integers(0, 100, 2000).astype("i4")
BLOSC = numcodecs.Blosc("lz4", shuffle=0)
FILTERS: dict[str, list[Any]] = {
    "none": [],
    "delta": [numcodecs.Delta("i4")],
    "wide delta": [numcodecs.Delta("i4", astype="i8")],
    "fixedscaleoffset": [numcodecs.FixedScaleOffset(0, 1, "i4", "i4")],
    "narrow": [numcodecs.FixedScaleOffset(0, 1, "i4", "u1")],
    "two": [numcodecs.Delta("i4"), numcodecs.Shuffle(4)],
    "astype": [numcodecs.AsType("f8", "i4")],
}
COMPRESSORS: dict[str, Any] = {
    "blosc": BLOSC, "zlib": numcodecs.Zlib(), "bz2": numcodecs.BZ2(), "lzma": numcodecs.LZMA(),
    "gzip": numcodecs.GZip(), "lz4": numcodecs.LZ4(), "zstd": numcodecs.Zstd(), "none": None,
    "raw lzma": numcodecs.LZMA(lzma.FORMAT_RAW, filters=[{"id": lzma.FILTER_LZMA2, "preset": 1}]),
}  # fmt: skip


def stored(path: Path, filters: Any, compressor: Any, **more: Any) -> Path:
    array = zarr.create_array(
        path, data=VALUES, chunks=(2000,), zarr_format=2, filters=filters, compressors=compressor,
        **more,
    )  # fmt: skip
    assert array.shape == VALUES.shape
    return path


@pytest.mark.parametrize("compressor", COMPRESSORS)
@pytest.mark.parametrize("filters", FILTERS)
def test_whole_chunks_are_right_and_cut_ones_are_told(
    tmp_path: Path, filters: str, compressor: str
):
    path = stored(tmp_path / "a.zarr", FILTERS[filters], COMPRESSORS[compressor])
    assert cf.reduce(path) == VALUES.sum()
    whole = (path / "0").read_bytes()
    for cut in (whole[: len(whole) * 9 // 10], whole[:1], whole[: len(whole) // 2]):
        (path / "0").write_bytes(cut)
        with pytest.raises(cf.ChunkError, match="cannot read chunk '0'"):
            cf.reduce(path)


@pytest.mark.parametrize("where", ["files", "zip", "fortran", "shard", "transposed", "filtered"])
def test_cut_blosc_is_told_on_every_route(tmp_path: Path, where: str):
    """Blosc itself reads on behind the end of its bytes, and gives other numbers."""
    turned, cut_as = TransposeCodec(order=(1, 0)), BloscCodec(shuffle="noshuffle")
    inner = [turned, BytesCodec(), cut_as]
    codecs: dict[str, list[Any]] = {
        "shard": [ShardingCodec(chunk_shape=(4, 500), codecs=inner)],
        "transposed": inner,
        "filtered": [Delta(dtype="i4"), BytesCodec(), cut_as],
    }
    data = VALUES.reshape(4, 500)
    path = tmp_path / "a.zarr"
    if where in codecs:
        filters, (serializer, *compressors) = codecs[where][:-2], codecs[where][-2:]
        made = zarr.create_array(
            path, shape=data.shape, chunks=data.shape, dtype="i4", filters=filters,
            serializer=serializer, compressors=compressors,
        )  # fmt: skip
        made[...] = data
        key = path / "c" / "0" / "0"
    else:
        stored(path, FILTERS["delta"], BLOSC, order="F")
        key = path / "0"
    whole = key.read_bytes()
    cut = whole[:200] + whole[300:] if where == "shard" else whole[: len(whole) - len(whole) // 10]
    for content in (whole, cut):
        key.write_bytes(content)
        place = path
        if where == "zip":
            place = tmp_path / f"{len(content)}.zip"
            with ZipStore(place, mode="w") as store:
                for name in (".zarray", ".zattrs", "0"):
                    text = (path / name).read_bytes()
                    zarr.core.sync.sync(store.set(name, zarr.buffer.cpu.Buffer.from_bytes(text)))
        if content is whole:
            assert cf.reduce(place) == VALUES.sum()
        else:
            with pytest.raises(cf.ChunkError, match=r"Blosc|header|decodes to"):
                cf.reduce(place)


def _blocks(compress: Any, mib: int = 1000) -> bytes:
    one = bytes(1 << 20)
    return b"".join([compress.compress(one) for _ in range(mib)] + [compress.flush()])


def _zstd_blocks() -> bytes:
    """Return a frame that does not say its size: blocks of one byte, many times over."""
    block = struct.pack("<I", (128 << 10) << 3 | 1 << 1)[:3] + b"\0"
    last = struct.pack("<I", (128 << 10) << 3 | 1 << 1 | 1)[:3] + b"\0"
    return struct.pack("<IBB", 0xFD2FB528, 0, 0x58) + block * 8000 + last


BOMBS: dict[str, Callable[[], bytes]] = {
    "bz2": lambda: _blocks(bz2.BZ2Compressor()),
    "lzma": lambda: _blocks(lzma.LZMACompressor(preset=0)),
    "zlib": lambda: _blocks(zlib.compressobj()),
    "gzip": lambda: _blocks(zlib.compressobj(wbits=31)),
    "zstd": _zstd_blocks,
    "blosc": lambda: bytes(numcodecs.Blosc("zstd").encode(bytes(1 << 29))),
    "lz4": lambda: struct.pack("<I", 1 << 31) + bytes(40),
}


@pytest.fixture(scope="module", params=BOMBS)
def bomb(request: pytest.FixtureRequest) -> tuple[str, bytes]:
    return request.param, BOMBS[request.param]()


@pytest.mark.parametrize("filtered", [True, False])
@pytest.mark.parametrize("where", ["2", "3", "beside"])
def test_what_decodes_to_more_is_refused_before_it_takes_memory(
    tmp_path: Path, bomb: tuple[str, bytes], filtered: bool, where: str
):
    codec, content = bomb
    dtype, filters = np.dtype("<i4"), [{"id": "delta", "dtype": "<i4", "astype": "<i4"}]
    if where == "3":
        chain = [{"name": "numcodecs.delta", "configuration": {"dtype": "<i4"}}] * filtered + [
            {"name": "bytes", "configuration": {"endian": "little"}},
            {"name": f"numcodecs.{codec}", "configuration": {}},
        ]
        metadata: Any = {
            "zarr_format": 3, "node_type": "array", "shape": [1000], "data_type": "int32",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1000]}},
            "chunk_key_encoding": {"name": "default"}, "fill_value": 0, "codecs": chain,
        }  # fmt: skip
        name, key = "zarr.json", "c/0"
    else:
        metadata = {
            "zarr_format": 2, "shape": [1000], "chunks": [1000], "dtype": dtype.str,
            "fill_value": 0, "order": "C", "filters": filters if filtered else None,
            "compressor": {"id": codec} | ({"filters": None} if codec == "lzma" else {}),
        }  # fmt: skip
        name, key = ".zarray", "0"
    (tmp_path / "g/x/c").mkdir(parents=True)
    (tmp_path / "g/x" / name).write_text(json.dumps(metadata))
    (tmp_path / "g/x" / key).write_bytes(content)
    made = zarr.open_group(tmp_path / "g", mode="a", zarr_format=2)
    made.create_array("a", data=np.ones(1000))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if where == "beside":
        found = open_neighbour(open_source(tmp_path / "g/a"), "x")
        with pytest.raises(Exception, match=r"bytes|header|decod|needs"):  # of each its own
            found[...]
    else:
        with pytest.raises(cf.ChunkError, match=r"cannot read chunk 'c?/?0' .*(bytes|decod)"):
            cf.reduce(tmp_path / "g/x")
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    assert grown < 200 << 20


def test_texts_say_how_many_they_are(tmp_path: Path):
    made = zarr.create_array(tmp_path / "t", shape=(3,), dtype="str", zarr_format=2)
    made[...] = np.array(["a", "b", "c"], object)
    made = zarr.create_array(tmp_path / "t3", shape=(3,), dtype="str", compressors=None)
    made[...] = np.array(["a", "b", "c"], object)
    (tmp_path / "t3/c/0").write_bytes(struct.pack("<I", 2**32 - 1) + bytes(60))
    (tmp_path / "t/0").write_bytes(
        numcodecs.Zstd().encode(struct.pack("<I", 2**32 - 1) + bytes(60))
    )
    zarr.create_array(tmp_path / "a", data=np.arange(3.0))
    for labels in ("t", "t3"):
        with pytest.raises(Exception, match=r"header says 4,294,967,295 texts"):
            cf.reduce(tmp_path / "a", by=str(tmp_path / labels))


def test_objects_larger_than_chunks_are_not_read(tmp_path: Path):
    path = stored(tmp_path / "a.zarr", FILTERS["delta"], COMPRESSORS["zlib"], order="F")
    with (path / "0").open("r+b") as file:
        file.truncate(1 << 40)
    with pytest.raises(cf.ChunkError, match=r"it has more than .* bytes: it cannot be this"):
        cf.reduce(path)


def test_format_3_with_filters_of_numcodecs_is_right(tmp_path: Path):
    made = zarr.create_array(
        tmp_path / "a", shape=(2000,), chunks=(500,), dtype="f8",
        filters=[FixedScaleOffset(offset=0, scale=1, dtype="f8", astype="i2"), Delta(dtype="i2")],
        compressors=[BZ2()],
    )  # fmt: skip
    made[...] = VALUES
    assert cf.reduce(tmp_path / "a") == VALUES.sum()
