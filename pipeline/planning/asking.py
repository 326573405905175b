"""Open what is to be reduced, and find out what is wrong, before anybody works."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from chunkfold.errors import PlanError
from chunkfold.grid import Axis, normalized_axes, select
from chunkfold.planning.grouping import grouping_of
from chunkfold.planning.held_inputs import HeldInput, mask_of, weights_of
from chunkfold.planning.options import Options
from chunkfold.planning.planner import refuse_many_leaves
from chunkfold.planning.request import Request
from chunkfold.settings import StorageOptions
from chunkfold.sources.axis_names import axis_numbers
from chunkfold.sources.cf_packing import packing_of
from chunkfold.sources.opening import open_source
from chunkfold.sources.source import Source
from chunkfold.stores.addresses import NO_OPTIONS


def asked(source: Any, options: Options) -> Request:
    """Return a reduction that can be planned; labels are read, data are not, nor are stores listed.

    `source` is what `chunkfold.reduce` takes. What memory is enough depends on who works: that is
    found out by planning.

    Raises
    ------
    ChunkfoldError
        Whatever is wrong with it.
    """
    sources = _sources(source, options.storage_options)
    chosen = tuple(select(sources[0].grid, options.selection))
    alive = [n for n, entry in enumerate(chosen) if not entry.dropped]
    axis = axis_numbers(sources[0], options.axis, options.selection)
    named = {alive[n] for n in normalized_axes(axis, len(alive))}
    # An axis selected by an integer has one element: reducing it changes nothing.
    reduced = tuple(n for n, entry in enumerate(chosen) if n in named or entry.dropped)
    request = Request(
        sources,
        # What was given beside the source may be anything, such as files that are open.
        options.alone(),
        chosen,
        reduced,
        tuple(packing_of(one) if options.mask_and_scale else None for one in sources),
        grouping_of(options, sources[0], chosen, reduced),
        _held(options, sources[0], chosen),
    )
    refuse_many_leaves(request)
    _refuse_empty(request)
    return request


def _sources(given: Any, options: StorageOptions | None) -> tuple[Source, ...]:
    """Open one source, or a pair of equal shape."""
    named: Sequence[Any] = given if isinstance(given, (tuple, list)) else (given,)
    sources = tuple(open_source(one, options or NO_OPTIONS) for one in named)
    if not sources:
        raise PlanError("no source was named")
    first = sources[0]
    for other in sources[1:]:
        if other.shape != first.shape:
            raise PlanError(
                f"{first.name} has shape {first.shape}, but {other.name} has {other.shape}; "
                "they are taken element by element: give arrays of equal shape"
            )
    return sources


def _held(options: Options, source: Source, chosen: Sequence[Axis]) -> tuple[HeldInput, ...]:
    """Read weights and a mask, if there are any."""
    found, stores = [], options.storage_options
    if options.weights is not None:
        found.append(weights_of(options.weights, source, chosen, stores))
    if options.mask is not None:
        found.append(mask_of(options.mask, source, chosen, stores))
    return tuple(found)


def _refuse_empty(request: Request) -> None:
    """Refuse a reduction of nothing where it has no value: the one rule for empty input."""
    if request.grouping is not None:  # whose groups may have no elements anyway
        return
    shape = tuple(axis.length for axis in request.chosen)
    reduces = math.prod(shape[n] for n in request.reduced)
    outputs = math.prod(size for n, size in enumerate(shape) if n not in request.reduced)
    for statistic in request.bound().statistics:
        if not reduces and outputs and statistic.monoid.on_empty == "error":
            raise PlanError(
                f"{statistic.name} of no elements has no value: the selection of "
                f"{request.name} has shape {shape}"
            )
