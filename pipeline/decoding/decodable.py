"""Which arrays are decoded at all: told from their metadata, before a byte of them is.

What stands in a store is somebody else's. Codecs that are data only make nothing but numbers and
texts of it; `pickle` does whatever it is told there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from chunkfold.errors import SourceError
from chunkfold.kernels.dtypes import kind_of

_CODE = frozenset({"pickle"})
"""Codecs that run what they decode."""
_TEXTS = frozenset({"vlen-utf8", "vlen-bytes", "json2"})
"""Codecs that make objects: texts, and what JSON has."""
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
"""Where an array's metadata have its codecs."""
_DTYPES = ("dtype", "astype", "encode_dtype", "decode_dtype")
"""Where codecs say what they make."""


def refuse_code(array: Any, name: str) -> None:
    """Refuse an array whose codecs run code that is stored in it, whatever numcodecs allows.

    Raises
    ------
    SourceError
        If there is one, in shards and their index too.
    """
    for codec in codecs_of(array.metadata.to_dict()):
        if codec in _CODE:
            raise SourceError(
                f"{name}: its codec {codec!r} runs code that is stored in it: it is not decoded; "
                "whoever trusts it can write it anew with another codec"
            )


def why_not_decoded(array: Any) -> str:
    """Say what keeps an array that nobody named from being decoded; empty if it is data only.

    >>> import zarr
    >>> why_not_decoded(zarr.create_array({}, shape=(2,), dtype="i4"))
    ''
    """
    stored = array.metadata.to_dict()
    dtype, shown = np.dtype(array.dtype), repr(stored.get("dtype") or stored.get("data_type"))
    codecs = list(codecs_of(stored))
    texts = [one for one in codecs if one in _TEXTS]
    if strange := [one for one in codecs if one not in _DATA | _TEXTS]:
        return f"its codec {strange[0]!r} is not known to decode to data only"
    if not (kind_of(dtype) in _NUMBERS or dtype.kind in _TEXT_KINDS):
        return f"its dtype {shown} is neither numeric, nor a time, nor text"
    if len(texts) > (dtype.kind in _TEXT_KINDS) or (dtype.kind in "OT" and not texts):
        return f"its dtype {shown} does not go with the codecs {', '.join(codecs)}"
    odd = next((made for made in _dtypes_of(stored) if _holds_objects(made)), None)
    return f"one of its codecs makes {odd!r}" if odd else ""


def codecs_of(stored: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the codecs in an array's metadata, those within others too.

    >>> list(codecs_of({"filters": [{"id": "vlen-utf8"}], "compressor": {"id": "zlib"}}))
    ['vlen-utf8', 'zlib']
    """
    for one in _configured([stored.get(place) for place in _PLACES]):
        name = str(one.get("id") or one.get("name"))
        yield name.rpartition("/")[2].removeprefix("numcodecs.")


def _configured(stored: Any) -> Iterator[Mapping[str, Any]]:
    """Yield how each codec is configured, at whatever depth."""
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
    """Whether elements of a dtype are objects; of one that is none, too."""
    try:
        return np.dtype(dtype).hasobject
    except TypeError:
        return True
