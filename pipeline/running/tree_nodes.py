"""The tree of tasks of a read: blocks of each run of tiles, and the combines above them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from chunkfold.planning.blocks import Block, Tree


@dataclass(frozen=True)
class TreeNode:
    """A place in the tree of one run of tiles; level 0 are blocks."""

    tiles: tuple[int, int]
    level: int
    number: int


@dataclass
class Branch:
    """The partials of one run of tiles on their way to its root."""

    tree: Tree
    ready: dict[tuple[int, int], object] = field(default_factory=dict)


@dataclass
class Attempt:
    """A task that is under way."""

    number: int
    """0 of the first."""
    ticket: object = None
    """The backend's handle, by which it releases the task."""


def with_nodes(blocks: Sequence[Block]) -> list[tuple[TreeNode, Block]]:
    """Number blocks within their run of tiles."""
    seen: dict[tuple[int, int], int] = {}
    out = []
    for block in blocks:
        number = seen.get(block.tiles, 0)
        seen[block.tiles] = number + 1
        out.append((TreeNode(block.tiles, 0, number), block))
    return out
