"""Names the axes that results add behind those that remain of the source."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from chunkfold.kernels import Monoid


def last_axes(monoids: Sequence[Monoid]) -> Mapping[str, str]:
    """Return the names of the last axes of results by reduction, of those that have one.

    An axis has one set of labels: where reductions have unlike ones, each has an axis of its own.

    >>> from chunkfold.kernels import as_monoid
    >>> last_axes([as_monoid("top3"), as_monoid("argtop3"), as_monoid("sum")])
    {'top3': 'rank', 'argtop3': 'rank'}
    >>> last_axes([as_monoid("top3"), as_monoid("top5")])
    {'top3': 'top3_rank', 'top5': 'top5_rank'}
    """
    labels: Mapping[str, set[tuple[float, ...]]] = defaultdict(set)
    for one in monoids:
        if one.last_axis:
            labels[one.last_axis].add(one.labels)
    return {
        one.name: axis if len(labels[axis]) == 1 else f"{one.name}_{axis}"
        for one in monoids
        if (axis := one.last_axis)
    }
