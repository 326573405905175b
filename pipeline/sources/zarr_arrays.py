"""zarr-python's arrays: opened anew, compared with what they are now."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, TypeAlias

import zarr
from zarr.storage import FsspecStore, LocalStore, MemoryStore, ObjectStore, WrapperStore, ZipStore

from chunkfold.decoding.codec_metadata import refuse_code
from chunkfold.errors import ChangedError, ClusterError, SourceError, runs_short
from chunkfold.http_denials import refusal
from chunkfold.stores.guarded_stores import CarefulZip, careful, folder_of
from chunkfold.stores.icechunk_store import Snapshot, as_snapshot
from chunkfold.stores.remote import message_of

# Of those who read nobody can help these; workers import this, too, before they open an array.
for _told in (
    ".* is not recognized as a component of a Zarr hierarchy",  # as a README or a script
    "Numcodecs codecs are not in the Zarr version 3 specification",
    "The (data type|codec) .* (does|is) not .* Zarr V3 specification",
    "Combining a `sharding_indexed` codec disables partial reads",
    "Consolidated metadata is currently not part in the Zarr format 3 specification",
):
    warnings.filterwarnings("ignore", message=_told)

_LOCAL_ZIP = (ZipStore, CarefulZip)
"""Archives on a local disk; those behind a network are subclasses."""
AnyArray: TypeAlias = "zarr.Array[Any]"


def object_shape_of(array: AnyArray) -> tuple[int, ...]:
    """Return the shape of what is stored as one object: a shard, or else a chunk."""
    return tuple(max(1, size) for size in array.shards or array.chunks)


def as_stored(array: AnyArray) -> AnyArray:
    """Open an array anew: one that was just made may say its dtype in other words."""
    given: Any = {"zarr_format": array.metadata.zarr_format}  # never guessed again
    store = as_snapshot(careful(array.store))
    return zarr.open_array(store=store, path=array.path, mode="r", **given)


def opened_again(array: AnyArray, name: str) -> AnyArray:
    """Return an array as it is now: others may have written since it was opened.

    Raises
    ------
    SourceError
        If there is no array any more.
    ClusterError
        If the machine has no files or memory left to look.
    """
    try:
        now = _anew(array, name)
        refuse_code(now, name)
    except ClusterError:
        raise
    except Exception as error:
        raise SourceError(f"{name}: cannot be opened again ({error})") from error
    return now


def check_unchanged(array: AnyArray, name: str) -> None:
    """Notice an array that was replaced or removed since it was opened; see `ZarrSource`.

    Chunks that are missing are fill by Zarr's rules: without its metadata they are nothing.
    """
    try:
        now = _anew(array, name)
    except ClusterError:
        raise
    except Exception as error:
        if refused := refusal(error):
            raise SourceError(f"{name}: {refused}") from error
        why = message_of(error)
        raise ChangedError(f"{name}: vanished while it was read ({why})") from error
    # As text: NaN and NaT, as fill values, equal nothing.
    if str(now.metadata.to_dict()) != str(array.metadata.to_dict()):
        raise ChangedError(f"{name}: its metadata changed while it was read; run it again")


def _anew(array: AnyArray, name: str) -> AnyArray:
    try:
        return as_stored(array)
    except Exception as error:
        if runs_short(error):
            raise ClusterError(f"{name}: cannot be opened again ({error})") from error
        raise


def is_remote(array: AnyArray) -> bool:
    """Tell whether reading an array is waiting for a network more than anything."""
    store = array.store
    if isinstance(store, Snapshot):
        return store.local is None
    return not isinstance(store, (LocalStore, MemoryStore)) and type(store) not in _LOCAL_ZIP


def local_path_of(array: AnyArray) -> str | None:
    """Return where an array is on a local disk; None if it is elsewhere."""
    return _local_path(array.store, array.path)


def _local_path(store: Any, path: str) -> str | None:
    if type(store) is ZipStore:
        return str(store.path)
    if isinstance(store, Snapshot):
        return store.local and f"{store.local}/{path}"
    return f"{str(store.root).rstrip('/')}/{path}" if isinstance(store, LocalStore) else None


def disk_path_of(array: AnyArray) -> str | None:
    """Return where an array is on a local disk, also if it is read as objects; None elsewhere."""
    store: Any = array.store
    while isinstance(store, WrapperStore):
        store = store._store
    if type(store) in _LOCAL_ZIP:
        return f"{store.path}/{array.path}"
    if isinstance(store, ObjectStore) and (folder := folder_of(store)) is not None:
        return str(folder / array.path)
    if isinstance(store, FsspecStore):
        files = store.fs
        while (inner := getattr(files, "sync_fs", getattr(files, "fs", None))) is not None:
            files = inner
        if {"file", "local"} & {*_protocols(files.protocol)}:
            return f"{store.path}/{array.path}"
    return _local_path(store, array.path)


def _protocols(given: str | Sequence[str]) -> Sequence[str]:
    return (given,) if isinstance(given, str) else given
