"""Codecs that an array's metadata name: which they are, and what is missing for them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numcodecs

from chunkfold.decoding.codecs import NUMCODECS, chain_of

PACKAGES: Mapping[str, str] = {
    "pcodec": "numcodecs[pcodec]",
    "zfpy": "numcodecs[zfpy]",
    "msgpack2": "numcodecs[msgpack]",
    "imagecodecs": "imagecodecs",
    "wavpack": "wavpack-numcodecs",
    "gribscan": "gribscan",
    "grib": "kerchunk",
    "FITS": "kerchunk",
    "crc32c": "numcodecs[crc32c]",
    "bitinfo": "xbitinfo",
}
"""Packages that have codecs which come with neither zarr nor numcodecs, by how those begin."""


def package_of(codec: str) -> str:
    """Say how a codec that is not installed can be had.

    >>> package_of("numcodecs.pcodec"), package_of("mine")
    ("pip install 'numcodecs[pcodec]' has it", 'install the package that wrote it')
    """
    plain = codec.removeprefix(NUMCODECS)
    found = next((p for name, p in PACKAGES.items() if plain.startswith(name)), None)
    return f"pip install {found!r} has it" if found else "install the package that wrote it"


def unknown_codec(error: BaseException) -> str:
    """Say which codec is not installed, and how it can be had; empty if an error is about others.

    zarr and numcodecs each have an UnknownCodecError.
    """
    found = re.search("'+([^']+)'", str(error))
    if type(error).__name__ != "UnknownCodecError" or found is None:
        return ""
    return f"its codec {found[1]!r} is not installed; {package_of(found[1])}"


def why_undecodable(metadata: Mapping[str, Any]) -> str:
    """Say why no chunk of an array can be decoded; empty if all of its codecs are there.

    `metadata` are the array's, as they are stored. Those of format 2, and most of format 3, zarr
    makes when it opens an array, but numcodecs' own, in format 3, when it reads the first chunk.
    """
    for codec in codecs_of(metadata):
        name, configuration = codec.get("name", ""), codec.get("configuration") or {}
        if not name.startswith(NUMCODECS) or chain_of([name]) is not None:
            continue
        try:
            numcodecs.get_codec({"id": name.removeprefix(NUMCODECS), **configuration})
        except Exception as error:  # noqa: BLE001 # codecs of other packages raise what they like
            return unknown_codec(error) or f"its codec {name!r} refuses {configuration} ({error})"
    return ""


def codecs_of(metadata: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield every codec of an array's metadata as it is stored, those within shards too."""
    if metadata["zarr_format"] == 2:
        yield from (one for one in (*(metadata["filters"] or ()), metadata["compressor"]) if one)
        return
    left = list(metadata["codecs"])
    while left:
        codec = left.pop(0)
        yield codec
        configuration = codec.get("configuration") or {}
        left += [*configuration.get("codecs", ()), *configuration.get("index_codecs", ())]


def codec_names(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of an array's codecs; without those that every array has.

    >>> codec_names({"zarr_format": 2, "filters": [{"id": "delta"}], "compressor": {"id": "lz4"}})
    ('delta', 'lz4')
    """
    names = (str(codec.get("name", codec.get("id"))) for codec in codecs_of(metadata))
    return tuple(name for name in dict.fromkeys(names) if name not in _NO_COMPRESSION)


_NO_COMPRESSION = ("bytes", "sharding_indexed")
