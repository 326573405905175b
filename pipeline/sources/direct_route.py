"""Decide whether an array's chunks can be read without zarr, and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from zarr.storage import LocalStore, ObjectStore

from chunkfold.decoding.codec_metadata import codecs_of
from chunkfold.decoding.codecs import Chain, chain_of
from chunkfold.decoding.direct import Direct
from chunkfold.decoding.filters import filter_codec, is_bounded
from chunkfold.decoding.shards import Shards
from chunkfold.stores.expected import UNTOLD
from chunkfold.stores.guarded_stores import CarefulFiles, CarefulObjects
from chunkfold.stores.object_answers import server_time
from chunkfold.stores.objects import LocalObjects
from chunkfold.stores.remote import RemoteObjects
from chunkfold.stores.remote_store import RemoteStore
from chunkfold.stores.requests import flight

_INDEX = np.dtype("<u8")
"""Of offsets and sizes in the index of a shard."""


def direct_of(array: Any, planned: int = UNTOLD) -> Direct | None:
    """Return how an array is read without zarr; None if store or codecs are not plain enough.

    `planned` is when the run was planned, by the clock of its server.
    """
    objects = objects_of(array, planned)
    if objects is None:
        return None
    stored, shards, dtype = array.metadata.to_dict(), None, np.dtype(array.dtype)
    if stored["zarr_format"] == 2:
        elements = _elements_of_format_2(stored, dtype)
    else:
        given = stored["codecs"]
        if given[0]["name"] == "sharding_indexed":
            shards = _shards(given, array)
            if shards is None:
                return None
            given = given[0]["configuration"]["codecs"]
        elements = _elements_of_format_3(given, dtype)
    chain = None if elements is None else _chain_of(elements.codecs)
    if elements is None or chain is None:
        return None
    found = Direct(
        objects=objects,
        key=array.metadata.encode_chunk_key,
        shape=tuple(array.chunks),
        dtype=elements.dtype,
        fill=fill_value(array),
        chain=chain,
        codecs=tuple(str(codec["id"]) for codec in elements.codecs),
        shards=shards,
        within_blosc=_within_blosc(stored),
    )
    return found if is_bounded(found.filters, found.nbytes) else None


def objects_of(array: Any, planned: int = UNTOLD) -> LocalObjects | RemoteObjects | None:
    """Return where an array's objects are; None if only zarr can read them. As `direct_of`."""
    if type(array.store) in (LocalStore, CarefulFiles):
        return LocalObjects(str(Path(array.store.root) / array.path))
    if type(array.store) is RemoteStore:
        store = array.store
        return RemoteObjects(
            store.store, array.path, store.missing, store.hasty, store.near, planned
        )
    if type(array.store) in (ObjectStore, CarefulObjects):
        return RemoteObjects(array.store.store, array.path, planned=planned)
    return None


def server_time_of(array: Any) -> int:
    """Return what time it is by the server of an array that cannot be listed; else `UNTOLD`."""
    objects = objects_of(array)
    if not isinstance(objects, RemoteObjects) or objects.listable:
        return UNTOLD
    metadata = ".zarray" if array.metadata.zarr_format == 2 else "zarr.json"
    path = f"{array.path}/{metadata}".lstrip("/")
    return flight().waited(lambda: server_time(objects.store, path))


def fill_value(array: Any) -> Any:
    """Return what stands for elements that are not stored; format 2 may leave it to readers."""
    if array.fill_value is not None:
        return array.fill_value
    dtype = np.dtype(array.dtype)
    return np.array("NaT", dtype) if dtype.kind in "mM" else np.zeros((), dtype)


class _Elements(NamedTuple):
    """The codecs and dtype of a chunk's stored elements."""

    codecs: Sequence[Mapping[str, Any]]
    """Settings of each as numcodecs has them, with its name as `id`; in the order they were applied
    in."""
    dtype: np.dtype
    """Of the elements that they decode to, with the order of bytes."""


def _elements_of_format_2(stored: Mapping[str, Any], dtype: np.dtype) -> _Elements | None:
    """Return how elements are stored; None if they are in another order than here."""
    if stored["order"] != "C":
        return None
    return _Elements(
        [one for one in (*(stored["filters"] or ()), stored["compressor"]) if one], dtype
    )


def _elements_of_format_3(given: Sequence[Mapping[str, Any]], dtype: np.dtype) -> _Elements | None:
    """Return how elements are stored; None if other arrays than those of filters are between.

    Filters take what was encoded for bytes: the order of these counts where there are none.
    """
    names = [codec["name"] for codec in given]
    if "bytes" not in names:
        return None
    at = names.index("bytes")
    codecs = [{**(one.get("configuration") or {}), "id": one["name"]} for one in given]
    order = (given[at].get("configuration") or {}).get("endian")
    decoded = dtype
    if at == 0 and order is not None and dtype.newbyteorder(order[0]) != dtype:
        if dtype.kind not in _SWAPPED:
            return None
        decoded = dtype.newbyteorder(order[0])
    between = dtype
    for number, one in enumerate(codecs[:at]):
        found = filter_codec(one)
        if found is None or found.filter is None or not _alike(found.filter.decoded, between):
            return None
        decoded = found.filter.decoded if number == 0 else decoded
        between = found.filter.encoded
    return _Elements([*codecs[:at], *codecs[at + 1 :]], decoded)


_SWAPPED = "iufcmM"
"""Kinds of dtypes that are read in either order of bytes."""


def _alike(one: np.dtype, other: np.dtype) -> bool:
    """Return whether dtypes are equal except for the order of bytes."""
    return one.newbyteorder("=") == other.newbyteorder("=")


def _chain_of(codecs: Sequence[Mapping[str, Any]]) -> Chain | None:
    """Return how codecs are undone; None if one of them is not known here."""
    known = [filter_codec(one) or next(iter(chain_of([one["id"]]) or ()), None) for one in codecs]
    return None if None in known else tuple(codec for codec in reversed(known) if codec)


def _within_blosc(stored: Mapping[str, Any]) -> str:
    """Return the compressor that Blosc calls; empty if metadata name none."""
    given = ((codec.get("configuration") or codec).get("cname") for codec in codecs_of(stored))
    return next((str(name) for name in given if name), "")


def _shards(given: Sequence[Mapping[str, Any]], array: Any) -> Shards | None:
    """Return how shards are laid out; None if they or their index are not as Zarr makes them."""
    configuration = given[0]["configuration"]
    index = _elements_of_format_3(configuration["index_codecs"], _INDEX)
    if len(given) > 1 or index is None or index.dtype != _INDEX:
        return None
    codecs = tuple(one["id"] for one in index.codecs)
    if codecs not in ((), ("crc32c",)):
        return None
    chain = chain_of(codecs)
    assert chain is not None
    shape = tuple(a // b for a, b in zip(array.shards, array.chunks, strict=True))
    return Shards(shape, chain, configuration.get("index_location", "end") == "end")
