"""Sums whose weights are taken out are those of weighed elements, to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chunkfold as cf
from chunkfold.kernels import Device, DeviceContext, Fold, as_monoid, bind, box, choose
from chunkfold.kernels.accumulator.factoring import Factoring, RowSums, factoring
from tests.conftest import DEVICES
from tests.kernels.fold.test_fold import upload

pytestmark = pytest.mark.unoptimised
ROWS, EACH = 7, 40
OPS = ("weighted_sum", "weighted_mean", "weighted_var", "sum_of_weights")


def numbers(dtype: str, seed: int = 0) -> np.ndarray:
    """Return rows of elements of many magnitudes, (ROWS, EACH)."""
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        ends = np.iinfo(dtype)
        return rng.integers(ends.min, ends.max, (ROWS, EACH), dtype=dtype, endpoint=True)
    far = 30 if dtype == "float32" else 300 if dtype == "float64" else 3
    values = rng.standard_normal((ROWS, EACH)) * 10.0 ** rng.integers(-far, far, (ROWS, EACH))
    return values.astype(dtype)


def folded(
    opened: DeviceContext, accumulator: Any, arrays: list[np.ndarray], axes: tuple[int, ...]
) -> Any:
    shape = arrays[0].shape
    tuning = choose(opened.device, accumulator, kernels={"flat", "rows", "columns", "short_rows"})
    made = box(shape, axes)
    fold = Fold(opened, accumulator, tuning, made.outputs)
    fold.add([upload(opened, one) for one in arrays], made)
    return fold.read_back()


def both(
    opened: DeviceContext, made: Factoring, x: np.ndarray, w: np.ndarray, *, split: bool
) -> tuple[Any, Any]:
    """Return the partial of all elements, weighed one by one, and that of their rows."""
    everywhere = np.ascontiguousarray(np.broadcast_to(w[:, None], x.shape))
    whole = folded(opened, made.whole, [x, everywhere], (0, 1))
    cuts = [slice(0, 3), slice(3, ROWS)] if split else [slice(0, ROWS)]
    rows = [
        RowSums(
            folded(opened, made.rows, [x[cut]], (1,)),
            w[cut],
            np.zeros(cut.stop - cut.start, np.int64),
        )
        for cut in cuts
    ]
    return whole, made.joined(rows, 1)


def same(one: Any, two: Any) -> None:
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(np.signbit(one), np.signbit(two))


@pytest.mark.parametrize(
    ("dtype", "of_weights", "skipna"),
    [
        ("float32", "float64", True),
        ("float64", "float32", False),
        ("float16", "float32", True),
        ("float64", "uint64", False),
        ("int32", "float64", False),
    ],
)
@pytest.mark.parametrize("device", DEVICES, indirect=True)
def test_rows_give_the_bits_of_elements(
    opened: DeviceContext, dtype: str, of_weights: str, skipna: bool
):
    monoids = [as_monoid(op) for op in OPS]
    if skipna:
        monoids = [one.skipping() for one in monoids]
    bound = bind(monoids, [np.dtype(dtype), np.dtype(of_weights)], exact=True)
    made = factoring(bound.accumulator, 1)
    assert made is not None
    x, w = numbers(dtype), numbers(of_weights, 1)[:, 0]
    w[2] = 0
    if of_weights == "float64":
        w[3], w[4] = 5e-324, -1.7e308
    if x.dtype.kind == "f" and skipna:
        x[1, ::3] = np.nan
        x[5] = np.nan
    whole, joined = both(opened, made, x, w, split=skipna)
    for one in bound.statistics:
        with np.errstate(all="ignore"):
            same(one.finish(joined), one.finish(whole))


@pytest.mark.parametrize("weight", [0.0, -2.0, 1e-300])
@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("device", DEVICES, indirect=True)
def test_what_is_no_number_is_weighed_as_elements_are(
    opened: DeviceContext, odd: float, weight: float
):
    bound = bind([as_monoid("weighted_sum")], [np.dtype("f4"), np.dtype("f8")], exact=True)
    made = factoring(bound.accumulator, 1)
    assert made is not None
    x, w = np.ones((ROWS, EACH), "f4"), np.ones(ROWS)
    x[4, 3], w[4] = odd, weight
    whole, joined = both(opened, made, x, w, split=False)
    with np.errstate(all="ignore"):
        same(bound.statistics[0].finish(joined), bound.statistics[0].finish(whole))


@pytest.mark.parametrize("device", DEVICES, indirect=True)
def test_outputs_that_expansions_do_not_hold_are_wide(opened: DeviceContext, device: Device):
    del device
    bound = bind([as_monoid("weighted_sum")], [np.dtype("f8"), np.dtype("f8")], exact=True)
    made = factoring(bound.accumulator.for_outputs(2), 1)
    assert made is not None
    x = np.array([[1e300, 1e-300], [1.0, 2.0], [1e300, 0.0], [3.0, 4.0]])
    w = np.array([1.0, 2.0, -1.0, 0.5])
    partial = folded(opened, made.rows, [x], (1,))
    found = made.joined([RowSums(partial, w, np.array([0, 1, 0, 1]))], 2)
    assert bound.statistics[0].finish(found).tolist() == [1e-300, 9.5]


def test_what_does_not_part_stays_whole():
    floats = [np.dtype("f4"), np.dtype("f4")]

    def parts(*ops: Any, number: int = 1, dtypes: Any = floats, **given: Any) -> bool:
        bound = bind([as_monoid(op) for op in ops], dtypes, exact=True, **given)
        return factoring(bound.accumulator, number) is not None

    assert parts("weighted_mean")
    assert parts("dot")
    assert not parts("weighted_mean", fp64=False)
    assert not parts("sum", dtypes=floats[:1])
    assert not parts("sum_of_weights")
    assert not parts(as_monoid("weighted_mean").among(lambda x, w: w > 0))
    assert parts(as_monoid("weighted_mean").among(lambda x, w: x > 0))
    nearest = cf.Monoid(
        "nearest", inputs=2, fields={"d": "exact"}, zero=0, op="add",
        lift=lambda x, w: abs(x - w), finish=lambda fields, _: fields["d"],
    )  # fmt: skip
    assert not parts(nearest)
