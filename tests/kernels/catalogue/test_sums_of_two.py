"""Covariances, correlations and errors of two arrays: exact, and rounded once."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import xarray
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

import chunkfold as cf
from chunkfold.kernels import as_monoid
from chunkfold.kernels.program.device_context import DeviceContext
from tests.exactly import nearest, nearest_root
from tests.kernels.catalogue.test_catalogue import results

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


OPS = ["bias", "mae", "rmse"]
LARGE_NUMBERS = st.floats(-1e150, 1e150)
ROWS = st.lists(
    st.tuples(LARGE_NUMBERS, LARGE_NUMBERS, st.floats(0.001, 9)), min_size=1, max_size=6
)
EXACT = {"bias": lambda far: far, "mae": abs, "rmse": lambda far: far * far}


def wanted_error(op: str, rows: list[tuple[Any, ...]], dtype: str) -> np.floating:
    """Return what rationals say of pairs and their weights, rounded once."""
    each = [tuple(map(Fraction, row)) for row in rows]
    total = sum((w * EXACT[op](x - y) for x, y, w in each), Fraction())
    mean = total / sum((w for *_, w in each), Fraction())
    return nearest_root(mean, dtype) if op == "rmse" else nearest(mean, dtype)


@pytest.mark.parametrize("weighted", [False, True])
@given(ROWS)
def test_errors_are_rounded_once(weighted: bool, rows: list[tuple[float, float, float]]):
    rows = rows if weighted else [(x, y, 1.0) for x, y, _ in rows]
    arrays = [np.array(side) for side in zip(*rows, strict=True)][: 2 + weighted]
    for op in OPS:
        got = as_monoid(f"weighted_{op}" if weighted else op).evaluate(*arrays)
        assert got == wanted_error(op, rows, "float64")


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i4", "i8", "u8", "?"])
def test_devices_give_the_same(opened: DeviceContext, dtype: str):
    rng, kind = np.random.default_rng(3), np.dtype(dtype)
    if kind.kind == "f":
        x, y = np.ldexp(rng.normal(size=(2, 90)), rng.integers(-6, 6, (2, 90))).astype(kind)
    elif kind.kind == "b":
        x, y = rng.random((2, 90)) < 0.5
    else:
        ends = np.iinfo(kind)
        x, y = rng.integers(ends.min, ends.max, (2, 90), kind, endpoint=True)
    got = results(opened, OPS, x, y)
    rows = [(*pair, 1) for pair in zip(x.tolist(), y.tolist(), strict=True)]
    for op in OPS:
        want = wanted_error(op, rows, kind.name if kind.kind == "f" else "float64")
        assert (got[op], got[op].dtype) == (want, want.dtype)


def test_they_go_by_cell_by_label_and_by_weight():
    rng = np.random.default_rng(4)
    x, y = (xr.DataArray(one, dims=("t", "x")) for one in rng.normal(size=(2, 12, 5)))
    y[3, 2] = np.nan
    far, season = x - y, xr.DataArray(np.arange(12) % 3, dims="t", name="season")
    want = {"bias": far.mean("t"), "mae": abs(far).mean("t"), "rmse": (far**2).mean("t") ** 0.5}
    got = cf.reduce((x, y), [*OPS, "cov", "corr"], axis="t")
    for op in OPS:
        np.testing.assert_allclose(got[op], want[op])
    np.testing.assert_allclose(got["cov"], xr.cov(x, y, "t", ddof=0))
    np.testing.assert_allclose(got["corr"], xr.corr(x, y, "t"))
    got = cf.reduce((x, y), OPS, axis="t", by=season)
    np.testing.assert_allclose(got["mae"], abs(far).groupby(season).mean("t"))
    weights = xr.DataArray(np.arange(12.0), dims="t")
    got = cf.reduce((x, y), OPS, axis="t", weights=weights)
    np.testing.assert_allclose(got["rmse"], (far**2).weighted(weights).mean("t") ** 0.5)


def test_of_infinities_they_are_what_floats_make_of_them():
    x, y = np.array([np.inf, 1.0]), np.array([2.0, 1.0])
    assert cf.reduce((x, y), OPS) == {"bias": np.inf, "mae": np.inf, "rmse": np.inf}
    assert cf.reduce((y, x), OPS) == {"bias": -np.inf, "mae": np.inf, "rmse": np.inf}
    assert all(np.isnan(one) for one in cf.reduce((x, x), OPS).values())
    assert all(np.isnan(one) for one in cf.reduce((x[:0], x[:0]), OPS).values())


def test_short_names_are_those_of_covariances():
    x, y, w = np.random.default_rng(5).normal(size=(3, 20)) ** 2
    for short, long in (("cov", "covariance"), ("corr", "correlation")):
        for given_weights in (None, w):
            got = cf.reduce((x, y), [short, long], weights=given_weights)
            assert got[short] == got[long]
    assert cf.reduce((x, y), "cov", ddof=1) == cf.reduce((x, y), "covariance", ddof=1)
