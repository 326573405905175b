"""Findings in the chunks of an array, with the keys and the places of the first ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from chunkfold.errors import PlanError
from chunkfold.kernels import Packing
from chunkfold.plural import counted
from chunkfold.sources.source import Source
from chunkfold.workflows.checks.chunk_statistics import ChunkStatistics, object_of, region_of
from chunkfold.workflows.checks.finding_kinds import FindingKind
from chunkfold.workflows.checks.findings import Finding
from chunkfold.workflows.checks.ledger_findings import LedgerFindings
from chunkfold.workflows.checks.value_limits import ValueEnds, limits_of, outside

_MOST_PLACES = 5
"""Chunks of a finding that are named."""
_SAID: Mapping[FindingKind, str] = {
    FindingKind.MISSING: "not stored: they are fill",
    FindingKind.CONSTANT: "all elements are the same",
    FindingKind.FILL: "all elements are the fill value, or called missing",
    FindingKind.NAN: "all elements are NaN",
    FindingKind.INFINITE: "some elements are infinite",
}
PlaceText = Callable[[Sequence[slice]], str]
"""Says where in coordinates some elements are."""


def chunk_findings(
    source: Source,
    read: ChunkStatistics,
    packing: Packing | None,
    given: ValueEnds | None,
    where: PlaceText,
    beside: LedgerFindings | None = None,
) -> tuple[list[Finding], Mapping[FindingKind, np.ndarray]]:
    """Return what was found, and for each kind the chunks that it is true of.

    `given` are the limits of values that were asked for, `beside` what a ledger tells.
    """
    found: list[Finding] = []
    beyond, told = np.zeros(read.shape, bool), []
    try:
        each = list(limits_of(source, packing, given))
    except PlanError as error:
        found.append(Finding(source.name, FindingKind.ATTRIBUTES, str(error)))
        each = []
    if read.low is not None and read.high is not None:
        for limits in each:
            chunks, said = outside(limits, packing, read.low, read.high, read.with_numbers)
            beyond |= chunks
            told += [said] if said else []
    masks, said_of = {**read.masks(beyond)}, {**_SAID}
    if beside is not None:
        masks |= beside.masks
        said_of |= beside.messages
    for kind, chunks in masks.items():
        if chunks.any():
            said = said_of.get(kind, "; ".join(told))
            if kind is FindingKind.UNREADABLE:
                said = _why(source, read)
            found.append(_of_chunks(source, kind, said, chunks, where))
    if read.stored is None and read.lacking:
        lacking = counted(read.lacking, source.object_kind.removesuffix("s"))
        said = f"{lacking} not stored; the store does not list which"
        found.append(Finding(source.name, FindingKind.MISSING, said, chunks=read.lacking))
    elif read.stored is None and not source.tells_missing(listed=False):
        said = f"which {source.object_kind} are stored is not known: missing ones are read as fill"
        found.append(Finding(source.name, FindingKind.UNCHECKED, said))
    return found, masks


def _why(source: Source, read: ChunkStatistics) -> str:
    """Say why the first chunk cannot be read."""
    for chunk in read.skipped:
        if chunk is not None:
            return str(chunk).removeprefix(f"{source.name}: ")
    return "cannot be read"


def _of_chunks(
    source: Source, kind: FindingKind, said: str, chunks: np.ndarray, where: PlaceText
) -> Finding:
    places = [tuple(place) for place in np.argwhere(chunks)[:_MOST_PLACES].tolist()]
    keys = (source.object_key(object_of(source, place)).strip("'") for place in places)
    return Finding(
        source.name,
        kind,
        said,
        chunks=int(chunks.sum()),
        keys=tuple(dict.fromkeys(keys)),
        places=tuple(where(region_of(source, place)) for place in places),
    )


def worst(masks: Mapping[FindingKind, np.ndarray], kept: Sequence[FindingKind]) -> np.ndarray:
    """Return the worst finding of each chunk: its place in `FindingKind` from 1 on, or 0."""
    order = list(FindingKind)
    states = np.zeros(next(iter(masks.values())).shape, np.uint8)
    for kind, chunks in masks.items():
        if kind in kept:
            np.maximum(
                states, np.where(chunks, order.index(kind) + 1, 0), out=states, casting="unsafe"
            )
    return states
