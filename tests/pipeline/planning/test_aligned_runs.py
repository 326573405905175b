"""Runs stand at multiples of their length, whatever is selected or known, and are boxes."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chunkfold.planning.aligned_runs import RunGrid

SHAPES = st.lists(st.integers(1, 9), min_size=1, max_size=3).map(tuple)


def grids(first: int = 40) -> st.SearchStrategy[RunGrid]:
    """Grids whose first axis has up to so many cells."""
    return st.tuples(st.integers(1, first), SHAPES).flatmap(
        lambda one: st.builds(
            RunGrid,
            st.just((one[0], *one[1])),
            st.tuples(*(st.integers(0, 20) for _ in range(len(one[1]) + 1))),
        )
    )


def is_box(grid: RunGrid, run: tuple[int, int]) -> bool:
    places = np.unravel_index(np.arange(*run), grid.shape)
    return math.prod(int(np.ptp(along)) + 1 for along in places) == run[1] - run[0]


@given(grids(), st.data())
def test_runs_fill_what_is_not_known_and_are_boxes(grid: RunGrid, data):
    longest, known = data.draw(st.sampled_from(sorted(grid.lengths))), []
    for length in reversed(grid.lengths):
        for run in grid.runs(length):
            free = all(run[1] <= begin or end <= run[0] for begin, end in known)
            if free and data.draw(st.booleans()):
                known.append(run)
    made = grid.filled(known, longest)
    assert [n for run in made for n in range(*run)] == list(range(grid.count))
    assert {*known} <= {*made}
    assert all(is_box(grid, run) for run in made)
    assert all(run[1] - run[0] <= longest for run in {*made} - {*known})
    assert all(run in grid.runs(run[1] - run[0]) for run in made)


@given(grids(12), st.integers(1, 30))
def test_growing_leaves_the_runs_before_as_they_are(grid: RunGrid, more: int):
    grown = RunGrid((grid.shape[0] + more, *grid.shape[1:]), grid.before)
    longest = grid.longest(8 * math.prod(grid.shape[1:]))
    before, now = (one.filled([], longest) for one in (grid, grown))
    assert {run for run in before if run[1] - run[0] == longest} <= {*now}


@given(grids(), st.data())
def test_a_selection_has_the_runs_that_all_has(grid: RunGrid, data):
    """Counted from the start of the array."""
    first = data.draw(st.integers(0, grid.shape[0] - 1))
    size = data.draw(st.integers(1, grid.shape[0] - first))
    inner, before = math.prod(grid.shape[1:]), grid.before[0] + first
    part = RunGrid((size, *grid.shape[1:]), (before, *grid.before[1:]))
    for length in part.lengths.keys() & grid.lengths.keys():
        every = {*grid.runs(length)}
        assert {tuple(n + first * inner for n in run) for run in part.runs(length)} <= every
