"""Say what is in an array, or in all arrays of a group, in one read of each."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from distributed import Client

from chunkfold.api import submit
from chunkfold.bad_chunks import Skipped
from chunkfold.errors import (
    ChunkError,
    MissingError,
    MonoidError,
    PlanError,
    RangeError,
    SourceError,
)
from chunkfold.events import OnEvent
from chunkfold.kernels import as_monoid, is_defined
from chunkfold.planning.living_statistics import STATISTICS
from chunkfold.planning.option_values import OnBadChunk, OnMissingChunk
from chunkfold.planning.options import Options
from chunkfold.running.ready import check_terms
from chunkfold.running.run import Run
from chunkfold.sources.cf_packing import packing_of
from chunkfold.sources.chunk_index import Listing
from chunkfold.sources.opening import Unopened, open_each, open_source
from chunkfold.sources.source import Source
from chunkfold.tracebacks import traceback_cut
from chunkfold.worker.block_report import LedgerReport

_OPTIONS = (
    "mask_and_scale", "memory", "on_bad_chunk", "on_missing_chunk", "ledger", "trust_ledger"
)  # fmt: skip
"""Options of a reduction that apply to a description."""


@dataclass(frozen=True)
class Description:
    """The metadata and statistics of an array."""

    name: str
    dtype: np.dtype | None = None
    """None if it cannot be opened; so are shape, chunks and bytes."""
    shape: tuple[int, ...] | None = None
    chunks: tuple[int, ...] | None = None
    nbytes: int | None = None
    """Bytes of all elements, decoded."""
    stored: np.ndarray | None = None
    """Bytes of each object (chunk or shard) over their grid, 0 where none is stored; None where the
    store cannot be listed."""
    statistics: Mapping[str, Any] = field(default_factory=dict)
    """Results by the names of `STATISTICS`."""
    skipped: Skipped = field(default_factory=dict)
    """Elements left out for each chunk that could not be read."""
    ledger: LedgerReport | None = None
    """What a ledger had of it; None without one."""
    reason: str = ""
    """The reason why there are no statistics, if there are none."""
    bad: bool = False
    """True if the reason is that it cannot be opened or read; False if it has nothing to reduce."""

    @property
    def elements(self) -> int | None:
        """Number of elements, missing ones among them; None if that is not known."""
        return None if self.shape is None else int(np.prod(self.shape, dtype=object))

    @property
    def missing(self) -> int | None:
        """Elements that are NaN or NaT; None if they were not counted."""
        if "count" not in self.statistics or self.elements is None:
            return None
        return self.elements - sum(self.skipped.values()) - int(self.statistics["count"])


@traceback_cut
def describe(source: Any, **given: Any) -> list[Description]:
    """Describe an array, or every array of a group; parameters as `describe_array`.

    An array of a group that cannot be opened or read has a reason, and the others are described.

    Raises
    ------
    ChunkfoldError
        If there is nothing there, the only array cannot be read, or `on_bad_chunk` is "stop" and a
        chunk of any is bad.
    """
    members = open_each(source)
    return [described(one, alone=len(members) == 1, **given) for one in members]


def described(member: Source | Unopened, *, alone: bool = False, **given: Any) -> Description:
    """Describe an array of a group, or say why not; parameters as `describe_array`.

    Raises
    ------
    ChunkfoldError
        If it is `alone` and cannot be read; if a chunk is bad, unless those are skipped; or if
        anything is wrong that would be with every array.
    """
    if isinstance(member, Unopened):
        reason = _reason(member.name, member.error)
        return Description(member.name, reason=reason, bad=not member.gone)
    options = Options(**{name: given[name] for name in _OPTIONS if name in given})
    check_terms(given.get("client"))
    try:
        # Of a group's arrays the last one is read long after all were opened.
        member = member.reopened()
        return describe_array(member, **given)
    except (SourceError, PlanError, MonoidError, RangeError) as error:
        bad = isinstance(error, ChunkError) and not options.skips
        if alone or bad or isinstance(error, MissingError):
            raise
        return _of(member, reason=_reason(member.name, error), bad=True)


def describe_array(
    source: Source,
    *,
    mask_and_scale: bool = Options.mask_and_scale,
    memory: int | str | None = Options.memory,
    on_bad_chunk: OnBadChunk = Options.on_bad_chunk,
    on_missing_chunk: OnMissingChunk = Options.on_missing_chunk,
    ledger: str | os.PathLike[str] | None = Options.ledger,
    trust_ledger: bool = Options.trust_ledger,
    client: Client | None = None,
    on_event: OnEvent | None = None,
) -> Description:
    """Describe an array: shape, what is stored of it, and its statistics, in one read.

    Exact where `chunkfold.reduce` is. An array without elements, or of a dtype that cannot be
    reduced, such as texts, has no statistics but a reason.

    Parameters
    ----------
    source
        As `chunkfold.sources.opening.open_each` finds them.
    mask_and_scale, memory, on_bad_chunk, on_missing_chunk, ledger, trust_ledger, client, on_event
        As `chunkfold.reduce` has them.

    Raises
    ------
    ChunkfoldError
        Whatever ended the read.
    """
    reason, packing = _why_not(source), packing_of(source) if mask_and_scale else None
    if reason:
        return _of(source, listing=source.listing(), reason=reason)
    run = submit(
        source,
        [op for op in STATISTICS if is_defined(as_monoid(op), [source.dtype], [packing])],
        skipna=True,
        mask_and_scale=mask_and_scale,
        memory=memory,
        on_bad_chunk=on_bad_chunk,
        on_missing_chunk=on_missing_chunk,
        ledger=ledger,
        trust_ledger=trust_ledger,
        client=client,
        on_event=on_event,
    )
    statistics, reason = _statistics(run)
    (listing,) = run.plan.scan.listings
    return _of(
        source,
        listing=listing,
        statistics=statistics,
        skipped=run.skipped,
        ledger=None if run.plan.ledger is None else run.ledger,
        reason=reason,
        bad=bool(reason),
    )


def _statistics(run: Run) -> tuple[Mapping[str, Any], str]:
    """Wait for statistics, or for the reason that there are none: all of it was left out."""
    try:
        return run.result(), ""
    except ChunkError:
        if sum(run.skipped.values()) < run.plan.layout.elements:
            raise
        return {}, "none of its chunks can be read: all were skipped"


def _of(source: Source, *, listing: Listing | None = None, **found: Any) -> Description:
    chunks = source.chunks
    stored = None if listing is None else listing.sizes
    return Description(
        source.name, source.dtype, source.shape, chunks, source.nbytes, stored, **found
    )


def _reason(name: str, error: Exception) -> str:
    return str(error).removeprefix(f"{name}: ")


def _why_not(source: Source) -> str:
    try:
        open_source(source)
    except SourceError as error:
        return _reason(source.name, error)
    return "" if source.nbytes else "it has no elements"
