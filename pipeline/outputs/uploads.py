"""Outputs in remote stores: seen to be possible by a small object, uploaded whole."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from chunkfold.errors import PlanError
from chunkfold.redaction import shown_address
from chunkfold.stores.obstore_clients import LISTED, open_store
from chunkfold.stores.remote import hint, message_of, missing_of, said_shortly

EXISTS = "exists; remove it, choose another, or overwrite it (overwrite=True)"
ROOT = "zarr.json"
"""The file that makes a folder a Zarr; it is uploaded last."""
MADE, PLACING = "made", "placing"
"""Objects of a run, below its own in `staging_of`: what it makes, and that it takes its place."""


def opened_folder(out: str) -> tuple[Any, str]:
    """Open the store of the folder that a remote output lies in; return it and the output's name.

    Raises
    ------
    PlanError
        If nothing can be written by such a URL.
    """
    scheme, _, rest = out.partition("://")
    folder, _, name = rest.rstrip("/").rpartition("/")
    if scheme.lower() not in LISTED:
        known = ", ".join(f"{one}://" for one in LISTED)
        raise PlanError(f"output {shown_address(out)}: outputs must be local, or of {known}")
    if not folder:
        raise PlanError(
            f"output {shown_address(out)} names no object: add a path after {shown_address(out)}"
        )
    try:
        with said_shortly():
            return open_store(f"{scheme}://{folder}"), name
    except ImportError as error:
        raise PlanError(f"output {shown_address(out)}: {missing_of(error)}") from error
    except OSError as error:
        raise unwritable(out, error) from error


def unwritable(out: str, error: Exception) -> PlanError:
    """Return what says that a store refuses an output, and why."""
    message = message_of(error)
    return PlanError(
        f"output {shown_address(out)} cannot be written: {message}" + hint(out, message)
    )


def check_remote(out: str, *, overwrite: bool) -> None:
    """Write a small object beside a remote output, and remove it again.

    Raises
    ------
    PlanError
        If that cannot be done, or the output exists and is not to be overwritten.
    """
    store, name = opened_folder(out)
    import obstore  # it is there: the store was opened by it

    probe = f".{name}.{uuid.uuid4().hex}"
    try:
        with said_shortly():
            there = [] if overwrite else objects_below(store, name)
            if there and half_placed(store, name, there):
                there = []
            if not there:
                obstore.put(store, probe, b"")
                obstore.delete(store, probe)
    except OSError as error:
        raise unwritable(out, error) from error
    if there:
        raise PlanError(f"output {shown_address(out)} {EXISTS}")


def objects_below(store: Any, name: str) -> list[str]:
    """Return the paths of an output's objects: itself, or those of its folder."""
    import obstore

    listed = [one["path"] for several in obstore.list(store, prefix=name) for one in several]
    try:
        obstore.head(store, name)
        listed.append(name)
    except FileNotFoundError:
        pass
    return listed


def staging_of(name: str) -> str:
    """Return where outputs of a name are in the making."""
    return f".{name}.staged"


def half_placed(store: Any, name: str, there: Iterable[str]) -> bool:
    """Return True if what is at an output's place is a part of one that was on its way there.

    Its run was killed then, and is gone on with, or removed, by the next one.
    """
    import obstore

    keys = {key.removeprefix(f"{name}/") for key in there}
    if not keys or ROOT in keys:
        return False
    for own in obstore.list_with_delimiter(store, staging_of(name))["common_prefixes"]:
        found = set(objects_below(store, own.rstrip("/")))
        if f"{own.rstrip('/')}/{PLACING}" in found:
            made = f"{own.rstrip('/')}/{MADE}/"
            if keys <= {key.removeprefix(made) for key in found}:
                return True
    return False


def upload(made: Path, out: str, *, overwrite: bool) -> None:
    """Upload a file, or a folder so that it is a Zarr once all of it is there.

    Raises
    ------
    PlanError
        If the store refuses it; what was uploaded of a folder is then removed.
    """
    import obstore

    store, name = opened_folder(out)
    files = [made] if made.is_file() else [path for path in made.rglob("*") if path.is_file()]
    keys = {file: "/".join((name, *file.relative_to(made).parts)) for file in files}
    files.sort(key=lambda file: (keys[file].endswith(f"/{ROOT}"), -keys[file].count("/")))
    try:
        with said_shortly():
            if overwrite and made.is_dir():
                # The root first: what is being removed is no Zarr any more.
                old = sorted(objects_below(store, name), key=lambda key: key != f"{name}/{ROOT}")
                for key in old:
                    obstore.delete(store, key)
            for file in files:
                obstore.put(store, keys[file], file)
    except BaseException as error:
        with suppress(Exception):
            if made.is_dir():
                obstore.delete(store, list(keys.values()))
        if isinstance(error, OSError):
            raise unwritable(out, error) from error
        raise
