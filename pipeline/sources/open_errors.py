"""Errors of opening: each says why nothing could be opened, and what could have been meant."""

from __future__ import annotations

import itertools
import os
import zipfile
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import zarr

from chunkfold.decoding.codec_metadata import unknown_codec
from chunkfold.errors import ChunkfoldError, ClusterError, SourceError, TargetError, runs_short
from chunkfold.http_denials import denial
from chunkfold.redaction import shown_address, without_secrets
from chunkfold.settings import retry_seconds
from chunkfold.sources.zarr_groups import members_of, open_as_it_is
from chunkfold.stores.addresses import Folder, is_packed, is_zarr, located, on_disk, within
from chunkfold.stores.h5_files import is_h5
from chunkfold.stores.icechunk_store import is_repository
from chunkfold.stores.references import are_references
from chunkfold.stores.regular_files import special
from chunkfold.stores.remote import hint, message_of, nothing_at
from chunkfold.stores.transient_faults import fault_of

_LOOKED_AT = 4096
"""Bytes at a file's beginning that tell what it is."""
P = ParamSpec("P")
T = TypeVar("T")


def why_not(address: str, path: Path | None, error: Exception) -> str:
    """Say why nothing could be opened at an address, which is a local path or None."""
    if missing := unknown_codec(error):
        return missing
    found = None if path is None else on_disk(path)
    if path is not None and found is None and isinstance(error, FileNotFoundError):
        return f"no such path{nearest(path)}"
    if path is not None and found is not None and not is_packed(path):
        if kind := _kind_of_file(path, found):
            return kind
        if found.is_dir() and not is_zarr(found):
            what = "an archive" if isinstance(found, zipfile.Path) and not found.at else "a folder"
            return f"{what}, but not a Zarr array or group{_stores_in(found, ', though')}"
    if told := denial(error):
        return without_secrets(told)
    if path is None and isinstance(error, FileNotFoundError):
        return nothing_at(address) or "no Zarr array or group is there"
    message = message_of(error)
    if path is None and fault_of(error) is not None:
        tried = f"{retry_seconds():.0f} s (chunkfold.remote.retry)"
        return f"its server did not answer within {tried}: {message}" + hint(address, message)
    what = "cannot be opened as a Zarr array" if path is None else "not a Zarr array or group"
    return f"{what} ({type(error).__name__}: {message})" + hint(address, message)


def _stores_in(folder: Folder, lead: str) -> str:
    """Name what there is in a folder that could have been meant, as far as it may be looked at."""
    try:
        paths: list[Folder] = sorted(itertools.islice(folder.iterdir(), 1000), key=str)
        named = ", ".join([str(path).rstrip("/") for path in paths if is_store(path)][:20])
    except OSError:
        return ""
    return f"{lead} these in it are: {named}" if named else ""


def is_store(path: Folder) -> bool:
    """Return True if a path has a store of arrays."""
    if is_zarr(path) or not isinstance(path, Path):
        return is_zarr(path)
    return are_references(path) or is_repository(path) or is_h5(path)


def _kind_of_file(path: Path, found: Folder) -> str:
    """Say what a file is, if it is one that can be read."""
    if kind := special(path):
        return f"{kind}, not a Zarr array or group"
    try:
        with found.open("rb") as file:
            begins = file.read(_LOOKED_AT)
    except (OSError, ValueError):
        return ""
    if begins.startswith(b"CDF"):
        return (
            "a NetCDF file of the classic format, not a Zarr array or group; "
            "xarray.open_dataset(...).to_zarr(...) makes a Zarr of it"
        )
    if begins.startswith(b"PK\x03\x04"):
        return "a zip archive that was cut, or is damaged otherwise; copy it again"
    return "a file, not a Zarr array or group, which is a folder"


def nearest(path: Path) -> str:
    """Say how far a path that does not exist can be followed."""
    parent = next((p for p in path.parents if on_disk(p)), None)
    if parent is None or parent in (Path(), Path("/")):
        return ""
    found = on_disk(parent)
    assert found is not None
    if not is_packed(parent) and (kind := _kind_of_file(parent, found)):
        return f" ({parent} is {kind})"
    try:
        store, inner = located(str(parent))
        node = open_as_it_is(store, inner)
    except Exception:  # noqa: BLE001 # a hint, for whatever the parent is
        return f" ({parent} exists{_stores_in(found, ';')})"
    if isinstance(node, zarr.Array):
        return f" ({parent} is an array)"
    return f" ({parent} is a Zarr group; {inside(node, str(parent))})"


def inside(group: zarr.Group, name: str | None) -> str:
    """Name the arrays of a group; of one without an address as Python has them."""
    try:
        arrays = [one.path for one in members_of(group) if one.found is not None]
    except Exception as error:  # noqa: BLE001 # plain web servers do not list
        why = unknown_codec(error) or message_of(error)
        return f"name one of its arrays: it cannot be listed ({why})"
    if not arrays:
        return "it has no arrays"
    shown = ", ".join(within(name, path) if name else f"group[{path!r}]" for path in arrays[:20])
    more = f" and {len(arrays) - 20} more" if len(arrays) > 20 else ""
    return f"its arrays: {shown}{more}"


def in_one_sentence(opening: Callable[P, T]) -> Callable[P, T]:
    """Wrap what opens a source, its first argument: what it raises names that, in one sentence.

    Libraries raise what they like of metadata that somebody else wrote.
    """

    @wraps(opening)
    def wrapped(*given: P.args, **more: P.kwargs) -> T:
        name = _name_of(given[0] if given else None)
        try:
            return opening(*given, **more)
        except (SourceError, TargetError) as error:
            if not name or name in str(error) or type(error) not in (SourceError, TargetError):
                raise
            raise type(error)(f"{name}: {error}") from error
        except (ChunkfoldError, ImportError, Warning):  # a warning may be an error: -W error
            raise
        except Exception as error:
            said = f"{name or 'the source'}: cannot be opened: its metadata, or their file, "
            said += f"are not as readers expect ({type(error).__name__}: "
            kind = ClusterError if runs_short(error) else SourceError
            raise kind(f"{said}{message_of(error)})") from error

    return wrapped


def _name_of(source: Any) -> str:
    return shown_address(os.fspath(source)) if isinstance(source, (str, os.PathLike)) else ""
