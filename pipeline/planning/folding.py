"""The answer to one question of a read: elements are folded for it, or another's partials are."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from chunkfold.grid import Piece
from chunkfold.kernels import Accumulator, Box, KeyedBox
from chunkfold.kernels.accumulator.chooser import Chooser
from chunkfold.kernels.geometry import OutputRun
from chunkfold.planning.blocks import LARGE_PARTIAL_BYTES, Block
from chunkfold.planning.broadcast_inputs import BroadcastInput
from chunkfold.planning.group_keys import Keys, PackedKeys
from chunkfold.planning.grouping import AnyKeys, OwnKeys
from chunkfold.planning.layout import Layout
from chunkfold.planning.leaf_boxes import InputTraits, keyed_leaf_box, leaf_box, unreduced_leaf_box
from chunkfold.planning.leaves import secondary_layout
from chunkfold.planning.preaggregation import Preaggregation, preaggregation_of
from chunkfold.planning.request import Request
from chunkfold.planning.roll_up import RollUp, roll_ups
from chunkfold.planning.rules import PlanRule, applies
from chunkfold.planning.tile_finishing import TileFinishing, finishing_of
from chunkfold.planning.workers import Terms


@dataclass(frozen=True)
class Accumulators:
    """The accumulators of a question: one for each group of each output."""

    layout: Layout
    """Outputs, and the leaves that are read for them."""
    accumulator: Accumulator
    """In the form that suits the number of outputs."""
    keys: AnyKeys | None
    """The group of each element; None: there are no groups."""
    broadcast: tuple[BroadcastInput, ...]
    """Inputs behind the sources that lack axes of them."""

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


@dataclass(frozen=True)
class RolledUp(Accumulators):
    """Accumulators that are made of those of another question."""

    roll_up: RollUp


@dataclass(frozen=True)
class Folding(Accumulators):
    """Accumulators that elements are folded into, and what becomes of them in a block."""

    preaggregates: bool = False
    """True if rows of elements are folded first."""
    choosers: tuple[Chooser, ...] = ()
    """Choosers among the elements of each output, which blocks keep for that."""
    finishing: TileFinishing | None = None
    """Finishes tiles where they are whole, if blocks do: results are then written one by one."""

    @cached_property
    def preaggregation(self) -> Preaggregation | None:
        """The rows that are folded first; None if elements are folded."""
        if not self.preaggregates:
            return None
        staged = self._inputs.staged
        return preaggregation_of(self.accumulator, self.layout, self.broadcast, staged, self.keys)

    @property
    def folded(self) -> Accumulator:
        """Accumulator that elements are folded into first."""
        return self.accumulator if self.preaggregation is None else self.preaggregation.folded

    @property
    def reads_fill(self) -> bool:
        """True if fill values are folded one by one, as they are read, wherever they are missing.

        Elements that are alike may be weighed unlike, and those that are kept are all brought.
        """
        return bool(self.broadcast or self.choosers or isinstance(self.keys, OwnKeys))

    @property
    def counts_fill_as_secondary(self) -> bool:
        """True if a secondary question folds fill values of leaves that are skipped by number."""
        plain = self.keys is None and not self.broadcast and not self.accumulator.uses_index
        return plain and self.layout.outputs == 1 and self.accumulator.takes_first

    def box(self, pieces: Sequence[Piece], within: Sequence[slice]) -> Box:
        """Describe a part of a leaf to the kernels."""
        return leaf_box(self.layout, pieces, within, self._inputs)

    def folded_box(self, pieces: Sequence[Piece], within: Sequence[slice]) -> Box:
        """Describe a part of a leaf to the kernels that fold it: its rows, where there are any."""
        if self.preaggregation is None:
            return self.box(pieces, within)
        return self.preaggregation.rows.read(pieces, within).box

    def keyed_box(self, pieces: Sequence[Piece], within: Sequence[slice]) -> KeyedBox:
        """Describe a part of a leaf whose elements have keys."""
        assert self.keys is not None
        axes = self.keys.box_axes(len(within))
        return keyed_leaf_box(self.layout, pieces, within, axes, self._inputs)

    def kept_box(
        self, pieces: Sequence[Piece], within: Sequence[slice]
    ) -> tuple[Box, list[OutputRun]] | None:
        """Describe a part of a leaf whose elements are all kept; None where none are."""
        if not self.choosers:
            return None
        return unreduced_leaf_box(self.layout, pieces, within, self._inputs)

    @property
    def groups_of_kept(self) -> np.ndarray | None:
        """The group of each element that is kept for an output; None if there are no groups.

        They are the rows of the table of keys that `RankSelection` has.
        """
        if self.keys is None:
            return None
        assert isinstance(self.keys, Keys)  # others keep no elements
        shape, reduced = self.layout.shape, self.layout.reduced
        own = [shape[n] if n in self.keys.axes else 1 for n in reduced]
        every = [shape[n] for n in reduced]
        return np.broadcast_to(self.keys.whole().reshape(own), every).reshape(-1)

    def of_some_groups(self, block: Block) -> tuple[Folding, np.ndarray | None]:
        """Return it with only those groups that a block may meet, and which these are.

        None: with all, and the block's partial has each. So it is where these are small,
        and where results are made of a block's alone.
        """
        partial_bytes = self.accumulator.nbytes * self.groups * self.layout.most_outputs
        if (
            not (isinstance(self.keys, Keys) and applies(PlanRule.SOME_GROUPS))
            or partial_bytes < LARGE_PARTIAL_BYTES
            or self.choosers
            or (self.finishing is not None and block.parts == (0, self.layout.parts))
        ):
            return self, None
        found = self.keys.of_some(self.layout.reach(block.tiles, block.parts))
        return (self, None) if found is None else (replace(self, keys=found[0]), found[1])

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what follows from fields: it travels with each task."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @cached_property
    def _inputs(self) -> InputTraits:
        staged = len(self.accumulator.stored) - len(self.broadcast)
        return InputTraits(self.accumulator.uses_index, staged, self.broadcast)


def ways_to_answer(
    request: Request, terms: Terms
) -> Callable[[Layout], tuple[Folding | RolledUp, ...]]:
    """Return a function that tells, for a layout of the first question, how each is answered.

    Rows of elements are folded first where that pays, whatever memory it takes.
    """
    requests = request.all_requests
    ways = roll_ups(requests, terms) if request.secondary else [None]

    def answers(layout: Layout) -> tuple[Folding | RolledUp, ...]:
        layouts = [layout, *(secondary_layout(one, layout) for one in request.secondary)]
        each = zip(requests, ways, layouts, strict=True)
        return tuple(_answer(one, way, own, terms) for one, way, own in each)

    return answers


def _answer(
    request: Request, roll_up: RollUp | None, layout: Layout, terms: Terms
) -> Folding | RolledUp:
    accumulator = request.accumulator(terms)
    if roll_up is not None:
        return RolledUp(layout, accumulator, request.keys, request.broadcast, roll_up)
    return Folding(
        layout,
        accumulator,
        request.keys,
        request.broadcast,
        request.preaggregated(layout, terms) is not None,
        request.choosers(terms),
        finishing_of(request, terms, layout, accumulator),
    )


def foldings_with(
    questions: Sequence[Folding | RolledUp], **given: Any
) -> tuple[Folding | RolledUp, ...]:
    """Return questions, with some other fields of those that elements are folded for."""
    return tuple(replace(one, **given) if isinstance(one, Folding) else one for one in questions)


class Constants(NamedTuple):
    """Inputs that all blocks of a run read in addition to their sources, by question."""

    keys: tuple[AnyKeys | None, ...]
    broadcast: tuple[tuple[BroadcastInput, ...], ...]

    @classmethod
    def of(cls, questions: Sequence[Folding | RolledUp]) -> Constants:
        """Return those of questions."""
        return cls(tuple(one.keys for one in questions), tuple(one.broadcast for one in questions))

    @classmethod
    def none(cls, questions: int) -> Constants:
        """Return none for so many questions."""
        return cls((None,) * questions, ((),) * questions)

    @property
    def nbytes(self) -> int:
        """Bytes of all that."""
        inputs = itertools.chain.from_iterable(self.broadcast)
        keys = (one.nbytes for one in self.keys if one is not None)
        return sum(keys) + sum(one.values.nbytes for one in inputs)

    def packed(self) -> PackedConstants:
        """Return what travels for it."""
        return PackedConstants(
            tuple(None if one is None else one.packed() for one in self.keys), self.broadcast
        )


class PackedConstants(NamedTuple):
    """Constants as they travel: keys are packed."""

    keys: tuple[PackedKeys | OwnKeys | None, ...]
    broadcast: tuple[tuple[BroadcastInput, ...], ...]

    def unpacked(self) -> Constants:
        """Return what was packed."""
        return Constants(
            tuple(None if one is None else one.unpacked() for one in self.keys), self.broadcast
        )


def with_constants(
    questions: Sequence[Folding | RolledUp], constants: Constants
) -> list[Folding | RolledUp]:
    """Return questions with other keys and inputs."""
    return [
        replace(one, keys=keys, broadcast=broadcast)
        for one, keys, broadcast in zip(questions, constants.keys, constants.broadcast, strict=True)
    ]
