"""A reduction of opened sources that was seen to be sound, whoever will do it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from chunkfold.grid import Axis
from chunkfold.kernels import Accumulator, Bound, Packing, bind
from chunkfold.planning.broadcast_inputs import BroadcastInput
from chunkfold.planning.grouping import Grouping
from chunkfold.planning.leaf_extremes import Passed
from chunkfold.planning.options import Options
from chunkfold.planning.own_keys import OwnKeys
from chunkfold.planning.roll_up import RollUp
from chunkfold.sources.chunk_index import Listing
from chunkfold.sources.data_arrays import DataArrays
from chunkfold.sources.source import Source


@dataclass(frozen=True)
class Request:
    """A reduction of opened sources; made by `chunkfold.planning.asking`."""

    sources: tuple[Source, ...]
    """Aligned inputs."""
    options: Options
    """Without labels, weights and masks: `grouping` and `held` have those."""
    chosen: tuple[Axis, ...]
    """What is selected along each axis."""
    reduced: tuple[int, ...]
    """Axes that are reduced, and those that an integer selects of."""
    packings: tuple[Packing | None, ...]
    """How values are made of each source's elements, if they are not what is stored."""
    grouping: Grouping | None = None
    """The groups of elements that have the same label."""
    held: tuple[BroadcastInput, ...] = ()
    """Inputs that lack axes of the sources: weights, then a mask."""
    keeping: bool = False
    """Whether blocks keep all elements of an output, to choose some: decided by planning."""
    data_arrays: DataArrays | None = None
    """What xarray holds of the sources, if they were given as its arrays."""
    streams: bool = False
    """Whether results leave as soon as they are there, tile by tile: none is kept."""
    levels: int = 1
    """Of results: each behind the first is of windows of the one before, as large as its own."""
    modes: tuple[int, ...] = ()
    """By how much each level is coarser along each axis, where levels have the most frequent
    elements of windows: of results, which are not written; empty if they do not."""
    rounded_to: np.dtype | None = None
    """Dtype that results leave in, if it is another than theirs."""
    question: str = ""
    """What it goes by, if several were asked together."""
    questions: tuple[str, ...] = ()
    """What those go by that were asked together, in their order; empty if one was asked alone."""
    beside: tuple[Request, ...] = ()
    """The others of them: each has the same sources and the same selection."""
    roll_up: RollUp | None = None
    """How it is made of what another of them has folded, if it is: decided by planning."""
    passed: Passed | None = None
    """Leaves that need not be read: nothing in them counts for what was found before."""

    @property
    def name(self) -> str:
        """How messages call the sources."""
        return " and ".join(source.name for source in self.sources)

    @property
    def groups(self) -> int:
        """Results of each output."""
        return 1 if self.grouping is None else self.grouping.count

    @cached_property
    def numbering(self) -> Accumulator | None:
        """What numbers elements that are grouped by their own values; None if none are.

        Raises
        ------
        ChunkfoldError
            If they are not such as the edges of their groups.
        """
        keys = None if self.grouping is None else self.grouping.keys
        if not isinstance(keys, OwnKeys):
            return None
        return keys.accumulator(self.sources[0].dtype, self.packings[0], self.name)

    @property
    def together(self) -> tuple[Request, ...]:
        """All that were asked together, this one first."""
        return (self, *self.beside)

    @property
    def reads_again(self) -> bool:
        """Whether the data may be read more than once."""
        return any(one.monoid.reads > 1 for one in self.bound().statistics)

    def factors(self, axes: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """Return by how much each level is coarser than the one before, along some axes.

        The first one that is coarser is than results.
        """
        if self.modes:
            return (tuple(self.modes[n] for n in axes),) * self.levels
        each = tuple(self.chosen[n].window or 1 for n in axes)
        return (each,) * (self.levels - 1)

    @property
    def outputs(self) -> int:
        """Number of outputs, each of which has a result for every group."""
        kept = (n for n in range(len(self.chosen)) if n not in self.reduced)
        return math.prod(self.chosen[n].outputs for n in kept)

    def bound(self, *, fp64: bool = True) -> Bound:
        """Bind the reductions to the sources' dtypes, for devices that have float64 or not."""
        if fp64 not in self._bounds:
            self._bounds[fp64] = self._bind(fp64)
        return self._bounds[fp64]

    def _bind(self, fp64: bool) -> Bound:
        return bind(
            self.options.monoids,
            [source.dtype for source in self.sources] + [one.values.dtype for one in self.held],
            dtype=self.options.cast,
            fp64=fp64,
            ddof=self.options.ddof,
            exact=self.options.exact,
            packings=(*self.packings, *(None for _ in self.held)),
            keyed=self.grouping is not None,
            outputs=self.groups * self.outputs,
            keeping=self.keeping,
            initial=self.options.initial,
        )

    @cached_property
    def _bounds(self) -> dict[bool, Bound]:
        return {}

    def listings(self) -> list[Listing | None]:
        """List what is stored of each source: see `chunkfold.sources.chunk_index`."""
        return [source.listing() for source in self.sources]

    def __getstate__(self) -> dict[str, Any]:
        """Leave what is bound out: it follows from the rest, and is made of functions."""
        return {one.name: getattr(self, one.name) for one in fields(self)}
