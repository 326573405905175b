"""Packed values: on every device, and in every shape of kernel, what NumPy makes of them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkfold.kernels import (
    DeviceContext,
    Fold,
    Monoid,
    MonoidError,
    Packing,
    Tuning,
    as_monoid,
    bind,
    box,
    choose,
)
from tests.conftest import SHAPES, tried
from tests.kernels.fold.test_fold import LENGTHS, folded, upload, values

pytestmark = pytest.mark.unoptimised

CASES = [
    ("int16", Packing(0.01, 273.15, (-32767,))),
    (">i2", Packing(-0.1, missing=(-32767, 5))),
    ("uint8", Packing(missing=(255, 0))),
    ("int8", Packing(0.5, -3.0, (255,), stored="uint8")),
    (">u4", Packing(1e-3, missing=(-(2**31),), stored="int32")),
    ("int64", Packing(missing=(2 - 2**63, 2**53 + 1, 7))),
    (">u8", Packing(0.5, missing=(2**64 - 2,))),
    ("float16", Packing(missing=(-9984.0,))),
    (">f4", Packing(3.0, 0.1, (float(np.float32(1e20)),))),
    ("float64", Packing(missing=(-999.0, float("inf")))),
]
LONG = ("int64", "uint64")


def unpacked(array: np.ndarray, packing: Packing, dtype: type[np.floating]) -> np.ndarray:
    """Unpack as the conventions have it; elements are missing that are, once they are floats."""
    native = array.astype(array.dtype.newbyteorder("="))
    held = native.view(packing.stored or native.dtype)
    nothing = {float(x) for x in packing.missing}
    missing = np.array([float(x) in nothing for x in held.tolist()], bool)
    return np.where(
        missing, dtype(np.nan), held.astype(dtype) * dtype(packing.scale) + dtype(packing.offset)
    )


def with_missing(dtype: str, packing: Packing, count: int, seed: int, share: float) -> np.ndarray:
    rng = np.random.default_rng(seed)
    array = values(np.dtype(dtype).newbyteorder("=").name, count, seed)
    array = array // 2**13 if array.dtype == np.int64 else array
    held = array.view(packing.stored or array.dtype)
    near = [0, 1, -1, 510, 511, -511, -512, 1022, 1023] if held.dtype.name in LONG else [0]
    for missing in packing.missing:
        places = rng.random(count) < share
        held[places] = held.dtype.type(missing) + rng.choice(near, count).astype(held.dtype)[places]
    return array.astype(dtype)


def value_of(dtype: str, packing: Packing) -> type[np.floating]:
    return packing.value_dtype(np.dtype(dtype)).type


@pytest.mark.parametrize(("dtype", "packing"), CASES, ids=str)
def test_equals_numpy_for_every_dtype(opened: DeviceContext, dtype: str, packing: Packing):
    ops = [as_monoid(op) for op in ("min", "nanmax", "count_nonzero")]
    bound = bind(ops, [np.dtype(dtype)], packings=[packing])
    tuning = choose(opened.device, bound.accumulator, kernels=("flat",))

    @given(LENGTHS.filter(bool), st.integers(0, 2**32), st.sampled_from([0.0, 0.1, 1.0]))
    def check_length(count: int, seed: int, share: float) -> None:
        array = with_missing(dtype, packing, count, seed, share)
        want = unpacked(array, packing, value_of(dtype, packing))
        results = folded(opened, bound, tuning, array, box((count,), (0,)))
        np.testing.assert_array_equal(results["min"][0], want.min())
        np.testing.assert_array_equal(results["nanmax"][0], np.fmax.reduce(want))
        assert results["count_nonzero"][0] == np.count_nonzero(want)
        assert results["min"].dtype == want.dtype

    check_length()


@pytest.mark.parametrize(("dtype", "packing"), CASES[:3], ids=str)
def test_sums_are_those_of_the_values_exactly(opened: DeviceContext, dtype: str, packing: Packing):
    ops = [as_monoid("sum"), as_monoid("nansum")]
    bound = bind(ops, [np.dtype(dtype)], exact=True, packings=[packing])
    tuning = choose(opened.device, bound.accumulator, kernels=("flat",))

    @given(LENGTHS.filter(bool), st.integers(0, 2**32), st.sampled_from([0.0, 0.1]))
    def check_length(count: int, seed: int, share: float) -> None:
        array = with_missing(dtype, packing, count, seed, share)
        want = unpacked(array, packing, value_of(dtype, packing))
        there = want[~np.isnan(want)]
        exact = want.dtype.type(sum(map(Fraction, there.tolist()), Fraction(0)))
        results = folded(opened, bound, tuning, array, box((count,), (0,)))
        assert results["nansum"][0] == exact
        np.testing.assert_array_equal(results["sum"][0], exact if there.size == count else np.nan)

    check_length()


@pytest.mark.parametrize("shape", SHAPES)
def test_in_every_shape_of_kernel(opened: DeviceContext, shape: str):
    dtype, packing = CASES[0]
    bound = bind([as_monoid("min"), as_monoid("nanmax")], [np.dtype(dtype)], packings=[packing])
    tuning: Tuning | None = tried(opened.device, bound.accumulator, shape)
    if tuning is None:
        return  # counted in test_every_shape_ran_somewhere of test_fold
    array = with_missing(dtype, packing, 60 * 70, 1, 0.02)
    want = unpacked(array, packing, np.float64).reshape(60, 70)
    for axes in ((0, 1), (0,), (1,)):
        results = folded(
            opened, bound, tuning, array, box((60, 70), axes), outputs=want.min(axis=axes).size
        )
        np.testing.assert_array_equal(results["min"], np.ravel(want.min(axis=axes)))
        np.testing.assert_array_equal(results["nanmax"], np.ravel(np.nanmax(want, axis=axes)))


def test_each_input_is_packed_as_it_is(opened: DeviceContext):
    packings = [Packing(0.5, missing=(7,)), None]
    dtypes = [np.dtype("int16"), np.dtype("float32")]
    bound = bind([as_monoid("dot").skipping()], dtypes, exact=True, packings=packings)
    tuning = choose(opened.device, bound.accumulator, kernels=("flat",))
    a, b = np.arange(300, dtype="i2") % 11, np.arange(300, dtype="f4") / 4
    fold = Fold(opened, bound.accumulator, tuning)
    fold.add([upload(opened, a), upload(opened, b)], box((300,), (0,)))
    (got,) = bound.statistics[0].finish(fold.read_back())
    assert got == (a[a != 7] * 0.5 * b[a != 7].astype("f8")).sum()


def test_tuned_is_what_has_the_same_form(opened: DeviceContext):
    """Another scale costs no trial: kernels of the same form are as fast."""
    alike = [
        bind([as_monoid("sum")], [np.dtype("int16")], packings=[packing]).accumulator.alike
        for packing in (Packing(0.01, 3.0, (1,)), Packing(0.02, 4.0, (9,)), Packing(0.01, 3.0))
    ]
    assert alike[0] == alike[1] != alike[2]


def test_integers_of_another_sign_stay_integers(opened: DeviceContext):
    packing = Packing(stored="uint64")
    bound = bind([as_monoid("max"), as_monoid("bitwise_or")], [np.dtype(">i8")], packings=[packing])
    tuning = choose(opened.device, bound.accumulator, kernels=("flat",))
    results = folded(opened, bound, tuning, np.array([-1, 5], ">i8"), box((2,), (0,)))
    assert {op: int(got[0]) for op, got in results.items()} == dict.fromkeys(results, 2**64 - 1)
    assert results["max"].dtype == np.uint64


def test_as_many_may_be_missing_as_are_read(opened: DeviceContext):
    packing = Packing(missing=tuple(range(-100, 0)))
    bound = bind([as_monoid("nanmin")], [np.dtype("int8")], packings=[packing])
    tuning = choose(opened.device, bound.accumulator, kernels=("flat",))
    array = np.arange(-128, 128, dtype="i1")[28:]
    assert folded(opened, bound, tuning, array, box((228,), (0,)))["nanmin"][0] == 0


@pytest.mark.parametrize("dtype", ["int32", "float16", "complex64"])
def test_packed_values_are_made_floats(dtype: str):
    with pytest.raises(
        MonoidError, match=f"not {dtype}: give dtype float32 or float64, or omit it"
    ):
        bind(
            [as_monoid("sum")],
            [np.dtype("int16")],
            dtype=np.dtype(dtype),
            packings=[Packing(0.01)],
        )


def test_a_dtype_is_what_they_are_unpacked_in(opened: DeviceContext):
    packing = Packing(0.1, 1.0, (3,))
    bound = bind(
        [as_monoid("nanmax")], [np.dtype("int16")], dtype=np.dtype("f4"), packings=[packing]
    )
    tuning = choose(opened.device, bound.accumulator, kernels=("flat",))
    array = np.arange(50, dtype="i2") * 7
    (got,) = folded(opened, bound, tuning, array, box((50,), (0,)))["nanmax"]
    assert got == np.float32(343) * np.float32(0.1) + np.float32(1)
    assert got.dtype == np.float32


@pytest.mark.parametrize("skips", [True, False])
def test_laws_are_those_of_values_that_are_there(opened: DeviceContext, *, skips: bool):
    """A missing sample is NaN, for which a maximum of doubles has no identity but -infinity."""
    largest = Monoid("largest", fields={"m": "real"}, zero=0, lift=abs, op="max")
    packing = Packing(0.5, missing=(2, 7))
    monoid = largest.skipping() if skips else largest
    bound = bind([monoid], [np.dtype("int16")], packings=[packing])
    tuning = choose(opened.device, bound.accumulator, kernels=("flat",))
    array = np.array([3, -9, 7, 2], "i2")[: None if skips else 2]
    assert folded(opened, bound, tuning, array, box(array.shape, (0,)))["largest"][0] == 4.5
