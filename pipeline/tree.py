"""The tree that partials are combined in: pure integer functions."""

from __future__ import annotations

from collections.abc import Sequence

FAN_IN = 8
"""Partials that one combine takes; a power of two, so that growth keeps whole subtrees."""


def tree(count: int) -> list[int]:
    """Return the number of nodes of each level of a tree over `count` leaves, the root last.

    >>> tree(20), tree(1)
    ([20, 3, 1], [1])
    """
    levels = [count]
    while levels[-1] > 1:
        levels.append(-(-levels[-1] // FAN_IN))
    return levels


def children(level_sizes: Sequence[int], level: int, node: int) -> range:
    """Return the nodes of level - 1 that a node combines.

    >>> children([20, 3, 1], 1, 2)
    range(16, 20)
    """
    return range(node * FAN_IN, min((node + 1) * FAN_IN, level_sizes[level - 1]))
