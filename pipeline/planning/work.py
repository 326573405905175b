"""The work that the tasks of a run have in common."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from chunkfold.axis_cuts import Cells
from chunkfold.grid import Piece
from chunkfold.kernels import Accumulator, Box, KeyedBox
from chunkfold.kernels.accumulator.chooser import Chooser
from chunkfold.kernels.fold.levels import Levels
from chunkfold.kernels.geometry import OutputRun
from chunkfold.planning.block_data import BlockData, Brings, Constants, to_workers
from chunkfold.planning.blocks import LARGE_BYTES, Block
from chunkfold.planning.broadcast_inputs import BroadcastInput
from chunkfold.planning.group_keys import Keys
from chunkfold.planning.grouping import AnyKeys
from chunkfold.planning.layout import Layout
from chunkfold.planning.leaf_boxes import Inputs, kept_leaf_box, keyed_leaf_box, leaf_box
from chunkfold.planning.leaf_extremes import MOST_LEAVES, has_extremes
from chunkfold.planning.leaf_objects import ListingTerms
from chunkfold.planning.plan import Plan
from chunkfold.planning.preaggregation import Preaggregation, preaggregated
from chunkfold.planning.roll_up import RollUp
from chunkfold.planning.rules import PlanRule, applies
from chunkfold.planning.tiles import TileFinishing, finishing_of, kernel_levels
from chunkfold.settings import retry_seconds
from chunkfold.sources.dask_division import Division, Own
from chunkfold.sources.dask_source import with_keys, with_tasks
from chunkfold.sources.gathering import covers
from chunkfold.sources.source import Source


@dataclass(frozen=True)
class Work:
    """The work that all blocks of a run have. It travels with each task, so it stays small."""

    run: str
    sources: tuple[Source, ...]
    listings: tuple[ListingTerms | None, ...]
    """For each input what is known of all of its objects; None if it could not be listed."""
    layout: Layout
    leaf_bytes: int
    """Most decoded bytes of a leaf of one input."""
    accumulator: Accumulator
    variant: str | None
    at_once: int
    """Blocks that a worker runs at once."""
    readers: int
    """Threads that read for a block, where a worker has as many."""
    requests: int
    """Requests that a worker may have in flight for one host."""
    fetching: int
    """Bytes that these may bring, or that wait to be decoded."""
    retry_s: float
    """Seconds for which a request is tried again."""
    skips: bool
    """True if chunks that cannot be read are left out, rather than end the run."""
    wants_all: bool = False
    """True if chunks that are not stored end the run."""
    keys: AnyKeys | None = None
    """The group of each element, if there are groups."""
    numbering: Accumulator | None = None
    """Accumulator that numbers elements grouped by their own values."""
    held: tuple[BroadcastInput, ...] = ()
    """Inputs behind the sources that lack axes of them."""
    choosers: tuple[Chooser, ...] = ()
    """Choosers among the elements of each output, which blocks keep for that."""
    tasks: Division | None = None
    """Dask's, which make chunks of the sources; they do not travel."""
    finishing: TileFinishing | None = None
    """Finishes tiles where they are whole, if blocks do: results then leave one by one."""
    levels: Levels | None = None
    """Levels that kernels make of tiles that are one leaf, if they can."""
    beside: tuple[Work, ...] = ()
    """Work for the other questions that the same read answers: they have the same leaves."""
    extremes: bool = False
    """True if blocks return the least and the greatest elements of leaves, for another read."""
    kinds: frozenset[str] = frozenset()
    """Kinds of devices, as far as they are known."""
    by_rows: bool = True
    """True if rows of elements may be folded first."""
    decodes_on_device: bool = False
    """True if devices decode what they can."""
    roll_up: RollUp | None = None
    """The way to make it of another question's accumulators, if there is one."""

    @property
    def together(self) -> tuple[Work, ...]:
        """Work for all questions that one read answers, this one first."""
        return (self, *self.beside)

    @property
    def folded_beside(self) -> tuple[Work, ...]:
        """Work for the other questions that elements are folded for."""
        return tuple(one for one in self.beside if one.roll_up is None)

    def box(self, pieces: Sequence[Piece], within: Sequence[slice]) -> Box:
        """Describe a part of a leaf to the kernels."""
        return leaf_box(self.layout, pieces, within, self._inputs)

    @cached_property
    def rowwise(self) -> Preaggregation | None:
        """The rows that are folded first; None if elements are folded."""
        if not self.by_rows or (self.keys is None and not self.held):
            return None
        staged = len(self.sources)
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
        return Inputs(self.accumulator.uses_index, len(self.sources), self.held)

    @property
    def groups(self) -> int:
        """Accumulators of each output."""
        return 1 if self.keys is None else self.keys.count

    def of_some_groups(self, block: Block) -> tuple[Work, np.ndarray | None]:
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

    @property
    def fills_implicitly(self) -> bool:
        """True if chunks that are not stored are folded by their number of elements alone."""
        # Elements that are alike may be weighed unlike, and those that are kept are all brought.
        if self.held or self.choosers or self.numbering is not None:
            return False
        accumulator = self.accumulator
        # Reductions that read indices would need the first element of each group.
        own = accumulator.takes_first and (self.keys is None or not accumulator.uses_index)
        return own and all(one._counts_fill for one in self.folded_beside)

    @property
    def _counts_fill(self) -> bool:
        """True if that holds for this question, where another one's leaves are skipped."""
        plain = self.keys is None and not self.held and not self.accumulator.uses_index
        return plain and self.layout.outputs == 1 and self.accumulator.takes_first

    @property
    def constants(self) -> Constants:
        """Keys and inputs that are the same for all blocks, and may be large."""
        return Constants(self.keys, self.held, tuple(one.constants for one in self.beside))

    def with_constants(self, constants: Constants) -> Work:
        """Return it with these."""
        each = constants.beside or (Constants(),) * len(self.beside)
        beside = (one.with_constants(own) for one, own in zip(self.beside, each, strict=True))
        return replace(self, keys=constants.keys, held=constants.held, beside=tuple(beside))

    def common(self, brings: Brings = to_workers) -> Work:
        """Return what all blocks have: nothing of sources that these bring."""
        own = [one.parted(()) if brings(one) else one for one in self.sources]
        return replace(self._reading(own), tasks=None)

    def data_of(self, block: Block, brings: Brings = to_workers) -> BlockData | None:
        """Return what a block brings; None if that is nothing."""
        brought = {n: source for n, source in enumerate(self.sources) if brings(source)}
        if not brought:
            return None
        regions = partial(regions_of, self.layout, block)
        parts = {n: source.parted(regions(source)) for n, source in brought.items()}
        return BlockData(parts, Own() if self.tasks is None else self.tasks.own(block.number))

    def with_sources(self, sources: Mapping[int, Source]) -> Work:
        """Return it with sources that a block brought, by their numbers."""
        return self._reading([sources.get(n, s) for n, s in enumerate(self.sources)])

    def _reading(self, sources: Sequence[Source]) -> Work:
        """Return it with other sources, for every question."""
        beside = tuple(replace(one, sources=tuple(sources)) for one in self.beside)
        return replace(self, sources=tuple(sources), beside=beside)

    def outputs_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the extents of accumulators of some outputs: groups come first."""
        return shape if self.keys is None else (self.groups, *shape)

    def outputs_region(self, place: tuple[slice, ...]) -> tuple[slice, ...]:
        """Return where the accumulators of some outputs are."""
        return place if self.keys is None else (slice(0, self.groups), *place)

    @classmethod
    def of(cls, run: str, plan: Plan) -> Work:
        """Return what a plan's blocks have in common."""
        regions = (partial(regions_of, plan.layout, block) for block in plan.blocks)
        return cls._of(run, plan, *with_tasks(plan.sources, regions))

    @classmethod
    def in_graph(cls, run: str, plan: Plan) -> Work:
        """Return the same for a graph of Dask's, in which the chunks of its arrays are results."""
        return replace(cls._of(run, plan, (*map(with_keys, plan.sources),), None), finishing=None)

    @classmethod
    def _of(cls, run: str, plan: Plan, sources: tuple[Source, ...], tasks: Division | None) -> Work:
        return cls(
            run,
            sources,
            plan.listing_terms,
            plan.layout,
            plan.leaf_bytes,
            plan.accumulator,
            plan.options.variant,
            plan.threads,
            plan.readers,
            plan.requests,
            plan.memory.fetching,
            retry_seconds(),
            plan.options.skips,
            plan.options.wants_all,
            plan.request.keys,
            plan.request.numbering,
            plan.held,
            plan.choosers,
            tasks,
            finishing_of(plan),
            kernel_levels(plan) if plan.request.streams else None,
            tuple(
                cls._of(f"{run}-{number}", one, sources, None)
                for number, one in enumerate(plan.beside, 1)
            ),
            (plan.reads > 1 and plan.ledger is None)
            and plan.layout.leaves <= MOST_LEAVES
            and has_extremes(plan.sources, plan.packings, plan.options.cast),
            plan.terms.kinds,
            plan.by_rows,
            plan.device_decoding.used,
            plan.request.roll_up,
        )

    def grids_along(self, axis: int) -> list[Cells]:
        """Return where each input is cut along an axis."""
        return [source.grid[axis] for source in self.sources]


def regions_of(layout: Layout, block: Block, source: Source) -> list[tuple[slice, ...]]:
    """Return what a block reads of a source, leaf by leaf."""
    leaves = itertools.product(range(*block.tiles), range(*block.parts))
    pieces = (layout.leaf(tile, part) for tile, part in leaves)
    return [
        region
        for leaf in pieces
        if all(piece.length for piece in leaf)
        for region in covers([piece.source for piece in leaf], source.grid)
    ]
