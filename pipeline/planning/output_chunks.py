"""Chunks of results: each of whole tiles of outputs; pure integer functions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from chunkfold.planning.blocks import Range
from chunkfold.planning.layout import Layout

MOST_CHUNKS = 1 << 16
"""Most of an array of results: a graph has a task for each, and Dask takes a while for so many."""


@dataclass(frozen=True)
class OutputChunks:
    """Outputs that are cut in chunks: along each kept axis, runs of pieces that are one chunk."""

    layout: Layout
    along: tuple[tuple[Range, ...], ...]

    @cached_property
    def extents(self) -> tuple[tuple[int, ...], ...]:
        """Extents of the chunks along each kept axis."""
        lengths = [self.layout.outputs_along(n) for n in self.layout.kept]
        return tuple(
            tuple(int(own[slice(*run)].sum()) for run in runs)
            for own, runs in zip(lengths, self.along, strict=True)
        )

    def places(self) -> Iterator[tuple[int, ...]]:
        """Yield the numbers of all chunks along each axis, in C order."""
        return itertools.product(*(range(len(runs)) for runs in self.along))

    def box(self, place: Sequence[int]) -> tuple[slice, ...]:
        """Return where a chunk is among all outputs."""
        firsts = [sum(own[:n]) for own, n in zip(self.extents, place, strict=True)]
        spans = zip(firsts, self.extents, place, strict=True)
        return tuple(slice(first, first + own[n]) for first, own, n in spans)

    def tiles(self, place: Sequence[int]) -> list[int]:
        """Return the tiles of a chunk."""
        runs = [runs[n] for runs, n in zip(self.along, place, strict=True)]
        numbers = itertools.product(*(range(*run) for run in runs))
        pieces = [len(self.layout.outputs_along(n)) for n in self.layout.kept]
        return [_number(one, pieces) for one in numbers]


def output_chunks(layout: Layout, most: int = MOST_CHUNKS) -> OutputChunks:
    """Return a chunk for each tile, or for some neighbours where that were more than `most`."""
    pieces = [len(layout.outputs_along(n)) for n in layout.kept]
    return OutputChunks(layout, tuple(tuple(runs) for runs in _runs(pieces, most)))


def _runs(pieces: Sequence[int], most: int) -> list[list[Range]]:
    """Cut so many pieces along each axis in runs; along the last axes they are longest.

    >>> _runs([2, 3], 6), _runs([2, 5], 4)
    ([[(0, 1), (1, 2)], [(0, 1), (1, 2), (2, 3)]], [[(0, 1), (1, 2)], [(0, 3), (3, 5)]])
    >>> _runs([], 6), _runs([0], 6)
    ([], [[(0, 0)]])
    """
    over, runs = math.prod(pieces) / most, []
    for count in reversed(pieces):
        each = max(1, min(count, math.ceil(over)))
        over /= each
        firsts = range(0, count, each) or [0]
        runs.append([(first, min(first + each, count)) for first in firsts])
    return runs[::-1]


def _number(numbers: Sequence[int], pieces: Sequence[int]) -> int:
    """Return the number of a tile of which those along each axis are known, in C order."""
    tile = 0
    for number, count in zip(numbers, pieces, strict=True):
        tile = tile * count + number
    return tile
