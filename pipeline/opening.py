"""Open what users name: arrays, and the arrays of groups."""

from __future__ import annotations

import itertools
import os
import re
import warnings
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import zarr
from zarr.storage import ObjectStore, ZipStore

from chunkfold.codecs import package_of
from chunkfold.decodable import why_not_decoded
from chunkfold.errors import DeviceError, SourceError
from chunkfold.kernels.dtypes import stored_name
from chunkfold.members import Member, members_of, open_as_it_is
from chunkfold.redaction import shown_address
from chunkfold.regular import read_regular, special
from chunkfold.remote import (
    MISSING,
    SCHEMES,
    hint,
    message_of,
    open_store,
    said_shortly,
)
from chunkfold.source import AnyArray, Source, as_stored

# A README or a script beside arrays is nobody's fault.
warnings.filterwarnings("ignore", message=".* is not recognized as a component of a Zarr hierarchy")


_NOT_FOR_US = ("PermissionDeniedError", "UnauthenticatedError")
"""What obstore calls it: of stores that may not be listed it is what nothing at all looks like."""


def is_zarr(folder: Path) -> bool:
    """Whether a folder is that of an array or a group."""
    return any((folder / name).exists() for name in ("zarr.json", ".zarray", ".zgroup"))


def open_source(source: Any) -> Source:
    """Open what a user names: a path or URL of a Zarr array, or a zarr.Array.

    A source that is open already is seen to be one that can be reduced, and not opened again.

    Raises
    ------
    SourceError
        If there is nothing there, it is a group (its arrays are named), it is no Zarr, or its
        dtype cannot be reduced.
    """
    found = source if isinstance(source, Source) else _array(*_named(source))
    if isinstance(source, (str, os.PathLike)):
        found = replace(found, address=os.path.expanduser(os.fspath(source)))  # noqa: PTH111
    try:
        stored_name(found.dtype)
    except (DeviceError, TypeError) as error:
        raise SourceError(f"{found.name}: {error}") from None
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


def open_each(source: Any) -> list[Source | Unopened]:
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
        return [Source(node, name)]
    try:
        found = _arrays_in(node, name)
    except Exception as error:
        raise SourceError(f"{name}: cannot be listed ({message_of(error)})") from error
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
    try:
        node = _beside(source, name)
    except Exception as error:
        if isinstance(error, OSError) or type(error).__name__ in _NOT_FOR_US:
            return None
        raise SourceError(_not_installed(error) or _said(error)) from error
    if not isinstance(node, zarr.Array):
        return None
    if reason := why_not_decoded(node):
        raise SourceError(f"it is not decoded: {reason}")
    return node


def _beside(source: Source, name: str) -> AnyArray | zarr.Group | None:
    array, address = source.array, source.local_path or source.address or ""
    if array.path:
        return open_as_it_is(array.store, str(PurePosixPath(array.path).parent / name))
    folder, slash, _ = address.rstrip("/").rpartition("/")
    return open_as_it_is(_store(f"{folder}{slash}{name}")) if folder else None


def open_node(source: Any) -> AnyArray | zarr.Group:
    """Open a Zarr array or group as zarr has it.

    Raises
    ------
    SourceError
        If there is nothing there, or it is no Zarr.
    """
    return _named(source)[0]


def _array(node: AnyArray | zarr.Group, name: str) -> Source:
    if isinstance(node, zarr.Group):
        raise SourceError(f"{name}: is a Zarr group, not an array; {_inside(node, name)}")
    return Source(node, name)


def _arrays_in(group: zarr.Group, name: str) -> list[Source | Unopened]:
    """Return the arrays of a group, at whatever depth, in the order of their paths."""
    return [_member(one, f"{name.rstrip('/')}/{one.path}") for one in members_of(group)]


def _member(member: Member, name: str) -> Source | Unopened:
    if isinstance(member.found, zarr.Array):
        try:
            return Source(member.found, name)
        except SourceError as refused:
            return Unopened(name, refused)
    if member.found is None:
        gone = SourceError(f"{name}: is gone, but the consolidated metadata of its group name it")
        return Unopened(name, gone, gone=True)
    error = SourceError(f"{name}: {_not_installed(member.found) or _said(member.found)}")
    error.__cause__ = member.found
    return Unopened(name, error)


def _said(error: Exception) -> str:
    return f"cannot be opened ({type(error).__name__}: {message_of(error)})"


def _not_installed(error: Exception) -> str:
    """Say which codec is missing and where it is from, if that is what an error is about."""
    missing = re.search(r"codec[^']*'+([\w.]+)'", str(error))
    if type(error).__name__ != "UnknownCodecError" or not missing:
        return ""
    return f"its codec {missing[1]!r} is not installed; {package_of(missing[1])}"


def _named(source: Any) -> tuple[AnyArray | zarr.Group, str]:
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
        return _opened(address, name), name
    raise SourceError(
        f"a source is a path or URL of a Zarr array or a zarr.Array, not {type(source).__name__}: "
        "name the store that it was read from, as in 'store.zarr/air'"
    )


def _opened(address: str, name: str) -> AnyArray | zarr.Group:
    """Open an array or a group; `name` is what messages call its address."""
    local = "://" not in address and "::" not in address
    try:
        if local and not Path(name).exists():
            raise SourceError(f"{name}: no such path{_nearest(Path(name))}")
        return open_as_it_is(_store(address))
    except SourceError:
        raise
    except ImportError as error:
        raise SourceError(f"{name}: {MISSING.format(error)}") from error
    except Exception as error:
        if codec := _not_installed(error):
            raise SourceError(f"{name}: {codec}") from error
        if local and (kind := _kind_of_file(Path(name))):
            raise SourceError(f"{name}: {kind}") from error
        if local and isinstance(error, FileNotFoundError) and Path(name).is_dir():
            raise SourceError(
                f"{name}: a folder, but not a Zarr array or group{_stores_in(Path(name))}"
            ) from error
        message = message_of(error)
        what = "not a Zarr array or group" if local else "cannot be opened as a Zarr array"
        raise SourceError(
            f"{name}: {what} ({type(error).__name__}: {message})"
            + hint(address.partition("://")[0], message)
        ) from error


def _store(address: str) -> Any:
    """Return what zarr is to open: a store, or the name of one that it knows how to open."""
    scheme, found, _ = address.partition("://")
    if found and "::" not in address and scheme.lower() in SCHEMES:
        with said_shortly():
            return ObjectStore(open_store(address), read_only=True)
    return ZipStore(address) if address.endswith(".zip") else address


def _stores_in(folder: Path) -> str:
    """Name what there is in a folder that could have been meant, as far as it may be looked at."""
    try:
        paths = sorted(itertools.islice(folder.iterdir(), 1000))
        named = ", ".join([str(path) for path in paths if is_zarr(path)][:20])
    except OSError:
        return ""
    return f", though these in it are: {named}" if named else ""


def _kind_of_file(path: Path) -> str:
    """Say what a file is, if it is one that can be read."""
    if kind := special(path):
        return f"{kind}, not a Zarr array or group"
    try:
        begins = read_regular(str(path), stop=8)
    except OSError:
        return ""
    if begins.startswith((b"\x89HDF", b"CDF")):
        return (
            "a NetCDF or HDF5 file, not a Zarr array or group; "
            "xarray.open_dataset(...).to_zarr(...) makes a Zarr of it"
        )
    return "a file, not a Zarr array or group, which is a folder"


def _nearest(path: Path) -> str:
    """Say how far a path that does not exist can be followed."""
    parent = next((p for p in path.parents if p.exists()), None)
    if parent is None or parent in (Path(), Path("/")):
        return ""
    if kind := _kind_of_file(parent):
        return f" ({parent} is {kind})"
    try:
        node = open_as_it_is(str(parent))
    except Exception:  # noqa: BLE001 # a hint, for whatever the parent is
        return f" ({parent} exists)"
    if isinstance(node, zarr.Array):
        return f" ({parent} is an array)"
    return f" ({parent} is a Zarr group; {_inside(node, str(parent))})"


def _inside(group: zarr.Group, name: str) -> str:
    try:
        arrays = [one.path for one in members_of(group) if one.found is not None]
    except Exception as error:  # noqa: BLE001 # plain web servers do not list
        return f"name one of its arrays: it cannot be listed ({message_of(error)})"
    if not arrays:
        return "there are no arrays in it"
    shown = ", ".join(f"{name.rstrip('/')}/{path}" for path in arrays[:20])
    more = f" and {len(arrays) - 20} more" if len(arrays) > 20 else ""
    return f"its arrays: {shown}{more}"
