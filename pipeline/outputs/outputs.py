"""Outputs of results: checked before the work starts, written completely or not at all."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path, PurePosixPath

from chunkfold.errors import OutputError, PlanError
from chunkfold.outputs.output_places import is_url, out_text, refuse_parts_of_zarr
from chunkfold.outputs.placing import move, put
from chunkfold.outputs.staged_objects import StagedObjects, staged_objects
from chunkfold.outputs.staging_folder import (
    StagedOutput,
    before_of,
    clear_staging,
    is_kept,
    leave_staged,
    resumed_folder,
    staging_folder,
)
from chunkfold.outputs.uploads import EXISTS, check_remote, upload
from chunkfold.stores.addresses import zarr_node
from chunkfold.stores.remote import message_of

FORMATS = {
    ".json": "JSON",
    ".zarr": "Zarr",
    ".csv": "a table",
    ".parquet": "a table in columns",
    ".nc": "NetCDF",
    ".html": "a page",
}
"""Formats by the end of an output's name; one without an end is a Zarr."""
RESULTS = (".json", ".zarr", ".csv", ".parquet", ".nc")
_MOST_NAME = 200
"""Bytes of a name: file systems allow 255, and some are for what is made beside it."""
_REMOVAL_DEADLINE_S = 20.0
_STAYS_AWAY_S = 0.3
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""Errors by which the system says that the disk is full: they name no file."""


def format_of(out: str | Path) -> str:
    """Return what an output's name ends in, of `FORMATS`; ".zarr" if it ends in nothing.

    >>> format_of("s3://bucket/mean.csv"), format_of("mean")
    ('.csv', '.zarr')
    """
    return PurePosixPath(str(out)).suffix or ".zarr"


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
        raise PlanError(f"output {out_text(out)} ends in {ending!r}; use {ways}")
    check_writable(out, overwrite=overwrite)


def check_writable(out: str | Path, *, overwrite: bool = False) -> None:
    """Find out before the work starts whether an output can be written, whatever it holds.

    Raises
    ------
    PlanError
        If it exists and is not to be overwritten, its folder does not exist, or is not writable.
    """
    if is_url(out):
        check_remote(str(out), overwrite=overwrite)
        return
    path = Path(out)
    named = 0 < len(os.fsencode(path.name)) <= _MOST_NAME
    if not named or path.name == ".." or "\0" in str(out):
        raise PlanError(f"output {str(out)!r} names no file: a name has 1 to {_MOST_NAME} bytes")
    if re.match(r"\w+:/", str(path)):
        raise PlanError(f"output {path} is a URL; this output must be a local file or folder")
    refuse_parts_of_zarr(path)
    clear_staging(path, kept=True)
    if os.path.lexists(path):
        if not overwrite:
            raise PlanError(f"output {path} {EXISTS}")
        if path.is_dir() and not (format_of(path) == ".zarr" and _may_go(path)):
            raise PlanError(
                f"output {path} is a folder, but not a Zarr: only a Zarr is overwritten"
            )
        if not path.is_dir() and not path.is_file() and not path.is_symlink():
            raise PlanError(f"output {path} is not a file or a Zarr: it is not overwritten")
    if not path.parent.is_dir():
        what = "is not a folder" if path.parent.exists() else "does not exist: make that folder"
        raise PlanError(f"output {path} cannot be written: {path.parent} {what}")
    try:
        with staging_folder(path) as folder:
            folder.rmdir()
    except OSError as error:
        raise PlanError(f"output {path} cannot be written: {error}") from None


@contextmanager
def naming(out: str | Path) -> Iterator[None]:
    """Name the output that there is no room for, or that a store refuses: they do not.

    Raises
    ------
    OutputError
        Then.
    """
    try:
        yield
    except OutputError:
        raise
    except Exception as error:
        if type(error).__module__.startswith("obstore"):
            told = f"output {out_text(out)} cannot be written: {message_of(error)}"
            raise OutputError(told) from error
        full = _full(error)
        if full is None:
            raise
        raise OutputError(
            f"output {out_text(out)} cannot be written: {os.strerror(full)}; free some space, or "
            "write it elsewhere"
        ) from error


def _full(error: BaseException | None) -> int | None:
    """Return the error number of a full disk, if it was one, however libraries wrap it."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _FULL:
            return error.errno
        error = error.__cause__ or error.__context__
    return None


@contextmanager
def staged(out: str | Path, *, overwrite: bool = False, question: str = "") -> Iterator[Path]:
    """Yield where to write an output; it takes its place once all of it is there.

    Parameters
    ----------
    question
        Hash of all that a local output is made of, but for elements, if a run goes on with what
        one with the same question kept there (`StagedOutput`).

    Raises
    ------
    PlanError
        If it cannot take its place in a remote store.
    OutputError
        If there is no room for it.
    """
    remote = is_url(out)
    path = Path(PurePosixPath(str(out)).name) if remote else Path(out)
    with naming(out), _folder_of(path, question, remote=remote) as folder:
        done = False
        try:
            made = folder / path.name
            yield made
            leave_staged(made)
            if remote:
                upload(made, str(out), overwrite=overwrite)
            else:
                put(made, path, overwrite=overwrite)
            done = True
        finally:
            if done:  # nobody writes to it any more
                shutil.rmtree(folder, ignore_errors=True)
            before = before_of(folder, path)
            aside = os.path.lexists(before) and not os.path.lexists(path)  # it is not put back yet
            if not (aside or is_kept(made)):
                _remove(folder)


@contextmanager
def resumable(
    out: str | Path, *, overwrite: bool = False, question: str = ""
) -> Iterator[StagedOutput | StagedObjects]:
    """Yield where to write a Zarr object by object, as `staged`; at a URL it is written there, too.

    Raises
    ------
    ChunkfoldError
        As `staged`, and if another run has taken an output at a URL.
    """
    if is_url(out):
        with naming(out), staged_objects(str(out), question, overwrite=overwrite) as objects:
            yield objects
    else:
        with staged(out, overwrite=overwrite, question=question) as made:
            yield StagedOutput.at(made, question)


def _may_go(folder: Path) -> bool:
    """Return True if a folder is a Zarr, or empty."""
    return zarr_node(folder) is not None or not any(folder.iterdir())


def _folder_of(path: Path, question: str, *, remote: bool) -> AbstractContextManager[Path]:
    """Make a folder for an output: beside it if it is local, so that it moves into place whole."""
    if remote:
        return nullcontext(Path(tempfile.mkdtemp(prefix="chunkfold-")))
    if question:
        return resumed_folder(path, question)
    clear_staging(path)
    return staging_folder(path)


def _remove(folder: Path) -> None:
    """Remove a folder that workers may still write to for a moment: until it stays away."""
    deadline = time.monotonic() + _REMOVAL_DEADLINE_S
    with suppress(OSError):
        folder.rmdir()
        return
    while folder.exists() and time.monotonic() < deadline:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(_STAYS_AWAY_S)


def moved(made: Path, path: Path) -> None:
    """Put an array in its place; what was there goes to the folder that it was made in.

    Raises
    ------
    OutputError
        If it cannot be.
    """
    try:
        move(made, path, before_of(made.parent, path) if os.path.lexists(path) else None)
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error}") from error
