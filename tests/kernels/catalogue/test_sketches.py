"""Sketches of quantiles: within the tolerance of NumPy's lower ones, by one read."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from chunkfold.kernels import DeviceContext, MonoidError
from chunkfold.kernels.catalogue.quantiles import quantile
from tests.kernels.catalogue.test_quantiles import elements, found

pytestmark = pytest.mark.unoptimised
Q = [0, 0.05, 0.3, 0.5, 0.77, 0.95, 0.999, 1]


def assert_within(got: np.ndarray, x: np.ndarray, axes: tuple[int, ...], rtol: float) -> None:
    """See that results are near the lower quantiles, but exact at both ends."""
    lower = np.moveaxis(np.quantile(x, Q, axis=axes, method="lower"), 0, -1).astype("f8")
    least = np.finfo("f8" if x.dtype == "f8" else "f4").smallest_normal
    ends = np.isinf(lower) | np.isin(Q, [0, 1])
    np.testing.assert_array_equal(got[ends], lower[ends].astype(got.dtype))
    near, wanted = got[~ends].astype("f8"), lower[~ends]
    assert np.all(np.abs(near - wanted) <= np.maximum(rtol * np.abs(wanted), least))


@pytest.mark.parametrize("dtype", ["f4", "f8", "i1", "u2", "i4", "i8", "u8"])
def test_they_are_within_the_tolerance_on_every_device(opened: DeviceContext, dtype: str):
    """Of both signs, zeros, infinities and the ends of integers, over some axes."""
    x = elements(dtype)
    for rtol in (0.01, 0.3):
        monoid = quantile(Q, method="sketch", rtol=rtol)
        got, reads = found(opened, monoid, x, (0, 2), "tree")
        assert reads == 1
        assert got.dtype == (x.dtype if x.dtype.kind == "f" else "f8")
        assert_within(got, x, (0, 2), rtol)


@settings(deadline=None, max_examples=60)
@given(
    x=st.sampled_from(["f4", "f8", "i4", "i8"]).flatmap(
        lambda dtype: arrays.arrays(
            dtype, st.integers(1, 40), elements={"allow_nan": False} if dtype[0] == "f" else None
        )
    ),
    rtol=st.floats(0.004, 0.9),
)
def test_any_elements_are_within_any_tolerance(x: np.ndarray, rtol: float):
    """Also subnormal ones, which are off by less than the least normal number."""
    assert_within(quantile(Q, method="sketch", rtol=rtol).evaluate(x), x, (0,), rtol)


def test_nan_makes_nan_unless_it_is_left_out():
    """As NumPy has it; and of nothing there is NaN."""
    x = np.array([1, np.nan, 3, 2], "f4")
    sketch = quantile(0.5, method="sketch", rtol=0.01)
    assert np.isnan(sketch.evaluate(x))
    assert sketch.skipping().evaluate(x) == pytest.approx(2, rel=0.01)
    assert np.isnan(sketch.evaluate(x[:0]))
    assert np.isnan(sketch.evaluate(np.array([], "i4")))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_nan_of_any_bits_makes_nan_on_every_device(opened: DeviceContext, dtype: str):
    """No bucket is its own: it is among those of infinity, or in none."""
    x = elements(dtype, (5, 40), odd=False)
    infinity = x.dtype.type(np.inf).view(f"u{x.itemsize}")
    quiet, sign = np.nan * x.dtype.type(1), x.dtype.type(-0.0).view(infinity.dtype)
    for row, bits in enumerate((infinity + 1, (infinity + 1) | sign, quiet.view(infinity.dtype))):
        x[row, 3] = bits.view(x.dtype)
    got, _ = found(opened, quantile(Q, method="sketch", rtol=0.01), x, (1,), "tree")
    assert np.isnan(got[:3]).all()
    assert_within(got[3:], x[3:], (1,), 0.01)


@pytest.mark.parametrize("rtol", [0, 1, -0.1, np.nan, None, "1%", True])
def test_what_is_no_tolerance_is_refused(rtol: object):
    """In one sentence with the value."""
    with pytest.raises(MonoidError, match="give a number between 0 and 1"):
        quantile(0.5, method="sketch", rtol=rtol)  # type: ignore[arg-type]


def test_what_has_no_sketch_is_refused():
    """With what to do instead: too small a tolerance, few bits, and exact methods."""
    with pytest.raises(MonoidError, match=r"float64 has too many buckets for less than 0\.0039:"):
        quantile(0.5, method="sketch", rtol=0.001).for_dtype(np.dtype("f8"))
    quantile(0.5, method="sketch", rtol=0.001).for_dtype(np.dtype("f4"))
    with pytest.raises(MonoidError, match="float16, whose values are few enough"):
        quantile(0.5, method="sketch", rtol=0.1).for_dtype(np.dtype("f2"))
    with pytest.raises(MonoidError, match="method 'linear' is exact"):
        quantile(0.5, rtol=0.1)
