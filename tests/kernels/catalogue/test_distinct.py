"""Which values there are: NumPy's, or HyperLogLog's within its bound."""

from __future__ import annotations

import numpy as np
import pytest

from chunkfold.kernels import DeviceContext, MonoidError, as_monoid
from chunkfold.kernels.catalogue.distinct import approx_nunique
from tests.kernels.catalogue.test_quantiles import elements, found

pytestmark = pytest.mark.unoptimised


@pytest.mark.parametrize("dtype", ["i1", "u2", "f2"])
def test_few_values_are_counted(opened: DeviceContext, dtype: str):
    x = np.round(elements("f4", (40, 30)).clip(-9, 9)).astype("i1").astype(dtype)
    x = abs(x) if dtype == "u2" else x
    got, reads = found(opened, as_monoid("nunique"), x, (0,), "tree")
    assert (got.tolist(), reads) == ([len(np.unique(column)) for column in x.T], 1)
    if x.dtype.kind != "f":
        got, _ = found(opened, as_monoid("mode"), x, (0,), "tree")
        values, counts = zip(*(np.unique(row, return_counts=True) for row in x.T), strict=True)
        want = [v[np.argmax(n)] for v, n in zip(values, counts, strict=True)]
        assert got.tolist() == want
        assert got.dtype == x.dtype


def test_nan_is_no_value():
    x = np.array([1, np.nan, 1, -0.0, 0.0], "f2")
    assert as_monoid("nunique").evaluate(x) == 2
    assert as_monoid("approx_nunique").evaluate(x.astype("f4")) == 2


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "u4"])
def test_estimates_are_within_their_bound(dtype: str):
    rng = np.random.default_rng(3)
    for count in [0, 1, 40, 3000, 200_000]:
        x = rng.permutation(np.arange(count) * 7 - 1000).astype(dtype)
        estimate = int(as_monoid("approx_nunique").evaluate(np.repeat(x, 2)))
        assert abs(estimate - count) <= 0.01 * 4 * count


def test_estimates_are_the_same_on_every_device(opened: DeviceContext):
    x, monoid = elements("f4", (5, 4000)), approx_nunique(0.05)
    got, _ = found(opened, monoid, x, (1,), "tree")
    assert got.tolist() == [monoid.evaluate(row) for row in x]


def test_what_cannot_be_counted_is_refused():
    with pytest.raises(MonoidError, match=r"too many for 1 output.*approx_nunique"):
        as_monoid("nunique").evaluate(np.ones(3, "f4"))
    with pytest.raises(MonoidError, match=r"65,536 of int16 are too many for 4,050 .*='int8'"):
        as_monoid("mode").for_dtype(np.dtype("i2"), outputs=4_050)
    with pytest.raises(MonoidError, match=r"256 of int8 are too many .*reduce fewer outputs"):
        as_monoid("mode").for_dtype(np.dtype("i1"), outputs=10**8)
    with pytest.raises(MonoidError, match="'mode' is not defined for float32"):
        as_monoid("mode").evaluate(np.ones(3, "f4"))
    with pytest.raises(MonoidError, match=r"error of approx_nunique is 0\.001"):
        approx_nunique(0.001)
    with pytest.raises(MonoidError, match="error of approx_nunique is 'a'"):
        approx_nunique("a")
