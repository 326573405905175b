"""What NumPy makes of a declaration is what devices give: every reduction of the catalogue."""

from __future__ import annotations

import numpy as np
import pytest

from chunkfold.kernels import (
    CATALOGUE,
    DeviceContext,
    DeviceError,
    Fold,
    Monoid,
    MonoidError,
    as_monoid,
    bind,
    box,
    choose,
)
from chunkfold.kernels.accumulator.sums import any_lost
from chunkfold.kernels.binding.evaluation import evaluated
from chunkfold.kernels.binding.reference import Reference, elements_of
from chunkfold.kernels.catalogue.weighted_quantiles import WeightedQuantiles
from tests.conftest import some
from tests.kernels.fold.test_fold import upload

pytestmark = pytest.mark.unoptimised

DTYPES = ("float32", "float64", "float16", "int8", "uint16", "int32", "int64", "uint64", "bool",
          "complex64", "datetime64[s]", "timedelta64[ms]")  # fmt: skip
LAYOUTS = (((257,), (0,)), ((5, 70), (1,)), ((70, 5), (0,)))
"""Shapes, and axes that are reduced: each for other kernels."""
ROUNDED = 1e-5
"""Relative difference of sums in one order and another, and of OpenCL's functions."""


def elements(dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if np.dtype(dtype).kind == "f":
        array = rng.normal(0, 10, shape).astype(dtype)
        array.flat[:: 1 + seed % 50] *= np.array([-0.0, 1.0, 3.0], dtype)[seed % 3]
        return array
    if np.dtype(dtype).kind == "c":
        return (rng.normal(0, 1, shape) + 1j * rng.normal(0, 1, shape)).astype(dtype)
    return (
        rng.integers(0, 5, shape).astype(dtype)
        if dtype[0] == "u"
        else (rng.integers(-9, 9, shape).astype("int64").astype(dtype))
    )


def defined(inputs: int, dtype: str, *, exact: bool) -> list[Monoid]:
    """Those of one read, and of weights of either sign: others have tests in the catalogue's."""
    found = []
    for monoid in CATALOGUE.values():
        if monoid.inputs == inputs and not isinstance(monoid.specialised, WeightedQuantiles):
            try:
                (one,) = bind([monoid], [np.dtype(dtype)] * inputs, exact=exact).statistics
            except (MonoidError, DeviceError):
                continue
            found.extend([monoid] if one.monoid.reads == 1 else [])
    return found


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("inputs", [1, 2])
@pytest.mark.parametrize(("dtype", "layout"), some(DTYPES, LAYOUTS, of=3))
def test_devices_give_what_numpy_evaluates(
    opened: DeviceContext,
    dtype: str,
    layout: tuple[tuple[int, ...], tuple[int, ...]],
    inputs: int,
    exact: bool,
) -> None:
    shape, axes = layout
    monoids = defined(inputs, dtype, exact=exact)
    if exact and np.dtype(dtype).kind not in "fc":
        return  # integers are exact in either mode
    assert monoids
    arrays = [elements(dtype, shape, seed) for seed in range(inputs)]
    bound = bind(monoids, [array.dtype for array in arrays], exact=exact)
    whole = box(shape, axes)
    accumulator = bound.accumulator.for_outputs(whole.outputs)
    tuning = choose(opened.device, accumulator, kernels=(whole.kernel,))
    fold = Fold(opened, accumulator, tuning, outputs=whole.outputs)
    fold.add([upload(opened, array) for array in arrays], whole)
    partial = fold.read_back()
    assert not any_lost(accumulator, partial).any()
    for one, monoid in zip(bound.statistics, monoids, strict=True):
        got = one.finish(partial, shape, axes)
        want = np.atleast_1d(monoid.evaluate(*arrays, axis=axes, exact=exact))
        want = want[None] if got.ndim > 1 and want.ndim < got.ndim else want
        assert got.dtype == want.dtype, monoid.name
        if one.rounds:
            close = np.isclose(got.astype(complex), want.astype(complex), rtol=ROUNDED,
                               atol=ROUNDED, equal_nan=True)  # fmt: skip
            assert close.all(), (monoid.name, got, want)
        else:
            assert got.tobytes() == want.tobytes(), (monoid.name, got, want)


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)])
def test_axes_and_broadcasting_are_numpys(axis: int | tuple[int, ...] | None) -> None:
    a, row = np.arange(12.0).reshape(3, 4), np.arange(4.0)
    np.testing.assert_array_equal(CATALOGUE["sum"].evaluate(a, axis=axis), a.sum(axis=axis))
    np.testing.assert_array_equal(
        CATALOGUE["dot"].evaluate(a, row, axis=axis), (a * row).sum(axis=axis)
    )


@pytest.mark.parametrize("dtype", [">f4", ">i8", ">u2", ">M8[s]", ">c8"])
def test_bytes_may_stand_in_the_other_order(dtype: str) -> None:
    array = np.arange(1, 7).astype(dtype).reshape(2, 3)
    op = CATALOGUE["max" if "M" in dtype else "sum"]
    assert op.evaluate(array, axis=1).tolist() == getattr(array, op.name)(axis=1).tolist()


def test_nothing_has_a_sum_but_no_least() -> None:
    assert CATALOGUE["sum"].evaluate(np.empty(0)) == 0
    with pytest.raises(MonoidError, match="no elements"):
        CATALOGUE["min"].evaluate(np.empty(0))


def test_missing_elements_are_left_out_where_they_are_to_be() -> None:
    a = np.array([1.0, np.nan, 4.0])
    assert CATALOGUE["nanmean"].evaluate(a) == 2.5
    assert np.isnan(CATALOGUE["mean"].evaluate(a))


TURNED = {
    "~x": lambda x: ~x,
    "-x": lambda x: -x,
    "5 - x": lambda x: 5 - x,
    "x ^ -1": lambda x: x ^ (-1 if x.dtype.kind == "i" else np.iinfo(x.dtype).max),
    "-1 - x": lambda x: (-1 if x.dtype.kind == "i" else np.iinfo(x.dtype).max) - x,
}
"""What turns the order of integers around, which compilers see through."""


@pytest.mark.parametrize("dtype", ["int32", "uint64"])
@pytest.mark.parametrize("turn", TURNED)
def test_extremes_of_what_is_turned_around_are_right_of_few_elements(
    opened: DeviceContext, turn: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CHUNKFOLD_BUILD_OPTIONS", raising=False)  # it is optimising that is wrong
    both = Monoid(
        "both",
        fields={"least": dtype, "most": dtype},
        zero={"least": "highest", "most": "lowest"},
        lift=lambda x: {"least": TURNED[turn](x), "most": TURNED[turn](x)},
        op={"least": "min", "most": "max"},
        kinds="iu",
    )
    one = Monoid("one", fields={"s": dtype}, zero="lowest", lift=TURNED[turn], op="max", kinds="iu")
    for monoid in (both, one):
        for shape, axes in (((2, 2), (0,)), ((2, 2), (0, 1)), ((3, 1), (1,)), ((7,), (0,))):
            array = np.arange(1, 1 + np.prod(shape), dtype=dtype).reshape(shape)
            bound, whole = bind([monoid], [array.dtype]), box(shape, axes)
            accumulator = bound.accumulator.for_outputs(whole.outputs)
            tuning = choose(opened.device, accumulator, kernels=(whole.kernel,))
            fold = Fold(opened, accumulator, tuning, outputs=whole.outputs)
            fold.add([upload(opened, array)], whole)
            got = bound.statistics[0].finish(fold.read_back(), shape, axes)
            np.testing.assert_array_equal(got, np.atleast_1d(monoid.evaluate(array, axis=axes)))


@pytest.mark.parametrize("op", ["argmin", "argmax", "nanargmin", "nanargmax"])
@pytest.mark.parametrize("dtype", ["float32", "uint8", "datetime64[s]"])
@pytest.mark.parametrize("count", [0, 1, 40])
def test_positions_are_what_their_op_makes_of_pairs(op: str, dtype: str, count: int):
    array = elements(dtype, (30, count), 3)
    if dtype == "float32":
        array[np.random.default_rng(1).random(array.shape) < 0.5] = np.nan
        array[:2] = np.nan
    made = bind([as_monoid(op)], [array.dtype]).accumulator
    flat = elements_of(made, [np.ascontiguousarray(array).reshape(-1)])
    (part,) = made.components
    rows = {leaf: held.reshape(array.shape) for leaf, held in flat.items()}
    got, by = evaluated(made, rows), Reference(part)
    total = by.zero(len(array))
    for at in range(count):
        total = by.op(total, by.lift({leaf: held[:, at] for leaf, held in rows.items()}))
    for name, column in total.items():
        np.testing.assert_array_equal(got[f"c0_{name}"], column)
