"""Where results go: seen to be possible before the work starts, written whole or not at all."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any

from chunkfold.errors import PlanError
from chunkfold.opening import is_zarr
from chunkfold.remote import (
    LISTED,
    MISSING,
    hint,
    message_of,
    open_store,
    said_shortly,
    without_secrets,
)
from chunkfold.source import Source

FORMATS = {
    ".json": "JSON",
    ".zarr": "Zarr",
    ".csv": "a table",
    ".parquet": "a table in columns",
    ".html": "a page",
}
"""By how an output's name ends; one that ends in nothing is a Zarr."""
RESULTS = (".json", ".zarr", ".csv", ".parquet")
_EXISTS = "exists; remove it, choose another, or overwrite it (--overwrite)"
_ROOT = "zarr.json"
"""What makes a folder a Zarr; uploaded last."""
_REMOVAL_DEADLINE_S = 20.0
_STAYS_AWAY_S = 0.3


def format_of(out: str | Path) -> str:
    """Return what an output's name ends in, of `FORMATS`; ".zarr" if it ends in nothing.

    >>> format_of("s3://bucket/mean.csv"), format_of("mean")
    ('.csv', '.zarr')
    """
    return PurePosixPath(str(out)).suffix or ".zarr"


def is_remote(out: str | Path) -> bool:
    """Whether an output is a URL."""
    return isinstance(out, str) and "://" in out


def shown(out: str | Path) -> str:
    """Return an output as messages name it: without secrets."""
    return without_secrets(str(out))


def check_output(
    out: str | Path, formats: tuple[str, ...] = RESULTS, *, overwrite: bool = False
) -> None:
    """Find out before the work starts whether an output of one of these formats can be written.

    Raises
    ------
    PlanError
        If not: its name asks for another format, it exists, or its folder cannot be written.
    """
    ending = format_of(out)
    if ending not in formats:
        ways = ", ".join(f"{known} for {FORMATS[known]}" for known in formats)
        raise PlanError(f"output {shown(out)} ends in {ending!r}; use {ways}")
    check_writable(out, overwrite=overwrite)


def check_writable(out: str | Path, *, overwrite: bool = False) -> None:
    """Find out before the work starts whether an output can be written, whatever it holds.

    Raises
    ------
    PlanError
        If it exists and is not to be overwritten, its folder does not exist, or is not writable.
    """
    if is_remote(out):
        _check_remote(str(out), overwrite=overwrite)
        return
    path = Path(out)
    if path.name in ("", "..") or "\0" in str(out):
        raise PlanError(f"output {str(out)!r} names no file")
    if re.match(r"\w+:/", str(path)):
        raise PlanError(f"output {path} is a URL; this one is to be a local file or folder")
    if os.path.lexists(path):
        if not overwrite:
            raise PlanError(f"output {path} {_EXISTS}")
        if path.is_dir() and not (format_of(path) == ".zarr" and _may_go(path)):
            raise PlanError(f"output {path} is a folder, but no Zarr: only a Zarr is overwritten")
        if not path.is_dir() and not path.is_file() and not path.is_symlink():
            raise PlanError(f"output {path} is neither a file nor a Zarr: it is not overwritten")
    if not path.parent.is_dir():
        what = "is not a folder" if path.parent.exists() else "does not exist: make that folder"
        raise PlanError(f"output {path} cannot be written: {path.parent} {what}")
    try:
        _staging(path).rmdir()
    except OSError as error:
        raise PlanError(f"output {path} cannot be written: {error}") from None


@contextmanager
def staged(out: str | Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield where to write an output; it takes its place once all of it is there.

    Raises
    ------
    PlanError
        If it cannot take its place in a remote store.
    """
    remote = is_remote(out)
    path = Path(PurePosixPath(str(out)).name) if remote else Path(out)
    folder = Path(tempfile.mkdtemp(prefix="chunkfold-")) if remote else _staging(path)
    try:
        made = folder / path.name
        yield made
        if remote:
            _upload(made, str(out), overwrite=overwrite)
        else:
            _put(made, path, overwrite=overwrite)
    finally:
        _remove(folder)


def refuse_sources(out: str | Path | None, sources: Iterable[Source]) -> None:
    """Refuse an output that is a source, or in one, or has one in it; None is none.

    Raises
    ------
    PlanError
        If it is.
    """
    if out is None:
        return
    target = _place(out)
    for source in sources:
        place = _place(source.name if source.local_path is None else source.local_path)
        if target == place or target in place.parents or place in target.parents:
            raise PlanError(
                f"output {shown(out)} and source {source.name} are one or in each other; "
                "write it elsewhere"
            )


def refuse_equal(*outs: str | None) -> None:
    """Refuse outputs that would overwrite each other; None are none.

    Raises
    ------
    PlanError
        If two are one.
    """
    places = [_place(out) for out in outs if out is not None]
    twice = [place for place in places if places.count(place) > 1]
    if twice:
        raise PlanError(f"two outputs are one, {twice[0]}: give each a name of its own")


def _place(address: str | Path) -> PurePosixPath:
    """Return where something is, however it is named, so that places can be compared."""
    if is_remote(address):
        scheme, _, rest = without_secrets(str(address)).partition("://")
        return PurePosixPath(scheme.lower(), rest.strip("/"))
    return PurePosixPath(os.path.realpath(address))


def _may_go(folder: Path) -> bool:
    """Whether a folder is a Zarr, or empty."""
    return is_zarr(folder) or not any(folder.iterdir())


def _staging(path: Path) -> Path:
    """Make a folder beside an output, from which it moves into place whole."""
    return Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))


def _put(made: Path, path: Path, *, overwrite: bool) -> None:
    """Move what was made into its place; what was there goes the moment before."""
    before = made.parent / f"{path.name}.before"
    if not overwrite and os.path.lexists(path):
        raise PlanError(f"output {path} came meanwhile: it is not overwritten")
    # A file takes the place of another by itself; folders do not.
    aside = overwrite and os.path.lexists(path) and (path.is_dir() or made.is_dir())
    try:
        if aside:
            path.rename(before)
        made.replace(path)
    except BaseException:
        # An interrupt is raised behind the call in which it came: that one may have done its work.
        if os.path.lexists(before) and not os.path.lexists(path):
            before.rename(path)
        raise


def _remove(folder: Path) -> None:
    """Remove a folder that workers may still write to for a moment: until it stays away."""
    deadline = time.monotonic() + _REMOVAL_DEADLINE_S
    with suppress(OSError):
        folder.rmdir()
        return
    while folder.exists() and time.monotonic() < deadline:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(_STAYS_AWAY_S)


def _opened(out: str) -> tuple[Any, str]:
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
        raise PlanError(f"output {shown(out)}: outputs are local, or of {known}")
    if not folder:
        raise PlanError(f"output {shown(out)} names no object: add a path after {scheme}://{rest}")
    try:
        with said_shortly():
            return open_store(f"{scheme}://{folder}"), name
    except ImportError as error:
        raise PlanError(f"output {shown(out)}: {MISSING.format(error)}") from error
    except OSError as error:
        raise _unwritable(out, error) from error


def _unwritable(out: str, error: Exception) -> PlanError:
    message = message_of(error)
    scheme = out.partition("://")[0].lower()
    return PlanError(f"output {shown(out)} cannot be written: {message}" + hint(scheme, message))


def _check_remote(out: str, *, overwrite: bool) -> None:
    """Write a small object beside a remote output, and remove it again."""
    store, name = _opened(out)
    import obstore  # it is there: the store was opened by it

    probe = f".{name}.{uuid.uuid4().hex}"
    try:
        with said_shortly():
            there = [] if overwrite else _below(store, name)
            if not there:
                obstore.put(store, probe, b"")
                obstore.delete(store, probe)
    except OSError as error:
        raise _unwritable(out, error) from error
    if there:
        raise PlanError(f"output {shown(out)} {_EXISTS}")


def _below(store: Any, name: str) -> list[str]:
    """Return the paths of an output's objects: itself, or those of its folder."""
    import obstore

    listed = [one["path"] for several in obstore.list(store, prefix=name) for one in several]
    try:
        obstore.head(store, name)
        listed.append(name)
    except FileNotFoundError:
        pass
    return listed


def _upload(made: Path, out: str, *, overwrite: bool) -> None:
    """Upload a file, or a folder so that it is a Zarr once all of it is there."""
    import obstore

    store, name = _opened(out)
    files = [made] if made.is_file() else [path for path in made.rglob("*") if path.is_file()]
    keys = {file: "/".join((name, *file.relative_to(made).parts)) for file in files}
    files.sort(key=lambda file: (keys[file].endswith(f"/{_ROOT}"), -keys[file].count("/")))
    try:
        with said_shortly():
            if overwrite and made.is_dir():
                # The root first: what is being removed is no Zarr any more.
                old = sorted(_below(store, name), key=lambda key: key != f"{name}/{_ROOT}")
                for key in old:
                    obstore.delete(store, key)
            for file in files:
                obstore.put(store, keys[file], file)
    except BaseException as error:
        with suppress(Exception):
            if made.is_dir():
                obstore.delete(store, list(keys.values()))
        if isinstance(error, OSError):
            raise _unwritable(out, error) from error
        raise
