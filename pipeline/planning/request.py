"""A reduction of opened sources that was seen to be sound, whoever will do it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from chunkfold.grid import Axis, Taken
from chunkfold.kernels import Accumulator, Bound, Packing, bind
from chunkfold.kernels.accumulator.chooser import Chooser
from chunkfold.planning.broadcast_inputs import BroadcastInput
from chunkfold.planning.grouping import AnyKeys, Grouping
from chunkfold.planning.layout import Layout
from chunkfold.planning.options import Options
from chunkfold.planning.preaggregation import Preaggregation, preaggregated
from chunkfold.planning.workers import Terms
from chunkfold.positions import crossed
from chunkfold.sources.chunk_contents import with_contents
from chunkfold.sources.chunk_index import Listing
from chunkfold.sources.data_arrays import DataArrays
from chunkfold.sources.source import Source


@dataclass(frozen=True)
class Streamed:
    """The form in which results leave as soon as they are computed, tile by tile."""

    levels: int = 1
    """Levels of results: each after the first is of windows of the one before, of equal size."""
    modes: tuple[int, ...] = ()
    """By how much each level is coarser along each axis, where levels have the most frequent
    elements of windows: of results, which are not written; empty if they do not."""
    rounded_to: np.dtype | None = None
    """Dtype that results leave in, if it is another than theirs."""
    staged: str = ""
    """Name of the output in its staging folder, by which a ledger notes what was written to it;
    empty: a ledger has partials."""

    @property
    def coarser(self) -> int:
        """Number of levels that are coarser than results."""
        return self.levels - (not self.modes)

    def factors(self, chosen: Sequence[Axis], axes: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """Return by how much each coarser level is than the one before, along some axes."""
        each = self.modes or [axis.window or 1 for axis in chosen]
        return (tuple(each[n] for n in axes),) * self.coarser


@dataclass(frozen=True)
class Request:
    """A reduction of opened sources; made by `chunkfold.planning.resolve`."""

    sources: tuple[Source, ...]
    """Aligned inputs."""
    options: Options
    """Options without labels, weights and masks, which are in `grouping` and `broadcast`."""
    chosen: tuple[Axis, ...]
    """The selection along each axis."""
    reduced: tuple[int, ...]
    """Axes that are reduced, and axes that an integer index drops."""
    packings: tuple[Packing | None, ...]
    """For each source the packing (scale and offset) of its elements; None if there is none."""
    grouping: Grouping | None = None
    """The groups of elements that have the same label."""
    broadcast: tuple[BroadcastInput, ...] = ()
    """Inputs that lack axes of the sources: weights, then a mask."""
    keeping: bool = False
    """True if blocks keep all elements of an output to choose some; the planner sets it."""
    data_arrays: DataArrays | None = None
    """The sources as arrays of xarray, if they were given so."""
    streamed: Streamed | None = None
    """The levels that are written tile by tile; None if all results stay in memory."""
    question: str = ""
    """The name of this question, if several share one read."""
    questions: tuple[str, ...] = ()
    """Names of all questions that share the read, in order; empty if there is one."""
    origins: tuple[str, ...] = ()
    """Paths and URLs of all that it is read from: labels, weights and masks, too."""
    secondary: tuple[Request, ...] = ()
    """The other questions: each has the same sources and the same selection."""

    @property
    def name(self) -> str:
        """The name of the sources in messages."""
        return " and ".join(source.name for source in self.sources)

    @property
    def unasked(self) -> bool:
        """True if a ledger alone uses this question: users get no result."""
        return self.question.startswith(".")  # users' names cannot begin so

    @property
    def staged(self) -> str:
        """The name of the output whose written tiles a ledger notes; empty if it has partials."""
        return "" if self.streamed is None else self.streamed.staged

    @property
    def keys(self) -> AnyKeys | None:
        """The group of each element; None if there are no groups."""
        return None if self.grouping is None else self.grouping.keys

    @property
    def groups(self) -> int:
        """Results of each output."""
        return 1 if self.grouping is None else self.grouping.count

    @cached_property
    def has_nan_weights(self) -> bool:
        """True if weights that are the same along axes contain NaN."""
        weights = [one.values for one in self.broadcast if one.weighs and one.floats]
        return any(bool(np.isnan(one).any()) for one in weights)

    @property
    def all_requests(self) -> tuple[Request, ...]:
        """All questions that were asked together, this one first."""
        return (self, *self.secondary)

    def reads_again(self, *, fp64: bool = True) -> bool:
        """Tell if the data may be read more than once, by devices that have float64 or not."""
        return any(one.monoid.reads > 1 for one in self.bound(fp64=fp64).statistics)

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
            [source.dtype for source in self.sources]
            + [one.values.dtype for one in self.broadcast],
            dtype=self.options.cast,
            fp64=fp64,
            ddof=self.options.ddof,
            exact=self.options.exact,
            packings=(*self.packings, *(None for _ in self.broadcast)),
            keyed=self.keys is not None,
            outputs=self.groups * self.outputs,
            keeping=self.keeping,
            initial=self.options.initial,
        )

    def accumulator(self, terms: Terms) -> Accumulator:
        """Return the accumulator of elements, in the form that suits the number of outputs."""
        bound = self.bound(fp64=terms.fp64)
        return bound.accumulator.for_outputs(self.groups * self.outputs)

    def choosers(self, terms: Terms) -> tuple[Chooser, ...]:
        """Return what is chosen of elements that are kept; empty if none are."""
        each = (one.chooser for one in self.bound(fp64=terms.fp64).statistics)
        return tuple(one for one in each if one is not None)

    def preaggregated(self, layout: Layout, terms: Terms) -> Preaggregation | None:
        """Return the rows of elements that are folded first; None if elements are folded."""
        keys, staged = self.keys, len(self.sources)
        if keys is None and not self.broadcast:
            return None
        return preaggregated(
            self.accumulator(terms), layout, self.broadcast, staged, keys, terms.kinds
        )

    @cached_property
    def _bounds(self) -> dict[bool, Bound]:
        return {}

    def listings(self) -> list[Listing | None]:
        """List what is stored of each source: see `chunkfold.sources.chunk_index`."""
        if self.options.ledger is None or self.options.ledger_verify == "listing":
            return [source.listing() for source in self.sources]
        return [
            with_contents(one, [*map(Axis.hits, self.chosen, one.object_shape, one.object_grid)])
            for one in self.sources
        ]

    def __getstate__(self) -> dict[str, Any]:
        """Leave what is bound out: it follows from the rest, and is made of functions."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


def in_storage_order(requests: Sequence[Request]) -> tuple[Request, ...]:
    """Return reductions that read every chunk once, whatever the order of what is selected.

    All have one selection. Results are put in the order that was asked for at the end.
    Along a reduced axis the order matters only to reductions that read indices: if there is one,
    it stays as it is for all.
    """
    # Windows are of elements that follow each other in the order that was asked for.
    windows = {n for one in requests for n, axis in enumerate(one.chosen) if axis.window}
    chosen = requests[0].chosen
    turned = [n for n, axis in enumerate(chosen) if not (n in windows or axis.ascends)]
    for request in requests if turned else ():
        if any(n in request.reduced for n in turned) and request.bound().accumulator.uses_index:
            turned = [n for n in turned if n not in request.reduced]
    return tuple(_turned(request, turned) if turned else request for request in requests)


def _turned(request: Request, turned: Sequence[int]) -> Request:
    """Return a reduction that takes what is selected in the order of its axes."""
    chosen, orders = list(request.chosen), dict[int, Taken]()
    for n in turned:
        axis, orders[n] = chosen[n].ascending()
        chosen[n] = replace(axis, order=None) if n in request.reduced else axis
    grouping = request.grouping
    if grouping is not None:
        keys = grouping.keys.reordered(lambda codes, axes: _along(codes, axes, orders))
        grouping = replace(grouping, keys=keys)
    broadcast = (
        replace(one, values=_along(one.values, one.axes, orders)) for one in request.broadcast
    )
    return replace(request, chosen=tuple(chosen), grouping=grouping, broadcast=tuple(broadcast))


def _along(values: np.ndarray, axes: tuple[int, ...], orders: Mapping[int, Taken]) -> np.ndarray:
    """Return what goes along some axes in another order, C-contiguous."""
    cut = crossed(values, [orders.get(n, slice(None)) for n in axes])
    return np.array(cut, order="C")
