"""Sums, means and products of integers: Python's exact ones, or an OverflowError."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chunkfold.kernels import Bound, DeviceContext, Fold, Tuning, as_monoid, bind, box, choose
from chunkfold.kernels.accumulator.sums import IntegerSums
from chunkfold.kernels.catalogue.integer_results import fitted
from chunkfold.kernels.errors import MonoidError, RangeError
from chunkfold.kernels.exact.limbs import integers
from chunkfold.kernels.exact.rounding import rounded_ratio, rounded_root
from chunkfold.kernels.geometry import FOLDS
from chunkfold.kernels.monoid.accumulate import CARRY_AFTER
from chunkfold.kernels.monoid.finish_context import Context
from tests.conftest import shaped
from tests.kernels.fold.test_fold import LENGTHS, upload, values

pytestmark = pytest.mark.unoptimised

INTEGERS = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]

SOME = ["int8", "uint16", "int64", "uint64"]


def bound_to(opened: DeviceContext, op: str, dtype: str, result: str | None = None) -> tuple:
    cast = None if result is None else np.dtype(result)
    bound = bind([as_monoid(op)], [np.dtype(dtype)], dtype=cast)
    return bound, choose(opened.device, bound.accumulator, kernels=("flat",))


def reduced(opened: DeviceContext, bound: Bound, tuning: Tuning, *arrays: np.ndarray) -> np.generic:
    fold = Fold(opened, bound.accumulator, tuning)
    for array in arrays:
        fold.add([upload(opened, array)], box(array.shape, (0,)))
    return bound.statistics[0].finish(fold.read_back())[0]


def fits(value: int, dtype: np.dtype) -> bool:
    limits = np.iinfo(dtype)
    return limits.min <= value <= limits.max


@pytest.mark.parametrize("dtype", INTEGERS)
def test_sums_are_exact_or_refused(opened: DeviceContext, dtype: str):
    bound, tuning = bound_to(opened, "sum", dtype)
    widest = np.zeros(0, dtype).sum().dtype

    @given(LENGTHS, st.integers(0, 2**32), st.integers(0, 63))
    @example(2, 0, 0)
    def check(count: int, seed: int, shift: int) -> None:
        array = values(dtype, count, seed)
        if array.dtype.itemsize == 8:
            array >>= array.dtype.type(shift)
        exact = sum(map(int, array.tolist()))
        if fits(exact, widest):
            got = reduced(opened, bound, tuning, array[: count // 2], array[count // 2 :])
            assert got == exact
            assert got.dtype == widest
        else:
            with pytest.raises(OverflowError, match=rf"the sum of {dtype} is {exact}, which"):
                reduced(opened, bound, tuning, array)

    check()


@pytest.mark.parametrize("extreme", ["min", "max"])
@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
def test_extremes_add_up(opened: DeviceContext, dtype: str, extreme: str):
    """Carries: many of the least or greatest, and what cancels beyond 64 bits on the way."""
    bound, tuning = bound_to(opened, "mean", dtype)
    limit = int(getattr(np.iinfo(dtype), extreme))
    array = np.full(70_000, limit, dtype)
    assert reduced(opened, bound, tuning, array, array) == float(limit)
    bound, tuning = bound_to(opened, "sum", dtype)
    if np.dtype(dtype).itemsize == 4:
        assert reduced(opened, bound, tuning, array, array) == 140_000 * limit
    if dtype == "int64":
        opposite = np.full(70_000, -limit - 1, dtype)
        assert reduced(opened, bound, tuning, array, opposite) == -70_000


@pytest.mark.parametrize("dtype", SOME)
def test_means_are_rounded_once(opened: DeviceContext, dtype: str):
    bound, tuning = bound_to(opened, "mean", dtype)

    @given(LENGTHS.filter(bool), st.integers(0, 2**32))
    def check(count: int, seed: int) -> None:
        array = values(dtype, count, seed)
        exact = Fraction(sum(map(int, array.tolist())), count)
        assert reduced(opened, bound, tuning, array) == exact.numerator / exact.denominator

    check()


@pytest.mark.parametrize("dtype", SOME)
def test_products_are_exact_or_refused(opened: DeviceContext, dtype: str):
    bound, tuning = bound_to(opened, "prod", dtype)
    widest = np.zeros(0, dtype).prod().dtype

    @given(st.lists(st.integers(-12, 12), max_size=40), st.booleans(), st.integers(0, 9))
    @example([-2] * 63, False, 0)
    @example([2] * 63, False, 0)
    @example([2] * 62 + [-2, 1], False, 0)
    @example([12] * 40, True, 3)
    def check(numbers: list[int], zeros: bool, seed: int) -> None:
        array = np.array(numbers).astype(dtype)
        array = np.random.default_rng(seed).permutation(array if zeros else array[array != 0])
        exact = math.prod(map(int, array.tolist()))
        if fits(exact, widest):
            got = reduced(opened, bound, tuning, array)
            assert (got, got.dtype) == (exact, widest)
        else:
            with pytest.raises(OverflowError, match=f"the product of {dtype} is "):
                reduced(opened, bound, tuning, array)

    check()


@pytest.mark.parametrize("fp64", [True, False])
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint64"])
def test_a_lane_knows_where_64_bits_end(opened: DeviceContext, dtype: str, *, fp64: bool):
    """Factors 64 elements apart, among ones: each lane has a few, or one has all of them."""
    bound = bind([as_monoid("prod")], [np.dtype(dtype)], dtype=np.dtype(object), fp64=fp64)
    tuning = choose(opened.device, bound.accumulator, kernels=("flat",))
    widest = 31 if dtype == "int32" else 63 if dtype == "int64" else 64
    around = st.integers(1, widest).flatmap(
        lambda bits: st.integers(max(1, 2 ** (bits - 1) - 3), min(2**bits + 3, 2**widest - 1))
    )

    @given(st.lists(around, min_size=1, max_size=5), st.integers(0, 31), st.booleans())
    @example([2**31 - 1, 2**31 - 1, 4], 0, False)
    @example([2**31 - 1, 2**31 - 1, 5], 1, False)
    @example([2**30, 2**30, 2**4], 2, False)
    @example([641, 2**16 + 1, 2**16 - 1, 2**8 + 1, 6], 7, False)
    @example([2**30] * 3 + [3], 0, True)
    @example([2**30] * 5, 1, True)
    def check(factors: list[int], signs: int, zero: bool) -> None:
        array = np.ones(3000, dtype)
        for n, factor in enumerate(factors):
            negative = signs >> n & 1 and dtype != "uint64"
            array[64 * (n + 2)] = -factor if negative else factor
        if zero:
            array[64 * 20] = 0
        exact = math.prod(map(int, array.tolist()))
        if abs(exact) < 2**64:
            assert reduced(opened, bound, tuning, array) == exact
        else:
            with pytest.raises(RangeError, match=r"is 2\*\*64 or more, or -2\*\*64 or less"):
                reduced(opened, bound, tuning, array)

    check()


@pytest.mark.parametrize("dtype", SOME)
@pytest.mark.parametrize("op", ["sumsq", "dot", "sum_sq_diff"])
def test_sums_of_products_are_exact_or_refused(opened: DeviceContext, op: str, dtype: str):
    inputs = as_monoid(op).inputs
    bounds = [
        bind([as_monoid(op)], [np.dtype(dtype)] * inputs, dtype=result)
        for result in (None, np.dtype(object))
    ]
    tuning = choose(opened.device, bounds[0].accumulator, kernels=("flat",))
    widest = np.zeros(0, dtype).sum().dtype
    factors = {
        "sumsq": lambda x, _: x * x,
        "dot": lambda x, y: x * y,
        "sum_sq_diff": lambda x, y: (x - y) ** 2,
    }[op]

    @given(LENGTHS.filter(bool), st.integers(0, 2**32), st.integers(0, 63))
    def check(count: int, seed: int, shift: int) -> None:
        arrays = [values(dtype, count, seed + n) for n in range(2)]
        if arrays[0].dtype.itemsize == 8:
            arrays = [array >> array.dtype.type(shift) for array in arrays]
        exact = sum(map(factors, *(array.tolist() for array in arrays)))
        fold = Fold(opened, bounds[0].accumulator, tuning)
        for half in (slice(0, count // 2), slice(count // 2, count)):
            part = [upload(opened, array[half]) for array in arrays[:inputs]]
            fold.add(part, box((len(arrays[0][half]),), (0,)))
        partial = fold.read_back()
        (whole,) = bounds[1].statistics[0].finish(partial)
        assert whole == exact
        if fits(exact, widest):
            (got,) = bounds[0].statistics[0].finish(partial)
            assert (got, got.dtype) == (exact, widest)
        else:
            with pytest.raises(OverflowError, match=f"the sum of products of {dtype} is {exact}"):
                bounds[0].statistics[0].finish(partial)

    check()


def test_a_dtype_that_is_asked_for_must_hold_the_result(opened: DeviceContext):
    array = np.full(100, 3, "int8")
    bound, tuning = bound_to(opened, "sum", "int8", "int16")
    assert reduced(opened, bound, tuning, array).dtype == np.int16
    bound, tuning = bound_to(opened, "sum", "int8", "int8")
    with pytest.raises(RangeError, match=r"is 300, which int8 cannot hold \(-128 to 127\)"):
        reduced(opened, bound, tuning, array)
    bound, tuning = bound_to(opened, "sum", "int8", "float32")
    assert reduced(opened, bound, tuning, array) == np.float32(300)


@pytest.mark.parametrize("op", ["sum", "prod"])
def test_object_gives_python_s_integers(opened: DeviceContext, op: str):
    bound, tuning = bound_to(opened, op, "uint64", "object")
    array = np.full(2, 2**63 + 1, "uint64") if op == "sum" else np.array([2**63, 1], "uint64")
    got = reduced(opened, bound, tuning, array)
    assert type(got) is int
    assert got == (2**64 + 2 if op == "sum" else 2**63)
    if op == "prod":
        with pytest.raises(RangeError, match=r"the product of uint64 is 2\*\*64 or more"):
            reduced(opened, bound, tuning, array, array)


@pytest.mark.parametrize(("op", "dtype"), [("mean", "i4"), ("sum", "f4"), ("max", "i4")])
def test_object_is_for_sums_and_products_of_integers(op: str, dtype: str):
    with pytest.raises(MonoidError, match=f"dtype=object is for .*, not for {op!r}"):
        bind([as_monoid(op)], [np.dtype(dtype)], dtype=np.dtype(object))


@pytest.mark.parametrize("dtype", ["bool", *SOME, "int32"])
@pytest.mark.parametrize("ddof", [0, 1])
def test_moments_and_norms_are_rounded_once(opened: DeviceContext, dtype: str, ddof: int):
    ops = ["var", "std", "norm1", "norm2"]
    bound = bind([as_monoid(op) for op in ops], [np.dtype(dtype)], ddof=ddof, exact=True)
    tuning = choose(opened.device, bound.accumulator, kernels=("flat",))

    @given(LENGTHS.filter(lambda n: n > 1), st.integers(0, 2**32), st.integers(0, 63))
    def check(count: int, seed: int, shift: int) -> None:
        array = values(dtype, count, seed)
        if array.dtype.itemsize == 8:
            array >>= array.dtype.type(shift)
        numbers = list(map(int, array.tolist()))
        total, squares = sum(numbers), sum(number**2 for number in numbers)
        over, under = count * squares - total**2, count * (count - ddof)
        double = np.dtype(np.float64)
        fold = Fold(opened, bound.accumulator, tuning)
        fold.add([upload(opened, array)], box(array.shape, (0,)))
        partial = fold.read_back()
        var, std, norm1, norm2 = (one.finish(partial)[0] for one in bound.statistics)
        assert var == rounded_ratio(over, under, 0, double)
        assert std == rounded_root(over, under, 0, double)
        assert norm1 == float(sum(map(abs, numbers)))
        assert norm2 == rounded_root(squares, 1, 0, double)

    check()


@pytest.mark.parametrize(("op", "dtype"), [("sum", "uint16"), ("sumsq", "uint8")])
@pytest.mark.parametrize("kernel", FOLDS)
def test_narrow_states_are_emptied_in_time(opened: DeviceContext, op: str, dtype: str, kernel: str):
    """One stream takes in more of the greatest value than 32 bits hold."""
    bound = bind([as_monoid(op)], [np.dtype(dtype)])
    tuning = replace(choose(opened.device, bound.accumulator, kernels=(kernel,)), groups=1)
    loads = tuning.rows if kernel == "rows" else tuning.flat
    streams = 1 if kernel in ("columns", "short_rows") else loads.local_size * loads.width
    each, outputs = CARRY_AFTER * streams * 9 // 8 + 5, {"flat": 1, "short_rows": 9}.get(kernel, 3)
    shape, axes = {
        "flat": ((each,), (0,)),
        "rows": ((outputs, each), (1,)),
        "columns": ((each, outputs), (0,)),
        "short_rows": ((each, outputs, 3), (0, 2)),
    }[kernel]
    most = np.iinfo(dtype).max
    whole = box(shape, axes)
    assert whole.kernel == kernel
    fold = Fold(opened, bound.accumulator, tuning, outputs)
    fold.add([upload(opened, np.full(shape, most, dtype))], whole)
    got = bound.statistics[0].finish(fold.read_back())
    assert (
        got.tolist()
        == [whole.elements_per_output * int(most) ** (2 if op == "sumsq" else 1)] * outputs
    )


@pytest.mark.parametrize("digits", [2, 4])
@pytest.mark.parametrize("wanted", [None, "int64", "uint64", "int16", "object"])
@given(st.data())
def test_digits_fit_their_dtype_or_are_refused(digits: int, wanted: str | None, data):
    near = st.sampled_from([0, 2**15, 2**31, 2**32, 2**63, 2**64, 2 ** (32 * digits)])
    number = st.builds(lambda at, off, sign: sign * (at + off), near, st.integers(-3, 3),
                       st.sampled_from([-1, 1]))  # fmt: skip
    numbers = data.draw(st.lists(number, max_size=4))
    last = digits - 1
    held = [
        np.array([n >> 32 * at if at == last else n >> 32 * at & 0xFFFFFFFF for n in numbers])
        for at in range(digits)
    ]
    held = [digit.astype(np.int64) for digit in held]
    result = None if wanted is None else np.dtype(wanted)
    context = Context(np.dtype("uint8"), (1,), (0,), result=result)
    dtype = result or np.dtype("uint64")
    if dtype.kind == "O" or all(fits(number, dtype) for number in numbers):
        got = fitted(IntegerSums(*held), context, "sum")
        assert (got.tolist(), got.dtype) == (numbers, dtype)
    else:
        with pytest.raises(RangeError, match="the sum of uint8 is"):
            fitted(IntegerSums(*held), context, "sum")
    sums = IntegerSums(*held)
    assert integers(sums.tables(np.arange(len(numbers)))) == numbers


def test_timedeltas_are_added_or_refused(opened: DeviceContext):
    most, nat = 2**63 - 1, -(2**63)
    rows = np.array([[1, 2, -5], [most, most, 1 - most], [nat, most, most], [nat, nat, nat]])
    bound = bind([as_monoid("sum"), as_monoid("nansum")], [np.dtype("m8[ms]")])
    accumulator = bound.accumulator.for_outputs(4)
    tuning = shaped(opened.device, accumulator, "tree")

    def added(rows: np.ndarray) -> list[np.ndarray]:
        fold = Fold(opened, accumulator, tuning, len(rows))
        fold.add([upload(opened, rows.view("m8[ms]"))], box(rows.shape, (1,)))
        partial = fold.read_back()
        return [one.finish(partial) for one in bound.statistics]

    with pytest.raises(RangeError, match=rf"sum of timedelta64\[ms\] is {most + 1}, beyond"):
        added(rows)
    rows[1, 2] -= 1
    rows[2, 1] = 3 - most
    plain, skipping = added(rows)
    assert plain.dtype == skipping.dtype == "m8[ms]"
    assert plain[:2].view("i8").tolist() == [-2, most]
    assert np.isnat(plain[2:]).all()
    assert skipping.view("i8").tolist() == [-2, most, 3, 0]
    with pytest.raises(RangeError, match=f"is {nat}, beyond"):  # which is NaT
        added(np.array([[-most, -1, 0]]).repeat(4, axis=0))
    with pytest.raises(MonoidError, match="'sum' is not defined for datetime64"):
        bind([as_monoid("sum")], [np.dtype("M8[s]")])
