"""Covariances and correlations: NumPy's meaning, exact and rounded once."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import xarray
from hypothesis import given
from hypothesis import strategies as st

import chunkfold as cf
from chunkfold.kernels import as_monoid
from tests.exactly import nearest

NUMBERS = st.floats(-1e60, 1e60)
PAIRS = st.lists(st.tuples(NUMBERS, NUMBERS, st.integers(1, 9)), min_size=2, max_size=6)


def apart(rows: list[tuple[Any, Any, int]], ddof: int) -> tuple[Fraction, Fraction, Fraction]:
    """Return the covariance and both variances of pairs, each as often as its weight says."""
    each = [(Fraction(x), Fraction(y)) for x, y, w in rows for _ in range(w)]
    n = len(each)
    means = [sum(side, Fraction()) / n for side in zip(*each, strict=True)]
    away = [[one - mean for one, mean in zip(pair, means, strict=True)] for pair in each]
    made = (sum((p[i] * p[j] for p in away), Fraction()) for i, j in ((0, 1), (0, 0), (1, 1)))
    one, other, third = (total / (n - ddof) for total in made)
    return one, other, third


@pytest.mark.parametrize("weighted", [False, True])
@given(PAIRS, st.integers(0, 1))
def test_they_are_rounded_once(weighted: bool, rows: list[tuple[float, float, int]], ddof: int):
    rows = rows if weighted else [(x, y, 1) for x, y, _ in rows]
    arrays = [np.array(side, float) for side in zip(*rows, strict=True)][: 2 + weighted]
    prefix = "weighted_" if weighted else ""
    cov, *variances = apart(rows, ddof)
    got = as_monoid(f"{prefix}covariance").evaluate(*arrays, ddof=ddof)
    assert got == nearest(cov, "float64")
    corr = as_monoid(f"{prefix}correlation").evaluate(*arrays)
    if all(variances):
        square = cov**2 / variances[0] / variances[1]
        assert abs(corr) <= 1
        assert abs(Fraction(float(corr)) ** 2 - square) <= square / 2**50
        assert (corr > 0) == (cov > 0)
    else:
        assert np.isnan(corr)


@pytest.mark.unoptimised
@pytest.mark.parametrize("dtype", ["float32", "int16", "float64"])
@pytest.mark.parametrize("axis", [None, 0])
def test_devices_give_numpys(dtype: str, axis: int | None):
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(30, 7)) * 100).astype(dtype)
    y, w = (x * 2 + rng.normal(size=x.shape) * 99).astype(dtype), rng.integers(1, 5, (30, 1))
    ops = ["covariance", "correlation"]
    rows = [(a.T, b.T) if axis == 0 else (a.reshape(1, -1), b.reshape(1, -1)) for a, b in [(x, y)]]
    each = np.broadcast_to(w, x.shape)
    weights = each.T if axis == 0 else each.reshape(1, -1)
    for given_weights, of in ((None, [None] * 7), (w, weights)):
        got = cf.reduce((x, y), ops, axis=axis, ddof=1, weights=given_weights)
        pairs = list(zip(*rows[0], of, strict=False))
        covs = [np.cov(a, b, fweights=f) for a, b, f in pairs]
        wide = np.reshape([c[0, 1] for c in covs], np.shape(got["covariance"]))
        np.testing.assert_allclose(got["covariance"], wide, rtol=1e-6)
        flat = [c[0, 1] / np.sqrt(c[0, 0] * c[1, 1]) for c in covs]
        np.testing.assert_allclose(np.ravel(got["correlation"]), flat, rtol=1e-6)
        plain = given_weights is None and dtype != "int16"
        assert got["covariance"].dtype == (dtype if plain else "float64")


@pytest.mark.unoptimised
def test_pairs_of_which_one_is_missing_are_left_out_as_by_xarray():
    rng = np.random.default_rng(1)
    x, y = (xarray.DataArray(rng.normal(size=(9, 8)), dims=("t", "x")) for _ in range(2))
    x, y = x.where(x > -1), y.where(y < 1)
    got = cf.reduce((x, y), ["covariance", "correlation"], axis="t", skipna=True, ddof=1)
    np.testing.assert_allclose(got["covariance"], xarray.cov(x, y, "t"))
    np.testing.assert_allclose(got["correlation"], xarray.corr(x, y, "t"))
    few = cf.reduce((x, y), "covariance", axis="t", skipna=True, min_count=7)
    there = (x.notnull() & y.notnull()).sum("t")
    np.testing.assert_array_equal(np.isnan(few), there < 7)


def test_of_no_degrees_of_freedom_there_is_no_value():
    cov, corr = as_monoid("covariance"), as_monoid("correlation")
    one = np.array([3.0])
    assert np.isnan(cov.evaluate(one, one, ddof=1))
    assert np.isnan(cov.evaluate(one[:0], one[:0]))
    assert cov.evaluate(np.array([1.0, 2]), np.array([3.0, 5]), ddof=2) == np.inf
    assert cov.evaluate(one, one) == 0
    assert np.isnan(corr.evaluate(np.array([1.0, 1.0]), np.array([1.0, 2.0])))
    assert corr.evaluate(np.array([1.0, 2, 4]), np.array([-1.0, -2, -4])) == -1
