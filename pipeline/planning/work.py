"""The work that the tasks of a run have in common: one read, and what is made of it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from chunkfold.grid import Piece
from chunkfold.kernels import Accumulator, Box, KeyedBox
from chunkfold.kernels.accumulator.chooser import Chooser
from chunkfold.kernels.fold.levels import Levels
from chunkfold.kernels.geometry import OutputRun
from chunkfold.planning.blocks import LARGE_BYTES, Block
from chunkfold.planning.broadcast_inputs import BroadcastInput
from chunkfold.planning.group_keys import Keys, PackedKeys
from chunkfold.planning.grouping import AnyKeys, OwnKeys
from chunkfold.planning.layout import Layout
from chunkfold.planning.leaf_boxes import Inputs, kept_leaf_box, keyed_leaf_box, leaf_box
from chunkfold.planning.plan import Plan
from chunkfold.planning.preaggregation import Preaggregation, preaggregated
from chunkfold.planning.roll_up import RollUp
from chunkfold.planning.rules import PlanRule, applies
from chunkfold.planning.scan import BlockData, Brings, Scan, to_workers
from chunkfold.planning.tiles import TileFinishing, finishing_of, kernel_levels
from chunkfold.sources.source import Source


@dataclass(frozen=True)
class Folding:
    """The accumulators of a question, and the way in which elements are folded into them."""

    layout: Layout
    accumulator: Accumulator
    keys: AnyKeys | None = None
    """The group of each element, if there are groups."""
    numbering: Accumulator | None = None
    """Accumulator that numbers elements grouped by their own values."""
    held: tuple[BroadcastInput, ...] = ()
    """Inputs behind the sources that lack axes of them."""
    choosers: tuple[Chooser, ...] = ()
    """Choosers among the elements of each output, which blocks keep for that."""
    finishing: TileFinishing | None = None
    """Finishes tiles where they are whole, if blocks do: results then leave one by one."""
    levels: Levels | None = None
    """Levels that kernels make of tiles that are one leaf, if they can."""
    kinds: frozenset[str] = frozenset()
    """Kinds of devices, as far as they are known."""
    by_rows: bool = True
    """True if rows of elements may be folded first."""
    roll_up: RollUp | None = None
    """The way to make it of another question's accumulators, if there is one."""

    @classmethod
    def of(cls, plan: Plan) -> Folding:
        """Return how the question of a plan is answered."""
        return cls(
            plan.layout,
            plan.accumulator,
            plan.request.keys,
            plan.request.numbering,
            plan.held,
            plan.choosers,
            finishing_of(plan),
            kernel_levels(plan) if plan.request.streams else None,
            plan.terms.kinds,
            plan.by_rows,
            plan.request.roll_up,
        )

    @property
    def groups(self) -> int:
        """Accumulators of each output."""
        return 1 if self.keys is None else self.keys.count

    def outputs_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the extents of accumulators of some outputs: groups come first."""
        return shape if self.keys is None else (self.groups, *shape)

    def outputs_region(self, place: tuple[slice, ...]) -> tuple[slice, ...]:
        """Return where the accumulators of some outputs are."""
        return place if self.keys is None else (slice(0, self.groups), *place)

    def box(self, pieces: Sequence[Piece], within: Sequence[slice]) -> Box:
        """Describe a part of a leaf to the kernels."""
        return leaf_box(self.layout, pieces, within, self._inputs)

    @cached_property
    def rowwise(self) -> Preaggregation | None:
        """The rows that are folded first; None if elements are folded."""
        if not self.by_rows or (self.keys is None and not self.held):
            return None
        staged = self._inputs.staged
        return preaggregated(
            self.accumulator, self.layout, self.held, staged, self.keys, self.kinds
        )

    @property
    def folded(self) -> Accumulator:
        """Accumulator that elements are folded into first."""
        return self.accumulator if self.rowwise is None else self.rowwise.folded

    def folded_box(self, pieces: Sequence[Piece], within: Sequence[slice]) -> Box:
        """Describe a part of a leaf to the kernels that fold it: its rows, where there are any."""
        if self.rowwise is None:
            return self.box(pieces, within)
        return self.rowwise.rows.read(pieces, within).box

    def keyed_box(self, pieces: Sequence[Piece], within: Sequence[slice]) -> KeyedBox:
        """Describe one whose elements have keys."""
        assert self.keys is not None
        axes = self.keys.box_axes(len(within))
        return keyed_leaf_box(self.layout, pieces, within, axes, self._inputs)

    def kept_box(
        self, pieces: Sequence[Piece], within: Sequence[slice]
    ) -> tuple[Box, list[OutputRun]] | None:
        """Describe one whose elements are all kept; None where none are."""
        if not self.choosers:
            return None
        return kept_leaf_box(self.layout, pieces, within, self._inputs)

    @property
    def groups_of_rows(self) -> np.ndarray | None:
        """The number of the group of each element of an output; None if there are no groups."""
        if self.keys is None:
            return None
        assert isinstance(self.keys, Keys)  # others keep no elements
        shape, reduced = self.layout.shape, self.layout.reduced
        own = [shape[n] if n in self.keys.axes else 1 for n in reduced]
        every = [shape[n] for n in reduced]
        return np.broadcast_to(self.keys.whole().reshape(own), every).reshape(-1)

    @cached_property
    def _inputs(self) -> Inputs:
        staged = len(self.accumulator.stored) - len(self.held)
        return Inputs(self.accumulator.uses_index, staged, self.held)

    @property
    def counts_fill(self) -> bool:
        """True if fill values are folded by their number alone, if another's leaves are skipped."""
        plain = self.keys is None and not self.held and not self.accumulator.uses_index
        return plain and self.layout.outputs == 1 and self.accumulator.takes_first

    def of_some_groups(self, block: Block) -> tuple[Folding, np.ndarray | None]:
        """Return it with only those groups that a block may meet, and which these are.

        None: with all, of which a block then leaves accumulators. So it is where these are small,
        and where results are made of a block's alone.
        """
        partial_bytes = self.accumulator.nbytes * self.groups * self.layout.most_outputs
        if (
            not (isinstance(self.keys, Keys) and applies(PlanRule.SOME_GROUPS))
            or partial_bytes < LARGE_BYTES
            or self.choosers
            or (self.finishing is not None and block.parts == (0, self.layout.parts))
        ):
            return self, None
        found = self.keys.of_some(self.layout.reach(block.tiles, block.parts))
        return (self, None) if found is None else (replace(self, keys=found[0]), found[1])


class Constants(NamedTuple):
    """Inputs that all blocks of a run read in addition to their sources, by question."""

    keys: tuple[AnyKeys | None, ...]
    held: tuple[tuple[BroadcastInput, ...], ...]

    @property
    def nbytes(self) -> int:
        """Bytes of all that."""
        inputs = itertools.chain.from_iterable(self.held)
        keys = (one.nbytes for one in self.keys if one is not None)
        return sum(keys) + sum(one.values.nbytes for one in inputs)

    def packed(self) -> PackedConstants:
        """Return what travels for it."""
        return PackedConstants(
            tuple(None if one is None else one.packed() for one in self.keys), self.held
        )


class PackedConstants(NamedTuple):
    """Constants as they travel: keys are packed."""

    keys: tuple[PackedKeys | OwnKeys | None, ...]
    held: tuple[tuple[BroadcastInput, ...], ...]

    def unpacked(self) -> Constants:
        """Return what was packed."""
        return Constants(
            tuple(None if one is None else one.unpacked() for one in self.keys), self.held
        )


@dataclass(frozen=True)
class Work:
    """The work that all blocks of a run have. It travels with each task, so it stays small."""

    scan: Scan
    first: Folding
    """The question for whose tiles, one after another, leaves are read."""
    secondary: tuple[Folding, ...] = ()
    """The other questions that the same read answers: they have the same leaves."""

    @classmethod
    def of(cls, run: str, plan: Plan) -> Work:
        """Return what a plan's blocks have in common."""
        return cls(Scan.of(run, plan), *_questions(plan))

    @classmethod
    def in_graph(cls, run: str, plan: Plan) -> Work:
        """Return the same for a graph of Dask's, in which the chunks of its arrays are results."""
        first, others = _questions(plan)
        return cls(Scan.in_graph(run, plan), replace(first, finishing=None), others)

    @property
    def questions(self) -> tuple[Folding, ...]:
        """All questions that the read answers."""
        return (self.first, *self.secondary)

    @property
    def folded_secondary(self) -> tuple[Folding, ...]:
        """The other questions that elements are folded for."""
        return tuple(one for one in self.secondary if one.roll_up is None)

    def alone(self, question: Folding) -> Work:
        """Return the work for one of the questions, as if it was the only one."""
        return Work(replace(self.scan, finds_extremes=False), question)

    @property
    def fills_implicitly(self) -> bool:
        """True if chunks that are not stored are folded by their number of elements alone."""
        first = self.first
        # Elements that are alike may be weighed unlike, and those that are kept are all brought.
        if first.held or first.choosers or first.numbering is not None:
            return False
        accumulator = first.accumulator
        # Reductions that read indices would need the first element of each group.
        own = accumulator.takes_first and (first.keys is None or not accumulator.uses_index)
        return own and all(one.counts_fill for one in self.folded_secondary)

    @property
    def constants(self) -> Constants:
        """Keys and inputs that are the same for all blocks, and may be large."""
        each = self.questions
        return Constants(tuple(one.keys for one in each), tuple(one.held for one in each))

    def with_constants(self, constants: Constants) -> Work:
        """Return it with these."""
        each = zip(self.questions, constants.keys, constants.held, strict=True)
        first, *others = (replace(one, keys=keys, held=held) for one, keys, held in each)
        return replace(self, first=first, secondary=tuple(others))

    def without_constants(self) -> Work:
        """Return it without them, as it travels next to them."""
        first, *others = (replace(one, keys=None, held=()) for one in self.questions)
        return replace(self, first=first, secondary=tuple(others))

    def common(self, brings: Brings = to_workers) -> Work:
        """Return what all blocks have: nothing of sources that these bring."""
        return replace(self, scan=self.scan.common(brings))

    def data_of(self, block: Block, brings: Brings = to_workers) -> BlockData | None:
        """Return what a block brings; None if that is nothing."""
        return self.scan.data_of(block, self.first.layout, brings)

    def with_sources(self, sources: Mapping[int, Source]) -> Work:
        """Return it with sources that a block brought, by their numbers."""
        return replace(self, scan=self.scan.with_sources(sources))

    def of_some_groups(self, block: Block) -> tuple[Work, np.ndarray | None]:
        """Return it with only those groups that a block may meet: see `Folding.of_some_groups`."""
        first, groups = self.first.of_some_groups(block)
        return replace(self, first=first), groups


def _questions(plan: Plan) -> tuple[Folding, tuple[Folding, ...]]:
    """Return how the questions of a plan are answered."""
    return Folding.of(plan), tuple(map(Folding.of, plan.beside))
