"""Exact sums on the host: expansions and limbs are two forms of one value."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkfold.kernels import Partial, as_monoid, bind
from chunkfold.kernels.accumulator.partial import Wide, assembled, zero_partial
from chunkfold.kernels.accumulator.sums import (
    any_lost,
    deposited,
    exact_sums,
    expanded,
    remade,
    rewritten,
)
from chunkfold.kernels.exact.limbs import integers, specials
from tests.kernels.exact.limbs import limbs_of

LIMBS = limbs_of(np.dtype("float64"), 1)
NAME = "c0_s"
ACCUMULATOR = bind([as_monoid("sum")], [np.dtype("float64")], exact=True).accumulator.for_outputs(2)
finite = st.floats(allow_nan=False, allow_infinity=False)


def value(terms: list[float]) -> Fraction:
    return sum(map(Fraction, terms), Fraction(0))


def partial_of(columns: list[list[float]]) -> Partial:
    """Return a partial with limbs where expansions do not hold a column's sum."""
    nothing = zero_partial(ACCUMULATOR, len(columns))
    tables = np.concatenate([deposited([np.array([x]) for x in c], 1, LIMBS) for c in columns])
    return rewritten(nothing, NAME, LIMBS, np.arange(len(columns)), tables)


@given(st.lists(st.lists(finite, min_size=4, max_size=4), min_size=1, max_size=5))
def test_deposits_hold_the_sum_of_doubles(rows: list[list[float]]):
    terms = list(np.array(rows).T)
    held = integers(deposited(terms, len(rows), LIMBS))
    assert [Fraction(n) * Fraction(2) ** LIMBS.low for n in held] == [value(row) for row in rows]


def test_deposits_count_what_is_no_number():
    terms = [np.array([math.nan, math.inf, -math.inf, math.inf]), np.array([1, 2, 3, -math.inf])]
    got = specials(deposited(terms, 4, LIMBS))
    assert np.array_equal(got, [math.nan, math.inf, -math.inf, math.nan], equal_nan=True)


@given(st.lists(st.lists(finite, min_size=5, max_size=5), min_size=1, max_size=5))
def test_expansions_hold_what_limbs_do_or_say_that_they_do_not(rows: list[list[float]]):
    tables = deposited(list(np.array(rows).T), len(rows), LIMBS)
    terms, fits = expanded(tables, LIMBS)
    for n, row in enumerate(rows):
        mine = [float(term[n]) for term in terms]
        rest = value(row)
        if fits[n]:
            assert value(mine) == rest
            for term in mine:  # each is the nearest double to what is left
                assert term == float(rest)
                assert not math.copysign(1, term) < 0 or term < 0
                rest -= Fraction(term)
        else:
            heads = []
            for _ in range(LIMBS.kept):
                heads.append(float(rest) if abs(rest) < Fraction(2) ** 1023 else math.inf)
                rest -= Fraction(heads[-1]) if math.isfinite(heads[-1]) else 0
            assert rest or not all(map(math.isfinite, heads))


@given(st.data())
def test_wide_and_narrow_sums_combine_to_what_one_would_be(data: st.DataObject):
    columns = data.draw(st.lists(st.lists(finite, min_size=6, max_size=6), min_size=2, max_size=4))
    whole = partial_of(columns)
    parts = [partial_of([column[a:b] for column in columns]) for a, b in ((0, 2), (2, 5), (5, 6))]
    # As a device does: expansions are added, and what it cannot hold is lost.
    combined = partial_of(columns)
    arrays = {name: array.copy() for name, array in combined.arrays.items()}
    missing = np.arange(len(columns)) % 2 == 0
    missing[exact_sums(whole, NAME, LIMBS).wide.at] = True
    for n in range(LIMBS.kept):
        arrays[f"{NAME}{n}"][missing] = 0.0 if n < LIMBS.kept - 1 else math.nan
    got = remade(ACCUMULATOR, Partial(arrays), parts)
    assert {k: v.tobytes() for k, v in got.arrays.items()} == {
        k: v.tobytes() for k, v in whole.arrays.items()
    }
    sums = [exact_sums(one, NAME, LIMBS) for one in (got, whole)]
    assert sums[0].wide.at.tolist() == sums[1].wide.at.tolist()
    assert sums[0].wide.tables.tobytes() == sums[1].wide.tables.tobytes()
    assert not any_lost(ACCUMULATOR, got).any()


def test_rows_of_limbs_go_where_their_outputs_go():
    """Two tiles side by side; each has an output whose sum is wide."""
    wide = [1e300, 1.0, 1e-300, 2e-320]
    ordinary = [1.0, 2.0, 3.0, 4.0]
    left = partial_of([ordinary, wide, ordinary, ordinary])
    right = partial_of([ordinary, wide])
    tiles = [
        ((slice(0, 2), slice(1, 2)), right),
        ((slice(0, 2), slice(2, 4)), left),
        ((slice(0, 2), slice(0, 1)), partial_of([ordinary, ordinary])),
    ]
    whole = assembled(ACCUMULATOR, (2, 4), tiles)
    assert whole.wide[NAME].at.tolist() == [3, 5]
    sums = exact_sums(whole, NAME, LIMBS)
    held = integers(sums.tables(np.arange(8)))
    wanted = [value(wide if n in (3, 5) else ordinary) for n in range(8)]
    assert [Fraction(n) * Fraction(2) ** LIMBS.low for n in held] == wanted
    assert whole.nbytes > sum(array.nbytes for array in whole.arrays.values())


def test_sums_that_were_lost_have_no_value():
    arrays = dict(zero_partial(ACCUMULATOR, 2).arrays)
    arrays[f"{NAME}2"] = np.array([0.0, math.nan])
    partial = Partial(arrays)
    assert any_lost(ACCUMULATOR, partial).tolist() == [False, True]
    bound = bind([as_monoid("sum")], [np.dtype("float64")], exact=True)
    with pytest.raises(Exception, match="lost"):
        bound.statistics[0].finish(partial)


def test_others_keep_their_rows():
    wide = [1e300, 1.0, 1e-300, 2e-320]
    partial = partial_of([wide, wide, [1.0, 0, 0, 0]])
    table = deposited([np.array([7.0])], 1, LIMBS)
    done = rewritten(partial, NAME, LIMBS, np.array([0]), table)
    assert done.wide[NAME].at.tolist() == [1]
    assert done.arrays[f"{NAME}0"].tolist() == [7.0, 0.0, 1.0]
    assert isinstance(done.wide[NAME], Wide)


def test_what_a_partial_has_lost_stays_lost():
    nothing = zero_partial(ACCUMULATOR, 2)
    arrays = dict(nothing.arrays)
    arrays[f"{NAME}2"] = np.array([0.0, math.nan])
    got = remade(ACCUMULATOR, Partial(arrays), [nothing, Partial(arrays)])
    assert any_lost(ACCUMULATOR, got).tolist() == [False, True]
