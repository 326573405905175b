"""Metadata that no array can have are refused when it is opened; grids that are absurd, planned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chunkfold as cf
from chunkfold.errors import PlanError, SourceError


def array(path: Path, zarr_format: int, shape: list[int], chunks: list[int], attributes: Any):
    if zarr_format == 2:
        metadata: Any = {
            "zarr_format": 2, "shape": shape, "chunks": chunks, "dtype": "<i4", "fill_value": 0,
            "order": "C", "compressor": None, "filters": None,
        }  # fmt: skip
        name = ".zarray"
    else:
        metadata = {
            "zarr_format": 3, "node_type": "array", "shape": shape, "data_type": "int32",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
            "chunk_key_encoding": {"name": "default"}, "fill_value": 0, "attributes": attributes,
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        }  # fmt: skip
        name = "zarr.json"
    path.mkdir()
    (path / name).write_text(json.dumps(metadata))
    if zarr_format == 2:
        (path / ".zattrs").write_text(json.dumps(attributes))
    return path


def nested(levels: int) -> dict[str, Any]:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return {"a": value}


ODD: dict[str, tuple[list[int], list[int], Any, str]] = {
    "no extent": ([10], [0], {}, r"chunks \(0,\) of shape \(10,\): no chunk"),
    "one of several": ([10, 10], [5, 0], {}, "no chunk can have a length of 0"),
    "2^63": ([2**63], [2**60], {}, r"shape \(9223372036854775808,\), which are more than"),
    "2^62 of int32": ([2**62], [2**50], {}, "which are more than 9,223,372,036,854,775,807 bytes"),
    "many axes of many": ([2**30] * 3, [2**20] * 3, {}, "which are more than"),
    "chunks of 2^64": ([10], [2**64], {}, r"chunks \(18446744073709551616,\), which are more"),
    "33 axes": ([1] * 33, [1] * 33, {}, "has 33 axes, more than 32"),
    "64 axes": ([1] * 64, [1] * 64, {}, "has 64 axes, more than 32"),
    "100 axes": ([1] * 100, [1] * 100, {}, "has 100 axes, more than 32"),
    "deep": ([10], [5], nested(500), "nested more than 100 levels deep"),
    "a list": ([10], [5], [1, 2], "attributes are list, not an object"),
    "a number": ([10], [5], 5, "attributes are int, not an object"),
}


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("odd", ODD)
def test_what_no_array_has_is_refused(tmp_path: Path, odd: str, zarr_format: int):
    shape, chunks, attributes, said = ODD[odd]
    path = array(tmp_path / "a", zarr_format, shape, chunks, attributes)
    for call in (cf.plan, cf.reduce):
        with pytest.raises(SourceError, match=f"^{path}: .*{said}"):
            call(path)


def test_32_axes_and_attributes_of_some_levels_are_well(tmp_path: Path):
    path = array(tmp_path / "a", 3, [1] * 32, [1] * 32, nested(50))
    (path / "c").mkdir()
    file = path.joinpath("c", *["0"] * 32)
    file.parent.mkdir(parents=True)
    file.write_bytes(np.int32(7).tobytes())
    assert cf.reduce(path) == 7


@pytest.mark.parametrize(
    ("shape", "chunks", "count"),
    [
        ([10**9], [1], "1,000,000,000 chunks of (1,)"),
        ([10**6, 10**6], [1, 1], "1,000,000,000,000 chunks of (1, 1)"),
        ([2**40], [100], "10,995,116,278 chunks of (100,)"),
    ],
)
def test_absurd_grids_are_refused_with_the_figure(tmp_path: Path, shape, chunks, count: str):
    path = array(tmp_path / "a", 2, shape, chunks, {})
    with pytest.raises(PlanError) as found:
        cf.plan(path)
    assert f"{path}: {count} are selected, but a plan can have at most 134,217,728" in str(
        found.value
    )
    assert cf.reduce(path, selection=np.s_[:3] if len(shape) == 1 else np.s_[:3, :3]) == 0


def test_what_is_not_of_bytes_offers_no_skipping(tmp_path: Path, monkeypatch):
    """A codec of somebody's that does not work is no bad chunk."""
    import numcodecs

    class Broken(numcodecs.abc.Codec):
        codec_id = "broken_of_tests"

        def encode(self, buf):
            return buf

        def decode(self, buf, out=None):
            return None + 1

    monkeypatch.setitem(numcodecs.registry.codec_registry, "broken_of_tests", Broken)
    path = array(tmp_path / "a", 2, [5], [5], {})
    metadata = json.loads((path / ".zarray").read_text())
    (path / ".zarray").write_text(json.dumps(metadata | {"compressor": {"id": "broken_of_tests"}}))
    (path / "0").write_bytes(bytes(20))
    for more in ({}, {"on_bad_chunk": "skip"}):
        with pytest.raises(SourceError, match="cannot be read as its metadata say") as found:
            cf.reduce(path, **more)
        assert not isinstance(found.value, cf.ChunkError)
