"""Blocks that take much longer than the others of a read: others may run them, too.

A worker may be slow, or hang in a read or on its device, and still answer. What is late is known by
the blocks that have ended, as in MapReduce's backup tasks (Dean, Ghemawat, 2004).
"""

from __future__ import annotations

from statistics import median

from chunkfold.running.tree_nodes import Attempt, TreeNode

LATE = 4
"""Times as long as the median of blocks that have ended: from then on a block is late."""
LEAST_S = 5.0
"""Seconds that no block is late before."""
_FEW = 3
"""Blocks that have ended, at least: fewer say nothing."""


class Stragglers:
    """Times of blocks, from when they were sent to their end, in seconds."""

    def __init__(self) -> None:
        self.copied: dict[TreeNode, Attempt] = {}
        """The first attempts at blocks that run twice."""
        self._began: dict[TreeNode, float] = {}
        self._took: list[float] = []

    def began(self, node: TreeNode, now: float) -> None:
        """Note that a block was sent."""
        self._began[node] = now

    def ended(self, node: TreeNode, now: float, *, failed: bool = False) -> None:
        """Note that it has ended."""
        began = self._began.pop(node, None)
        if began is not None and not failed:
            self._took.append(now - began)

    def copy(self, node: TreeNode, before: Attempt) -> None:
        """Note that a late block runs twice; it is not late any more."""
        self.copied[node] = before
        self._began.pop(node, None)

    def settled(
        self, node: TreeNode, attempt: Attempt, number: int, *, failed: bool
    ) -> tuple[Attempt, list[object]]:
        """Return the attempt at a block that counts when one has ended, and tickets to release.

        Parameters
        ----------
        attempt
            The last one; an earlier one may be under way, too.
        number
            That of the one that has ended.
        failed
            True if it has no result: the other one goes on then.
        """
        before = self.copied.get(node)
        if before is None or number not in (attempt.number, before.number):
            return attempt, []
        del self.copied[node]
        ended, other = (before, attempt) if number == before.number else (attempt, before)
        return (other, [ended.ticket]) if failed else (ended, [other.ticket])

    def late(self, now: float) -> list[TreeNode]:
        """Return the blocks that are late, the latest first.

        >>> one, *others = (TreeNode((0, 1), 0, n) for n in range(4))
        >>> times = Stragglers()
        >>> for node in (one, *others):
        ...     times.began(node, 0.0)
        >>> for node in others:
        ...     times.ended(node, 2.0)
        >>> times.late(7.9), times.late(8.1) == [one]
        ([], True)
        """
        if len(self._took) < _FEW:
            return []
        since = now - max(LEAST_S, LATE * median(self._took))
        return sorted(
            (node for node, began in self._began.items() if began < since),
            key=self._began.__getitem__,
        )
