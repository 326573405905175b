"""Every error that chunkfold raises on purpose.

ChunkfoldError
+-- SourceError         a source is missing, is no array, or cannot be read
|   +-- ChunkError      one chunk of it is bad
|   +-- ChangedError    it changed while it was read
|   +-- MissingError    chunks of it are not stored, and that was to end the run
|   +-- UnreachableError its server does not answer
|   +-- TargetError     a reference is malformed, or leads where it may not lead
+-- DeviceError         a device is missing, refused, or failed while working
|   +-- BuildError      a kernel did not build; carries the compiler's log
|   +-- DeviceMemoryError a device has no memory left
|   +-- WorkerLostError a worker cannot use its device any more
|       +-- WorkerStoppedError a worker's process died, left or is stopped, or its host has gone
+-- MonoidError         a reduction is unknown or not defined well
+-- RangeError          a result does not fit its dtype
+-- PlanError           a request cannot be planned: axes, selection, memory
+-- ClusterError        a scheduler cannot be reached, workers do not answer or lack resources
+-- JobError            a job file is wrong
+-- LedgerError         a ledger cannot be used, or not for this reduction
+-- OutputError         an output cannot be written: its disk is full
+-- BusyError           another run that writes the same output is under way
+-- TimeLimitError      a job took longer than it may
+-- IncompleteError     a result did not see every element
+-- CancelledError      the run was cancelled

Warnings are UserWarnings:

PackedWarning           stored numbers are reduced that stand for others
MissingWarning          chunks or an array are not there
LevelWarning            the finest level of an image is read, since its group was named
PlaceWarning            a reduction runs elsewhere than one might think
AlignmentWarning        two sources with other coordinates are paired by position
LedgerWarning           a ledger cannot be written: partials are not kept
LawsWarning             a monoid's laws could not be shown to hold
RemarkWarning           a run found something that its results do not show
+-- NaNWarning          results are NaN since elements are
+-- EmptyWarning        there is nothing to reduce
+-- UnstoredWarning     a MissingWarning: chunks are not stored
+-- SkippedWarning      chunks that cannot be read are left out
+-- ServerWarning       a server asked to be left alone
+-- ShortMemoryWarning  reads were smaller than planned: a device had little memory left
"""

from __future__ import annotations

import errno
from collections.abc import Iterator

from chunkfold.bad_chunks import BadChunk
from chunkfold.http_denials import MISSING, refusal, status_of
from chunkfold.kernels.errors import (
    BuildError,
    ChunkfoldError,
    DeviceError,
    DeviceMemoryError,
    MonoidError,
    RangeError,
)

__all__ = [
    "BuildError",
    "BusyError",
    "ChangedError",
    "CancelledError",
    "ChunkError",
    "ChunkfoldError",
    "ClusterError",
    "DeviceError",
    "DeviceMemoryError",
    "IncompleteError",
    "JobError",
    "LedgerError",
    "MissingError",
    "MonoidError",
    "OutputError",
    "PlanError",
    "RangeError",
    "SourceError",
    "TargetError",
    "TimeLimitError",
    "UnreachableError",
    "WorkerLostError",
    "WorkerStoppedError",
]


class PackedWarning(UserWarning):
    """Stored numbers are reduced that stand for others."""


class MissingWarning(UserWarning):
    """Something is not there that others said or that planning could not know: chunks, an array.

    Elements of such chunks are fill values; a job does without such an array.
    """


class RemarkWarning(UserWarning):
    """A remark that the results of a run do not show; commands print it themselves."""


class NaNWarning(RemarkWarning):
    """Results are NaN since elements are."""


class EmptyWarning(RemarkWarning):
    """There is nothing to reduce: nothing is selected, or an array has no elements."""


class UnstoredWarning(MissingWarning, RemarkWarning):
    """Chunks are not stored, by the listing of their store: their elements are fill values."""


class SkippedWarning(RemarkWarning):
    """Results are without the elements of chunks that cannot be read, as `on_bad_chunk` allows."""


class ServerWarning(RemarkWarning):
    """A server asked to be left alone for a while, and was."""


class ShortMemoryWarning(RemarkWarning):
    """A device had less memory left than planned, so that reads were smaller, and slower."""


class LevelWarning(UserWarning):
    """The finest level of an image is read, since its group was named."""


class PlaceWarning(UserWarning):
    """A reduction runs elsewhere than one might think."""


class LedgerWarning(UserWarning):
    """A ledger cannot be written, so that a run's partials are not kept."""


class AlignmentWarning(UserWarning):
    """Two sources are paired by position, though their coordinates have other values."""


class LawsWarning(UserWarning):
    """A monoid's laws could not be shown to hold."""


class SourceError(ChunkfoldError):
    """A source is missing, is no array, has a dtype that cannot be reduced, or cannot be read."""


class ChangedError(SourceError):
    """A source changed while it was read: a result would mix what it was and what it is."""


class MissingError(SourceError):
    """Chunks of a source are not stored, and such were to end the run."""


class UnreachableError(SourceError):
    """The server of a source does not answer, or has too much to do, for as long as it is tried."""


class TargetError(SourceError):
    """A reference to a chunk is malformed, or leads where it may not lead."""


class ChunkError(SourceError):
    """A chunk cannot be read or decoded."""

    def __init__(self, message: str, chunk: BadChunk | None = None) -> None:
        super().__init__(message, chunk)
        self.chunk = chunk
        """Which one; None where it is not known, as of a read that does not end."""


FILLED = "on_missing_chunk='fill' uses the fill value instead, as the format defines"
"""The remedy for chunks that are not stored."""
_NOT_BYTES = (
    AssertionError,
    AttributeError,
    KeyError,
    NameError,
    RecursionError,
    TypeError,
)
"""Errors that do not come from bad bytes: skipping a chunk does not help."""
_SHORT = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}


def unreadable(chunk: BadChunk, cause: BaseException) -> ChunkfoldError:
    """Return what to raise where a chunk cannot be read.

    A ChunkError, but where the machine has no files or memory left: then the chunk may be well, and
    is not to be left out. Nor is one that was written while it was read, or is not stored where
    that ends the run, nor where a server refuses all chunks, nor where no bytes are at fault.
    """
    if refused := refusal(cause):
        return SourceError(f"{chunk.array}: {refused}")
    for seen in _caused(cause):
        if isinstance(seen, ChangedError):
            return ChangedError(
                f"{chunk.array}: {chunk.kind} {chunk.key!r} changed while it was read: {seen}; "
                "run it again when nobody writes to it"
            )
        if isinstance(seen, TargetError):
            return SourceError(f"{chunk.array}: {chunk.kind} {chunk.key!r}: {seen}")
        if isinstance(seen, MissingError):
            return MissingError(f"{chunk.array}: {chunk.kind} {chunk.key!r} {seen}: {FILLED}")
    if runs_short(cause):
        return ClusterError(str(chunk))
    if isinstance(cause, _NOT_BYTES) and chunk.kind != "task":
        return SourceError(
            f"{chunk.array}: {chunk.kind} {chunk.key!r} cannot be read as its metadata say "
            f"({type(cause).__name__}: {cause}): look at its dtype, shape and codecs"
        )
    remedy = ""
    if (status := next(filter(None, map(status_of, _caused(cause))), None)) in MISSING:
        remedy = (
            "; if the server answers this for objects that are not stored, give --missing-status "
            f"{status}"
        )
    return ChunkError(f"{chunk}{remedy}", chunk)


def runs_short(error: BaseException) -> bool:
    """Return True if the machine had no files or memory left."""
    return any(
        isinstance(seen, MemoryError) or (isinstance(seen, OSError) and seen.errno in _SHORT)
        for seen in _caused(error)
    )


def _caused(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


class WorkerLostError(DeviceError):
    """A worker cannot use its device any more; its work goes to others."""

    def __init__(self, message: str, worker: str) -> None:
        super().__init__(message, worker)
        self.worker = worker
        """Address of the worker."""


class WorkerStoppedError(WorkerLostError):
    """A worker died, left, or is not heard any more while others are; its work goes to them."""

    def __init__(self, message: str, worker: str, *, planned: bool = False) -> None:
        super().__init__(message, worker)
        self.planned = planned
        """True if its tasks did nothing to it: it was sent away, or they had ended."""


class PlanError(ChunkfoldError, ValueError):
    """The request cannot be planned: an axis, a selection, a memory limit."""


class ClusterError(ChunkfoldError):
    """A scheduler cannot be reached, or workers do not come, do not answer, or lack resources."""


class JobError(ChunkfoldError, ValueError):
    """A job file is wrong: each line of the message names the place."""


class LedgerError(ChunkfoldError, ValueError):
    """A ledger cannot be used, or not for this reduction."""


class OutputError(ChunkfoldError, OSError):
    """An output cannot be written, though its place is right: its disk is full."""


class BusyError(ChunkfoldError):
    """Another run that writes the same output is under way."""


class TimeLimitError(ChunkfoldError):
    """A job took longer than it may."""


class IncompleteError(ChunkfoldError):
    """A result did not see every element, so it is none."""


class CancelledError(ChunkfoldError):
    """The run was cancelled before it had a result."""
