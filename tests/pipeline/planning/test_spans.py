"""Blocks of a ledger stand at multiples of their length, whatever is selected or known."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chunkfold.planning.spans import _aligned, _filled, _sizes


@given(st.integers(0, 300), st.integers(0, 40), st.integers(0, 6), st.data())
def test_runs_fill_what_is_not_known_and_are_aligned(count, offset, power, data):
    longest = 1 << power
    known = []
    for length in (8, 4, 1):
        for run in _aligned(count, length, offset):
            free = all(run[1] <= begin or end <= run[0] for begin, end in known)
            if free and data.draw(st.booleans()):
                known.append(run)
    made = _filled(known, count, longest, offset)
    assert [n for run in made for n in range(*run)] == list(range(count))
    assert {*known} <= {*made}
    for begin, end in made:
        assert (begin + offset) % (end - begin) == 0
        assert end - begin & (end - begin - 1) == 0


@given(st.integers(1, 400), st.integers(1, 40), st.integers(0, 20))
def test_growing_leaves_the_runs_before_as_they_are(count, more, offset):
    before, now = (_filled([], n, 8, offset) for n in (count, count + more))
    whole = [run for run in before if run[1] - run[0] == 8]
    assert {*whole} <= {*now}


@given(st.integers(1, 50), st.integers(1, 50), st.integers(1, 8), st.integers(1, 1 << 24))
def test_blocks_are_of_powers_of_two_and_never_beyond_the_leaves(tiles, parts, workers, nbytes):
    costs = np.full((tiles, parts), 1 << 24, float)
    a, b = _sizes(costs, workers, nbytes, whole=False)
    assert a & (a - 1) == b & (b - 1) == 0
    assert a < 2 * tiles
    assert b < 2 * parts
    assert _sizes(costs, workers, nbytes, whole=True)[1] == parts
