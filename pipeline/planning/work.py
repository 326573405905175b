"""The work that the tasks of a run have in common: one read, and what is made of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np
from dask.sizeof import sizeof

from chunkfold.axis_cuts import Cells
from chunkfold.planning.blocks import Block
from chunkfold.planning.folding import Constants, Folding, RolledUp, with_constants
from chunkfold.planning.layout import Layout
from chunkfold.planning.leaf_extremes import MOST_LEAVES, has_extremes
from chunkfold.planning.leaf_objects import ListingTerms
from chunkfold.planning.plan import Plan
from chunkfold.settings import retry_seconds
from chunkfold.sources.dask_division import Division, Own
from chunkfold.sources.dask_source import DaskSource, with_keys, with_tasks
from chunkfold.sources.gathering import covers
from chunkfold.sources.source import Source


@dataclass(frozen=True)
class BlockData:
    """The parts of sources that one block alone is given."""

    sources: Mapping[int, Source] = field(default_factory=dict)
    """By their numbers among a run's."""
    tasks: Own = field(default_factory=Own)
    """Tasks that compute chunks of these sources."""

    def __sizeof__(self) -> int:
        return sum(map(sizeof, (*self.sources.values(), *self.tasks.graph.values())))


Brings = Callable[[Source], bool]
"""Tells if blocks bring what they read of a source."""


def to_workers(source: Source) -> bool:
    """Tell if blocks bring a source to workers: its elements, or which parts of it they read."""
    return not source.travels or len(source.origins) > 1


def to_a_graph(source: Source) -> bool:
    """Tell if blocks bring a source in a graph of Dask's: one in memory, or Dask's already.

    Other objects of this process are in the graph themselves, and read by its tasks.
    """
    return isinstance(source, DaskSource) or (
        all(one.travels or one.in_memory for one in source.origins) and to_workers(source)
    )


def to_this_process(source: Source) -> bool:
    """Tell if blocks bring a source where they run in the process that has it."""
    return not source.travels and not source.here


@dataclass(frozen=True)
class Scan:
    """The sources that a run reads once for all its questions, and how much of them at once."""

    run: str
    sources: tuple[Source, ...]
    listings: tuple[ListingTerms | None, ...]
    """For each input what is known of all of its objects; None if it could not be listed."""
    leaf_bytes: int
    """Most decoded bytes of a leaf of one input."""
    variant: str | None
    """Variant of the kernels, if one was asked for."""
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
    decodes_on_device: bool = False
    """True if devices decode what they can."""
    finds_extremes: bool = False
    """True if blocks return the least and the greatest elements of leaves, for another read."""
    tasks: Division | None = None
    """Dask's, which make chunks of the sources; they do not travel."""

    @classmethod
    def of(cls, run: str, plan: Plan) -> Scan:
        """Return the read of a plan, by the blocks of a run."""
        regions = (partial(regions_of, plan.layout, block) for block in plan.blocks)
        return cls._of(run, plan, *with_tasks(plan.sources, regions))

    @classmethod
    def in_graph(cls, run: str, plan: Plan) -> Scan:
        """Return the same for a graph of Dask's, in which the chunks of its arrays are results."""
        return cls._of(run, plan, tuple(map(with_keys, plan.sources)), None)

    @classmethod
    def _of(cls, run: str, plan: Plan, sources: tuple[Source, ...], tasks: Division | None) -> Scan:
        return cls(
            run,
            sources,
            plan.listing_terms,
            plan.scan.leaf_bytes,
            plan.options.variant,
            plan.threads,
            plan.readers,
            plan.terms.requests,
            plan.memory.fetching,
            retry_seconds(),
            plan.options.skips,
            plan.options.wants_all,
            plan.device_decoding.used,
            plan.reads > 1
            and plan.ledger is None
            and plan.layout.leaves <= MOST_LEAVES
            and has_extremes(plan.sources, plan.request.packings, plan.options.cast),
            tasks,
        )

    @cached_property
    def grids(self) -> tuple[tuple[Cells, ...], ...]:
        """For each axis where each input is cut along it."""
        return tuple(zip(*(source.grid for source in self.sources), strict=True))

    def common(self, brings: Brings = to_workers) -> Scan:
        """Return what all blocks have: nothing of sources that these bring."""
        own = (one.parted(()) if brings(one) else one for one in self.sources)
        return replace(self, sources=tuple(own), tasks=None)

    def data_of(
        self, block: Block, layout: Layout, brings: Brings = to_workers
    ) -> BlockData | None:
        """Return what a block of a layout's leaves brings; None if that is nothing."""
        brought = {n: source for n, source in enumerate(self.sources) if brings(source)}
        if not brought:
            return None
        regions = partial(regions_of, layout, block)
        parts = {n: source.parted(regions(source)) for n, source in brought.items()}
        return BlockData(parts, Own() if self.tasks is None else self.tasks.own(block.number))

    def with_sources(self, sources: Mapping[int, Source]) -> Scan:
        """Return it with sources that a block brought, by their numbers."""
        own = (sources.get(n, source) for n, source in enumerate(self.sources))
        return replace(self, sources=tuple(own))


@dataclass(frozen=True)
class Work:
    """The work that all blocks of a run have. It travels with each task, so it stays small."""

    scan: Scan
    first: Folding
    """The question for whose tiles, one after another, leaves are read."""
    secondary: tuple[Folding | RolledUp, ...] = ()
    """The other questions that the same read answers: they have the same leaves."""

    @classmethod
    def of(cls, run: str, plan: Plan) -> Work:
        """Return what a plan's blocks have in common."""
        return cls(Scan.of(run, plan), plan.first, plan.questions[1:])

    @classmethod
    def in_graph(cls, run: str, plan: Plan) -> Work:
        """Return the same for a graph of Dask's, in which the chunks of its arrays are results."""
        return cls(Scan.in_graph(run, plan), replace(plan.first, finishing=None))

    @property
    def questions(self) -> tuple[Folding | RolledUp, ...]:
        """All questions that the read answers."""
        return (self.first, *self.secondary)

    @property
    def folded_secondary(self) -> tuple[Folding, ...]:
        """The other questions that elements are folded for."""
        return tuple(one for one in self.secondary if isinstance(one, Folding))

    def alone(self, question: Folding) -> Work:
        """Return the work for one of the questions, as if it was the only one."""
        return Work(replace(self.scan, finds_extremes=False), question)

    @property
    def fills_implicitly(self) -> bool:
        """True if chunks that are not stored are folded by their number of elements alone."""
        first = self.first
        if first.reads_fill:
            return False
        accumulator = first.accumulator
        # Reductions that read indices would need the first element of each group.
        own = accumulator.takes_first and (first.keys is None or not accumulator.uses_index)
        return own and all(one.counts_fill_as_secondary for one in self.folded_secondary)

    @property
    def constants(self) -> Constants:
        """Keys and inputs that are the same for all blocks, and may be large."""
        return Constants.of(self.questions)

    def with_constants(self, constants: Constants) -> Work:
        """Return it with these."""
        first, *others = with_constants(self.questions, constants)
        assert isinstance(first, Folding)
        return replace(self, first=first, secondary=tuple(others))

    def without_constants(self) -> Work:
        """Return it without them, as it travels next to them."""
        return self.with_constants(Constants.none(len(self.questions)))

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
