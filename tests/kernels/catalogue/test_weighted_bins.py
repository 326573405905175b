"""Histograms of weights: NumPy's meaning, exact by bin, on every device and in any order."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from chunkfold.kernels import (
    DeviceContext,
    Fold,
    Monoid,
    MonoidError,
    as_monoid,
    bind,
    box,
    histogram,
)
from chunkfold.kernels.errors import RangeError
from chunkfold.kernels.fold.combine import Combiner
from tests.conftest import shaped, some
from tests.exactly import nearest, sum_of
from tests.kernels.fold.test_fold import upload

pytestmark = pytest.mark.unoptimised
EDGES = [-2, -0.5, 0, 0.25, 3]
SHAPE = (6, 90)
LAYOUTS = {"flat": (0, 1), "rows": (1,), "columns": (0,)}


def weights_of(dtype: str, shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    """Return weights of both signs and of all sizes, as sums of them are hard."""
    rng = np.random.default_rng(2)
    kind = np.dtype(dtype)
    if kind.kind != "f":
        info = np.iinfo(kind)
        some = rng.integers(info.min, info.max, shape, kind, endpoint=True)
        return some // 2**12 if kind.itemsize == 8 else some
    info = np.finfo(kind)
    scales = rng.integers(max(info.minexp, -500) - 5, min(info.maxexp - 12, 500), shape)
    made = np.ldexp(rng.standard_normal(shape), scales).astype(kind)
    made[..., ::3] = -made[..., 1::3]
    return made


def elements(shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    made = np.random.default_rng(1).standard_normal(shape).astype("f4")
    made[..., ::17] = np.nan
    return made


def exactly(x: np.ndarray, w: np.ndarray) -> list:
    """Return the sum of each bin, rounded once."""
    bins = [(x >= low) & (x < high) for low, high in itertools.pairwise(EDGES)]
    bins[-1] |= x == EDGES[-1]
    if w.dtype.kind == "f":
        return [nearest(sum_of(w[held].tolist()), w.dtype.name) for held in bins]
    return [sum(w[held].tolist()) for held in bins]


@pytest.mark.parametrize(
    ("dtype", "shape", "layout"),
    some(("float32", "float64", "int32"), ("tree", "vectors", "tree-64"), LAYOUTS, of=3),
)
def test_sums_of_each_bin_are_rounded_once(
    opened: DeviceContext, dtype: str, shape: str, layout: str
):
    """Beside other statistics, in one read of both inputs."""
    x, w, axes = elements(), weights_of(dtype), LAYOUTS[layout]
    ops = [histogram(EDGES, weights=True), as_monoid("max_abs_diff")]
    bound = bind(ops, [x.dtype, w.dtype], exact=True)
    part = box(SHAPE, axes)
    tuning = shaped(opened.device, bound.accumulator, shape)
    assert tuning is not None
    fold = Fold(opened, bound.accumulator, tuning, part.outputs)
    fold.add([upload(opened, x), upload(opened, w)], part)
    partial = fold.read_back()
    got = bound.statistics[0].finish(partial, SHAPE, axes)["weight"]
    assert got.dtype == (np.int64 if dtype == "int32" else w.dtype)
    kept = [axis for axis in (0, 1) if axis not in axes]
    rows = [one.transpose(*kept, *axes).reshape(part.outputs, -1) for one in (x, w)]
    assert got.tolist() == [exactly(a, b) for a, b in zip(*rows, strict=True)]


@pytest.mark.parametrize(
    ("dtypes", "without"),
    [
        (("float32", "float16"), ()),
        (("int64", "int64"), ()),
        (("u1", "uint32"), ("int64_atomics",)),
        (("float32", "float64"), ("int64_atomics",)),
    ],
)
def test_partials_of_parts_are_combined(
    opened: DeviceContext, dtypes: tuple[str, str], without: tuple[str, ...]
):
    device = DeviceContext(replace(opened.device, without=frozenset(without)))
    x = (elements().ravel() * 2).clip(0 if dtypes[0] == "u1" else -9, 9)
    x = np.nan_to_num(x).astype(dtypes[0])
    w = weights_of(dtypes[1], x.shape)
    bound = bind([histogram(EDGES, weights=True)], [x.dtype, w.dtype], fp64=device.device.fp64)
    tuning = shaped(device.device, bound.accumulator, "tree-64")
    assert tuning is not None
    buffers = [upload(device, one) for one in (x, w)]
    partials = []
    for at in range(0, x.size, 180):
        fold = Fold(device, bound.accumulator, tuning)
        fold.add(buffers, box((180,), (0,), offset=at))
        partials.append(fold.read_back())
    whole = Combiner(device, bound.accumulator, tuning).combine(partials)
    (got,) = bound.statistics[0].finish(whole)["weight"].tolist()
    assert got == exactly(x, w)


@pytest.mark.parametrize("edges", [EDGES, None])
def test_dtypes_and_densities_are_numpys(edges: list[float] | None):
    x, w = elements().ravel(), abs(weights_of("float64")).ravel() ** 0.01
    one = histogram(edges, weights=True).evaluate(x, w)
    used = EDGES if edges else [*one["left"], one["right"][-1]]
    held = x[~np.isnan(x)], w[~np.isnan(x)]
    if edges:
        want = np.histogram(held[0], used, weights=held[1])[0]
        np.testing.assert_allclose(one["weight"], want, rtol=1e-12)
        dense = histogram(edges, weights=True, density=True).evaluate(x, w)["density"]
        want = np.histogram(held[0], used, weights=held[1], density=True)[0]
        np.testing.assert_allclose(dense, want, rtol=1e-12)
        dense = histogram(edges, density=True).evaluate(x)["density"]
        np.testing.assert_allclose(dense, np.histogram(held[0], used, density=True)[0])
    else:
        counts = histogram().evaluate(x)
        assert one["left"].tolist() == counts["left"].tolist()
        ones = histogram(weights=True).evaluate(x, np.ones_like(w))
        assert ones["weight"].tolist() == counts["count"].tolist()


def test_what_is_no_number_stays_in_its_bin():
    x = np.array([-1, -1, 0.1, 1, 1, np.nan])
    for dtype in ("f2", "f4", "f8"):
        w = np.array([np.inf, 2, np.nan, np.inf, -np.inf, np.nan], dtype)
        got = histogram(EDGES, weights=True).evaluate(x, w)["weight"]
        np.testing.assert_array_equal(got, [np.inf, 0, np.nan, np.nan])
        largest = np.array([np.finfo(dtype).max] * 2, dtype)
        got = histogram(EDGES, weights=True).evaluate(x[:2], largest)["weight"]
        assert got.tolist() == [np.inf, 0, 0, 0]
        least = np.array([np.finfo(dtype).smallest_subnormal, -np.finfo(dtype).max], dtype)
        got = histogram(EDGES, weights=True).evaluate(x[:3], np.append(least, -least[1]))
        assert got["weight"].tolist()[::2] == [float(least[1]), float(-least[1])]


def test_sums_that_64_bits_do_not_hold_are_refused():
    w = np.full(3, 2**62)
    with pytest.raises(RangeError, match="sum of weights of int64 is 13835058055282163712"):
        histogram(EDGES, weights=True).evaluate(np.ones(3, int), w)


def test_bins_too_many_for_their_counters_are_refused():
    with pytest.raises(MonoidError, match="20,000 bins of weights of float64 are too many; take"):
        histogram(range(20_001), weights=True)


@pytest.mark.parametrize("given", [[], [1], [(1, 2, 3)]])
def test_pairs_of_tables_are_pairs(given: list):
    with pytest.raises(MonoidError, match="give a counter's number, or a list of pairs"):
        Monoid("m", fields={"t": "int64[4]"}, zero=0, lift=lambda x: given, op="add")


def test_counts_share_a_read_with_sums(opened: DeviceContext):
    """A histogram is a component beside others: one launch folds all of them."""
    x = elements().ravel()
    ops = [histogram(EDGES), as_monoid("sum").skipping(), as_monoid("mean").skipping()]
    bound = bind(ops, [x.dtype], exact=True, fp64=opened.device.fp64)
    tuning = shaped(opened.device, bound.accumulator, "tree")
    assert tuning is not None
    fold = Fold(opened, bound.accumulator, tuning)
    fold.add([upload(opened, x)], box(x.shape, (0,)))
    partial = fold.read_back()
    counts, total, _ = (one.finish(partial) for one in bound.statistics)
    assert counts["count"][0].tolist() == np.histogram(x[~np.isnan(x)], EDGES)[0].tolist()
    assert total[0] == np.float32(math.fsum(x[~np.isnan(x)].tolist()))
    assert fold.profile()["fold_flat", 0].launches == 1
