"""Objects that a server encodes on their way are read as what they are."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zarr

import chunkfold as cf
from chunkfold.stores.content_encoding import decoded, encoding_of
from tests.web import served

pytestmark = pytest.mark.unoptimised
LAYOUTS = {
    "zstd": {},
    "raw": {"compressors": None},
    "shards": {"shards": (40,)},
    "by zarr": {"zarr_format": 2, "filters": None, "order": "F"},
}
ENCODINGS = {"gzip": gzip.compress, "deflate": zlib.compress, "identity": lambda body: body}


def made(folder: Path, **layout) -> int:
    array = zarr.create_array(str(folder), shape=(100,), chunks=(10,), dtype="i4", **layout)
    array[...] = np.arange(100)
    return int(np.arange(100).sum())


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_what_is_encoded_on_its_way_is_what_it_was(tmp_path: Path, layout: str, encoding: str):
    want = made(tmp_path / "a", **LAYOUTS[layout])
    with served(tmp_path, encoding=encoding, encode=ENCODINGS[encoding]) as web:
        assert cf.reduce(f"{web.url}/a") == want


def test_an_encoding_that_is_not_undone_is_named(tmp_path: Path):
    made(tmp_path / "a")
    with (
        served(tmp_path, encoding="br") as web,
        pytest.raises(
            cf.SourceError, match="Content-Encoding 'br', but chunkfold decodes only gzip"
        ),
    ):
        cf.reduce(f"{web.url}/a")


@pytest.mark.parametrize("encode", [gzip.compress, zlib.compress])
def test_what_is_cut_damaged_or_too_large_is_refused(encode: Callable[[bytes], bytes]):
    content = encode(bytes(1000))
    assert decoded(content, "gzip", 1000) == bytes(1000)
    for damaged, most, why in (
        (content[:-3], None, "was cut"),
        (b"\0" + content, None, "cannot be undone"),
        (content, 999, "more than 999 bytes"),
        (encode(bytes(1 << 20)), 1 << 20, ""),
    ):
        if why:
            with pytest.raises(ValueError, match=why):
                decoded(damaged, "gzip", most)
        else:
            assert len(decoded(damaged, "gzip", most)) == most


def test_identity_is_no_encoding():
    assert encoding_of({"Content-Encoding": "Identity"}) == encoding_of({}) == ""
