"""One writer of an output at a time: a lock on it, which the system frees when a run dies."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from platformdirs import user_state_path

from chunkfold.errors import BusyError, PlanError
from chunkfold.outputs.output_places import is_url, out_text


def lock_path(out: str) -> Path:
    """Return the file to lock for an output: beside it, so that hosts which share it see it too.

    For a remote output it is in this user's folder of this host.
    """
    if is_url(out):
        name = hashlib.sha256(out.encode()).hexdigest()[:32]
        return user_state_path("chunkfold") / "locks" / f"{name}.lock"
    path = Path(out)
    return path.parent / f".{path.name}.lock"


_NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS}
"""How file systems say that they have none."""


@contextmanager
def locked(out: str, what: str = "run of this job") -> Iterator[None]:
    """Hold the lock of an output, but where a file system has none.

    Parameters
    ----------
    what
        Who holds it, as others are told.

    Raises
    ------
    BusyError
        If another run holds it.
    PlanError
        If there can be no lock there.
    """
    path = lock_path(out)
    try:
        if is_url(out):
            path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = _acquired(path, what)
    except OSError as error:
        raise PlanError(f"output {out_text(out)} cannot be written: {error}") from None
    try:
        started = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        holder = f"process {os.getpid()} on {socket.gethostname()}, started {started}"
        os.write(descriptor, holder.encode())
        yield
    finally:
        # While it is locked: whoever waits for this file must not lock it once it is gone.
        with suppress(OSError):
            path.unlink()
        os.close(descriptor)


def _acquired(path: Path, what: str) -> int:
    """Open and lock a file; again if it was removed in between."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        try:
            _lock(descriptor)
            if _is_there(path, descriptor):
                os.ftruncate(descriptor, 0)
                return descriptor
        except BlockingIOError:
            holder = os.read(descriptor, 200).decode(errors="replace") or "another process"
            os.close(descriptor)
            raise BusyError(
                f"another {what} is under way: {holder} holds {path}; wait for it, or write "
                "elsewhere"
            ) from None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise


def _is_there(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
