"""Partials of some groups: picked and placed group by group, limbs of wide sums with them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkfold.kernels import Partial, as_monoid, bind
from chunkfold.kernels.accumulator.grouped_partials import picked, placed
from chunkfold.kernels.accumulator.partial import Wide, zero_partial

OUTPUTS = 3
ACCUMULATOR = bind(
    [as_monoid("sum"), as_monoid("min")], [np.dtype("f4")], exact=True, keyed=True
).accumulator.for_outputs(99)  # fmt: skip
(SUM,) = ACCUMULATOR.sums
ENTRIES = ACCUMULATOR.sums[SUM].limbs.entries


def random_partial(groups: int, seed: int = 0) -> Partial:
    """Every value of its own, and limbs of some outputs."""
    rng = np.random.default_rng(seed)
    outputs = groups * OUTPUTS
    arrays = {slot.name: rng.permutation(outputs).astype(slot.dtype) for slot in ACCUMULATOR.slots}
    at = np.flatnonzero(rng.random(outputs) < 0.4)
    rows = rng.integers(0, 99, (len(at), ENTRIES))
    return Partial(arrays, {SUM: Wide(at, rows)} if len(at) else {})


def assert_same(got: Partial, want: Partial) -> None:
    for name, array in want.arrays.items():
        np.testing.assert_array_equal(got.arrays[name], array)
    assert got.wide.keys() == want.wide.keys()
    for name, rows in want.wide.items():
        np.testing.assert_array_equal(got.wide[name].at, rows.at)
        np.testing.assert_array_equal(got.wide[name].tables, rows.tables)


@given(groups=st.integers(1, 6), seed=st.integers(0, 99), data=st.data())
def test_what_is_picked_apart_is_placed_back(groups: int, seed: int, data: st.DataObject):
    whole = random_partial(groups, seed)
    first = np.array(data.draw(st.lists(st.booleans(), min_size=groups, max_size=groups)))
    halves = [np.flatnonzero(half) for half in (first, ~first) if half.any()]
    pieces = [(at, picked(whole, groups, at)) for at in halves]
    assert_same(placed(ACCUMULATOR, groups, pieces), whole)


@pytest.mark.parametrize("groups", [3, 5])
def test_groups_that_nobody_has_are_of_nothing(groups: int):
    part, nothing = random_partial(2), zero_partial(ACCUMULATOR, groups * OUTPUTS)
    whole = placed(ACCUMULATOR, groups, [(np.array([0, 2]), part)])
    assert_same(picked(whole, groups, np.array([0, 2])), part)
    rest = np.setdiff1d(np.arange(groups), [0, 2])
    assert_same(picked(whole, groups, rest), picked(nothing, groups, rest))
