"""Opens the arrays of a Zarr group, and the groups above an array.

Each is opened by its own metadata. Consolidated metadata are a hint: they were true when they were
written. Since then arrays may have been appended to, added, removed, or given other attributes; and
one that zarr cannot open keeps it from opening the whole group.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import zarr
from zarr.buffer import default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import ObjectStore

from chunkfold.settings import StorageOptions
from chunkfold.sources.zarr_arrays import AnyArray
from chunkfold.stores.addresses import last_of, located, neighbour_address
from chunkfold.stores.guarded_stores import METADATA, careful
from chunkfold.stores.remote import RemoteObjects

_AT_ONCE = 32
"""Members that are opened at the same time: most of it is waiting for a store."""
_FARTHEST = 2
"""Groups above an array that may name it: as `scale0/image`."""


@dataclass(frozen=True)
class Member:
    """An array of a group, or what keeps one from being opened."""

    path: str
    """Within the group."""
    found: AnyArray | Exception | None
    """None if there is nothing any more where consolidated metadata name an array."""


def open_as_it_is(store: Any, path: str = "", zarr_format: Any = None) -> AnyArray | zarr.Group:
    """Open an array or a group by its own metadata.

    Raises
    ------
    Exception
        Whatever zarr raises.
    """
    store = careful(store)
    return zarr.open(store, path=path, mode="r", zarr_format=zarr_format, use_consolidated=False)


def members_of(group: zarr.Group) -> list[Member]:
    """Open every array of a group, at whatever depth, in the order of their paths.

    Stores that cannot be listed, as plain web servers, have those that consolidated metadata name.

    Raises
    ------
    Exception
        Whatever keeps the group from being listed, where nothing says what is in it.
    """
    named = _named(group)
    with ThreadPoolExecutor(_AT_ONCE, "chunkfold-open") as pool:
        found, opened = {"": group}, dict[str, Any]()
        while found:
            try:
                paths = [path for at in found for path in _below(group, at)]
            except Exception:
                if not named:
                    raise
                paths = sorted(named - set(opened))
            nodes = zip(paths, pool.map(lambda path: _opened(group, path), paths), strict=True)
            level = {path: node for path, node in nodes if node is not None}
            opened |= {path: node for path, node in level.items() if path not in opened}
            groups = {path: node for path, node in level.items() if isinstance(node, zarr.Group)}
            found = {path: one for path, one in groups.items() if not _leads_back(group, path)}
    arrays = {path: node for path, node in opened.items() if not isinstance(node, zarr.Group)}
    gone = dict.fromkeys(named - set(opened))
    return [Member(path, found) for path, found in sorted((gone | arrays).items())]


def _leads_back(group: zarr.Group, path: str) -> bool:
    """Return True if the folder of a group in a group is one of those above it, by a link."""
    root = getattr(group.store, "root", None)
    if root is None:
        return False
    try:
        place = Path(root, group.path)
        return any((place / path).samefile(place / one) for one in PurePosixPath(path).parents)
    except (OSError, TypeError):
        return False


def _opened(group: zarr.Group, path: str) -> AnyArray | zarr.Group | Exception | None:
    """Open a member; None if there is none, as of a README beside arrays."""
    within = "/".join(part for part in (group.path, path) if part)
    try:
        return open_as_it_is(group.store, within, group.metadata.zarr_format)
    except FileNotFoundError as error:
        third = group.metadata.zarr_format == 3
        named = f"{within}/zarr.json" if third else f"{within}/.zarray"
        return error if sync(group.store.exists(named)) else None
    except Exception as error:  # noqa: BLE001 # told of this one: others are well
        return error


def _below(group: zarr.Group, path: str) -> list[str]:
    """List what is in a group of a group; any of it may be a member."""
    store = group.store
    if isinstance(store, ObjectStore) and not RemoteObjects(store.store, "").listable:
        raise OSError(  # it would not say so at once
            "a web server does not list its arrays: name one, or consolidate the metadata"
        )
    within = "/".join(part for part in (group.path, path) if part)

    async def names() -> list[str]:
        return [name async for name in store.list_dir(within)]

    found = {name.strip("/") for name in sync(names())} - METADATA - {""}
    return [f"{path}/{name}" if path else name for name in sorted(found)]


def _named(group: zarr.Group) -> set[str]:
    """Return the paths of arrays that consolidated metadata name, if there are such."""
    try:
        return set(_arrays(consolidated_entries(group), third=group.metadata.zarr_format == 3))
    except (ValueError, AttributeError, TypeError, OSError):  # a hint that cannot be read is none
        return set()


def consolidated_entries(group: zarr.Group) -> dict[str, Any]:
    """Return the entries of a group's consolidated metadata, as they are stored; none without.

    Raises
    ------
    ValueError, AttributeError, TypeError, OSError
        If they cannot be read.
    """
    third = group.metadata.zarr_format == 3
    told = stored_json(group, "zarr.json" if third else ".zmetadata") or {}
    kept = (told.get("consolidated_metadata") or {}) if third else told
    return dict(kept.get("metadata") or {})


def stored_json(group: zarr.Group, key: str) -> Any:
    """Return the JSON of an object below a group; None if there is no such object.

    Raises
    ------
    ValueError, OSError
        If it cannot be read.
    """
    within = f"{group.path}/{key}" if group.path else key
    content = sync(group.store.get(within, default_buffer_prototype()))
    return None if content is None else json.loads(content.to_bytes())


def _arrays(entries: dict[str, Any], *, third: bool) -> Iterator[str]:
    for path, entry in entries.items():
        if third and entry.get("node_type") == "array":
            yield path.strip("/")
        elif not third and path.endswith("/.zarray"):
            yield path.removesuffix("/.zarray").strip("/")


def groups_above(
    array: AnyArray, address: str, options: StorageOptions
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the groups that an array is in, nearest first: its path there, and the attributes.

    `address` is where the array is, if that is known. It ends where no group can be opened.
    """
    inner, place = PurePosixPath(array.path).parts, PurePosixPath()
    for up in range(1, _FARTHEST + 1):
        if inner:
            place = PurePosixPath(*inner[-up:])
        else:
            place, address = last_of(address) / place, neighbour_address(address, "").rstrip("/")
        if up > len(inner) if inner else not address:
            return
        try:
            store, path = (
                (array.store, "/".join(inner[:-up])) if inner else located(address, options)
            )
            node = open_as_it_is(store, path)
        except Exception:  # noqa: BLE001 # whatever keeps it from being opened: most often none is there
            return
        if not isinstance(node, zarr.Group):
            return
        yield str(place), node.attrs.asdict()
