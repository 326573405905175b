"""HDF5 files on local disks: found on the way of a path, opened once a process, and closed again.

HDF5 knows a file by its inode: while a process has it open, whoever opens it once more sees what
the first one saw, and nobody may open it to write. So a file that changed is closed before it is
opened anew, and one that nobody reads is closed soon.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from chunkfold.errors import ChangedError, SourceError
from chunkfold.stores.expected import ObjectState
from chunkfold.stores.regular_files import read_regular, special

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_BEHIND = (0, 512, 1024, 2048, 4096, 8192)
"""Bytes of others that may stand before it, as MATLAB's."""
_IDLE_S = 1.0
"""Seconds until a file that nobody reads is closed."""
H5Options = tuple[tuple[str, Any], ...]
"""Keyword arguments of `h5py.File`."""


@dataclass(frozen=True)
class H5File:
    """A file, as it was when it was looked at. Pickles small."""

    path: str
    """Absolute."""
    options: H5Options = ()
    state: ObjectState | None = None
    """None where it may be written to meanwhile: those who read as a single writer writes (SWMR)
    mean that."""
    others: tuple[tuple[str, ObjectState], ...] = ()
    """Files that links and virtual datasets in it lead to, and how they were."""
    allowed: tuple[str, ...] = ()
    """Addresses below which these may be, beside its own folder."""

    @classmethod
    def at(cls, path: str, options: H5Options = (), allowed: tuple[str, ...] = ()) -> H5File:
        """Return the file at a path, as it is now.

        Raises
        ------
        OSError
            If there is none.
        """
        found = os.path.abspath(path)  # noqa: PTH100 # resolve() would follow links
        state = None if dict(options).get("swmr") else _state(found)
        return cls(found, options, state, allowed=allowed)

    def with_others(self, paths: Iterable[str]) -> H5File:
        """Return it with other files that are read by way of it.

        Raises
        ------
        OSError
            If one of them is not there.
        """
        found = [(path, _state(path)) for path in sorted(set(paths) - {self.path})]
        return self if self.state is None else replace(self, others=tuple(found))

    def check(self) -> None:
        """Compare it with what it was, and the others.

        Raises
        ------
        ChangedError
            If one is another, or gone.
        """
        if self.state is None:
            return
        for path, state in ((self.path, self.state), *self.others):
            try:
                now = _state(path)
            except OSError as error:
                raise ChangedError(f"its file {path} is gone") from error
            if now != state:
                raise ChangedError(
                    f"its file {path} was written to: it had {state.size:,} bytes when the run was "
                    f"planned, and has {now.size:,}"
                )

    @contextmanager
    def opened(self, *, kept: bool = True) -> Iterator[Any]:
        """Open it with h5py, or use what is open; unless it is `kept`, close it behind that.

        Raises
        ------
        ChangedError
            If it is not what it was.
        ImportError
            If h5py is not installed.
        OSError
            If it cannot be opened.
        """
        self.check()
        handle = _handles.taken(self)
        try:
            yield handle.file
        finally:
            _handles.given_back(handle)
            if not kept:
                close_idle()


@dataclass(eq=False)
class _Handle:
    """A file that is open."""

    of: H5File
    file: Any
    users: int = 0
    since: float = field(default_factory=time.monotonic)
    """The time of its last use."""


class _Handles:
    """The files that this process has open."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._open: dict[tuple[str, H5Options], _Handle] = {}
        self._closer: threading.Thread | None = None

    def taken(self, wanted: H5File) -> _Handle:
        with self._lock:
            key = (wanted.path, wanted.options)
            handle = self._open.get(key)
            if handle is not None and handle.of.state != wanted.state:
                self._close(handle)  # whoever reads of it is told: it changed
                handle = None
            if handle is None:
                handle = self._open[key] = _Handle(wanted, _file(wanted))
            handle.users += 1
            return handle

    def given_back(self, handle: _Handle) -> None:
        with self._lock:
            handle.users -= 1
            handle.since = time.monotonic()
            if self._closer is None:
                self._closer = threading.Thread(
                    target=self._close_in_turn, name="chunkfold-h5", daemon=True
                )
                self._closer.start()

    def close_idle(self, seconds: float = 0.0) -> None:
        """Close what nobody has used for so long."""
        with self._lock:
            now = time.monotonic()
            for handle in list(self._open.values()):
                if not handle.users and now - handle.since >= seconds:
                    self._close(handle)

    def _close(self, handle: _Handle) -> None:
        del self._open[handle.of.path, handle.of.options]
        with suppress(Exception):  # whatever is wrong with it: it was read as far as it could be
            handle.file.close()

    def _close_in_turn(self) -> None:
        while True:
            time.sleep(_IDLE_S)
            with self._lock:
                self.close_idle(_IDLE_S)
                if not self._open:
                    self._closer = None
                    return


_handles = _Handles()
close_idle: Callable[[], None] = _handles.close_idle
"""Close the files that nobody reads now: others may want to write to them."""


def _file(wanted: H5File) -> Any:
    import h5py

    with suppress(ImportError):
        import hdf5plugin  # type: ignore[import-not-found] # noqa: F401 # more filters, if it is there
    # A dataset is opened for each read: chunks that HDF5 kept would serve none.
    options = {"rdcc_nbytes": 0} | dict(wanted.options)
    try:
        # A lock would keep others from writing for as long as it is open; who writes is noticed.
        return h5py.File(wanted.path, "r", **({"locking": False} | options))
    except OSError as error:
        if "locking" in options or "lock" not in str(error):
            raise
        # Open in this process already, with a lock: then HDF5 wants one here, too.
        return h5py.File(wanted.path, "r", **options)


def _state(path: str) -> ObjectState:
    status = os.stat(path)  # noqa: PTH116 # a Path would take as long
    return ObjectState(status.st_size, status.st_mtime_ns)


def is_h5(path: Path) -> bool:
    """Return True if a path is an HDF5 file."""
    if special(path) or not path.is_file():
        return False
    try:
        found = read_regular(str(path), 0, _BEHIND[-1] + len(_SIGNATURE))
    except (OSError, SourceError):
        return False
    return any(found.startswith(_SIGNATURE, at) for at in _BEHIND)


def h5_at(path: Path) -> tuple[Path, str] | None:
    """Return the HDF5 file on the way of a path, and what is meant in it; None if none is."""
    if path.is_dir():
        return None
    for file in (path, *path.parents):
        if file.exists():
            inner = "" if file == path else path.relative_to(file).as_posix()
            return (file, inner) if is_h5(file) else None
    return None
