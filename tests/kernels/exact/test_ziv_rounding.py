"""Quick results are the nearest floats wherever they say that they are certain."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from chunkfold.kernels.accumulator.sums import deposited, expanded
from chunkfold.kernels.exact import ziv_rounding
from chunkfold.kernels.exact.limbs import Limbs
from tests.exactly import nearest, nearest_root
from tests.kernels.exact.limbs import limbs_of

DTYPES = ["float16", "float32", "float64"]
LIMBS = limbs_of(np.dtype("float64"), 1)
counts = st.integers(1, 1 << 40) | st.integers(1, 64)


@st.composite
def expansions(draw: st.DrawFn, low: int = -200, high: int = 200) -> list[float]:
    """Draw up to three doubles, near ties too, in the form of their sum."""
    size = draw(st.integers(low, high))
    leading = draw(st.integers(-(1 << 53), 1 << 53)) >> draw(st.integers(0, 52))
    gaps = draw(st.integers(0, 60)), draw(st.integers(60, 120))
    behind = [draw(st.sampled_from([0, 1, -1, 3])) * 2.0 ** (size - gap) for gap in gaps]
    return form_of([float(leading) * 2.0**size, *behind], LIMBS)


def form_of(parts: list[float], limbs: Limbs) -> list[float]:
    terms, fits = expanded(deposited([np.array([x]) for x in parts], 1, limbs), limbs)
    assert fits.all()
    return [float(term[0]) for term in terms]


def arrays(values: list[float]) -> list[np.ndarray]:
    return [np.array([value]) for value in values]


def value(terms: list[float]) -> Fraction:
    return sum(map(Fraction, terms), Fraction(0))


def check(near: ziv_rounding.Estimate | np.ndarray, dtype: str, want: np.floating) -> None:
    """Compare with what is right, where the result is certain; `near` may be leading doubles."""
    to = np.dtype(dtype)
    with np.errstate(all="ignore"):
        wide = isinstance(near, ziv_rounding.Estimate)
        got, sure = near.rounded(to) if wide else ziv_rounding.narrowed(near, to)
    assert got.dtype == dtype
    assert not sure[0] or got[0].tobytes() == want.tobytes(), (got, want)


@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=150)
@given(terms=expansions(), by=counts)
@example(terms=[1.0 + 2.0**-23, 2.0**-60, 0.0], by=1)
@example(terms=[3.0 + 2.0**-22, 0.0, 0.0], by=2)
@example(terms=[0.0, 0.0, 0.0], by=7)
@example(terms=[2.0**1000, 1.0, 0.0], by=3)
@example(terms=[2.0**-1000, 0.0, 0.0], by=3)
def test_quotients(dtype: str, terms: list[float], by: int):
    with np.errstate(all="ignore"):
        near = ziv_rounding.estimated_quotient(arrays(terms), np.array([float(by)]))
        leading = np.array([terms[0] / by])
    want = nearest(value(terms) / by, dtype)
    check(near, dtype, want)
    if dtype != "float64":
        check(leading, dtype, want)


@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=150)
@given(terms=expansions())
@example(terms=[9.0, 0.0, 0.0])
@example(terms=[9.0, 2.0**-80, 0.0])
@example(terms=[(1 + 2.0**-24) ** 2, 0.0, 0.0])
@example(terms=[0.0, 0.0, 0.0])
def test_roots(dtype: str, terms: list[float]):
    if value(terms) < 0:
        terms = [-term for term in terms]
    with np.errstate(all="ignore"):
        near = ziv_rounding.estimated_root(
            ziv_rounding.estimated_quotient(arrays(terms), np.ones(1))
        )
    want = nearest_root(value(terms), dtype)
    check(near, dtype, want)
    if dtype != "float64":
        check(np.sqrt(np.array(terms[:1])), dtype, want)


@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=150)
@given(
    values=st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1),
    shift=st.sampled_from([0.0, 1e6, 280.0]),
)
@example(values=[2.0**-149] * 3 + [0.0], shift=0.0)
@example(values=[1e30, -1e30, 1e-30], shift=0.0)
@example(values=[0.1, 2.0**-16, 0.3, 2.0**-19], shift=1e6)
@example(values=[1.1e-16, 2.3e-13, 3.7e-12], shift=1e6)
def test_spreads(dtype: str, values: list[float], shift: float):
    elements = [Fraction(float(np.float32(x)) + shift) for x in values]
    first, second = sum(elements), sum(x * x for x in elements)
    sums = [rational_form(total) for total in (first, second)]
    if None in sums:
        return
    n = len(values)
    with np.errstate(all="ignore"):
        near = ziv_rounding.spread(np.array([float(n)]), arrays(sums[0]), arrays(sums[1]))
        variance = ziv_rounding.estimated_quotient(
            [near.value, near.off], np.array([float(n * n)]), near.within
        )
        leading = ziv_rounding.leading_spread(
            np.array([float(n)]), arrays(sums[0]), arrays(sums[1])
        )
        leading = leading / (n * n)
    want = (n * second - first * first) / (n * n)
    if not np.isnan(leading[0]):
        assert abs(Fraction(leading[0]) / want - 1) < Fraction(5, 2**54)
    if dtype != "float64":
        check(leading, dtype, nearest(want, dtype))
        with np.errstate(invalid="ignore"):
            check(np.sqrt(leading), dtype, nearest_root(want, dtype))
    if not near.certain[0]:
        return
    check(variance, dtype, nearest(want, dtype))
    with np.errstate(all="ignore"):
        check(ziv_rounding.estimated_root(variance), dtype, nearest_root(want, dtype))


def rational_form(total: Fraction) -> list[float] | None:
    """Return three doubles, each the nearest to what is left; None if they are not enough."""
    terms = []
    for _ in range(3):
        terms.append(float(total))
        total -= Fraction(terms[-1])
    return None if total else terms


@pytest.mark.parametrize("dtype", DTYPES)
def test_ordinary_results_are_certain(dtype: str):
    """Else they would be right, but slow."""
    rng = np.random.default_rng(0)
    count = 2000
    terms = [280 * 512 + 340 * rng.standard_normal(count), 2.0**-40 * rng.standard_normal(count)]
    by = np.full(count, 511.0)
    with np.errstate(all="ignore"):
        near = ziv_rounding.estimated_quotient(terms, by)
        for result in (near, ziv_rounding.estimated_root(near)):
            assert result.rounded(np.dtype(dtype))[1].mean() > 0.999
        if dtype != "float64":
            assert ziv_rounding.narrowed(terms[0] / by, np.dtype(dtype))[1].mean() > 0.999


def test_leading_doubles_decide_ordinary_spreads():
    elements = 280 + 15 * np.random.default_rng(0).standard_normal((64, 500)).astype("f4")
    sums = [map(Fraction, map(float, column)) for column in elements.T]
    pairs = [[sum(row), sum(x * x for x in row)] for row in map(list, sums)]
    s, q = (np.transpose([rational_form(pair[n]) for pair in pairs]) for n in range(2))
    leading = ziv_rounding.leading_spread(np.array([64.0]), s, q)
    got, sure = ziv_rounding.narrowed(np.sqrt(leading / 64**2), np.dtype("float32"))
    assert sure.mean() > 0.99
    np.testing.assert_allclose(got, elements.astype(float).std(axis=0), rtol=2.0**-23)


def test_leading_doubles_do_not_decide_ties():
    """Nor what is next to one: the terms behind them do."""
    tie, exact = 1 + 2.0**-24, 1 + 2.0**-23
    near = np.array([tie, np.nextafter(tie, 2), np.nextafter(tie, 0), exact, -0.0, 1e-300])
    got, sure = ziv_rounding.narrowed(near, np.dtype("float32"))
    assert sure.tolist() == [False, False, False, True, True, False]
    assert got[3] == exact
    assert got[4] == 0


def test_dtypes_that_numpy_does_not_round_to_are_never_certain():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    near = ziv_rounding.estimated_quotient(arrays([1.0, 0.0, 0.0]), np.ones(1))
    assert not near.rounded(np.dtype(ml_dtypes.bfloat16))[1].any()
