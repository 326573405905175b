"""The tree that partials are combined in: pure integer functions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

FAN_IN = (2, 8)
"""Large, and small partials that one combine takes: powers of two, so that growth keeps whole
subtrees."""
LARGE_BYTES = 1 << 20
"""From here on what partials hold while they wait for each other weighs more than another task."""


def fan_in(partial_bytes: int) -> int:
    """Return how many partials of a size one combine takes."""
    return FAN_IN[partial_bytes < LARGE_BYTES]


@dataclass(frozen=True)
class Tree:
    """A tree over some blocks; level 0 are these, the last level is the root."""

    blocks: int
    fan_in: int

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Nodes of each level.

        >>> Tree(20, 8).sizes, Tree(1, 2).sizes
        ((20, 3, 1), (1,))
        """
        sizes = [self.blocks]
        while sizes[-1] > 1:
            sizes.append(-(-sizes[-1] // self.fan_in))
        return tuple(sizes)

    @property
    def levels(self) -> int:
        """Rounds of combining."""
        return len(self.sizes) - 1

    def children(self, level: int, node: int) -> range:
        """Return the nodes of level - 1 that a node combines.

        >>> Tree(20, 8).children(1, 2)
        range(16, 20)
        """
        first = node * self.fan_in
        return range(first, min(first + self.fan_in, self.sizes[level - 1]))
