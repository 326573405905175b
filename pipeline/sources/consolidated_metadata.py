"""Consolidated metadata of a Zarr group: written, and compared with those of its members."""

from __future__ import annotations

import json
import reprlib
import warnings
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import zarr
from zarr.storage import StorePath

from chunkfold.sources.opening import open_node
from chunkfold.sources.zarr_groups import consolidated_entries, stored_json

_AT_ONCE = 32
"""Members that are looked at at the same time: most of it is waiting for a store."""
_MOST_TOLD = 3


def consolidate(made: Path | StorePath) -> None:
    """Consolidate the metadata of a new Zarr group, for readers that look there first."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the third format's specification does not know of it yet
        zarr.consolidate_metadata(str(made) if isinstance(made, Path) else made)


def consolidated_differences(source: Any, arrays: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the members of which consolidated metadata say something else, and what that is.

    `source` is as `open_node` takes it, `arrays` are the paths of those that are there. Nothing is
    yielded of an array, of a group without consolidated metadata, nor of members that are gone.
    """
    group = open_node(source)
    if not isinstance(group, zarr.Group):
        return
    try:
        entries = consolidated_entries(group)
    except (ValueError, AttributeError, TypeError, OSError) as error:
        yield "", f"its consolidated metadata cannot be read ({type(error).__name__}: {error})"
        return
    third = group.metadata.zarr_format == 3
    if not entries:
        return
    keys = [f"{path}/zarr.json".strip("/") for path in entries] if third else list(entries)
    members = [key.rpartition("/")[0] for key in keys]
    with ThreadPoolExecutor(_AT_ONCE, "chunkfold-consolidated") as pool:
        own = list(pool.map(lambda key: _own(group, key), keys))
    there = {member for member, now in zip(members, own, strict=True) if now is not None}
    for member, entry, now in zip(members, entries.values(), own, strict=True):
        # Whoever lists the group says what is gone.
        if member in there and (told := ", ".join(_differences(_plain(entry), _plain(now or {})))):
            yield member, told
    for path in arrays:
        if path and path not in members:
            yield path, "is not in the consolidated metadata: readers that use them do not see it"


def _own(group: zarr.Group, key: str) -> Any:
    try:
        return stored_json(group, key)
    except (ValueError, OSError):  # opening it says so
        return None


def _plain(entry: Any) -> Mapping[str, Any]:
    """Leave out of an entry what says nothing."""
    if not isinstance(entry, Mapping):
        return {"": entry}
    told = {name: one for name, one in entry.items() if name != "consolidated_metadata"}
    return {name: one for name, one in told.items() if one not in (None, {}, [])}


def _differences(entry: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Say where two members of metadata differ, each with both sides."""
    one, other = _flat(entry), _flat(now)
    names = [name for name in {**other, **one} if one.get(name) != other.get(name)]
    for name in names[:_MOST_TOLD]:
        yield f"{name} is {_said(other.get(name))}, but {_said(one.get(name))} consolidated"
    if len(names) > _MOST_TOLD:
        yield f"and {len(names) - _MOST_TOLD} more"


def _flat(entry: Mapping[str, Any]) -> dict[str, str]:
    """Return texts of parts of metadata; those of attributes one by one."""
    attributes = entry.get("attributes")
    parts = dict(entry)
    if isinstance(attributes, Mapping):
        del parts["attributes"]
        parts |= {f"attribute {name}": value for name, value in attributes.items()}
    return {str(name): json.dumps(value, sort_keys=True) for name, value in parts.items()}


def _said(text: str | None) -> str:
    return "nothing" if text is None else reprlib.repr(text)[1:-1]
