"""Reductions of how elements change from one to the next along an axis: x[i + step] - x[i]."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np

from chunkfold.errors import PlanError
from chunkfold.planning.options import Options
from chunkfold.positions import as_range, index_of
from chunkfold.selections import expanded, select
from chunkfold.sources.axis_names import axis_numbers, normalized_axes
from chunkfold.sources.reordered_source import ReorderedSource
from chunkfold.sources.source import Source


def with_following(
    sources: tuple[Source, ...], options: Options
) -> tuple[tuple[Source, ...], Options]:
    """Return a source and the one of the following elements; options select what has one.

    Both are of equal shape, and the second one has no element at the end of the axis.

    Raises
    ------
    PlanError
        If there are several sources, no such axis, or an integer selects of it.
    """
    if len(sources) > 1:
        raise PlanError(f"tendency takes one array, but {len(sources)} are given: omit it")
    (source,), (axis, distance) = sources, cast("tuple[str | int, int]", options.tendency)
    (n,) = normalized_axes(axis_numbers(source, [axis]), len(source.shape))
    chosen = select(source.grid, options.selection)[n]
    if chosen.dropped:
        raise PlanError(
            f"{source.name}: tendency is along axis {axis!r}, but only one element of it is "
            "selected: select several"
        )
    size, places = source.shape[n], np.asarray(chosen.shown)
    entries = expanded(options.selection, len(source.shape))
    first = places[places < size - distance]
    if not len(first) and not options.allow_empty:
        raise PlanError(
            f"{source.name}: tendency is over {distance:,} along axis {axis!r}, but no selected "
            f"element of its {size:,} has another one at that distance after it"
        )
    entries[n] = index_of(as_range(first))
    order = np.minimum(np.arange(size) + distance, size - 1)
    following = ReorderedSource(source.name, source.dtype, tuple(source.grid), source, {n: order})
    return (source, following), replace(options, selection=tuple(entries))
