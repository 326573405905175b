"""What sums, products and extremes begin with: NumPy's values, exact, whatever the elements."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkfold.kernels import Monoid, as_monoid
from chunkfold.kernels.errors import MonoidError, RangeError

BEGINS = ("sum", "prod", "min", "max")
DTYPES = ("bool", "int8", "uint8", "int64", "uint64", "float16", "float32", "float64")


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("op", BEGINS)
@pytest.mark.parametrize("dtype", [*DTYPES, "complex64"])
@given(st.lists(st.integers(0, 4), max_size=5), st.integers(0, 5))
def test_results_are_numpys(op: str, dtype: str, exact: bool, values: list[int], initial: int):
    if dtype == "complex64" and op in ("min", "max"):
        return
    initial = min(initial, 1) if dtype == "bool" else initial
    array = np.array(values, dtype)
    got = as_monoid(op).evaluate(array, initial=initial, exact=exact)
    want = getattr(np, op)(array, initial=initial)
    assert got.dtype == want.dtype
    assert got == want


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=6), st.floats(-1e300, 1e300))
def test_a_sum_is_rounded_once_with_what_it_begins_with(values: list[float], initial: float):
    got = as_monoid("sum").evaluate(np.array(values), initial=initial)
    assert got == float(sum(map(Fraction, values), Fraction(initial)))


@pytest.mark.parametrize("op", ["min", "max", "minmax"])
@pytest.mark.parametrize("initial", [-np.inf, np.inf, np.nan, 0.0, -2.0])
def test_nan_and_infinities_win_as_in_numpy(op: str, initial: float):
    array = np.array([[1.0, np.nan, 3.0], [1, 2, 3], [-np.inf, 0, np.inf]])
    got = as_monoid(op).evaluate(array, axis=1, initial=initial)
    ends = [getattr(np, end)(array, axis=1, initial=initial) for end in ("min", "max")]
    want = np.stack(ends, axis=-1) if op == "minmax" else ends[op == "max"]
    np.testing.assert_array_equal(got, want)
    nothing = as_monoid(op).skipping().evaluate(np.full(3, np.nan), initial=initial)
    np.testing.assert_array_equal(nothing, np.full_like(nothing, initial))


def test_times_begin_with_times_of_their_unit_or_a_coarser_one():
    dates = np.array(["2001-01-01", "2000-01-01"], "M8[s]")
    early = np.datetime64("1999-01-01")
    for op, want in (("min", early), ("max", dates[0])):
        assert as_monoid(op).evaluate(dates, initial=early) == want
        assert as_monoid(op).evaluate(dates[:0], initial=early) == early
    spans = np.array([3, 5], "m8[s]")
    for initial in (np.timedelta64(2, "m"), 120):
        assert as_monoid("sum").evaluate(spans, initial=initial) == spans.sum(initial=initial)
    assert np.isnat(as_monoid("sum").evaluate(spans, initial=np.timedelta64("NaT")))
    with pytest.raises(MonoidError, match=r"which timedelta64\[s\] cannot hold"):
        as_monoid("sum").evaluate(spans, initial=np.timedelta64(5, "ms"))


def test_integers_of_any_size_go_with_objects():
    array = np.array([2**63 - 1])
    assert as_monoid("sum").evaluate(array, initial=-(2**63)) == -1
    with pytest.raises(RangeError, match="the sum of int64 is 9223372036854775808"):
        as_monoid("sum").evaluate(array, initial=1)
    for op, want in (("sum", 2**63 - 1 + 2**70), ("prod", (2**63 - 1) * 2**70)):
        assert as_monoid(op).evaluate(array, initial=2**70, dtype="object") == want


@pytest.mark.parametrize(
    ("op", "dtype", "initial"),
    [
        ("sum", "i4", 0.5),
        ("sum", "u4", -1),
        ("max", "u1", 256),
        ("min", "i2", np.inf),
        ("sum", "f4", "a"),
        ("sum", "f4", 1j),
        ("prod", "f8", [1, 2]),
        ("max", "?", 2),
        ("min", "M8[s]", 5),
    ],
)
def test_what_results_do_not_hold_is_refused(op: str, dtype: str, initial: Any):
    with pytest.raises(MonoidError, match=r"initial is .* cannot hold: give a value that"):
        as_monoid(op).evaluate(np.zeros(3, dtype), initial=initial)


def test_reductions_of_users_may_take_it():
    farthest = Monoid(
        "farthest", fields={"d": "float64"}, zero=0, lift=abs, op="max", kinds="f", initial=True,
        finish=lambda fields, context: np.maximum(fields["d"], context.initial or 0),
    )  # fmt: skip
    assert farthest.evaluate(np.array([1.0, -2.0])) == 2
    assert farthest.evaluate(np.array([1.0, -2.0]), initial=7) == 7
