"""Open what users name: arrays, and the arrays of groups."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import zarr

from chunkfold.decoding.codec_metadata import unknown_codec, why_not_decoded, why_undecodable
from chunkfold.errors import DeviceError, PlanError, SourceError, UnreachableError
from chunkfold.kernels.dtypes import stored_name
from chunkfold.redaction import shown_address
from chunkfold.settings import StorageOptions, allowed_targets, image_level
from chunkfold.sources.array_source import array_source
from chunkfold.sources.bounded_reads import bounded
from chunkfold.sources.dask_source import dask_source, is_dask
from chunkfold.sources.h5_opening import (
    given_dataset,
    neighbour_dataset,
    open_dataset,
    open_datasets,
)
from chunkfold.sources.h5_source import H5Source
from chunkfold.sources.ome_zarr import level_path
from chunkfold.sources.open_errors import in_one_sentence, inside, nearest, why_not
from chunkfold.sources.source import Source
from chunkfold.sources.zarr_arrays import AnyArray, as_stored
from chunkfold.sources.zarr_groups import Member, members_of, open_as_it_is
from chunkfold.sources.zarr_source import ZarrSource
from chunkfold.stores.addresses import (
    NO_OPTIONS,
    is_packed,
    local_path,
    located,
    neighbour_address,
    on_disk,
    refuse_options,
    within,
)
from chunkfold.stores.h5_files import h5_at
from chunkfold.stores.icechunk_store import Snapshot
from chunkfold.stores.remote import message_of, missing_of
from chunkfold.stores.transient_faults import fault_of

_NOT_FOR_US = ("PermissionDeniedError", "UnauthenticatedError")
"""obstore's errors for a missing object in a store that forbids listing."""


def open_source(source: Any, options: StorageOptions = NO_OPTIONS) -> Source:
    """Open what a user gives, if it can be reduced.

    Paths and URLs of Zarr arrays, of what is in archives, references or repositories of Icechunk,
    and paths into HDF5 files; `zarr.Array`s, h5py's datasets, NumPy's arrays and all that has their
    interface, Dask's arrays, and whatever has a shape, a dtype and regions. A source that is open
    already is not opened again. `options` are `storage_options` as `chunkfold.reduce` has them.

    Raises
    ------
    SourceError
        If there is nothing there, it is a group (its arrays are named), it is no array, or its
        dtype cannot be reduced, or a codec of it is not installed.
    """
    found = open_any(source, options)
    check_dtype(found)
    return found


def check_dtype(source: Source) -> None:
    """Refuse a source whose dtype cannot be reduced.

    Raises
    ------
    SourceError
        If it cannot.
    """
    try:
        stored_name(source.dtype)
    except (DeviceError, TypeError) as error:
        raise SourceError(f"{source.name}: {error}") from None


@in_one_sentence
def open_any(source: Any, options: StorageOptions = NO_OPTIONS) -> Source:
    """Open as `open_source` does what need not be of a dtype that can be reduced.

    Raises
    ------
    SourceError
        As `open_source`.
    """
    if isinstance(source, Source) and not isinstance(source, ZarrSource):
        return source
    if isinstance(source, (str, os.PathLike)) and (found := _in_h5(source, options)):
        return open_dataset(*found, allowed_targets(options))
    if isinstance(source, (str, os.PathLike, zarr.Array, zarr.Group, ZarrSource)):
        return open_zarr(source, options)
    if is_dask(source):
        return dask_source(source)
    return given_dataset(source, allowed_targets(options)) or array_source(source)


def _in_h5(
    source: str | os.PathLike[str], options: StorageOptions = NO_OPTIONS
) -> tuple[Path, str, str] | None:
    """Return the HDF5 file that an address leads into, the path there, and what it is called.

    None if it leads into none.
    """
    address = os.path.expanduser(os.fspath(source))  # noqa: PTH111 # it may be a URL
    path = local_path(address)
    found = None if path is None else h5_at(path)
    if found is None:
        return None
    refuse_options(address, options)
    return *found, shown_address(address)


def open_zarr(source: Any, options: StorageOptions = NO_OPTIONS) -> ZarrSource:
    """Open a Zarr array, of whatever dtype: its path or URL, or zarr's array.

    Raises
    ------
    SourceError
        As `open_source`.
    """
    found = source if isinstance(source, ZarrSource) else _array(source, options)
    if isinstance(source, (str, os.PathLike)) and found.address is None:
        address = os.path.expanduser(os.fspath(source))  # noqa: PTH111
        found = replace(found, address=address, options=dict(options))
    if why := why_undecodable(found.array.metadata.to_dict()):
        raise SourceError(f"{found.name}: {why}")
    return found


@dataclass(frozen=True)
class Unopened:
    """An array of a group that cannot be opened."""

    name: str
    """The name that messages use."""
    error: SourceError
    """The error that keeps it from being opened."""
    gone: bool = False
    """True if it was removed, though consolidated metadata name it."""


@in_one_sentence
def open_each(source: Any, options: StorageOptions = NO_OPTIONS) -> list[Source | Unopened]:
    """Open every array of a group, in the order of their paths; or the one array that is named.

    Their dtypes need not be such as can be reduced: `open_source` of each tells. Each is what its
    own metadata say, whatever consolidated ones do.

    Raises
    ------
    SourceError
        If there is nothing there, it is no Zarr, it cannot be listed, or has no arrays.
    """
    if isinstance(source, (str, os.PathLike)) and (file := _in_h5(source, options)):
        each = open_datasets(*file, allowed_targets(options))
        return [one if isinstance(one, Source) else Unopened(*one) for one in each]
    if h5 := given_dataset(source, allowed_targets(options)):
        return [h5]
    node, name = _named(source, options)
    if isinstance(node, zarr.Array):
        return [ZarrSource(node, name)]
    if image_level() is not None:
        return [open_zarr(source, options)]
    try:
        found = [_member(one, within(name, one.path)) for one in members_of(node)]
    except Exception as error:
        why = unknown_codec(error) or message_of(error)
        raise SourceError(f"{name}: cannot be listed ({why})") from error
    if not found:
        raise SourceError(f"{name}: is a Zarr group without arrays")
    return found


def open_neighbour(source: Source, name: str) -> AnyArray | None:
    """Open an array of the group that a source is in; None if there is none of that name.

    Nobody named it: it is one only if all that can come of decoding it is data.

    Raises
    ------
    SourceError
        If something else is there, or it cannot be opened.
    """
    try:
        node = _beside(source, name)
    except Exception as error:
        if isinstance(error, OSError) or type(error).__name__ in _NOT_FOR_US:
            return None
        raise SourceError(unknown_codec(error) or _said(error)) from error
    if not isinstance(node, zarr.Array):
        return None
    if reason := why_not_decoded(node):
        raise SourceError(f"it is not decoded: {reason}")
    return bounded(node)


def _beside(source: Source, name: str) -> AnyArray | zarr.Group | None:
    if isinstance(source, H5Source):
        return neighbour_dataset(source, name)
    if not isinstance(source, ZarrSource):
        return None
    array, address = source.array, source.local_path or source.address or ""
    if array.path:
        return open_as_it_is(array.store, str(PurePosixPath(array.path).parent / name))
    if not (place := neighbour_address(address, name)):
        return None
    store, inner = located(place, source.options)
    return open_as_it_is(store, inner)


def open_node(source: Any) -> AnyArray | zarr.Group:
    """Open a Zarr array or group as zarr has it.

    Raises
    ------
    SourceError
        If there is nothing there, or it is no Zarr.
    """
    return _named(source)[0]


def _array(source: Any, options: StorageOptions) -> ZarrSource:
    node, name = _named(source, options)
    if isinstance(node, zarr.Group):
        own = isinstance(source, zarr.Group)
        if path := level_path(name, node.attrs.asdict(), image_level()):
            return open_zarr(node[path] if own else within(os.fspath(source), path), options)
        told = inside(node, None if own else name)
        raise SourceError(f"{name}: is a Zarr group, not an array; {told}")
    return ZarrSource(node, name)


def _member(member: Member, name: str) -> Source | Unopened:
    if isinstance(member.found, zarr.Array):
        try:
            return ZarrSource(member.found, name)
        except SourceError as refused:
            return Unopened(name, refused)
    if member.found is None:
        gone = SourceError(f"{name}: is gone, but the consolidated metadata of its group name it")
        return Unopened(name, gone, gone=True)
    error = SourceError(f"{name}: {unknown_codec(member.found) or _said(member.found)}")
    error.__cause__ = member.found
    return Unopened(name, error)


def _said(error: Exception) -> str:
    if isinstance(error, SourceError):
        return str(error)
    return f"cannot be opened ({type(error).__name__}: {message_of(error)})"


def _named(source: Any, options: StorageOptions = NO_OPTIONS) -> tuple[AnyArray | zarr.Group, str]:
    """Open an array or a group; return what messages call it, too."""
    if isinstance(source, zarr.Group):
        return source, str(source.store_path)
    if isinstance(source, zarr.Array):
        name = str(source.store_path)
        try:
            found = as_stored(source)
            named = isinstance(
                found.store, Snapshot
            )  # Icechunk's own name is where it is in memory
            return found, str(found.store_path) if named else name
        except Exception as error:
            raise SourceError(f"{name}: cannot be opened again ({error})") from error
    if isinstance(source, (str, os.PathLike)):
        address = os.path.expanduser(os.fspath(source))  # noqa: PTH111 # it may be a URL
        name = shown_address(address)
        return _opened(address, name, options), name
    raise SourceError(
        f"a Zarr array or group is named by its path or URL, not by {type(source).__name__}: name "
        "the store that it was read from, as in 'store.zarr/air'"
    )


def _opened(address: str, name: str, options: StorageOptions) -> AnyArray | zarr.Group:
    """Open an array or a group; `name` is what messages call its address."""
    path, store = local_path(address), None
    try:
        if path is not None and on_disk(path) is None and not is_packed(path):
            raise SourceError(f"{name}: no such path{nearest(path)}")
        store, inner = located(address, options)
        return open_as_it_is(store, inner)
    except (SourceError, PlanError):
        raise
    except ImportError as error:
        raise SourceError(f"{name}: {missing_of(error)}") from error
    except Exception as error:
        cause = getattr(store, "refused", None) or error
        kind = SourceError if path is not None or fault_of(cause) is None else UnreachableError
        raise kind(f"{name}: {why_not(address, path, cause)}") from error
