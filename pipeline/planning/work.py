"""What the tasks of a run are given: what they work on."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace

from chunkfold.grid import Cells
from chunkfold.kernels import Accumulator
from chunkfold.planning.blocks import Block
from chunkfold.planning.group_keys import Keys
from chunkfold.planning.layout import Layout
from chunkfold.planning.missing_chunks import ListingTerms
from chunkfold.planning.plan import Plan
from chunkfold.settings import retry_seconds
from chunkfold.sources.source import Source

Carried = Mapping[int, Source]
"""Sources by their numbers among a run's."""


@dataclass(frozen=True)
class Work:
    """What the blocks of a run have in common. Travels with each task, so it stays small."""

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
    """That a worker may have in flight for one host."""
    fetching: int
    """Bytes that these may bring, or that wait to be decoded."""
    retry_s: float
    """How long a request is tried again, in seconds."""
    skips: bool
    """Whether chunks that cannot be read are left out, rather than end the run."""
    keys: Keys | None = None
    """Which group each element is in, where there are groups."""

    @property
    def groups(self) -> int:
        """Accumulators of each output."""
        return 1 if self.keys is None else self.keys.count

    @property
    def owes(self) -> bool:
        """Whether of what is not stored it is enough to know how many elements it has."""
        accumulator = self.accumulator
        # Of each group the first would have to be given to what reads indices.
        return accumulator.takes_first and (self.keys is None or not accumulator.uses_index)

    def travelling(self) -> Work:
        """Return it without sources that blocks bring to workers: see `Source.travels`."""
        sources = (one if one.travels else one.parted(()) for one in self.sources)
        return replace(self, sources=tuple(sources))

    def carried(self, block: Block) -> Carried:
        """Return what a block brings of sources that do not travel, by their numbers."""
        regions = self._regions(block)
        return {
            number: source.parted(regions)
            for number, source in enumerate(self.sources)
            if not source.travels
        }

    def _regions(self, block: Block) -> list[list[slice]]:
        """Return what a block reads of each source."""
        leaves = itertools.product(range(*block.tiles), range(*block.parts))
        return [[piece.source for piece in self.layout.leaf(tile, part)] for tile, part in leaves]

    def of_block(self, block: Block | None) -> Work:
        """Return it as it travels with a block, or with a combine: without what that never reads.

        Of several sources that are one, a block reads of few.
        """
        if all(len(source.origins) == 1 for source in self.sources):
            return self
        regions = [] if block is None else self._regions(block)
        sources = (one.parted(regions) if one.travels else one for one in self.sources)
        return replace(self, sources=tuple(sources))

    def carrying(self, carried: Carried) -> Work:
        """Return it with what a block brought."""
        sources = (carried.get(n, source) for n, source in enumerate(self.sources))
        return replace(self, sources=tuple(sources))

    def outputs_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the extents of accumulators of some outputs: groups come first."""
        return shape if self.keys is None else (self.groups, *shape)

    def outputs_place(self, place: tuple[slice, ...]) -> tuple[slice, ...]:
        """Return where the accumulators of some outputs are."""
        return place if self.keys is None else (slice(0, self.groups), *place)

    @classmethod
    def of(cls, run: str, plan: Plan, variant: str | None, *, skips: bool) -> Work:
        """Return what a plan's blocks have in common."""
        return cls(
            run,
            plan.sources,
            plan.terms,
            plan.layout,
            plan.leaf_bytes,
            plan.accumulator,
            variant,
            plan.threads,
            plan.readers,
            plan.requests,
            plan.memory.fetching,
            retry_seconds(),
            skips,
            None if plan.grouping is None else plan.grouping.keys,
        )

    def grids_along(self, axis: int) -> list[Cells]:
        """Return where each input is cut along an axis."""
        return [source.grid[axis] for source in self.sources]
