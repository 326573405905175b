"""Results that devices round: those of the host, and of rationals that are rounded once."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chunkfold.kernels import Bound, DeviceContext, Fold, KeyedFold, Partial, as_monoid, bind, box
from chunkfold.kernels.accumulator.partial import zero_partial
from chunkfold.kernels.accumulator.sums import Rounded, Rounding
from chunkfold.kernels.fold import rounding_trial
from chunkfold.kernels.fold.device_rounding import Rounder
from chunkfold.kernels.fold.keyed.keyed_box import keyed_box
from chunkfold.kernels.fold.rounding_trial import in_passes, rounds_right
from chunkfold.kernels.tuning.tuning_choice import choose
from tests.conftest import SHAPES, some, tried
from tests.exactly import expected, nearest, nearest_root
from tests.kernels.fold.test_fold import upload

pytestmark = [pytest.mark.unoptimised, pytest.mark.every_device]

OPS = ("sum", "mean", "var", "std", "sumsq", "norm2", "norm1")
DTYPES = ("float16", "float32", "float64")


def bound_of(*ops: str, dtype: str = "float32", **options) -> Bound:
    return bind([as_monoid(op) for op in ops], [np.dtype(dtype)], exact=True, **options)


def roundings(bound: Bound) -> list[Rounding]:
    found = [one.rounding(bound.accumulator.for_outputs(2)) for one in bound.statistics]
    return [one for one in found if one is not None]


def same(got: np.ndarray, want: np.ndarray, said: str) -> None:
    """See that floats are the same to the bit."""
    assert got.dtype == want.dtype
    bits = f"u{got.itemsize}"
    np.testing.assert_array_equal(got.view(bits), want.view(bits), said)


def fold_of(opened: DeviceContext, bound: Bound, shape: str, outputs: int) -> Fold | None:
    accumulator = bound.accumulator.for_outputs(outputs)
    tuning = tried(opened.device, accumulator, shape, ("columns",))
    return None if tuning is None else Fold(opened, accumulator, tuning, outputs)


ODD = (
    *(0.0, -0.0, 1.0, -1.0, 0.5, 1 + 2**-10, 2049.0, 65519.0, 65520.0, 3e-8, 2.0**-149),
    *(2.0**-1074, 3.4028235677973366e38, math.inf, -math.inf, math.nan),
)
COLUMN = st.one_of(
    st.lists(st.floats(), min_size=3, max_size=3),
    st.lists(st.sampled_from(ODD), min_size=3, max_size=3),
    st.floats(-1e300, 1e300).flatmap(
        lambda x: st.sampled_from([[x, -x, 1.0], [x, x, x], [x, -x, x * 2.0**-60], [x, 1.0, -x]])
    ),
)
"""Elements of an output."""


@pytest.mark.parametrize(("dtype", "shape"), some(DTYPES, SHAPES))
def test_results_are_exact_and_rounded_once(opened: DeviceContext, dtype: str, shape: str):
    bound = bound_of(*OPS, dtype=dtype, ddof=1)
    assert len(roundings(bound)) == len(OPS)
    fold = fold_of(opened, bound, shape, 4)
    if fold is None:
        return
    rounded = []

    @given(st.lists(COLUMN, min_size=4, max_size=4))
    @example([[1e20, 1.0, -1e20], [3.0, 3.0, 3.0], [0.1, 0.2, 0.3], [1.0, 2.0, 4.0]])
    def check(columns: list[list[float]]) -> None:
        with np.errstate(over="ignore"):
            array = np.array(columns).T.astype(dtype)
        fold.add([upload(opened, array)], box(array.shape, (0,)))
        found = fold.rounded(roundings(bound))
        if isinstance(found, Partial):  # which the host rounds, or which is lost
            return
        rounded.append(found)
        for op, values in found.values.items():
            each = [expected(op, own, dtype, 1) for own in array.T.astype(float).tolist()]
            want = np.array(each, dtype)
            same(values, np.where(np.isnan(want), np.nan, want).astype(dtype), op)

    check()
    assert rounded, "devices have rounded nothing"


def expansions(rng: np.random.Generator, outputs: int, spread: int) -> list[np.ndarray]:
    """Make three terms, each far below the one before, or just so far that it is half a unit."""
    first = np.ldexp(rng.integers(1, 2**53, outputs).astype(float), rng.integers(-60, 60, outputs))
    unit = np.spacing(first)
    near = rng.choice([0, 0.5, -0.5, 0.25, 2.0**-30], outputs) * unit
    last = rng.choice([0, 2.0**-60, -(2.0**-60)], outputs) * unit
    whole = rng.integers(0, 2, outputs).astype(bool)  # of a few bits: ties of quotients
    first = np.where(whole, rng.integers(-(2**spread), 2**spread, outputs), first)
    return [first, np.where(whole, 0, near), np.where(whole, 0, last)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("skips", [False, True])
def test_whatever_counts_are_means_are_quotients_rounded_once(opened, dtype: str, skips: bool):
    ops = ["nanmean"] if skips else ["mean"]
    bound = bound_of(*ops, dtype=dtype)
    accumulator = bound.accumulator.for_outputs(2)
    tuning = choose(opened.device, accumulator, kernels=("columns",))
    (how,) = roundings(bound)
    assert (how.count is not None) == skips

    @given(st.integers(0, 2**32), st.integers(1, 2**40), st.sampled_from([4, 12, 26, 53]))
    @example(0, 1, 12)
    @example(1, 2, 26)
    @example(2, 2**40, 53)
    def check(seed: int, count: int, spread: int) -> None:
        rng, outputs = np.random.default_rng(seed), 60
        terms = expansions(rng, outputs, spread)
        arrays = dict(zero_partial(accumulator, outputs).arrays)
        arrays |= {f"{how.sum}{n}": term for n, term in enumerate(terms)}
        counts = np.full(outputs, count)
        if how.count is not None:
            counts = arrays[how.count] = rng.integers(1, count, outputs, endpoint=True)
        found = in_passes(opened, accumulator, tuning, Partial(arrays, count=count), [how])
        assert isinstance(found, Rounded)
        rows = zip(*(term.tolist() for term in terms), counts.tolist(), strict=True)
        want = [nearest(Fraction(sum(map(Fraction, own))) / n, dtype) for *own, n in rows]
        same(found.values[how.name], np.array(want, dtype), str(count))

    check()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("root", [False, True])
def test_spreads_that_cancel_are_rounded_once(opened: DeviceContext, dtype: str, root: bool):
    bound = bound_of("std" if root else "var", dtype=dtype, ddof=1)
    accumulator = bound.accumulator.for_outputs(2)
    tuning = choose(opened.device, accumulator, kernels=("columns",))
    (how,) = roundings(bound)

    @given(st.integers(0, 2**32), st.integers(2, 2**25))
    def check(seed: int, count: int) -> None:
        """Try sums that are whole, and squares that are a little more than they must be."""
        rng, outputs = np.random.default_rng(seed), 40
        s = [int(n) for n in rng.integers(-(2**44), 2**44, outputs)]
        more = [int(n) for n in rng.choice([0, 1, 2, 2**20, 2**70], outputs)]
        q = [-(-(n * n) // count) + extra for n, extra in zip(s, more, strict=True)]
        arrays = dict(zero_partial(accumulator, outputs).arrays)
        for name, numbers in ((how.sum, s), (how.squares, q)):
            rest = numbers
            for term in range(accumulator.sums[name].terms):
                arrays[f"{name}{term}"] = np.array([float(n) for n in rest])
                rest = [n - int(float(n)) for n in rest]
        found = in_passes(opened, accumulator, tuning, Partial(arrays, count=count), [how])
        assert isinstance(found, Rounded)
        each = [Fraction(count * b - a * a, count * (count - 1)) for a, b in zip(s, q, strict=True)]
        want = [(nearest_root if root else nearest)(one, dtype) for one in each]
        same(found.values[how.name], np.array(want, dtype), str(count))

    check()


@pytest.mark.parametrize("dtype", [*DTYPES, ml_dtypes.bfloat16])
def test_results_are_to_the_bit_those_of_the_host(opened: DeviceContext, dtype: str):
    bound = bound_of(*OPS, dtype=dtype)
    fold = fold_of(opened, bound, "tree", 5000)
    assert fold is not None
    rng = np.random.default_rng(0)
    values = rng.normal(280, 15, (9, 5000)) * np.exp2(rng.integers(-9, 6, 5000))
    array = np.where(rng.random((9, 5000)) < 0.001, np.nan, values).astype(dtype)
    buffer, whole = upload(opened, array), box(array.shape, (0,))
    fold.add([buffer], whole)
    found = fold.rounded(roundings(bound))
    assert isinstance(found, Rounded)
    fold.add([buffer], whole)
    partial = fold.read_back()
    for one in bound.statistics:
        same(found.values[one.name], one.finish(partial), one.name)
        assert found.nan[one.name] == np.isnan(found.values[one.name]).sum() > 0
    assert found.count == partial.count == len(array)


@pytest.mark.parametrize(
    ("column", "because"),
    [([1e300, 1.0, 1e-300], "it is lost"), ([2.0**-1000, 0.0, 0.0], "errors are no doubles")],
)
def test_where_one_result_is_not_certain_the_partial_comes_back(opened, column, because: str):
    bound = bound_of("mean", dtype="float64")
    fold = fold_of(opened, bound, "tree", 100)
    assert fold is not None
    array = np.ones((3, 100))
    array[:, 77] = column
    for _ in range(2):
        fold.add([upload(opened, array)], box(array.shape, (0,)))
        found = fold.rounded(roundings(bound))
        assert isinstance(found, Partial), because
    fold.add([upload(opened, array)], box(array.shape, (0,)))
    again = fold.read_back()
    for name, own in found.arrays.items():
        np.testing.assert_array_equal(own, again.arrays[name])
    array[:, 77] = 1
    fold.add([upload(opened, array)], box(array.shape, (0,)))
    whole = fold.rounded(roundings(bound))
    assert isinstance(whole, Rounded), "nothing is left of what was folded before"
    assert (whole.values["mean"] == 1).all()


def test_groups_of_many_outputs_are_rounded_by_their_own_counts(opened: DeviceContext):
    outputs, keys = 600, 3
    bound = bound_of("mean", "std", keyed=True, outputs=keys * outputs)
    accumulator = bound.accumulator.for_outputs(keys * outputs)
    tuning = choose(opened.device, accumulator, kernels=("keyed_columns",))
    rng = np.random.default_rng(1)
    array = rng.normal(280, 15, (12, outputs)).astype("f4")
    labels = np.array([0, 1, 0, 0, 1, -1, 0, 0, 1, 0, 1, 0], "i4")
    fold = KeyedFold(opened, accumulator, tuning, keys, outputs)
    layout = keyed_box(array.shape, (0,), (0,))
    fold.add([upload(opened, array)], upload(opened, labels), layout, codes=labels)
    found = fold.rounded([one.rounding(accumulator) for one in bound.statistics])
    assert isinstance(found, Rounded)
    for op, values in found.values.items():
        groups = [array[labels == key].T.astype(float).tolist() for key in range(keys)]
        want = [expected(op, own, "float32") for of in groups for own in of or [[]] * outputs]
        same(values, np.array(want, "f4"), op)
    assert set(found.nan.values()) == {0}, "groups of nothing are NaN whatever elements are"


def test_what_is_not_rounded_so_is_known():
    many = {"outputs": 2}
    bounds = [
        bound_of("mean", dtype="int32", **many),
        bound_of("mean", **many, fp64=False),
        bound_of("sum", **many, initial=1.0),
        bound_of("max", **many),
        bound_of("var", **many, ddof=0.5),
        bound_of("mean", dtype="complex64", **many),
        bind([as_monoid("mean")], [np.dtype("f4")], exact=False),
    ]
    assert [roundings(bound) for bound in bounds] == [[]] * len(bounds)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_device_that_rounds_wrong_is_found_out(opened: DeviceContext, monkeypatch, dtype: str):
    bound = bound_of("mean", "std", dtype=dtype)
    accumulator = bound.accumulator.for_outputs(2)
    tuning = choose(opened.device, accumulator, kernels=("columns",))
    given = (opened, accumulator, tuning, bound.statistics)
    assert rounds_right(*given)
    rounding_trial._known.clear()
    found = Rounder.found

    def a_bit_off(self: Rounder, raw: np.ndarray, count: int) -> Rounded | None:
        raw = raw.copy()
        raw[0] ^= 1
        return found(self, raw, count)

    monkeypatch.setattr(Rounder, "found", a_bit_off)
    assert not rounds_right(*given)
    rounding_trial._known.clear()
