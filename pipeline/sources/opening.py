"""Open what users name: arrays, and the arrays of groups."""

from __future__ import annotations

import itertools
import os
import re
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import zarr

from chunkfold.decoding.codec_metadata import unknown_codec, why_undecodable
from chunkfold.decoding.decodable import why_not_decoded
from chunkfold.errors import DeviceError, PlanError, SourceError
from chunkfold.kernels.dtypes import stored_name
from chunkfold.redaction import shown_address, without_secrets
from chunkfold.refusals import denial
from chunkfold.settings import StorageOptions
from chunkfold.sources.array_source import array_source
from chunkfold.sources.dask_source import dask_source, is_dask
from chunkfold.sources.group_members import Member, members_of, open_as_it_is
from chunkfold.sources.source import Source
from chunkfold.sources.zarr_source import AnyArray, ZarrSource, as_stored
from chunkfold.stores.addresses import (
    NO_OPTIONS,
    Folder,
    beside,
    local_path,
    located,
    on_disk,
    within,
)
from chunkfold.stores.regular_files import special
from chunkfold.stores.remote import hint, message_of, missing_of, nothing_at

_LOOKED_AT = 4096
"""Bytes at a file's beginning that tell what it is."""
_REFERENCES = re.compile(rb'\s*\{.*"(refs|\.zgroup|\.zattrs|zarr\.json)"\s*:', re.DOTALL)
"""How references begin as kerchunk and VirtualiZarr write them."""


_NOT_FOR_US = ("PermissionDeniedError", "UnauthenticatedError")
"""What obstore calls it: of stores that may not be listed it is what nothing at all looks like."""


def is_zarr(folder: Folder) -> bool:
    """Whether a folder is that of an array or a group."""
    return any((folder / name).exists() for name in ("zarr.json", ".zarray", ".zgroup"))


def open_source(source: Any, options: StorageOptions = NO_OPTIONS) -> Source:
    """Open what a user gives, if it can be reduced.

    Paths and URLs of Zarr arrays, `zarr.Array`s, NumPy's arrays and all that has their interface,
    Dask's arrays, and whatever has a shape, a dtype and regions, as h5py's datasets. A source that
    is open already is not opened again. `options` are `storage_options` as `chunkfold.reduce` has
    them.

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


def open_any(source: Any, options: StorageOptions = NO_OPTIONS) -> Source:
    """Open as `open_source` does what need not be of a dtype that can be reduced.

    Raises
    ------
    SourceError
        As `open_source`.
    """
    if isinstance(source, Source) and not isinstance(source, ZarrSource):
        return source
    if not isinstance(source, (str, os.PathLike, zarr.Array, zarr.Group, ZarrSource)):
        return dask_source(source) if is_dask(source) else array_source(source)
    return open_zarr(source, options)


def open_zarr(source: Any, options: StorageOptions = NO_OPTIONS) -> ZarrSource:
    """Open a Zarr array, of whatever dtype: its path or URL, or zarr's array.

    Raises
    ------
    SourceError
        As `open_source`.
    """
    found = source if isinstance(source, ZarrSource) else _array(source, options)
    if isinstance(source, (str, os.PathLike)):
        address = os.path.expanduser(os.fspath(source))  # noqa: PTH111
        found = replace(found, address=address, options=dict(options))
    if why := why_undecodable(found.array.metadata.to_dict()):
        raise SourceError(f"{found.name}: {why}")
    return found


@dataclass(frozen=True)
class Unopened:
    """An array of a group that cannot be opened."""

    name: str
    """How messages call it."""
    error: SourceError
    """What keeps it from being opened."""
    gone: bool = False
    """Whether there is none any more, though consolidated metadata name it."""


def open_each(source: Any) -> list[ZarrSource | Unopened]:
    """Open every array of a group, in the order of their paths; or the one array that is named.

    Their dtypes need not be such as can be reduced: `open_source` of each tells. Each is what its
    own metadata say, whatever consolidated ones do.

    Raises
    ------
    SourceError
        If there is nothing there, it is no Zarr, it cannot be listed, or has no arrays.
    """
    node, name = _named(source)
    if isinstance(node, zarr.Array):
        return [ZarrSource(node, name)]
    try:
        found = _arrays_in(node, name)
    except Exception as error:
        why = unknown_codec(error) or message_of(error)
        raise SourceError(f"{name}: cannot be listed ({why})") from error
    if not found:
        raise SourceError(f"{name}: is a Zarr group without arrays")
    return found


def open_beside(source: Source, name: str) -> AnyArray | None:
    """Open an array of the group that a source is in; None if there is none of that name.

    Nobody named it: it is one only if all that can come of decoding it is data.

    Raises
    ------
    SourceError
        If something else is there, or it cannot be opened.
    """
    if not isinstance(source, ZarrSource):
        return None
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
    return node


def _beside(source: ZarrSource, name: str) -> AnyArray | zarr.Group | None:
    array, address = source.array, source.local_path or source.address or ""
    if array.path:
        return open_as_it_is(array.store, str(PurePosixPath(array.path).parent / name))
    if not (place := beside(address, name)):
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
        inside = _inside(node, None if isinstance(source, zarr.Group) else name)
        raise SourceError(f"{name}: is a Zarr group, not an array; {inside}")
    return ZarrSource(node, name)


def _arrays_in(group: zarr.Group, name: str) -> list[ZarrSource | Unopened]:
    """Return the arrays of a group, at whatever depth, in the order of their paths."""
    return [_member(one, within(name, one.path)) for one in members_of(group)]


def _member(member: Member, name: str) -> ZarrSource | Unopened:
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
            return as_stored(source), name
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
        if path is not None and on_disk(path) is None:
            raise SourceError(f"{name}: no such path{_nearest(path)}")
        store, inner = located(address, options)
        return open_as_it_is(store, inner)
    except (SourceError, PlanError):
        raise
    except ImportError as error:
        raise SourceError(f"{name}: {missing_of(error)}") from error
    except Exception as error:
        cause = getattr(store, "refused", None) or error
        raise SourceError(f"{name}: {_why_not(address, path, cause)}") from error


def _why_not(address: str, path: Path | None, error: Exception) -> str:
    """Say why nothing could be opened at an address, which is a local path or None."""
    if missing := unknown_codec(error):
        return missing
    found = None if path is None else on_disk(path)
    if path is not None and found is not None:
        if kind := _kind_of_file(path, found):
            return kind
        if found.is_dir() and not is_zarr(found):
            what = "an archive" if isinstance(found, zipfile.Path) and not found.at else "a folder"
            return f"{what}, but not a Zarr array or group{_stores_in(found, ', though')}"
    if told := denial(error):
        return without_secrets(told)
    if path is None and isinstance(error, FileNotFoundError):
        return nothing_at(address) or "there is no Zarr array or group"
    message = message_of(error)
    what = "cannot be opened as a Zarr array" if path is None else "not a Zarr array or group"
    return f"{what} ({type(error).__name__}: {message})" + hint(address, message)


def _stores_in(folder: Folder, lead: str) -> str:
    """Name what there is in a folder that could have been meant, as far as it may be looked at."""
    try:
        paths: list[Folder] = sorted(itertools.islice(folder.iterdir(), 1000), key=str)
        named = ", ".join([str(path).rstrip("/") for path in paths if is_zarr(path)][:20])
    except OSError:
        return ""
    return f"{lead} these in it are: {named}" if named else ""


def _kind_of_file(path: Path, found: Folder, inner: str = "") -> str:
    """Say what a file is, if it is one that can be read, and what the address of `inner` in it."""
    if kind := special(path):
        return f"{kind}, not a Zarr array or group"
    try:
        with found.open("rb") as file:
            begins = file.read(_LOOKED_AT)
    except (OSError, ValueError):
        return ""
    if begins.startswith((b"\x89HDF", b"CDF")):
        return (
            "a NetCDF or HDF5 file, not a Zarr array or group; "
            "xarray.open_dataset(...).to_zarr(...) makes a Zarr of it"
        )
    if begins.startswith(b"PK\x03\x04"):
        return "a zip archive that was cut, or is damaged otherwise; copy it again"
    if _REFERENCES.match(begins):
        return f"a file of references to chunks, whose address is reference://{inner}::{path}"
    return "a file, not a Zarr array or group, which is a folder"


def _nearest(path: Path) -> str:
    """Say how far a path that does not exist can be followed."""
    parent = next((p for p in path.parents if on_disk(p)), None)
    if parent is None or parent in (Path(), Path("/")):
        return ""
    found = on_disk(parent)
    assert found is not None
    if kind := _kind_of_file(parent, found, path.relative_to(parent).as_posix()):
        return f" ({parent} is {kind})"
    try:
        store, inner = located(str(parent))
        node = open_as_it_is(store, inner)
    except Exception:  # noqa: BLE001 # a hint, for whatever the parent is
        return f" ({parent} exists{_stores_in(found, ';')})"
    if isinstance(node, zarr.Array):
        return f" ({parent} is an array)"
    return f" ({parent} is a Zarr group; {_inside(node, str(parent))})"


def _inside(group: zarr.Group, name: str | None) -> str:
    """Name the arrays of a group; of one without an address as Python has them."""
    try:
        arrays = [one.path for one in members_of(group) if one.found is not None]
    except Exception as error:  # noqa: BLE001 # plain web servers do not list
        why = unknown_codec(error) or message_of(error)
        return f"name one of its arrays: it cannot be listed ({why})"
    if not arrays:
        return "there are no arrays in it"
    shown = ", ".join(within(name, path) if name else f"group[{path!r}]" for path in arrays[:20])
    more = f" and {len(arrays) - 20} more" if len(arrays) > 20 else ""
    return f"its arrays: {shown}{more}"
