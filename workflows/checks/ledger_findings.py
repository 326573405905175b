"""Compare what is read of an array with the statistics of its blocks that a ledger has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from distributed import Client

from chunkfold.api import plan
from chunkfold.boxes import Slices
from chunkfold.errors import MonoidError, PlanError
from chunkfold.kernels import Monoid, as_monoid, is_defined
from chunkfold.ledger.segments import DamagedError
from chunkfold.ledger.stored_partials import partials_in
from chunkfold.planning.blocks import Block
from chunkfold.planning.ledger_block_elements import box_of_text
from chunkfold.planning.ledger_found_partials import PartialFinder
from chunkfold.planning.ledger_span_keys import QuestionKeys, question_keys
from chunkfold.planning.ledger_spans import UnfitForLedgerError
from chunkfold.planning.plan import Plan
from chunkfold.plural import counted
from chunkfold.sources.source import Source
from chunkfold.workflows.checks.chunk_statistics import (
    ChunkStatistics,
    chunks_of,
    extreme_read,
    over_chunks,
)
from chunkfold.workflows.checks.finding_kinds import FindingKind

_TERMS = 4
"""Doubles that a sum is read as. Only if the last one is 0 are they all of the sum."""


def _term(number: int, fields: Mapping[str, Any], _: Any) -> Any:
    """Return a double of the exact sums: the nearest one, or that of what is left."""
    left = fields["s"]
    for _ in range(number):
        near = left.rounded("float64")
        left = left - np.where(np.isfinite(near), near, 0)
    return left.rounded("float64")


def _summed(x: Any) -> Mapping[str, Any]:
    return {"s": x}


def kept_statistics(source: Source) -> list[Monoid]:
    """Return the reductions whose partials in a ledger are compared; they skip NaN."""
    sums = [
        Monoid(f"kept_sum{n}", fields={"s": "exact"}, zero={"s": 0}, lift=_summed, op="add",
               finish=partial(_term, n)).skipping()
        for n in range(_TERMS)
    ]  # fmt: skip
    ends = [extreme_read(op, source, None).called(f"kept_{op}") for op in ("min", "max")]
    every = [as_monoid("count").skipping().called("kept_count"), *ends, *sums]
    return [one for one in every if is_defined(one, [source.dtype], [None])]


@dataclass(frozen=True)
class LedgerFindings:
    """Boolean masks over the grid of an array's chunks."""

    damaged: np.ndarray
    """True for the chunks of a block whose statistics differ from the ledger's."""
    changed: np.ndarray
    """True for chunks that were written after the ledger noted their block."""
    compared: np.ndarray
    """True for the chunks of blocks that were compared."""
    messages: Mapping[FindingKind, str] = field(default_factory=dict)
    lacking: str = ""
    """The reason if the ledger tells nothing of the array."""

    @property
    def masks(self) -> Mapping[FindingKind, np.ndarray]:
        """Return for each kind of finding the chunks that it is true of."""
        return {FindingKind.DAMAGED: self.damaged, FindingKind.CHANGED: self.changed}


@dataclass(frozen=True, eq=False)
class KnownArray:
    """An array as a ledger knew it before it was read."""

    source: Source
    plan: Plan
    keys: QuestionKeys
    statistics: Sequence[Monoid]
    """Statistics of each chunk that are to be read, as `ChunkStatistics.kept`."""
    unpacked: bool
    """True if these are of the values that packed numbers stand for."""

    @classmethod
    def of(
        cls,
        source: Source,
        ledger: str | None,
        *,
        packed: bool,
        trusted: bool,
        client: Client | None,
    ) -> KnownArray | None:
        """Look for an array in a ledger; return None without one, or if none can hold the array.

        Of a packed array the numbers that are stored are compared, or their values: whichever the
        ledger has of more blocks.

        Raises
        ------
        ChunkfoldError
            If the ledger cannot be used.
        """
        if ledger is None:
            return None
        ops, found = kept_statistics(source), list[KnownArray]()
        for unpacked in (False, True) if packed else (False,):
            try:
                made = plan(source, ops, mask_and_scale=unpacked, ledger=ledger,
                            trust_ledger=trusted, client=client)  # fmt: skip
            except (UnfitForLedgerError, MonoidError, PlanError):
                return None
            (keys,) = question_keys(made.request, made.questions, made.scan.listings)
            found.append(cls(source, made, keys, ops, unpacked))
        return max(found, key=lambda one: sum(block.known for block in one.plan.blocks))

    def compared_with(self, read: ChunkStatistics) -> LedgerFindings:
        """Compare what the ledger has with what was read."""
        damaged, changed, compared = (np.zeros(read.shape, bool) for _ in range(3))
        differ, blocks = dict[str, None](), 0
        for block, region, known in self._known_blocks():
            box = chunks_of(self.source, region)
            if box is None or (read.elements < read.expected)[box].any():
                continue
            others = _different(known, {name: one[box] for name, one in read.kept.items()})
            if others and not self.keys.blocks.are_as_listed(block):
                continue  # it was written meanwhile
            compared[box] = True
            if others:
                damaged[box] = True
                blocks += 1
                differ.update(dict.fromkeys(others))
        for box, written in self._written_later():
            changed[box] |= written
        messages = {
            FindingKind.DAMAGED: f"{counted(blocks, 'block')} with another {', '.join(differ)} "
            "than the ledger has, but no time says that it was written since: one or more chunks "
            f"of {'it' if blocks == 1 else 'each'} are damaged",
            FindingKind.CHANGED: "written since the ledger had the block that it is in",
        }
        lacking = ""
        if not (compared | changed).any():
            unused = len(self._ledger.damaged)
            told = f", and {counted(unused, 'damaged segment')}" if unused else ""
            lacking = (
                f"not compared: the ledger has no statistics of its blocks as they are now{told}"
            )
        return LedgerFindings(damaged, changed & ~compared, compared, messages, lacking)

    def _known_blocks(self) -> Iterator[tuple[Block, Slices, Mapping[str, Any]]]:
        """Yield blocks that the ledger has, where they are, and their statistics."""
        finder = PartialFinder(self._ledger, self.keys)
        statistics = self.keys.request.bound(fp64=self.plan.terms.fp64).statistics
        for block in self.plan.blocks:
            if not block.known or (found := finder.read(block.entries[0])) is None:
                continue
            names, stored = found
            try:
                (whole,) = partials_in(stored, self.keys.accumulator, names, [1])
            except DamagedError as error:
                self._ledger.refuse(block.entries[0], str(error))
                continue
            region = self.plan.layout.reach(block.tiles, block.parts)
            yield block, region, {one.name: one.finish(whole) for one in statistics}

    @property
    def _ledger(self) -> Any:
        return self.plan.ledger

    def _written_later(self) -> Iterator[tuple[tuple[slice, ...], np.ndarray]]:
        """Yield chunks of blocks that the ledger had, and which of them were written later."""
        (listing,) = self.plan.scan.listings
        assert listing is not None
        assert listing.modified is not None
        modified = over_chunks(self.source, listing.modified)
        latest = dict[str, int]()
        for _, note in self._ledger.notes():
            if set(self.keys.components) <= {*note.components}:
                when = int(note.written.timestamp() * 1e9)
                latest[note.elements] = max(when, latest.get(note.elements, 0))
        for elements, when in latest.items():
            region = box_of_text(self.keys.blocks, elements)
            box = None if region is None else chunks_of(self.source, region)
            if box is not None:
                yield box, modified[box] > when


def _different(known: Mapping[str, Any], read: Mapping[str, np.ndarray]) -> list[str]:
    """Return the names of the statistics in which a ledger's block and its chunks differ."""
    counts = read["kept_count"]
    if int(counts.sum()) != int(known["kept_count"][0]):
        return ["count"]
    there, found = counts > 0, list[str]()
    for name, extreme_of in (("min", np.min), ("max", np.max)):
        own = read.get(f"kept_{name}")
        if own is not None and there.any() and extreme_of(own[there]) != known[f"kept_{name}"][0]:
            found.append(name)
    terms = [f"kept_sum{n}" for n in range(_TERMS)]
    if terms[0] in read:
        each = [known[name] for name in terms], [read[name][there] for name in terms]
        sums = [*map(_total, each)]
        if None not in sums and sums[0] != sums[1]:
            found.append("sum")
    return found


def _total(terms: Sequence[Any]) -> Fraction | None:
    """Return the sum of exact sums, each read as `_TERMS` doubles; None if they are not all of it.

    They are not where the addends are farther apart than all bits of the doubles, nor of a sum that
    is infinite or NaN.
    """
    every = [np.asarray(one, np.float64).ravel() for one in terms]
    if every[-1].any() or not all(np.isfinite(one).all() for one in every):
        return None
    return sum((Fraction(value) for one in every for value in one[one != 0].tolist()), Fraction(0))
