"""Cut regions along a grid of cells, and find the memory of each part.

Pure functions of integers, and memory in which chunks stand one behind another.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from chunkfold.boxes import extents_of

Cell = tuple[tuple[int, ...], tuple[slice, ...], tuple[slice, ...]]
"""Its place in the grid, the slices taken of it, and their place in the region."""


T = TypeVar("T")
_AHEAD = (4, 16, 64)
"""Items found at a time: few at first, since other threads wait meanwhile to begin."""


def ahead(found: Iterator[T]) -> Iterator[T]:
    """Yield items, found some at a time.

    Between two chunks of megabytes, reading threads find Python's caches cold.
    """
    sizes = itertools.chain(_AHEAD, itertools.repeat(_AHEAD[-1]))
    while some := list(itertools.islice(found, next(sizes))):
        yield from some


class InTurn:
    """Memory, of one axis, in which parts of chunks stand one behind another."""

    def __init__(self, memory: np.ndarray) -> None:
        self.memory = memory
        self.used = 0
        """Number of elements in it. Set it to 0 to begin anew."""

    @property
    def left(self) -> int:
        """Number of elements that still fit."""
        return self.memory.size - self.used

    def take(self, within: Sequence[slice]) -> np.ndarray:
        """Return the next memory for a box of a region, and count it as used."""
        box = self.at(self.used, within)
        self.used += box.size
        return box

    def at(self, first: int, within: Sequence[slice]) -> np.ndarray:
        """Return the memory of a box of a region, from its first element on."""
        extents = extents_of(within)
        return self.memory[first : first + math.prod(extents)].reshape(extents)


Out = np.ndarray | InTurn
"""Memory for a region: of its shape, or one part behind another."""


def part_of(out: Out, within: tuple[slice, ...]) -> Out:
    """Return the memory of a part of the region; all of it, where parts stand in turn."""
    return out if isinstance(out, InTurn) else view(out, within)


def target_in(out: Out, within: tuple[slice, ...]) -> np.ndarray:
    """Return the memory of a part of the region."""
    return out.take(within) if isinstance(out, InTurn) else view(out, within)


def view(out: np.ndarray, within: tuple[slice | int, ...]) -> np.ndarray:
    """Return a part of an array as a view, also of an array without axes."""
    everything: tuple[Any, ...] = (*within, ...)
    part: np.ndarray = out[everything]
    return part


def cells_of(region: Sequence[slice], shape: Sequence[int]) -> Iterator[Cell]:
    """Cut a region along a grid of cells of a shape.

    >>> [place for place, taken, within in cells_of([slice(3, 9, 3), slice(0, 2)], [4, 4])]
    [(0, 0), (1, 0)]
    """
    if not region:
        yield (), (), ()
        return
    # The first axis is cut lazily: it may have a billion cells.
    first, *others = (_cuts(cut, size) for cut, size in zip(region, shape, strict=True))
    behind = [list(cuts) for cuts in others]
    for cut in first:
        for cell in itertools.product((cut,), *behind):
            places, sources, targets = zip(*cell, strict=True)
            yield places, sources, targets


def leads(source: Sequence[slice], shape: Sequence[int]) -> bool:
    """Return whether a part of a box in C order is all elements up to its last one.

    >>> leads((slice(0, 2), slice(0, 7)), (9, 7)), leads((slice(0, 2), slice(0, 6)), (9, 7))
    (True, False)
    """
    extents = extents_of(source)
    # Behind the first axis along which there are several, rows must be whole.
    first = next((n for n, extent in enumerate(extents) if extent > 1), len(extents))
    return extents[first + 1 :] == tuple(shape[first + 1 :]) and not any(
        cut.start or (cut.step or 1) > 1 for cut in source
    )


def run_of(
    source: Sequence[slice], shape: Sequence[int]
) -> tuple[int, tuple[int, ...], tuple[slice, ...]]:
    """Return the shortest run of a box in C order that holds a part of it.

    That is the number of its first element, its shape, and the place of the part in it.

    >>> run_of((slice(2, 3), slice(1, 6, 2), slice(0, 4)), (9, 7, 5))
    (75, (1, 5, 5), (slice(0, 1, None), slice(0, 5, 2), slice(0, 4, None)))
    """
    extents = extents_of(source)
    # Behind the first axis along which there are several, rows are not in one piece.
    last = next((n for n, extent in enumerate(extents) if extent > 1), len(shape) - 1)
    first = sum(source[n].start * math.prod(shape[n + 1 :]) for n in range(last + 1))
    taken = (slice(0, extents[n], source[n].step) for n in range(last + 1))
    return first, (*extents[: last + 1], *shape[last + 1 :]), (*taken, *source[last + 1 :])


def _cuts(region: slice, size: int) -> Iterator[tuple[int, slice, slice]]:
    """Cut a slice, of a positive step, along cells of `size`.

    Yields the number of each cell, the slice taken of it, and its place among all that is taken.

    >>> list(_cuts(slice(3, 9, 3), 4))
    [(0, slice(3, 4, 3), slice(0, 1, None)), (1, slice(2, 3, 3), slice(1, 2, None))]
    """
    start, stop, step = region.start, region.stop, region.step or 1
    done = 0
    while (at := start + done * step) < stop:
        cell, first = divmod(at, size)
        count = -(-(min(stop - cell * size, size) - first) // step)
        last = first + (count - 1) * step + 1
        yield cell, slice(first, last, step), slice(done, done + count)
        done += count
