"""Findings of a check, in sentences, as a table and for machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from chunkfold.plural import counted
from chunkfold.units import size_text
from chunkfold.workflows.as_json import jsonable
from chunkfold.workflows.checks.finding_kinds import MEANINGS, UNREAD, FindingKind


@dataclass(frozen=True)
class Finding:
    """One thing that was found in an array."""

    name: str
    """The name of the array."""
    kind: FindingKind
    message: str
    chunks: int = 0
    """The number of chunks that it is about; 0 if it is about none."""
    keys: tuple[str, ...] = ()
    """The objects (chunks or shards) that the first of them are in."""
    places: tuple[str, ...] = ()
    """The elements of the first of them, and where these are in coordinates."""
    error: bool = True
    """False for a remark: a sound archive may have it."""

    @property
    def first(self) -> str:
        """Name the first chunk that it is about, and its place."""
        return " ".join([*self.keys[:1], *self.places[:1]])

    def __str__(self) -> str:
        chunks = f" ({counted(self.chunks, 'chunk')})" if self.chunks else ""
        first = f"; the first: {self.first}" if self.first else ""
        return f"{self.name}: {self.kind}{chunks}: {self.message}{first}"


@dataclass(frozen=True)
class CheckedArray:
    """An array that was looked at."""

    name: str
    dtype: np.dtype | None = None
    """None if it cannot be opened; so are shape and chunks."""
    shape: tuple[int, ...] | None = None
    chunks: tuple[int, ...] | None = None
    nbytes: int = 0
    """Bytes of its elements, decoded, if these were read."""
    states: np.ndarray | None = None
    """The worst finding of each chunk, over their grid, uint8: its place in `FindingKind`, counted
    from 1, and 0 where there is none. None if its chunks were not read."""
    compared: int | None = None
    """Chunks that were compared with what a ledger has; None without a ledger, or if none can have
    the array."""
    lists_chunks: bool = True
    """False if its store does not tell which chunks are stored."""
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Soundness:
    """All that a check found in an archive."""

    source: str
    arrays: tuple[CheckedArray, ...]
    findings: tuple[Finding, ...] = field(default=())
    """Errors first, then remarks."""

    @property
    def ok(self) -> bool:
        """Return True if there are no findings but remarks."""
        return not any(one.error for one in self.findings)

    @property
    def unread(self) -> bool:
        """Return True if some of it could not be read, so that findings are not of all of it."""
        return any(one.error and one.kind in UNREAD for one in self.findings)

    @property
    def summary(self) -> str:
        """Say it in one line."""
        chunks = sum(one.states.size for one in self.arrays if one.states is not None)
        nbytes = size_text(sum(one.nbytes for one in self.arrays))
        known = [one.compared for one in self.arrays if one.compared is not None]
        beside = f", {sum(known):,} compared with the ledger" if known else ""
        looked = f"{counted(len(self.arrays), 'array')}, {counted(chunks, 'chunk')}, {nbytes}"
        errors = sum(one.error for one in self.findings)
        remarks = len(self.findings) - errors
        said = "sound" if self.ok else counted(errors, "error")
        more = f", {counted(remarks, 'remark')}" if remarks else ""
        return f"{self.source}: {said}{more} ({looked}{beside})"

    def lines(self) -> list[str]:
        """Say it to people: a line for each finding, and one at the end."""
        return [*map(str, self.findings), self.summary]

    def to_dict(self) -> dict[str, Any]:
        """Describe it for machines."""
        found: dict[str, Any] = {
            "source": self.source,
            "ok": self.ok,
            "unread": self.unread,
            "arrays": [_array(one) for one in self.arrays],
            "findings": [vars(one) for one in self.findings],
        }
        return {name: jsonable(value) for name, value in found.items()}


def _array(one: CheckedArray) -> Mapping[str, Any]:
    states = {} if one.states is None else counts_of(one.states)
    return {
        "name": one.name,
        "dtype": None if one.dtype is None else str(one.dtype),
        "shape": one.shape,
        "chunks": one.chunks,
        "bytes": one.nbytes,
        "chunks_checked": 0 if one.states is None else one.states.size,
        "chunks_compared": one.compared,
        "lists_chunks": one.lists_chunks,
        "worst": states,
    }


def counts_of(states: np.ndarray) -> dict[str, int]:
    """Count chunks by their worst finding; those without one are sound."""
    kinds = list(FindingKind)
    counts = np.bincount(states.ravel(), minlength=len(kinds) + 1)
    return {kinds[n - 1] if n else "sound": int(counts[n]) for n in np.flatnonzero(counts)}


def sorted_findings(found: Sequence[Finding]) -> tuple[Finding, ...]:
    """Put errors first, then arrays and kinds in order; those of a kind stay in theirs."""
    order = tuple(MEANINGS)
    return tuple(sorted(found, key=lambda one: (not one.error, one.name, order.index(one.kind))))
