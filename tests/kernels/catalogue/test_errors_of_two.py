"""Bias, mean absolute and root mean square error: exact, rounded once, on every device."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

import chunkfold as cf
from chunkfold.kernels import as_monoid
from chunkfold.kernels.program.device_context import DeviceContext
from tests.exactly import nearest, nearest_root
from tests.kernels.catalogue.test_catalogue import results

OPS = ["bias", "mae", "rmse"]
NUMBERS = st.floats(-1e150, 1e150)
ROWS = st.lists(st.tuples(NUMBERS, NUMBERS, st.floats(0.001, 9)), min_size=1, max_size=6)
EXACT = {"bias": lambda far: far, "mae": abs, "rmse": lambda far: far * far}


def wanted(op: str, rows: list[tuple[Any, ...]], dtype: str) -> np.floating:
    """Return what rationals say of pairs and their weights, rounded once."""
    each = [tuple(map(Fraction, row)) for row in rows]
    total = sum((w * EXACT[op](x - y) for x, y, w in each), Fraction())
    mean = total / sum((w for *_, w in each), Fraction())
    return nearest_root(mean, dtype) if op == "rmse" else nearest(mean, dtype)


@pytest.mark.parametrize("weighted", [False, True])
@given(ROWS)
def test_they_are_rounded_once(weighted: bool, rows: list[tuple[float, float, float]]):
    rows = rows if weighted else [(x, y, 1.0) for x, y, _ in rows]
    arrays = [np.array(side) for side in zip(*rows, strict=True)][: 2 + weighted]
    for op in OPS:
        got = as_monoid(f"weighted_{op}" if weighted else op).evaluate(*arrays)
        assert got == wanted(op, rows, "float64")


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
        want = wanted(op, rows, kind.name if kind.kind == "f" else "float64")
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
