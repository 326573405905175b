"""Open what is to be reduced, and find out what is wrong, before anybody works."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

from chunkfold.errors import AlignmentWarning, PlanError
from chunkfold.grid import Axis
from chunkfold.kernels import as_monoid
from chunkfold.kernels.errors import MonoidError
from chunkfold.planning.asked_labels import names_coordinate, several
from chunkfold.planning.broadcast_inputs import (
    BroadcastInput,
    mask_of,
    weights_of,
    without_negative,
)
from chunkfold.planning.by_coordinates import by_positions, refuse_nothing, with_lists
from chunkfold.planning.coarsening import coarsened
from chunkfold.planning.grouping import OwnKeys, grouping_of
from chunkfold.planning.living_statistics import statistics_of
from chunkfold.planning.options import Options
from chunkfold.planning.ordered_elements import refuse_disorder
from chunkfold.planning.planner import refuse_many_leaves
from chunkfold.planning.questions import check_questions, of_question, refuse_other_windows
from chunkfold.planning.request import Request, in_storage_order
from chunkfold.planning.tendencies import with_following
from chunkfold.selections import select
from chunkfold.settings import StorageOptions
from chunkfold.sources.aligning import coordinates_of, find_alignment, refuse_other_coordinates
from chunkfold.sources.axis_names import Named, axis_numbers, normalized_axes
from chunkfold.sources.bins import Bins
from chunkfold.sources.cf_packing import packing_of
from chunkfold.sources.data_arrays import DataArrays, data_arrays
from chunkfold.sources.joined_values import Stored
from chunkfold.sources.noted_addresses import noting_addresses
from chunkfold.sources.opening import open_source
from chunkfold.sources.reordered_source import reordered
from chunkfold.sources.source import Source
from chunkfold.stores.addresses import NO_OPTIONS


def resolve(
    source: Any, options: Options | Mapping[str, Options], *, by_position: bool = False
) -> Request:
    """Return a reduction that can be planned; labels are read, data are not, nor are stores listed.

    `source` is what `chunkfold.reduce` takes, and options are those of one question, or of several
    by their names. Two sources whose coordinates have the same values in other orders are paired by
    these, unless they are to be `by_position`. Planning finds out how much memory is enough.

    Raises
    ------
    ChunkfoldError
        Whatever is wrong with it.
    """
    alone = isinstance(options, Options)
    each = {"": options} if isinstance(options, Options) else options
    if not alone:
        check_questions(each)
    with noting_addresses() as addresses:
        opened = tuple(_opened(source, each, by_position=by_position))
    origins = (*(own for one in opened[0].sources for own in one.addresses), *addresses)
    requests = in_storage_order(_dated([replace(one, origins=origins) for one in opened]))
    if not alone:
        refuse_other_windows(requests)
    if any(monoid.in_order for one in requests for monoid in one.options.monoids):
        refuse_disorder(requests)
    for request in requests:
        with _named(request.question):
            _refuse_undefined(request)
            _refuse_empty(request)
    requests = tuple(map(_numbered, requests))
    refuse_many_leaves(requests[0])
    if not alone:
        requests = tuple(replace(one, questions=tuple(each)) for one in requests)
    if any(one.ledger_statistics for one in each.values()):
        requests = (*requests, statistics_of(requests[0]))
    return replace(requests[0], secondary=requests[1:]) if requests[1:] else requests[0]


def _named(question: str) -> AbstractContextManager[None]:
    """Name the question in errors, if several are asked."""
    return of_question(question) if question else nullcontext()


def _numbered(request: Request) -> Request:
    """Return a request whose elements are numbered by their own values, if these group them."""
    grouping = request.grouping
    if grouping is None or not isinstance(grouping.keys, OwnKeys):
        return request
    with _named(request.question):
        keys = grouping.keys.numbered(request.sources[0].dtype, request.packings[0], request.name)
    return replace(request, grouping=replace(grouping, keys=keys))


def _dated(requests: Sequence[Request]) -> tuple[Request, ...]:
    """Return requests whose sources are as of now, by the clocks of their servers."""
    named = {id(one): one for request in requests for one in request.sources}
    now = {number: source.dated() for number, source in named.items()}
    return tuple(
        replace(one, sources=tuple(now[id(source)] for source in one.sources)) for one in requests
    )


def _opened(source: Any, each: Mapping[str, Options], *, by_position: bool) -> Iterator[Request]:
    """Yield what is asked of a source, which is opened once."""
    arrays = data_arrays(source)
    sources: tuple[Source, ...] = ()
    for name, given in each.items():
        with _named(name):
            options = given
            if given.selection is not None:
                options = replace(given, selection=with_lists(given.selection))
            if arrays is None:
                sources = sources or _sources(source, options.opening, by_position=by_position)
                _refuse_other_coordinates(options, sources[0])
                read = sources, by_positions(options, sources[0]) if options.sel else options
                request = _of(*(read if options.tendency is None else with_following(*read)))
            else:
                if options.tendency is not None:
                    raise PlanError("tendency takes no arrays of xarray: give the path of the Zarr")
                request = _of_arrays(arrays, _for_arrays(options, arrays))
        yield replace(request, question=name)


def _of(sources: tuple[Source, ...], options: Options, seen: Named | None = None) -> Request:
    """Return a reduction of sources, whose axes are named and counted as `seen`."""
    first: Named = seen or sources[0]
    chosen = tuple(select(first.grid, options.selection))
    selected = chosen
    alive = [n for n, entry in enumerate(chosen) if not entry.dropped]
    axis = axis_numbers(first, options.axis, options.selection)
    if options.coarsen is not None:
        axis = [] if axis is None else axis
        chosen = coarsened(
            chosen, first, options.selection, options.coarsen, options.boundary, options.axis
        )
    named = {alive[n] for n in normalized_axes(axis, len(alive))}
    # An axis selected by an integer has one element: reducing it changes nothing.
    reduced = tuple(n for n, entry in enumerate(chosen) if n in named or entry.dropped)
    made = Request(
        sources,
        # Labels, weights and masks may be anything, such as files that are open.
        options.alone(),
        chosen,
        reduced,
        tuple(packing_of(one) if options.mask_and_scale else None for one in sources),
        grouping_of(options, first, chosen, reduced)
        if options.by is not None or options.resample
        else None,
        _inputs(options, first, chosen),
    )
    if not options.allow_empty and any(one.cells.size and not one.length for one in selected):
        _refuse_undefined(made)
        _refuse_empty(made)  # which says more
        refuse_nothing(first, selected, options.selection)
    return made


def _of_arrays(arrays: DataArrays, options: Options) -> Request:
    """Return a reduction of what xarray holds, by the axes of what it is read from."""
    _refuse_other_coordinates(options, arrays)
    options = by_positions(options, arrays) if options.sel else options
    made, axes = _of(arrays.sources, options, arrays), arrays.axes
    chosen = arrays.stored(made.chosen)
    dropped = {n for n, entry in enumerate(chosen) if entry.dropped}
    each = zip(arrays.sources, arrays.decoded, strict=True)
    told = arrays.selection if options.selection is None else options.selection
    return replace(
        made,
        options=replace(made.options, selection=told),
        chosen=tuple(chosen),
        reduced=tuple(sorted({*(axes[n] for n in made.reduced), *dropped})),
        packings=tuple(packing_of(one) if packed else None for one, packed in each),
        grouping=None if made.grouping is None else made.grouping.along(axes),
        broadcast=tuple(replace(b, axes=tuple(axes[n] for n in b.axes)) for b in made.broadcast),
        data_arrays=arrays.selected(made.chosen),
    )


def _refuse_other_coordinates(options: Options, data: Source | DataArrays) -> None:
    """See that labels, weights and masks have the coordinates of the data."""
    along = [("weights", options.weights), ("where", options.mask)]
    if options.by is not None:
        each = several(options.by, partial(names_coordinate, data))
        along += (("by", one.of if isinstance(one, Bins) else one) for one in each)
    for what, given in along:
        refuse_other_coordinates(what, given, data)


def _for_arrays(options: Options, arrays: DataArrays) -> Options:
    """Set options that are not given as xarray has them: values to decode, NaN to leave out."""
    unpacked = arrays.unpacked(ask=bool(options.mask_and_scale))
    options = replace(options, mask_and_scale=any(unpacked))
    if options.skipna is not None:
        return options
    skips = [arrays.skips(name) for name in options.names]
    if len({*skips}) == 1:
        return replace(options, skipna=skips[0])
    each = zip(options.ops, skips, strict=True)
    return replace(options, op=[as_monoid(op).skipping() if skip else op for op, skip in each])


def _sources(
    given: Any, options: StorageOptions | None, *, by_position: bool
) -> tuple[Source, ...]:
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
    if len(sources) == 1 or by_position:
        return sources
    known = coordinates_of(first)
    return (first, *(_paired(first, known, other) for other in sources[1:]))


def _paired(first: Source, known: Mapping[str, Stored], other: Source) -> Source:
    """Return a source in the order of another one, or warn where their coordinates differ."""
    here, there = (list(map(str, one.dims or ())) for one in (first, other))
    if here != there and sorted(here) == sorted(there):
        raise PlanError(
            f"{first.name} has axes {', '.join(here)}, but {other.name} has {', '.join(there)}: "
            "give arrays whose axes are in the same order"
        )
    found = find_alignment(known, coordinates_of(other), other.dims or ())
    for told in found.differences.values():
        warnings.warn(
            f"{first.name} and {other.name} are paired by position, though {told}",
            AlignmentWarning,
            stacklevel=2,
        )
    return other if other.dims != first.dims else reordered(other, found.orders)


def _inputs(options: Options, source: Named, chosen: Sequence[Axis]) -> tuple[BroadcastInput, ...]:
    """Read weights and a mask, if there are any."""
    found, stores = [], options.opening
    if options.weights is not None:
        weights = weights_of(options.weights, source, chosen, stores)
        if options.cast is not None and options.cast.kind in "biu" and weights.floats:
            raise PlanError(
                f"dtype={options.cast} would also truncate {weights.name} of "
                f"{weights.values.dtype}: omit it, or give a dtype of floats"
            )
        found.append(without_negative(weights, options.monoids, source, chosen))
    if options.mask is not None:
        found.append(mask_of(options.mask, source, chosen, stores, options.conditions))
    return tuple(found)


def _refuse_undefined(request: Request) -> None:
    """See that the reductions are defined for the sources' elements; if not, say of which."""
    try:
        request.bound()
    except MonoidError as error:
        named = request.data_arrays or request
        raise MonoidError(f"{named.name}: {error}") from error.__cause__
    if isinstance(request.keys, OwnKeys) and request.reads_again():
        several = [s.monoid.as_written for s in request.bound().statistics if s.monoid.reads > 1]
        raise PlanError(
            f"{', '.join(several)} of {request.name} needs several reads, but groups by bins of "
            "its own elements allow only one: give method='sketch', or bins(of=array)"
        )


def _refuse_empty(request: Request) -> None:
    """Refuse a reduction of nothing where it has no value: the one rule for empty input."""
    if request.grouping is not None:  # whose groups may have no elements anyway
        return
    shape = tuple(axis.length for axis in request.chosen)
    reduces = math.prod(shape[n] for n in request.reduced)
    outputs = math.prod(size for n, size in enumerate(shape) if n not in request.reduced)
    each = reduces * math.prod(min(one.length, one.window or 1) for one in request.chosen)
    for statistic in request.bound().statistics:
        if not reduces and outputs and statistic.needs_elements:
            raise PlanError(
                f"{statistic.monoid.as_written} of no elements has no value: the selection of "
                f"{request.name} has shape {shape}"
            )
        least = 0 if statistic.monoid.min_count else statistic.monoid.least
        if outputs and each < least:
            raise PlanError(
                f"{statistic.name} takes {least} elements for each result, and {request.name} has "
                f"{each}, of the selection's shape {shape}: give fewer, or reduce more"
            )
