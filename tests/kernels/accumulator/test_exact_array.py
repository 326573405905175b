"""Exact numbers of a finish: what rationals give, rounded once, or refused in a sentence."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkfold.kernels import ExactArray, Monoid, MonoidError
from chunkfold.kernels.accumulator.partial import Wide
from chunkfold.kernels.accumulator.sums import ExactSums, deposited, expanded
from chunkfold.kernels.exact.rationals import Real, divided_by, multiply
from chunkfold.kernels.exact.rationals import add as added
from tests.exactly import nearest, nearest_root
from tests.kernels.exact.limbs import limbs_of

LIMBS = limbs_of(np.dtype("float64"), 1)
DTYPES = ["float16", "float32", "float64"]


def exact(*sums: list[float]) -> ExactArray:
    """Return the exact sums of some lists of doubles."""
    outputs = len(sums)
    width = max(map(len, sums))
    columns = np.array([[*one, *[0.0] * (width - len(one))] for one in sums], float).T
    tables = deposited(list(columns), outputs, LIMBS)
    terms, fits = expanded(tables, LIMBS)
    lost = np.flatnonzero(~fits)
    return ExactArray(ExactSums(LIMBS, tuple(terms), Wide(lost, tables[lost])))


def values_of(*sums: list[float]) -> list[Real]:
    """Return the same as rationals, or what infinities and NaN make of them."""
    return [
        sum(map(Fraction, one), Fraction(0)) if all(map(math.isfinite, one)) else sum(one)
        for one in sums
    ]


def rounded(value: Real, dtype: str) -> np.floating:
    return nearest(value, dtype) if isinstance(value, Fraction) else np.dtype(dtype).type(value)


def same(got: np.ndarray, want: list[np.floating]) -> bool:
    wanted = np.array(want, got.dtype)
    return np.array_equal(got, wanted, equal_nan=True)


doubles = st.integers(-(1 << 53), 1 << 53).map(float) | st.floats(width=64).filter(
    lambda x: not math.isfinite(x) or x == 0 or 1e-100 < abs(x) < 1e100
)
sums = st.lists(doubles, min_size=1, max_size=3)


@settings(max_examples=80)
@given(st.lists(st.tuples(sums, sums, sums), min_size=1, max_size=5), st.integers(1, 1 << 62))
def test_arithmetic_is_that_of_rationals_rounded_once(rows: list[Any], count: int):
    x, y, z = (list(column) for column in zip(*rows, strict=True))
    counts = np.arange(len(rows)) * 3 + count
    a, b, c = exact(*x), exact(*y), exact(*z)
    made = (a * b - c * counts) / (b + 0.1) + a**3 - 7
    want = []
    triples = zip(values_of(*x), values_of(*y), values_of(*z), counts.tolist(), strict=True)
    for u, v, w, n in triples:
        over = added(multiply(u, v), -multiply(w, Fraction(n)))
        ratio = divided_by(over, added(v, Fraction(0.1)))
        want.append(added(added(ratio, multiply(u, multiply(u, u))), Fraction(-7)))
    for dtype in DTYPES:
        assert same(made.rounded(dtype), [rounded(one, dtype) for one in want])


@settings(max_examples=50)
@given(st.lists(st.tuples(sums, sums), min_size=1, max_size=4))
def test_roots_are_rounded_once(rows: list[Any]):
    x, y = (list(column) for column in zip(*rows, strict=True))
    a, b = exact(*x), exact(*y)
    for dtype in DTYPES:
        want = []
        for u, v in zip(values_of(*x), values_of(*y), strict=True):
            by = v if v >= 0 else math.nan
            square = divided_by(multiply(u, abs(u)), by)
            if isinstance(square, Fraction):
                size = nearest_root(abs(square), dtype)
                want.append(-size if square < 0 else size)
            else:
                want.append(np.dtype(dtype).type(square))
        assert same((a / np.sqrt(b)).rounded(dtype), want)


@settings(max_examples=50)
@given(st.lists(st.tuples(sums, sums), min_size=1, max_size=4))
def test_comparisons_are_exact(rows: list[Any]):
    x, y = (list(column) for column in zip(*rows, strict=True))
    for compare in (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne):
        pairs = zip(values_of(*x), values_of(*y), strict=True)
        want = [compare(u, v) for u, v in pairs]
        assert compare(exact(*x), exact(*y)).tolist() == want
        assert compare(exact(*x), exact(*x)).tolist() == [compare(u, u) for u in values_of(*x)]


@pytest.mark.parametrize("dtype", DTYPES)
def test_ties_and_what_is_next_to_them(dtype: str):
    """Halves of a unit, and a little more or less, far below what doubles hold of it."""
    unit = float(np.finfo(dtype).eps)
    little = [0.0, 2.0**-200, -(2.0**-200)]
    parts = [[1.0, unit / 2, off] for off in little] + [
        [1.0 + unit, unit / 2, off] for off in little
    ]
    want = [nearest(value, dtype) for value in values_of(*parts)]
    a = exact(*parts)
    for made in (a, a + 0, a * 1, a / 1, a * 3 / 3, (a**2).sqrt()):
        assert same(made.rounded(dtype), want)


def test_what_is_no_number_is_as_floats_have_it():
    a = exact([0.0], [3.0], [-3.0], [math.inf], [-math.inf], [math.nan])
    plain = np.array([0.0, 3.0, -3.0, math.inf, -math.inf, math.nan])
    zero = exact([0.0], [5.0, -5.0], [0.0], [0.0], [0.0], [0.0])
    with np.errstate(all="ignore"):
        for made, want in (
            (a / zero, plain / 0),
            (zero / a, 0 / plain),
            (a - a, plain - plain),
            (a * zero, plain * 0),
            (1 / a, 1 / plain),
            (a**2, plain**2),
            (a * math.inf, plain * math.inf),
            (np.sqrt(a), np.sqrt(plain)),
            (abs(a), abs(plain)),
        ):
            assert np.array_equal(made.rounded(), want + 0.0, equal_nan=True)
    assert (a**0).rounded().tolist() == [1.0] * 6


def test_numpys_functions_and_numbers_from_either_side():
    a, n = exact([1.0], [10.0]), np.array([3, 7])
    want = [Fraction(1), Fraction(10)]
    for made, function in (
        (np.divide(n, a), lambda x, n: n / x),
        (np.subtract(n, a), lambda x, n: n - x),
        (n * a, lambda x, n: n * x),
        (np.square(a) + np.float32(0.5), lambda x, _: x * x + Fraction(1, 2)),
        (2 - a / 3, lambda x, _: 2 - x / 3),
        (a / Fraction(1, 3), lambda x, _: 3 * x),
        (a**-2, lambda x, _: 1 / x**2),
        (np.where(a > 5, a / 3, 0), lambda x, _: x / 3 if x > 5 else 0),
        (-a + np.array([True, False]), lambda x, _: -x + (x == 1)),
    ):
        pairs = zip(want, n.tolist(), strict=True)
        assert made.rounded().tolist() == [float(Fraction(function(x, k))) for x, k in pairs]
    assert (a**1.5).rounded().tolist() == [1.0, float(nearest_root(Fraction(1000), "float64"))]
    assert (a**-0.5).rounded().tolist() == [1.0, float(nearest_root(Fraction(1, 10), "float64"))]
    assert (np.sqrt(a) * np.sqrt(a) == a).all()
    assert (np.sqrt(a) < 4).tolist() == [True, True]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda a: np.sqrt(a) + 1, "a sum of square roots .*: make sqrt the last operation"),
        (lambda a: np.sqrt(np.sqrt(a)), "a square root of square roots"),
        (np.exp, "np.exp has no exact value; use one of .*round first"),
        (lambda a: np.stack([a, a]), "np.stack has no exact value: round first"),
        (np.asarray, r"not an array of floats yet: write .rounded\(dtype\) first"),
        (lambda a: a**0.3, "raised to integers or half-integers up to 64, not to 0.3"),
        (lambda a: a.rounded("int32"), "are rounded to float16, bfloat16, float32, float64, not"),
        (lambda a: a + "1", "unsupported operand"),
        (bool, "compare them, and use .all()"),
    ],
)
def test_what_has_no_exact_value_is_refused(make: Callable[[ExactArray], Any], message: str):
    with pytest.raises(TypeError, match=message):
        make(exact([1.0], [2.0]))


def test_arrays_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"of shape \(1,\) meet an array of shape \(3,\)"):
        exact([1.0]) + np.arange(3)


@pytest.mark.parametrize(
    ("dtype", "want"), [("float32", "float32"), ("int16", "float64"), ("complex64", "float32")]
)
def test_what_finish_returns_is_rounded_to_the_results_dtype(dtype: str, want: str):
    third = Monoid(
        "third",
        fields={"s": "exact"},
        zero=0,
        lift=lambda x: x.real,
        op="add",
        kinds="bifc",
        finish=lambda fields, _: fields["s"] / 3,
    )
    got = third.evaluate(np.array([[1, 0], [5, 5]], dtype), axis=1)
    assert got.dtype == want
    assert got.tolist() == [nearest(Fraction(n, 3), want) for n in (1, 10)]


def test_fields_without_a_finish_are_rounded():
    both = Monoid(
        "both",
        fields={"s": "exact", "q": "exact"},
        zero={"s": 0, "q": 0},
        lift=lambda x: {"s": x, "q": x * x},
        op="add",
    )
    got = both.evaluate(np.array([[0.1, 0.2]]), axis=1)
    square = sum(Fraction(x) ** 2 for x in (0.1, 0.2))
    assert got["q"].tolist() == [float(square)]
    assert got["s"].tolist() == [math.fsum([0.1, 0.2])]


def _finished(finish: Callable[[Any], Any], values: list[float]) -> np.ndarray:
    monoid = Monoid(
        "p", fields={"s": "exact"}, zero=0, lift=lambda x: x, op="add",
        finish=lambda fields, context: finish(fields["s"]),
    )  # fmt: skip
    return monoid.evaluate(np.array([values]), axis=0)


@pytest.mark.parametrize("power", [-0.5, -1.5, -1, 0.5, 1.5])
def test_powers_of_nothing_and_of_infinity_are_numpy_s(power: float):
    values = [0.0, 4.0, np.inf]
    with np.errstate(divide="ignore"):
        want = np.array(values) ** power
    assert _finished(lambda s: s**power, values).tolist() == want.tolist()


@pytest.mark.parametrize(
    "other",
    [np.longdouble(1), np.datetime64("2001"), np.ones(2, complex), np.ma.masked_array([1.0, 2.0])],
)
def test_what_is_no_exact_number_is_refused_in_a_sentence(other: Any):
    with pytest.raises(MonoidError, match="exact numbers meet"):
        _finished(lambda s: s * other, [1.0, 2.0])
