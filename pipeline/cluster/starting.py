"""Workers that are to start: what they need of a host, and why some of them did not."""

from __future__ import annotations

import contextlib
import errno
import multiprocessing
import os
import re
import resource
import signal
import traceback
from collections import Counter
from collections.abc import Iterable

from distributed import Nanny
from distributed.core import Server, Status

from chunkfold.cluster.reaching import already_there
from chunkfold.errors import ClusterError
from chunkfold.plural import counted
from chunkfold.redaction import without_secrets

_FILES = 22
"""Files that a process has open for a scheduler, a client and its sources."""
_FILES_EACH = 10
"""Files that it has open for each worker process."""
_MOST_REASONS = 4
_MOST_LINES = 8
_MOST_LETTERS = 1_000
"""The most letters of a reason."""
_Reason = tuple[str, str]
"""Words, and where they are from, which may differ where words do not."""
_TAKEN = r"'name taken, ([^']*)'"
"""A scheduler's message about a second worker of one name."""
_UNKNOWN = "worker-heartbeat-missing"
"""The reason with which Dask ends a worker whose heartbeat the scheduler does not know."""
_DIED = "Nanny failed to start worker process"
"""Dask's message about a process that ended before it reported."""


class DeviceNanny(Nanny):
    """A nanny that knows whether its worker was sent away, and how its process ended."""

    retired = False
    ended: int | None = None
    """Exit code of its last process, or less than 0 for a signal; None if none has ended."""

    def close_gracefully(self, reason: str = "nanny-close-gracefully") -> None:
        """Start no worker any more: called where the scheduler retires it.

        A worker that finds itself removed ends as if it were; it was stopped, and is started again.
        """
        if reason == _UNKNOWN:
            return
        self.retired = True
        super().close_gracefully(reason)

    def _on_worker_exit_sync(self, exitcode: int) -> None:
        self.ended = exitcode
        super()._on_worker_exit_sync(exitcode)  # type: ignore[no-untyped-call]


def check_host(workers: int) -> None:
    """Find out before so many worker processes are started whether they can be.

    Raises
    ------
    ClusterError
        If the working directory has gone, Python's locks cannot be made, or this process may not
        have as many files open as the workers take.
    """
    _check_files(workers)
    try:
        os.getcwd()  # noqa: PTH109 # nothing is done with it
    except OSError as error:
        raise ClusterError(
            f"the working directory is missing ({error}), and workers start in it: change to one "
            "that exists"
        ) from error
    try:
        multiprocessing.get_context("spawn").Lock()
    except (OSError, ImportError) as error:
        raise ClusterError(
            f"no lock can be made for worker processes ({error}): they are files of /dev/shm, "
            "which must exist, be writable and have free space"
        ) from error


def _check_files(workers: int) -> None:
    """Dask needs files to say that it has none left: it would wait for itself."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = _FILES + _FILES_EACH * workers
    try:
        used = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 # a Path would take another
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            return
        used = most
    if 0 <= most < used + needed:  # -1 is no limit
        raise ClusterError(
            f"this process may have {most:,} files open and has {used:,}, and it takes {needed:,} "
            f"more to start {counted(workers, 'worker')}: allow it more "
            f"(ulimit -n {max(1024, 2 * (used + needed))})"
        )


def end_all(servers: Iterable[Server]) -> None:
    """Kill the processes of workers, for good: SIGKILL ends those that are stopped, too."""
    for server in servers:
        if isinstance(server, Nanny) and server.pid:
            if server.status == Status.running:
                server.close_gracefully()  # it starts no other
            _kill(server.pid)


def _kill(process: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def end_those_that_start(servers: Iterable[Server]) -> None:
    """Kill the processes of workers that have not started: closing would wait until they have."""
    for server in servers:
        if isinstance(server, Nanny) and server.status == Status.init and server.pid:
            _kill(server.pid)


async def check_started(
    servers: Iterable[Server],
    wanted: int,
    broken: BaseException | None = None,
    scheduler: str = "",
) -> None:
    """Refuse to go on with fewer workers than wanted, and tell each reason once.

    Raises
    ------
    ClusterError
        If some did not start. `broken` is why, where they could not even be made.
    DeviceError
        If another command's worker for the same device came to the scheduler first.
    """
    made = list(servers)
    reasons = [why for server in made if (why := await _why_not(server)) is not None]
    for words, _ in reasons:
        if taken := re.search(_TAKEN, words):
            raise already_there(taken[1], "", scheduler)
    if not reasons and broken is not None:
        reasons = [_words_and_place(broken)]
    if not reasons:
        return
    places = dict(reversed(reasons))  # the first of each
    counts = Counter(words for words, _ in reasons)
    lines = [
        (f"{count} of them: " if count < wanted else "") + _shortened(words) + places[words]
        for words, count in counts.most_common(_MOST_REASONS)
    ]
    if len(counts) > _MOST_REASONS:
        lines.append(f"and {len(counts) - _MOST_REASONS} other reasons")
    started = sum(server.status == Status.running for server in made)
    raise ClusterError(
        f"only {started} of {counted(wanted, 'worker')} started: " + "\n".join(lines)
    )


async def _why_not(server: Server) -> _Reason | None:
    """Say why a worker did not start, or has not yet; None if it did."""
    pid = getattr(server, "pid", None)
    silent = "it has not answered yet", f" (process {pid})" if pid else ""
    if server.status == Status.init:
        return silent
    try:
        await server  # what has failed fails again, with the same
    except Exception as error:  # noqa: BLE001 # whatever it is, it is told
        words, place = _words_and_place(error)
        if words == "TimeoutError":
            return silent
        if _DIED in words and isinstance(server, DeviceNanny):
            return _how_it_died(server), ""
        return words, place
    return None if server.status == Status.running else ("it was closed as it started", "")


def _how_it_died(nanny: DeviceNanny) -> str:
    code = nanny.ended
    told = "its process " + ("ended" if code is None else ending(code)) + " as it started"
    if code == 1:  # Python's, of what it does not catch
        told += (
            "; it wrote the reason to standard error (a script that starts a cluster is a file, "
            "and does so under if __name__ == '__main__':)"
        )
    return told


def ending(code: int) -> str:
    """Say how a process ended.

    >>> ending(3), ending(-9)
    ('ended with exit code 3', 'was killed by signal 9 (SIGKILL)')
    """
    if code >= 0:
        return f"ended with exit code {code}"
    names = {one.value: one.name for one in signal.Signals}
    return f"was killed by signal {-code} ({names.get(-code, 'unknown')})"


def words_of(error: BaseException) -> str:
    """Say what an error began with, and where, without secrets."""
    return "".join(_words_and_place(error))


def _words_and_place(error: BaseException) -> _Reason:
    cause = _first_cause(error)
    said = without_secrets("".join(traceback.format_exception_only(cause)).strip())
    frames = [f for f in traceback.extract_tb(cause.__traceback__) if f.filename[:1] != "<"]
    return said, f" (at {frames[-1].filename}:{frames[-1].lineno})" if frames else ""


def _first_cause(error: BaseException) -> BaseException:
    """Return what Dask wraps, and what its own mistakes hide that follow as it tidies up."""
    while _is_of_dask(error) and (before := error.__cause__ or error.__context__) is not None:
        error = before
    return error


def _is_of_dask(error: BaseException) -> bool:
    if isinstance(error, RuntimeError):
        return "failed to start" in str(error)
    return isinstance(error, (AssertionError, AttributeError))


def _shortened(reason: str) -> str:
    """Leave the end of what is long: of a traceback it says what was wrong."""
    lines = reason.splitlines()
    if len(lines) > _MOST_LINES:
        lines = ["...", *lines[-_MOST_LINES:]]
    short = "\n".join(lines)
    return short if len(short) <= _MOST_LETTERS else "... " + short[-_MOST_LETTERS:]
