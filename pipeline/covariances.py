"""Covariances and correlations of every pair of channels: exact sums of one read, rounded once."""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from numbers import Real
from typing import Any, cast

import numpy as np

from chunkfold.boxes import slabs_of_cells
from chunkfold.errors import PlanError
from chunkfold.grid import Axis, Piece, Taken
from chunkfold.kernels.exact.gram import Gram
from chunkfold.kernels.exact.rounding import rounded_ratio, rounded_root
from chunkfold.planning.by_coordinates import by_positions, refuse_nothing, with_lists
from chunkfold.planning.option_values import SelMethod
from chunkfold.planning.options import Options
from chunkfold.planning.workers import readers_each
from chunkfold.positions import as_range
from chunkfold.selections import Selection, select, selection_text
from chunkfold.settings import StorageOptions
from chunkfold.sources.axis_names import Named, axis_numbers, normalized_axes
from chunkfold.sources.cf_packing import packing_of
from chunkfold.sources.dask_source import DaskSource
from chunkfold.sources.data_arrays import data_arrays
from chunkfold.sources.opening import open_source
from chunkfold.sources.source import Source
from chunkfold.tracebacks import traceback_cut

MOST_CHANNELS = 512
"""Most channels: the sums of every pair are kept."""
READ_BYTES = 32 << 20
"""Most bytes that each thread decodes at a time: all channels of some places."""
_WIDE = np.dtype(np.float64)


@traceback_cut
def cov(
    source: Any,
    axis: int | str = 0,
    *,
    ddof: float = 1,
    selection: Selection = None,
    sel: Mapping[str, Any] | None = None,
    sel_method: SelMethod | None = None,
    sel_tolerance: Any = None,
    allow_empty: bool = False,
    mask_and_scale: bool = False,
    storage_options: StorageOptions | None = None,
    allow_targets: str | Sequence[str] | None = None,
) -> np.ndarray:
    """Return the covariances of every pair of channels, as `numpy.cov` has them.

    Each element is of the exact value, rounded once to float64. It is computed in this process, by
    threads that read what is selected once: each chunk once, if 32 MiB hold all channels of the
    places of a chunk, else as often as these are cut. No cluster is asked.

    Parameters
    ----------
    source
        As `chunkfold.reduce`, but not Dask's arrays; truths, integers or floats.
    axis
        The channels, at most 512: an axis by name or number. Along all others are the
        observations.
    ddof
        Sums of products are divided by the number of observations minus this.
    selection, sel, sel_method, sel_tolerance, allow_empty, mask_and_scale, storage_options,
    allow_targets
        As `chunkfold.reduce`; but lists have elements at equal distances, in ascending order, or
        are two runs of neighbours, as arcs of longitudes are.

    Returns
    -------
    float64 of shape (channels, channels); NaN of channels with infinities or NaN.

    Raises
    ------
    ChunkfoldError
        If the source cannot be read, is of another kind, or has too many channels.
    """
    given: Any = ddof
    if not isinstance(given, Real) or not math.isfinite(given):
        raise PlanError(f"ddof is {ddof!r}; give a finite number")
    options = Options(
        axis=axis, selection=selection, sel=sel, sel_method=sel_method,
        sel_tolerance=sel_tolerance, allow_empty=allow_empty, mask_and_scale=mask_and_scale,
        storage_options=storage_options, allow_targets=allow_targets,
    )  # fmt: skip
    gram = _gram(source, options)
    count, exactly = gram.columns, float(ddof).as_integer_ratio()
    over, under = exactly[1], count * (count * exactly[1] - exactly[0])

    def value(product: int, variances: tuple[int, int], unit: int) -> float:
        del variances
        if under <= 0:
            return math.copysign(math.inf, _sign(product)) if product and count else math.nan
        return rounded_ratio(product * over, under, unit, _WIDE)

    return _matrix(gram, value)


@traceback_cut
def corrcoef(
    source: Any,
    axis: int | str = 0,
    *,
    selection: Selection = None,
    sel: Mapping[str, Any] | None = None,
    sel_method: SelMethod | None = None,
    sel_tolerance: Any = None,
    allow_empty: bool = False,
    mask_and_scale: bool = False,
    storage_options: StorageOptions | None = None,
    allow_targets: str | Sequence[str] | None = None,
) -> np.ndarray:
    """Return the correlations of every pair of channels, as `numpy.corrcoef` has them.

    Parameters, and what is raised, as `cov`.

    Returns
    -------
    float64 of shape (channels, channels), each rounded once; NaN of channels that do not vary.
    """
    options = Options(
        axis=axis, selection=selection, sel=sel, sel_method=sel_method,
        sel_tolerance=sel_tolerance, allow_empty=allow_empty, mask_and_scale=mask_and_scale,
        storage_options=storage_options, allow_targets=allow_targets,
    )  # fmt: skip
    gram = _gram(source, options)

    def value(product: int, variances: tuple[int, int], unit: int) -> float:
        del unit
        squares = variances[0] * variances[1]
        if not squares:
            return math.nan
        return _sign(product) * rounded_root(product * product, squares, 0, _WIDE)

    return _matrix(gram, value)


def _matrix(gram: Gram, value: Any) -> np.ndarray:
    """Return the matrix of `value(n * sum(xy) - sum(x) * sum(y), ...)` of each pair."""
    products, alone, unit = gram.sums()
    apart = products * gram.columns - np.multiply.outer(alone, alone)
    channels = len(alone)
    out = np.empty((channels, channels))
    for i, j in itertools.combinations_with_replacement(range(channels), 2):
        odd = gram.odd[i] or gram.odd[j] or not gram.columns
        own = int(apart[i, i]), int(apart[j, j])
        out[i, j] = out[j, i] = math.nan if odd else value(int(apart[i, j]), own, 2 * unit)
    return out


def _sign(product: int) -> int:
    return (product > 0) - (product < 0)


def _gram(given: Any, options: Options) -> Gram:
    """Add up products of channels while threads read them."""
    arrays = data_arrays(given)
    data = open_source(given, options.opening) if arrays is None else arrays
    options = replace(options, selection=with_lists(options.selection))
    named, selection = cast("Named", data), by_positions(options, data).selection
    picked = select(named.grid, selection)
    if not options.allow_empty:
        refuse_nothing(named, picked, selection)
    alive = [n for n, along in enumerate(picked) if not along.dropped]
    number = axis_numbers(named, options.axis, selection)
    channels = [alive[n] for n in normalized_axes(number, len(alive))]
    if len(channels) != 1:
        raise PlanError(
            f"{named.name}: axis is {options.axis!r}; channels are along one axis: name it"
        )
    (channel,) = channels
    if arrays is None:
        assert isinstance(data, Source)
        source, chosen, unpacks = data, list(picked), bool(options.mask_and_scale)
    else:
        unpacks = arrays.unpacked(ask=bool(options.mask_and_scale))[0]
        source = arrays.sources[0]
        chosen = arrays.stored(picked)
        channel = arrays.axes[channel]
    runs = [_runs(along) if n != channel else [along] for n, along in enumerate(chosen)]
    boxes = [*itertools.product(*runs)]
    if any(along.picked is not None or along.step < 0 for box in boxes for along in box):
        raise PlanError(
            f"{named.name}: matrices of channels take selections by integers and by slices with "
            f"positive steps, not {selection_text(selection)}: put channels in order in the result"
        )
    if isinstance(source, DaskSource):
        raise PlanError(
            f"{named.name}: Dask would compute it, but matrices of channels take only arrays that "
            "are stored or in memory: call its compute(), or store it"
        )
    packing = packing_of(source) if unpacks else None
    rows = chosen[channel].length
    _refuse(named.name, source.dtype, rows, packed=packing is not None)

    def read(region: Sequence[Taken]) -> np.ndarray:
        values = source.part(region)  # type: ignore[arg-type] # all are slices
        unpacked = values if packing is None else packing.values(values)
        return np.moveaxis(unpacked, channel, 0).reshape(rows, -1)

    gram = Gram(rows)
    readers = readers_each(1)
    with ThreadPoolExecutor(readers, thread_name_prefix="chunkfold-read") as threads:
        underway: deque[Future[np.ndarray]] = deque()
        for region in itertools.chain(*(_regions(source, box, channel) for box in boxes)):
            underway.append(threads.submit(read, region))
            if len(underway) > readers:
                gram.add(underway.popleft().result())
        for one in underway:
            gram.add(one.result())
    return gram


def _runs(along: Axis) -> list[Axis]:
    """Return the two runs that an arc of longitudes may be, as axes; another axis as it is."""
    if along.picked is None:
        return [along]
    places = along.picked.numbers
    ends = np.flatnonzero(np.diff(places) != 1) + 1
    if len(ends) > 1:
        return [along]
    return [Axis.at(along.cells, as_range(run)) for run in np.split(places, ends)]


def _refuse(name: str, dtype: np.dtype, channels: int, *, packed: bool) -> None:
    if dtype.kind not in "biuf" and not packed:
        raise PlanError(f"{name} is {dtype}; covariances take bools, integers and floats")
    if channels > MOST_CHANNELS:
        raise PlanError(
            f"{name} has {channels:,} channels, and every pair of them needs a sum; at most "
            f"{MOST_CHANNELS} are possible: select some, or name another axis"
        )


def _regions(source: Source, chosen: Sequence[Axis], channel: int) -> Iterator[tuple[Taken, ...]]:
    """Yield regions of all channels, cut where chunks meet, or smaller; none of no elements."""
    if not all(along.length for along in chosen):
        return
    every = [Piece(along.index, 0, along.length) for along in chosen]
    order = [n for n in range(len(chosen)) if n != channel]
    cuts = [every[n].cut([chosen[n].cells]) for n in order]
    row_bytes = max(1, chosen[channel].length) * source.dtype.itemsize
    for slab in slabs_of_cells(cuts, row_bytes, READ_BYTES):
        within = [slice(0, along.length) for along in chosen]
        for n, cut in zip(order, slab, strict=True):
            within[n] = cut
        yield tuple(each.taken(cut) for each, cut in zip(every, within, strict=True))
