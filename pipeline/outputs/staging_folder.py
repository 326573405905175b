"""Folders in which outputs are made, beside their place; what killed commands left is removed."""

from __future__ import annotations

import ctypes
import fcntl
import glob
import hashlib
import os
import platform
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from chunkfold.kernels.cache.entries import put_whole
from chunkfold.planning.ledger_span_keys import canonical, hashed
from chunkfold.sources.source import Source
from chunkfold.sources.stored_identity import stored_identity

_UNLOCKED_S = 60.0
"""An empty folder of a living process that is younger may be about to be locked."""
_HOST = 8
"""Letters of a folder's name that say which host it is of."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


@contextmanager
def staging_folder(path: Path) -> Iterator[Path]:
    """Make a folder beside an output, which is locked for as long as something is made in it.

    It stays: whoever asks for it removes it.
    """
    folder = Path(tempfile.mkdtemp(dir=path.parent, prefix=f"{_prefix(path)}{os.getpid()}-"))
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        _lock(descriptor)
        yield folder
    finally:
        os.close(descriptor)


@dataclass(frozen=True)
class StagedOutput:
    """An output in its staging folder, which the next run with the same question may go on with."""

    made: Path
    """Its place there."""
    question: str
    """Hash of all that it is made of, but for elements."""
    name: str
    """The name that no other has, by which a ledger knows it."""

    @classmethod
    def at(cls, made: Path, question: str) -> StagedOutput:
        """Return an output with the name that it was given before, if it was."""
        known, _, name = _noted(made).partition(" ")
        return cls(made, question, name if known == question and name else uuid.uuid4().hex)

    @property
    def label(self) -> str:
        """The name by which lists have it."""
        return self.made.name

    @property
    def where(self) -> str:
        """The folder that it is made in, for messages."""
        return str(self.made.parent)

    def keep(self) -> None:
        """Keep it for another run, with all that was written to it, though the host may fail."""
        if not is_kept(self.made):
            put_whole(_note(self.made), f"{self.question} {self.name}".encode(), synced=True)
        descriptor = os.open(self.made, os.O_RDONLY)
        try:
            if ctypes.CDLL(None, use_errno=True).syncfs(descriptor):
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), str(self.made))
        finally:
            os.close(descriptor)


def question_of(source: Source, *told: Any) -> str:
    """Return a hash of all that an output is made of: a source, but for elements, and the rest."""
    place = stored_identity(source, [slice(0, size) for size in source.shape])
    everything = [version("chunkfold"), place, source.shape, *told]
    return hashed(canonical(everything).encode()).hex()


def leave_staged(made: Path) -> None:
    """Keep an output for no other run: it is about to take its place."""
    _note(made).unlink(missing_ok=True)


def is_kept(made: Path) -> bool:
    """Return True if another run may go on with an output."""
    return bool(_noted(made))


def _note(made: Path) -> Path:
    return made.with_name(f"{made.name}.staged")


def _noted(made: Path) -> str:
    """Return the question and the name of an output that outlives its run; "" of others."""
    try:
        return _note(made).read_text()
    except (OSError, ValueError):
        return ""


@contextmanager
def resumed_folder(path: Path, question: str) -> Iterator[Path]:
    """Lock the folder of an output that a run with the same question left; else make one.

    The run may have been on another host, as a pod that was replaced: the folder's lock says if it
    has ended. Where hosts do not see each other's locks two may write the same bytes.
    """
    clear_staging(path, kept=True)  # what was set aside is put back
    with ExitStack() as stack:
        for folder in _folders(path, any_host=True):
            if (descriptor := _taken_over(folder / path.name, question)) is not None:
                stack.callback(os.close, descriptor)
                break
        else:
            folder = stack.enter_context(staging_folder(path))
        clear_staging(path)
        yield folder


def _taken_over(made: Path, question: str) -> int | None:
    """Lock the folder of an output; return its descriptor, or None if it is no such output."""
    if _noted(made).partition(" ")[0] != question:
        return None
    try:
        descriptor = os.open(made.parent, _FOLDER)
    except OSError:  # it went meanwhile
        return None
    if not _lock(descriptor):
        os.close(descriptor)
        return None
    for half in made.rglob("*.partial"):  # as zarr calls what it has not written whole
        half.unlink()
    return descriptor


def before_of(folder: Path, path: Path) -> Path:
    """Return where an output is set aside while another takes its place."""
    return folder / f"{path.name}.before"


def clear_staging(path: Path, *, kept: bool = False) -> None:
    """Remove folders of an output in which commands were killed, on this machine.

    What was set aside in one of them is put back, if nothing has taken its place. If `kept`, those
    stay that a run may go on with; else they go, whatever host they are of.
    """
    own = _folders(path)
    others = [] if kept else [one for one in _folders(path, any_host=True) if one not in own]
    for folder in (*own, *(one for one in others if is_kept(one / path.name))):
        with suppress(OSError):  # it went meanwhile, or is another's
            _clear(folder, path, kept=kept, here=folder in own)


def _folders(path: Path, *, any_host: bool = False) -> list[Path]:
    own = _prefix(path)
    name = glob.escape(own)
    if any_host:
        name = f"{glob.escape(own[: -_HOST - 1])}{'[0-9a-f]' * _HOST}-"
    return list(path.parent.glob(f"{name}*"))


def _clear(folder: Path, path: Path, *, kept: bool, here: bool) -> None:
    descriptor = os.open(folder, _FOLDER)
    try:
        locked = _lock(descriptor)
        young = time.time() - os.fstat(descriptor).st_mtime < _UNLOCKED_S
        unknown = locked is None or (young and not any(folder.iterdir()))
        ended = here and _maker_has_ended(folder, path)
        if locked is False or (unknown and not ended):
            return
        before = before_of(folder, path)
        if os.path.lexists(before) and not os.path.lexists(path):
            before.rename(path)
        if not (kept and is_kept(folder / path.name)):
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(descriptor)


def _maker_has_ended(folder: Path, path: Path) -> bool:
    """Return True if the process that made a folder has ended, by the number in its name."""
    number = folder.name.removeprefix(_prefix(path)).partition("-")[0]
    if not number.isdecimal():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # another user's, or no such number
        return False
    return False


def _lock(descriptor: int) -> bool | None:
    """Lock a folder until it is closed, or the process ends; False if another has locked it.

    None where the file system knows no locks.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _prefix(path: Path) -> str:
    """Return what names of an output's folders begin with, on this machine.

    Locks of another machine need not be seen on this one.
    """
    machine = ""
    with suppress(OSError):
        machine = Path("/etc/machine-id").read_text()
    known = f"{machine}|{platform.node()}|{path.name}"
    return f".{path.name[:100]}.{hashlib.sha256(known.encode()).hexdigest()[:_HOST]}-"
