"""Share a box of outputs out among threads that fold at once: pure functions."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from chunkfold.reading.reads import OutputBox

_MANY_LEAVES = 8
"""For each thread: fewer are cut, so that all threads have as much to do."""
_LAST_LEAVES = 4
"""Of those of each thread: whoever comes first takes the next of them. Of two that had half of the
leaves each, one was done 20 of 850 ms before the other."""
_LAST_SHARES = 4
"""That the very last leaf of each thread is cut into: whole ones left a thread 15 ms alone."""


class WorkShare(NamedTuple):
    """What is folded into one partial: always the same, so that its bits are, whoever does it."""

    output_box: OutputBox
    every: tuple[int, int] = (0, 1)
    """Every so many of its pieces, counted from a first: (first, step)."""


def work_shares_of(output_box: OutputBox, threads: int) -> tuple[list[WorkShare], list[WorkShare]]:
    """Return what each thread begins with, and what they take when that is done."""
    parts = output_box.parts
    if len(parts) < threads * _MANY_LEAVES:
        return [WorkShare(output_box, (number, threads)) for number in range(threads)], []
    # Whole leaves: to cut each, and leave out what is others', took a hundredth of the time.
    last = len(parts) - threads * _LAST_LEAVES
    first = [WorkShare(replace(output_box, parts=parts[n:last:threads])) for n in range(threads)]
    alone = [replace(output_box, parts=[part]) for part in parts[last:]]
    cut = [
        WorkShare(leaf, (n, _LAST_SHARES)) for leaf in alone[-threads:] for n in range(_LAST_SHARES)
    ]
    return first, [*map(WorkShare, alone[:-threads]), *cut]
