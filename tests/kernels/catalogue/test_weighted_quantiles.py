"""Weighted quantiles: NumPy's inverted_cdf, exact, for every dtype, layout and device."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkfold.kernels import DeviceContext, MonoidError, as_monoid, bind
from chunkfold.kernels.catalogue import radix
from chunkfold.kernels.catalogue.quantiles import quantile
from tests.conftest import some
from tests.kernels.catalogue.test_quantiles import elements, found

pytestmark = pytest.mark.unoptimised
SHAPE = (23, 3, 10)


def weights_of(dtype: str, shape: tuple[int, ...] = SHAPE, seed: int = 1) -> np.ndarray:
    """Return whole weights, some of them zero: NumPy's cumulated ones are exact, too."""
    return np.random.default_rng(seed).integers(0, 2 if dtype == "?" else 9, shape).astype(dtype)


def wanted(x: np.ndarray, w: np.ndarray, q: float, axes: tuple[int, ...]) -> np.ndarray:
    return np.quantile(x, q, axis=axes, weights=w, method="inverted_cdf")


@pytest.mark.parametrize(
    ("elements_of", "weights", "axes"),
    some(["f2", "f4", "i4"], ["f4", "f8", "i2"], [(0, 1, 2), (0,)], of=3),
)
def test_they_are_numpys_on_every_device(
    opened: DeviceContext, elements_of: str, weights: str, axes: tuple[int, ...]
):
    x, w = elements(elements_of, SHAPE), weights_of(weights)
    w.reshape(-1)[:: SHAPE[-1]] = 3  # no output has weights that are all zero
    got, _ = found(opened, quantile([0, 0.3, 1], weights=True), x, axes, "tree", [w])
    want = np.stack([wanted(x, w, q, axes) for q in (0, 0.3, 1)], axis=-1)
    np.testing.assert_array_equal(got, want)
    assert got.dtype == want.dtype


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_elements_and_weights_have_any_dtypes(data: st.DataObject):
    x_of = data.draw(st.sampled_from(["f2", "f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4"]))
    w_of = data.draw(st.sampled_from(["?", "u1", "i2", "u4", "i8", "f2", "f4", "f8"]))
    count, seed = data.draw(st.integers(1, 40)), data.draw(st.integers(0, 99))
    x = elements(x_of, (count,), seed, odd=False)
    w = weights_of(w_of, (count,), seed)
    w[data.draw(st.integers(0, count - 1))] = 1
    q = data.draw(st.sampled_from([0, 1, 0.1, 0.5, 0.7, 1 / 3]) | st.floats(0, 1))
    got = quantile(q, weights=True).evaluate(x, w)
    assert (got, got.dtype) == (wanted(x, w, q, (0,)), x.dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_weights_add_up_without_rounding(dtype: str):
    """Of such weights NumPy loses the small ones."""
    info = np.finfo(dtype)
    x = np.arange(5, dtype="f4")[::-1]
    w = np.array([info.tiny, 2.0**-20, info.eps / 4, 2.0**60, info.smallest_subnormal], dtype)
    total = sum(map(Fraction, w.tolist()))
    for q in (0, 1e-300, 1e-12, 0.5, 1):
        reached, want = Fraction(0), None
        for element, weight in sorted(zip(x.tolist(), w.tolist(), strict=True)):
            reached += Fraction(weight)
            if want is None and reached and float(reached / total) >= q:
                want = element
        assert quantile(q, weights=True).evaluate(x, w) == want


def test_few_bits_of_elements_are_read_once_however_wide_weights_are():
    """What is beside them widens no element: float32 of weights of float64 are 32 bits."""
    reads = {
        (x, w): bind([quantile(0.5, weights=True)], [np.dtype(x), np.dtype(w)])
        .statistics[0]
        .monoid.reads
        for x, w in [("i1", "f8"), ("i2", "f4"), ("f4", "f4"), ("f4", "i8"), ("f4", "f8")]
    }
    assert list(reads.values()) == [1, 1, 2, 2, 3]


@pytest.mark.parametrize("mebibytes", [0.05, 0.2])
def test_tables_of_many_outputs_stay_small(monkeypatch, opened: DeviceContext, mebibytes: float):
    monkeypatch.setattr(radix, "TABLE_BYTES", int(mebibytes * 2**20))
    x, w = elements("f4", SHAPE), weights_of("f4") + 1
    got, reads = found(opened, quantile(0.4, weights=True), x, (0,), "tree", [w])
    assert reads > 2
    np.testing.assert_array_equal(got, wanted(x, w, 0.4, (0,)))


def test_nan_is_the_result_unless_it_is_skipped():
    x, w = np.array([1, np.nan, 3], "f4"), np.array([1.0, 0, 5])
    assert np.isnan(quantile(0.5, weights=True).evaluate(x, w))
    w[1] = np.nan  # of an element that is absent
    assert quantile(0.5, weights=True).skipping().evaluate(x, w) == 3
    assert np.isnan(quantile(0.5, weights=True).evaluate(x[[0, 2]], np.zeros(2)))


@pytest.mark.parametrize(
    ("weights", "says"),
    [
        ([1.0, -1, 3], "'weighted_median' has weights below zero: .* zero or more"),
        ([1, -1, 3], "below zero"),
        ([1, np.nan, 3], "has weights that are NaN or infinite"),
        ([1, np.inf, 3], "NaN or infinite"),
    ],
)
def test_weights_are_finite_and_not_negative(weights: list[float], says: str):
    with pytest.raises(MonoidError, match=says):
        as_monoid("weighted_median").evaluate(np.arange(3, dtype="f4"), np.array(weights))


def test_integers_that_floats_round_are_refused():
    x = np.array([2**53 + 1, 2**53 + 3, 5], "i8")
    with pytest.raises(
        MonoidError, match=r"weighted_median' is near .*beyond 2\*\*53: give weights"
    ):
        as_monoid("weighted_median").evaluate(x, np.ones(3))
    assert as_monoid("weighted_median").evaluate(x, np.ones(3, int)) == 2**53 + 1
    assert quantile(0, weights=True).evaluate(x, np.ones(3)) == 5
    with pytest.raises(MonoidError, match="all zero, has no value of int64; dtype='float64' gives"):
        as_monoid("weighted_median").evaluate(x, np.zeros(3, int))
    with pytest.raises(MonoidError, match="not defined for bool, only for integers and floats"):
        as_monoid("weighted_median").evaluate(np.ones(2, bool), np.ones(2))


@pytest.mark.parametrize("method", ["linear", "hazen", "sketch"])
def test_other_methods_do_not_weigh(method: str):
    with pytest.raises(MonoidError, match=f"by method='{method}' takes no weights; .*inverted_cdf"):
        quantile(0.5, method=method, weights=True)
