"""Codecs that an array's metadata name: how to install missing ones, and which to refuse.

A store may be a stranger's. Most codecs turn its bytes into numbers and texts alone; `pickle` runs
code that is stored there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numcodecs
import numpy as np

from chunkfold.decoding.codecs import NUMCODECS, chain_of
from chunkfold.errors import SourceError
from chunkfold.kernels.dtypes import kind_of

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
"""Packages with codecs that neither zarr nor numcodecs brings, by the beginning of their names."""
_NO_COMPRESSION = ("bytes", "sharding_indexed")
_CODE = frozenset({"pickle"})
"""Codecs that run the code that they decode."""
_TEXTS = frozenset({"vlen-utf8", "vlen-bytes", "json2"})
"""Codecs that make objects: texts, and JSON's values."""
_DATA = frozenset(
    {
        "adler32", "astype", "base64", "bitround", "blosc", "bytes", "bz2", "categorize", "crc32",
        "crc32c", "delta", "endian", "fixedscaleoffset", "fletcher32", "gzip", "jenkins_lookup3",
        "lz4", "lzma", "packbits", "pcodec", "quantize", "sharding_indexed", "shuffle",
        "transpose", "zfpy", "zlib", "zstd",
    }
)  # fmt: skip
"""Codecs that make nothing but numbers and fixed-length texts."""
_NUMBERS, _TEXT_KINDS = "biufcmM", "SUTO"
"""Kinds of dtypes: numbers and times; texts, of which NumPy calls some objects."""
_PLACES = ("filters", "compressor", "codecs")
"""Keys of an array's metadata that have its codecs."""
_DTYPES = ("dtype", "astype", "encode_dtype", "decode_dtype")
"""Keys of a codec's configuration that name dtypes."""


def package_of(codec: str) -> str:
    """Name the way to install a codec.

    >>> package_of("numcodecs.pcodec"), package_of("mine")
    ("pip install 'numcodecs[pcodec]' has it", 'install the package that wrote it')
    """
    plain = codec.removeprefix(NUMCODECS)
    found = next((p for name, p in PACKAGES.items() if plain.startswith(name)), None)
    return f"pip install {found!r} has it" if found else "install the package that wrote it"


def unknown_codec(error: BaseException) -> str:
    """Name the codec that an error misses, and its package; empty for other errors.

    zarr and numcodecs each have an UnknownCodecError.
    """
    found = re.search("'+([^']+)'", str(error))
    if type(error).__name__ != "UnknownCodecError" or found is None:
        return ""
    return f"its codec {found[1]!r} is not installed; {package_of(found[1])}"


def why_undecodable(metadata: Mapping[str, Any]) -> str:
    """Say why no chunk of an array can be decoded; empty if all of its codecs are installed.

    `metadata` are the array's, as they are stored. zarr makes most codecs when it opens an array,
    but those of numcodecs in format 3 when it reads the first chunk: these are tried here.
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
    """Return the names of an array's codecs, without those that every array has.

    >>> codec_names({"zarr_format": 2, "filters": [{"id": "delta"}], "compressor": {"id": "lz4"}})
    ('delta', 'lz4')
    """
    names = (str(codec.get("name", codec.get("id"))) for codec in codecs_of(metadata))
    return tuple(name for name in dict.fromkeys(names) if name not in _NO_COMPRESSION)


def refuse_code(array: Any, name: str) -> None:
    """Refuse an array whose codecs run stored code, even if numcodecs is set to allow it.

    Raises
    ------
    SourceError
        If it has such a codec, in shards and their index too.
    """
    for codec in names_at_any_depth(array.metadata.to_dict()):
        if codec in _CODE:
            raise SourceError(
                f"{name}: its codec {codec!r} runs code stored in the array, so chunkfold does "
                "not decode it; if you trust it, write the array again with another codec"
            )


def why_not_decoded(array: Any) -> str:
    """Say why an array that no caller named is not decoded; empty if its codecs make data only.

    >>> import zarr
    >>> why_not_decoded(zarr.create_array({}, shape=(2,), dtype="i4"))
    ''
    """
    stored = array.metadata.to_dict()
    dtype, shown = np.dtype(array.dtype), repr(stored.get("dtype") or stored.get("data_type"))
    codecs = list(names_at_any_depth(stored))
    texts = [one for one in codecs if one in _TEXTS]
    if strange := [one for one in codecs if one not in _DATA | _TEXTS]:
        return f"its codec {strange[0]!r} is not known to decode to data only"
    if not (kind_of(dtype) in _NUMBERS or dtype.kind in _TEXT_KINDS):
        return f"its dtype {shown} is not numeric, a time or text"
    if len(texts) > (dtype.kind in _TEXT_KINDS) or (dtype.kind in "OT" and not texts):
        return f"its dtype {shown} does not fit the codecs {', '.join(codecs)}"
    odd = next((made for made in _dtypes_of(stored) if _holds_objects(made)), None)
    return f"one of its codecs makes {odd!r}" if odd else ""


def names_at_any_depth(stored: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of all codecs in an array's metadata, those within others too.

    >>> list(names_at_any_depth({"filters": [{"id": "vlen-utf8"}], "compressor": {"id": "zlib"}}))
    ['vlen-utf8', 'zlib']
    """
    for one in _configured([stored.get(place) for place in _PLACES]):
        name = str(one.get("id") or one.get("name"))
        yield name.rpartition("/")[2].removeprefix("numcodecs.")


def _configured(stored: Any) -> Iterator[Mapping[str, Any]]:
    """Yield each mapping with an id or a name, at any depth."""
    if isinstance(stored, Mapping):
        if "id" in stored or "name" in stored:
            yield stored
        yield from _configured(list(stored.values()))
    elif isinstance(stored, Sequence) and not isinstance(stored, str):
        for one in stored:
            yield from _configured(one)


def _dtypes_of(stored: Mapping[str, Any]) -> Iterator[str]:
    for one in _configured([stored.get(place) for place in _PLACES]):
        settings = {**one, **(one.get("configuration") or {})}
        yield from (str(settings[name]) for name in _DTYPES if settings.get(name) is not None)


def _holds_objects(dtype: str) -> bool:
    """Return whether elements of a dtype are objects; True of a text that is no dtype."""
    try:
        return np.dtype(dtype).hasobject
    except TypeError:
        return True
