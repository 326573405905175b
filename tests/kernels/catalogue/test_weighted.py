"""Weighted statistics: xarray's meaning, exact and rounded once, on every device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
import xarray

from chunkfold.kernels import (
    CATALOGUE,
    DeviceContext,
    Fold,
    Monoid,
    MonoidError,
    as_monoid,
    bind,
    box,
)
from chunkfold.kernels.accumulator.sums import any_lost
from chunkfold.kernels.catalogue.named import checking_weights, divides_by_weights, is_known
from chunkfold.kernels.catalogue.weighted import are_negative
from chunkfold.kernels.strides import strides_along
from tests.conftest import shaped
from tests.exactly import nearest
from tests.kernels.catalogue.test_quantiles import found
from tests.kernels.fold.test_fold import upload

NAMES = ["weighted_sum", "weighted_mean", "weighted_var", "weighted_std", "sum_of_weights"]
OPS = list(map(as_monoid, NAMES))
SHAPE = (6, 5, 70)


def exactly(x: np.ndarray, w: np.ndarray, ddof: float = 0) -> dict[str, Fraction]:
    """Return what sums of elements and their weights make, by rationals."""
    pairs = [(Fraction(a), Fraction(b)) for a, b in zip(x.tolist(), w.tolist(), strict=True)]
    s, q = sum(a * b for a, b in pairs), sum(a * a * b for a, b in pairs)
    n = sum(b for _, b in pairs)
    variance = (q - s * s / n) / (n - Fraction(ddof))
    made = {"weighted_sum": s, "weighted_mean": s / n, "weighted_var": variance}
    return made | {"sum_of_weights": n}


def results(
    opened: DeviceContext,
    monoids: Sequence[Monoid],
    x: np.ndarray,
    w: np.ndarray,
    axes: tuple[int, ...],
    *,
    own: tuple[int, ...] | None = None,
    shape: str = "tree",
    ddof: float = 0,
) -> dict[str, np.ndarray]:
    """Fold an array and weights; `own` are the axes that these have."""
    bound = bind(monoids, [x.dtype, w.dtype], exact=True, ddof=ddof, fp64=opened.device.fp64)
    others = () if own is None else [strides_along(x.shape, own)]
    part = box(x.shape, axes, other_strides=others)

    def once(accumulator):
        tuning = shaped(opened.device, accumulator, shape)
        fold = Fold(opened, accumulator, tuning, part.outputs)
        fold.add([upload(opened, x), upload(opened, w)], part)
        return fold.read_back()

    accumulator = bound.accumulator.for_outputs(part.outputs)
    partial = once(accumulator)
    if any_lost(accumulator, partial).any():
        partial = once(accumulator.with_limbs())
    return {one.name: one.finish(partial, x.shape, axes) for one in bound.statistics}


def hard(dtype: str, seed: int, shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    """Return numbers of both signs, and of sizes so different that any rounding shows."""
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "i":
        return rng.integers(-(2**30), 2**30, shape).astype(dtype)
    most = 6 if dtype == "float16" else 30
    return np.ldexp(rng.standard_normal(shape), rng.integers(-most, most, shape)).astype(dtype)


@pytest.mark.unoptimised
@pytest.mark.parametrize("ddof", [0, 1.5])
@pytest.mark.parametrize("dtypes", [("float32", "float32"), ("float64", "float32")])
def test_results_are_rounded_once(opened: DeviceContext, dtypes: tuple[str, str], ddof: float):
    x, w = hard(dtypes[0], 1, (4, 60)), abs(hard(dtypes[1], 2, (4, 60)))
    got = results(opened, OPS, x, w, (1,), ddof=ddof)
    for row in range(4):
        want = exactly(x[row], w[row], ddof)
        for name, value in want.items():
            assert got[name][row] == nearest(value, dtypes[0]), name
        variance = want["weighted_var"]
        assert abs(Fraction(float(got["weighted_std"][row])) ** 2 / variance - 1) < 2.0**-22


@pytest.mark.unoptimised
@pytest.mark.parametrize("shape", ["tree", "vectors", "tree-64"])
@pytest.mark.parametrize(
    ("own", "axes"),
    [((1,), (1, 2)), ((1, 2), (1, 2)), ((1,), (0, 1, 2)), ((0,), (0,)), ((1,), (1,))],
)
def test_weights_may_lack_axes_of_the_data(
    opened: DeviceContext, shape: str, own: tuple[int, ...], axes: tuple[int, ...]
):
    """A cos(latitude), a (y, x) mask, the lengths of months, beside (t, y, x) data."""
    x = hard("float32", 3)
    w = np.cos(np.linspace(-1.4, 1.4, math.prod(SHAPE[n] for n in own)))
    w = w.reshape([SHAPE[n] for n in own]).astype("f4")
    w = np.where(w > 0.6, w, 0).astype("f4") if len(own) > 1 else w
    (mean,) = (one for one in OPS if one.name == "weighted_mean")
    got = results(opened, [mean], x, w, axes, own=own, shape=shape)["weighted_mean"]
    whole = np.broadcast_to(w.reshape([n if a in own else 1 for a, n in enumerate(SHAPE)]), SHAPE)
    kept = [axis for axis in range(3) if axis not in axes]

    def rows(array: np.ndarray) -> np.ndarray:
        return array.transpose(*kept, *axes).reshape(got.size, -1)

    want = [exactly(a, b)["weighted_mean"] for a, b in zip(rows(x), rows(whole), strict=True)]
    assert got.tolist() == [nearest(one, "float32") for one in want]


@pytest.mark.unoptimised
@pytest.mark.parametrize("skipna", [False, True])
def test_they_mean_what_xarray_means(opened: DeviceContext, skipna: bool):
    rng = np.random.default_rng(4)
    x, w = rng.standard_normal((40, 9)), rng.random((40, 9))
    x[rng.random(x.shape) < 0.3] = np.nan
    x[:, 2], x[:, 3] = np.nan, 7
    w[:, 4], w[5, :] = 0, 0
    x[:, 5:] = 1
    ops = [one.skipping() for one in OPS] if skipna else OPS[:4]
    got = results(opened, ops, x, w, (0,))
    held = xarray.DataArray(x, dims=("t", "x")).weighted(xarray.DataArray(w, dims=("t", "x")))
    for one in ops:
        called = one.name.removeprefix("weighted_")
        options = {} if called == "sum_of_weights" else {"skipna": skipna}
        want = getattr(held, called)("t", **options)
        # xarray rounds, so that an error is left where all elements are the same.
        np.testing.assert_allclose(got[one.name], want, rtol=1e-12, atol=1e-14, err_msg=one.name)
        assert got[one.name].dtype == want.dtype


@pytest.mark.unoptimised
def test_integers_are_weighed_exactly(opened: DeviceContext):
    x, w = hard("int64", 5, (3, 80)) << 20, abs(hard("int32", 6, (3, 80))) % 9
    got = results(opened, OPS, x, w, (1,))
    for row in range(3):
        for name, value in exactly(x[row], w[row]).items():
            assert got[name][row] == (value if name == "weighted_sum" else float(value)), name
    assert {name: got[name].dtype.name for name in NAMES} == {
        name: "int64" if name == "weighted_sum" else "float64" for name in NAMES
    }


def test_nothing_that_weighs_anything_has_no_mean():
    x, none = np.array([1.0, 2.0]), np.zeros(2)
    for op in OPS:
        got = [op.evaluate(x, none, exact=exact) for exact in (False, True)]
        got.append(op.evaluate(x[:0], none[:0]))
        assert all(value == 0 if op.name == "weighted_sum" else np.isnan(value) for value in got)


def test_a_weight_that_is_no_number_is_no_gap():
    x, w = np.array([np.nan, 1.0, 2.0]), np.array([5.0, 1.0, 1.0])
    for op in OPS:
        assert np.isfinite(op.skipping().evaluate(x, w))
        assert np.isnan(op.skipping().evaluate(x, np.array([5.0, np.nan, 1.0])))


def test_as_many_degrees_of_freedom_as_weights_leave_nothing():
    var = as_monoid("weighted_var")
    x, w = np.array([1.0, 2.0]), np.array([0.5, 0.5])
    assert var.evaluate(x, w, ddof=1) == np.inf == as_monoid("var").evaluate(x, ddof=2)
    assert np.isnan(var.evaluate(x[:1], 2 * w[:1], ddof=1))
    assert np.isnan(as_monoid("var").evaluate(x[:1], ddof=1))


def test_the_first_input_is_no_weight():
    with pytest.raises(
        MonoidError, match="of 2 inputs has 2 weights; the first input cannot be a weight"
    ):
        Monoid("m", inputs=2, weights=2, zero=0, lift=lambda x, w: x * w, op="add")


CHECKED = [name for name, one in CATALOGUE.items() if divides_by_weights(one)]


def test_all_that_divide_by_weights_are_checked():
    signed = {name for name, one in CATALOGUE.items() if one.weights} - {*CHECKED}
    assert signed == {"weighted_sum", "sum_of_weights"}
    for name in signed:
        assert checking_weights(as_monoid(name)) is as_monoid(name)


@pytest.mark.parametrize("name", CHECKED)
def test_weights_that_are_zero_by_rounding_count_as_zero(opened: DeviceContext, name: str):
    monoid = checking_weights(as_monoid(name))
    assert is_known(monoid)
    rng = np.random.default_rng(0)
    *arrays, w = rng.random((monoid.inputs, 30, 7))
    w[3], w[4, 2] = -4e-8, 1
    clipped = w.clip(0)
    got = found_of(opened, name, [*arrays, w])
    np.testing.assert_array_equal(got, found_of(opened, name, [*arrays, clipped]))
    np.testing.assert_allclose(got, as_monoid(name).evaluate(*arrays, clipped), rtol=1e-12)
    w[5, 6], w[9, 0] = -0.5, -3
    with pytest.raises(MonoidError, match=rf"'{name}' has weights .* least is -3; .* zero or more"):
        found_of(opened, name, [*arrays, w])


def found_of(opened: DeviceContext, name: str, arrays: list[np.ndarray]) -> np.ndarray:
    """Return a result of all elements of some arrays and their weights, the last one."""
    one, *others = arrays
    monoid = checking_weights(as_monoid(name))
    return found(opened, monoid, one, (0, 1), "tree", others)[0]


@pytest.mark.parametrize(
    ("least", "most", "refused"),
    [(0.0, 1.0, False), (-1e-7, 1.0, False), (-1e-5, 1.0, True), (-1e-5, 100.0, False),
     (-1e-8, 1e-9, True), (-4e-8, -4e-8, False), (-1.0, -1.0, True), (-np.inf, 1.0, True)],
)  # fmt: skip
def test_rounding_is_a_share_of_the_largest(least: float, most: float, refused: bool):
    assert are_negative(np.array([least]), np.array([most])).tolist() == [refused]
