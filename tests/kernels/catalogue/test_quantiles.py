"""Quantiles: NumPy's of the elements in float64, for every dtype, method, layout and device."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkfold.kernels import DeviceContext, Fold, Monoid, MonoidError, as_monoid, bind, box
from chunkfold.kernels.catalogue import radix
from chunkfold.kernels.catalogue.quantile_methods import CHOOSE, METHODS
from chunkfold.kernels.catalogue.quantiles import quantile
from chunkfold.kernels.strides import strides_along
from tests.conftest import shaped, some
from tests.kernels.fold.test_fold import upload

pytestmark = pytest.mark.unoptimised
DTYPES = ["f2", "f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"]
SHAPE = (37, 3, 20)


def elements(
    dtype: str, shape: tuple[int, ...] = SHAPE, seed: int = 0, *, odd: bool = True
) -> np.ndarray:
    """Return both signs, both zeros, equal ones, if odd infinities, and the ends of integers."""
    rng, kind = np.random.default_rng(seed), np.dtype(dtype)
    if kind.kind == "f":
        found = np.ldexp(rng.standard_normal(shape), rng.integers(-9, 9, shape)).astype(kind)
        found.flat[: found.size // 4] = found.flat[found.size // 4 : 2 * (found.size // 4)]
        few = [0.0, -0.0, np.inf, -np.inf][: 4 if odd else 2]
        found.flat[rng.integers(0, found.size, len(few))] = few
        return found
    limits = np.iinfo(kind)
    found = rng.integers(limits.min, limits.max, shape, kind, endpoint=True)
    found.flat[:2] = limits.min, limits.max
    return found


def wanted(array: np.ndarray, q: float, axes: tuple[int, ...], method: str) -> np.ndarray:
    """Return NumPy's: of float64, since it interpolates integers within their dtype.

    Beside an infinity lies that infinity, of which NumPy makes NaN at times.
    """
    wide = array.astype("f8") if array.dtype.itemsize < 8 or method not in CHOOSE else array
    with np.errstate(all="ignore"):
        found = np.quantile(wide, q, axis=axes, method=method)
        ends = [np.quantile(wide, q, axis=axes, method=one) for one in ("lower", "higher")]
        if method not in CHOOSE:
            found = np.where(np.isinf(ends).any(axis=0), np.mean(ends, axis=0), found)
    dtype = array.dtype if array.dtype.kind == "f" or method in CHOOSE else np.dtype("f8")
    return found.astype(dtype)


def found(
    opened: DeviceContext,
    monoid: Monoid,
    x: np.ndarray,
    axes: tuple[int, ...],
    shape: str,
    weights: Sequence[np.ndarray] = (),
) -> tuple[np.ndarray, int]:
    """Return a reduction's results, and how often the data were read."""
    own = tuple(n for n in range(x.ndim) if n not in axes)
    extents, slots, reads = [x.shape[n] for n in own], [], 0
    while True:
        reads += 1
        others = [strides_along(x.shape, own if slot.size > 1 else ()) for slot in slots]
        part = box(x.shape, axes, other_strides=[*(None for _ in weights), *others])
        inputs = [x, *weights, *slots]
        bound = bind([monoid], [one.dtype for one in inputs], outputs=part.outputs)
        accumulator = bound.accumulator.for_outputs(part.outputs)
        fold = Fold(opened, accumulator, shaped(opened.device, accumulator, shape), part.outputs)
        fold.add([upload(opened, one) for one in inputs], part)
        (statistic,), partial = bound.statistics, fold.read_back()
        more = statistic.next_pass(partial, x.shape, axes)
        if more is None:
            done = statistic.finish(partial, x.shape, axes)
            return done.reshape((*extents, *done.shape[1:])), reads
        slots = list(more.slots)
        monoid = more.monoid(0, len(slots)).alike(statistic.monoid)


@pytest.mark.parametrize(("dtype", "axes"), some(DTYPES, [(0, 1, 2), (0,), (2,)]))
def test_they_are_numpys_on_every_device(opened: DeviceContext, dtype: str, axes: tuple[int, ...]):
    x = elements(dtype)
    for q, method in [(0.5, "linear"), (0.9, "higher")]:
        got, _ = found(opened, quantile(q, method=method), x, axes, "tree")
        want = wanted(x, q, axes, method)
        np.testing.assert_array_equal(got, want)
        assert got.dtype == want.dtype


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=8, deadline=None)
@given(st.data())
def test_methods_are_numpys(method: str, data: st.DataObject):
    dtype = data.draw(st.sampled_from(["f4", "f8", "i2", "u1"]))
    count = data.draw(st.integers(1, 30))
    x = elements(dtype, (count,), data.draw(st.integers(0, 99)), odd=False)
    q = data.draw(st.sampled_from([0, 1, 0.5, 0.25, 1 / 3, 0.999]) | st.floats(0, 1))
    got = quantile(q, method=method).evaluate(x)
    np.testing.assert_array_equal(got, wanted(x, q, (0,), method))


@pytest.mark.parametrize("mebibytes", [0.002, 0.01, 128])
def test_the_number_of_outputs_decides_how_often_the_data_are_read(
    monkeypatch, opened: DeviceContext, mebibytes: float
):
    monkeypatch.setattr(radix, "TABLE_BYTES", int(mebibytes * 2**20))
    x = elements("f4")
    for axes in [(0,), (0, 1, 2)]:
        monoid = quantile([0.1, 0.5, 0.93])
        got, reads = found(opened, monoid, x, axes, "tree")
        planned = monoid.for_dtype(x.dtype, outputs=got[..., 0].size).reads
        assert reads == planned
        for n, q in enumerate([0.1, 0.5, 0.93]):
            np.testing.assert_array_equal(got[..., n], wanted(x, q, axes, "linear"))


def test_narrow_elements_are_read_once():
    for dtype in ["i1", "u2", "f2", ml_dtypes.bfloat16]:
        assert quantile(0.5).for_dtype(np.dtype(dtype)).reads == 1
    assert quantile(0.5).for_dtype(np.dtype("f4")).reads == 2
    assert quantile(0.5).for_dtype(np.dtype("f8")).reads == 4
    x = np.array([1.5, -2, 3, 0.25], ml_dtypes.bfloat16)
    assert float(quantile(0.5).evaluate(x)) == 0.875


def test_nan_makes_nan_unless_it_is_left_out(opened: DeviceContext):
    x = elements("f4")
    x[3, 1], x[:, 2, 5] = np.nan, np.nan
    with np.errstate(all="ignore"):
        for monoid, numpys in [
            (as_monoid("median"), np.median),
            (as_monoid("nanmedian"), np.nanmedian),
        ]:
            with pytest.warns(RuntimeWarning) if numpys is np.nanmedian else nullcontext():
                want = numpys(x.astype("f8"), axis=0).astype("f4")
            got, _ = found(opened, monoid, x, (0,), "tree")
            np.testing.assert_array_equal(got, want)


def test_of_nothing_there_is_nan():
    assert np.isnan(as_monoid("median").evaluate(np.empty(0, "f4")))
    assert np.isnan(quantile(0.2).evaluate(np.empty(0, "i2")))
    with pytest.raises(MonoidError, match="of no elements has no value"):
        quantile(0.2, method="lower").evaluate(np.empty(0, "i2"))


@pytest.mark.parametrize(
    ("name", "q"), [("p95", 0.95), ("p99.9", 0.999), ("p99_9", 0.999), ("p5", 0.05), ("p50", 0.5)]
)
def test_percentiles_have_names(name: str, q: float):
    x = elements("f4", (1000,))
    assert as_monoid(name).evaluate(x) == wanted(x, q, (0,), "linear")
    assert as_monoid(f"nan{name}").skipna
    assert as_monoid(name).name == quantile(q).name


def test_what_is_no_quantile_is_refused():
    for q in [1.5, -0.1, float("nan"), [], [[0.5]], "half", None, 0.5j, np.ma.masked]:
        with pytest.raises(MonoidError, match="from 0 to 1"):
            quantile(q)
    with pytest.raises(MonoidError, match=r"'spline'.*linear"):
        quantile(0.5, method="spline")
    with pytest.raises(MonoidError, match=r"method of a quantile is \['linear'\]"):
        quantile(0.5, method=["linear"])
    with pytest.raises(MonoidError, match=r"1,001 quantiles .* 1,000 at most"):
        quantile(np.linspace(0, 1, 1001))
    for name, meant in (
        ("p0.95", "p95"),
        ("nanp0.999", "nanp99.9"),
        ("weighted_p0.5", "weighted_p50"),
    ):
        with pytest.raises(MonoidError, match=f"'{name}' looks like .* did you mean '{meant}'"):
            as_monoid(name)
        as_monoid(name.replace(".", "_"))  # which is not a fraction
    with pytest.raises(
        MonoidError, match="'p101' is not a percentile: percentiles are from p0 to p100"
    ):
        as_monoid("p101")
    with pytest.raises(MonoidError, match="not defined for complex128"):
        quantile(0.5).evaluate(np.ones(3, complex))


@pytest.mark.parametrize("dtype", ["i8", "u8", "i4"])
def test_a_median_of_integers_is_their_mean_rounded_once(opened: DeviceContext, dtype: str):
    ends = np.iinfo(dtype)
    rows = np.random.default_rng(6).integers(ends.min, ends.max, (300, 2), dtype, endpoint=True)
    rows[:3] = [[ends.min, ends.max], [ends.max - 1, ends.max], [ends.max // 2, ends.max // 2 + 2]]
    want = [float(Fraction(int(low) + int(high), 2)) for low, high in rows]
    for monoid in (as_monoid("median"), as_monoid("nanmedian")):
        got, _ = found(opened, monoid, rows, (1,), "tree")
        assert got.tolist() == want
    assert as_monoid("median").evaluate(np.array([-(2**63), 2**63 - 1])) == -0.5


@pytest.mark.parametrize("asked", ["median", "p50", "p25", "p75", "p99"])
def test_what_lies_beside_an_infinity_is_that(opened: DeviceContext, asked: str):
    rows = np.array([[1, np.inf], [-np.inf, 1], [np.inf, np.inf], [-np.inf, np.inf]])
    got, _ = found(opened, as_monoid(asked), rows, (1,), "tree")
    np.testing.assert_array_equal(got, [np.inf, -np.inf, np.inf, np.nan])


def test_a_median_is_the_mean_of_two_rounded_once_as_numpys(opened: DeviceContext):
    rows = np.random.default_rng(5).normal(size=(300, 2))
    rows[:4] = [[1.7e308, 1.6e308], [-np.inf, 1], [-np.inf, np.inf], [5e-324, 1e-323]]
    with np.errstate(all="ignore"):
        want = np.median(rows, axis=1)
    want[0] = float(sum(map(Fraction, rows[0])) / 2)  # of which NumPy makes an infinity
    got, _ = found(opened, as_monoid("median"), rows, (1,), "tree")
    np.testing.assert_array_equal(got, want)
    for low, high, mean in zip(*rows[4:].T, want[4:], strict=True):
        assert mean == float((Fraction(low) + Fraction(high)) / 2)
    lerp, _ = found(opened, as_monoid("p50"), rows[4:], (1,), "tree")
    np.testing.assert_array_equal(lerp, np.quantile(rows[4:], 0.5, axis=1))
