"""Decide whether an array's chunks can be read without zarr, and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from zarr.storage import LocalStore, ObjectStore

from chunkfold.decoding.codec_metadata import codecs_of
from chunkfold.decoding.codecs import chain_of
from chunkfold.decoding.direct import Direct
from chunkfold.decoding.shards import Shards
from chunkfold.stores.expected import UNTOLD
from chunkfold.stores.guarded_stores import CarefulFiles, CarefulObjects
from chunkfold.stores.object_answers import server_time
from chunkfold.stores.objects import LocalObjects
from chunkfold.stores.remote import RemoteObjects
from chunkfold.stores.remote_store import RemoteStore
from chunkfold.stores.requests import flight


def direct_of(array: Any, planned: int = UNTOLD) -> Direct | None:
    """Return how an array is read without zarr; None if store or codecs are not plain enough.

    `planned` is when the run was planned, by the clock of its server.
    """
    objects = objects_of(array, planned)
    if objects is None:
        return None
    stored, shards = array.metadata.to_dict(), None
    if stored["zarr_format"] == 2:
        codecs = _codecs_of_format_2(stored)
    else:
        given = stored["codecs"]
        if given[0]["name"] == "sharding_indexed":
            shards = _shards(given, array)
            if shards is None:
                return None
            given = given[0]["configuration"]["codecs"]
        codecs = _codecs_behind_bytes(given, np.dtype(array.dtype))
    chain = None if codecs is None else chain_of(codecs)
    if codecs is None or chain is None:
        return None
    return Direct(
        objects=objects,
        key=array.metadata.encode_chunk_key,
        shape=tuple(array.chunks),
        dtype=np.dtype(array.dtype),
        fill=fill_value(array),
        chain=chain,
        codecs=codecs,
        shards=shards,
        within_blosc=_within_blosc(stored),
    )


def objects_of(array: Any, planned: int = UNTOLD) -> LocalObjects | RemoteObjects | None:
    """Return where an array's objects are; None if only zarr can read them. As `direct_of`."""
    if type(array.store) in (LocalStore, CarefulFiles):
        return LocalObjects(str(Path(array.store.root) / array.path))
    if type(array.store) is RemoteStore:
        store = array.store
        return RemoteObjects(store.store, array.path, store.absent, store.hasty, planned)
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


def _codecs_of_format_2(stored: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the names of the codecs; None if bytes behind them are not plain elements."""
    if stored["order"] != "C" or stored["filters"]:
        return None
    compressor = stored["compressor"]
    return () if compressor is None else (compressor["id"],)


def _codecs_behind_bytes(
    given: Sequence[Mapping[str, Any]], dtype: np.dtype
) -> tuple[str, ...] | None:
    """Return the names of the codecs; None if bytes behind them are not elements of `dtype`."""
    if given[0]["name"] != "bytes":
        return None
    order = given[0].get("configuration", {}).get("endian")
    if order is not None and dtype.newbyteorder(order[0]) != dtype:
        return None
    return tuple(codec["name"] for codec in given[1:])


def _within_blosc(stored: Mapping[str, Any]) -> str:
    """Return the compressor that Blosc calls; empty if metadata name none."""
    given = ((codec.get("configuration") or codec).get("cname") for codec in codecs_of(stored))
    return next((str(name) for name in given if name), "")


def _shards(given: Sequence[Mapping[str, Any]], array: Any) -> Shards | None:
    """Return how shards are laid out; None if they or their index are not as Zarr makes them."""
    configuration = given[0]["configuration"]
    codecs = _codecs_behind_bytes(configuration["index_codecs"], np.dtype("<u8"))
    if len(given) > 1 or codecs not in ((), ("crc32c",)):
        return None
    chain = chain_of(codecs)
    assert chain is not None
    shape = tuple(a // b for a, b in zip(array.shards, array.chunks, strict=True))
    return Shards(shape, chain, configuration.get("index_location", "end") == "end")
