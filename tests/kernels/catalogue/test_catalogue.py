"""Every reduction of the catalogue, on every device: what NumPy says, to the bit or to a bound."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkfold.kernels import (
    CATALOGUE,
    BuildError,
    DeviceContext,
    Fold,
    MonoidError,
    as_monoid,
    bind,
    box,
    choose,
)
from chunkfold.kernels.expressions.library import wide
from tests.conftest import some
from tests.kernels.fold.test_fold import LENGTHS, folded, upload, values

pytestmark = pytest.mark.unoptimised


def results(opened: DeviceContext, ops: list[str], *arrays: np.ndarray, ddof: float = 0) -> dict:
    """Fold aligned arrays of any shape into one output."""
    bound = bind([as_monoid(op) for op in ops], [array.dtype for array in arrays], ddof=ddof)
    fold = Fold(
        opened, bound.accumulator, choose(opened.device, bound.accumulator, kernels=("flat",))
    )
    fold.add([upload(opened, array) for array in arrays], box((arrays[0].size,), (0,)))
    partial = fold.read_back()
    shape = (arrays[0].size,)
    return {s.name: s.finish(partial, shape, (0,))[0] for s in bound.statistics}


def lenient(function: Callable, *args, **kwargs):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return function(*args, **kwargs)


FLOATS = ["float16", "float32", "float64"]
INTEGERS = ["bool", "int8", "uint16", "uint32", "int64", "uint64"]
WIDE = {"float16": 2e-3, "float32": 1e-6, "float64": 1e-10}


def close(got, want, dtype: str) -> bool:
    tolerance = WIDE.get(dtype, 1e-10)
    # Below the least normal float16 a result may be half a step off.
    least = float(np.finfo(dtype).smallest_subnormal) if dtype == "float16" else 0
    return np.allclose(got, want, rtol=tolerance, atol=least, equal_nan=True)


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_positions_are_of_the_first_extreme(opened: DeviceContext, dtype: str):
    @given(LENGTHS.filter(bool), st.integers(0, 2**32), st.integers(1, 9))
    def check(count: int, seed: int, few: int) -> None:
        array = (np.random.default_rng(seed).integers(0, few, count)).astype(dtype)
        if array.dtype.kind == "f" and few > 7:
            array[seed % count] = np.nan
            array[seed % 7 % count] = np.nan
        got = results(opened, ["argmin", "argmax"], array)
        assert got == {"argmin": np.argmin(array), "argmax": np.argmax(array)}

    check()


def test_zeros_of_both_signs_tie(opened: DeviceContext):
    for array in (np.array([1, 0.0, -0.0]), np.array([1, -0.0, 0.0], "f4")):
        assert results(opened, ["argmin"], array) == {"argmin": 1}
        assert results(opened, ["argmax"], -array) == {"argmax": 1}


@pytest.mark.parametrize(("dtype", "ddof"), some([*FLOATS, "bool", "int8", "uint64"], [0, 1]))
def test_moments_are_close_to_numpy(opened: DeviceContext, dtype: str, ddof: int):
    @given(LENGTHS, st.integers(0, 2**32), st.sampled_from([0, 100]))
    def check(count: int, seed: int, shift: int) -> None:
        array = values(dtype, count, seed)
        if array.dtype.kind == "f":
            array = (array % 8 + shift).astype(dtype)
        wide = array.astype("f8")
        got = results(opened, ["var", "std", "mean"], array, ddof=ddof)
        for op in ("var", "std"):
            want = lenient(getattr(np, op), wide, ddof=ddof)
            assert close(got[op], want, dtype), (op, got[op], want)
            assert got[op].dtype == lenient(np.var, array).dtype

    check()


def test_a_variance_far_from_zero_keeps_its_digits(opened: DeviceContext):
    array = 1e9 + np.random.default_rng(1).standard_normal(100_000)
    got = results(opened, ["var"], array)["var"]
    # The values have a spacing of 1.2e-7; squares of them would have one of 128.
    np.testing.assert_allclose(got, np.var(array), rtol=1e-7)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int32", "int64"])
def test_short_rows_equal_numpy(opened: DeviceContext, dtype: str):
    """Their lanes are joined as states, with elements left over or none, and with none at all."""
    floats = np.dtype(dtype).kind == "f"
    bound = bind([as_monoid(op) for op in ("nanvar", "sum", "count_nonzero")], [np.dtype(dtype)])
    accumulator = bound.accumulator.for_outputs(2)
    tuning = choose(opened.device, accumulator, kernels=("rows",))

    @given(st.integers(1, 70), st.integers(0, 2**32), st.sampled_from([0, 100, 10_000]))
    def check(length: int, seed: int, shift: int) -> None:
        array = values(dtype, 9 * length, seed).reshape(9, length)
        if floats:
            array = (np.nan_to_num(array, posinf=5, neginf=5) % 8 + shift).astype(dtype)
            array[0], array[1, : length // 2], array[2, ::2] = np.nan, np.nan, np.nan
        elif dtype == "int64":
            array //= 128  # of which 70 fit
        got = folded(opened, bound, tuning, array, box(array.shape, (1,)), outputs=9)
        wide = array.astype("f8")
        np.testing.assert_allclose(
            got["nanvar"], lenient(np.nanvar, wide, axis=1), rtol=1e-6 if floats else 1e-12
        )
        np.testing.assert_array_equal(got["count_nonzero"], np.count_nonzero(array, axis=1))
        if floats:
            np.testing.assert_allclose(got["sum"], wide.sum(axis=1), rtol=1e-6)
        else:
            np.testing.assert_array_equal(got["sum"], array.sum(axis=1))

    check()


@pytest.mark.parametrize("dtype", [*FLOATS, "uint16", "int64"])
def test_norms_equal_numpy(opened: DeviceContext, dtype: str):
    @given(LENGTHS, st.integers(0, 2**32))
    def check(count: int, seed: int) -> None:
        array = values(dtype, count, seed)
        if array.dtype.kind != "f":
            array = array // 4 if array.dtype.kind != "b" else array
        # Those of integers are exact or refused: test_integers.py.
        squares = ["sumsq"] * (array.dtype.kind == "f")
        got = results(opened, ["norm1", "norm2", "norminf", "count", *squares], array)
        wide = np.abs(array.astype("f8"))
        assert close(got["norm1"], lenient(wide.sum().astype, got["norm1"].dtype), dtype)
        root = lenient(np.sqrt((wide**2).sum()).astype, got["norm2"].dtype)
        assert close(got["norm2"], root, dtype)
        assert got["norminf"] == (wide.max() if count else 0)
        assert got["count"] == count
        if squares:
            assert close(got["sumsq"], lenient((wide**2).sum().astype, dtype), dtype)

    check()


def test_norms_of_the_least_integer(opened: DeviceContext):
    array = np.array([np.iinfo(np.int64).min, 5])
    assert results(opened, ["norminf"], array)["norminf"] == 2.0**63
    assert results(opened, ["norm1"], np.array([-128, 1], "i1"))["norm1"] == 129


@pytest.mark.parametrize("dtype", [*FLOATS, "int16", "uint64"])
def test_minmax_is_a_pair(opened: DeviceContext, dtype: str):
    array = values(dtype, 777, 4)
    got = results(opened, ["minmax", "min", "max"], array)
    assert got["minmax"].tolist() == [array.min(), array.max()] == [got["min"], got["max"]]
    assert got["minmax"].dtype == array.dtype


@pytest.mark.parametrize("dtype", FLOATS)
def test_logsumexp_is_that_of_the_shifted_sum(opened: DeviceContext, dtype: str):
    @given(LENGTHS.filter(bool), st.integers(0, 2**32), st.sampled_from([0, 1000, np.inf, -np.inf]))
    def check(count: int, seed: int, special: float) -> None:
        array = (values(dtype, count, seed) % 30).astype(dtype)
        array[seed % count] = special
        wide = array.astype("f8")
        top = wide.max()
        with np.errstate(all="ignore"):
            want = top + np.log(np.exp(wide - top).sum()) if np.isfinite(top) else top
        assert close(results(opened, ["logsumexp"], array)["logsumexp"], want, dtype)

    check()
    nothing = results(opened, ["logsumexp"], np.array([], dtype))["logsumexp"]
    assert nothing == -np.inf
    assert np.isnan(results(opened, ["logsumexp"], np.array([1, np.nan], dtype))["logsumexp"])


@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_counts_as_absent(opened: DeviceContext, dtype: str):
    ops = ["nansum", "nanprod", "nanmin", "nanmax", "nanmean", "nanvar", "nanstd"]

    @given(LENGTHS.filter(bool), st.integers(0, 2**32), st.sampled_from([0, 0.1, 0.9]))
    def check(count: int, seed: int, share: float) -> None:
        array = np.exp2(values(dtype, count, seed) % 1).astype(dtype)
        array[np.random.default_rng(seed).random(count) < share] = np.nan
        array[0] = 1
        got = results(opened, [*ops, "nanargmin", "nanargmax"], array)
        wide = array.astype("f8")
        for op in ops:
            want = lenient(lenient(getattr(np, op), wide).astype, dtype)
            assert close(got[op], want, dtype), op
            assert got[op].dtype == dtype
        for op in ("nanargmin", "nanargmax"):
            assert got[op] == getattr(np, op)(array)

    check()


def test_nothing_but_nan(opened: DeviceContext):
    array = np.full(100, np.nan)
    got = results(opened, ["nansum", "nanprod", "nanmin", "nanmax", "nanmean"], array)
    assert got["nansum"] == 0
    assert got["nanprod"] == 1
    assert all(np.isnan(got[op]) for op in ("nanmin", "nanmax", "nanmean"))
    assert results(opened, ["nanargmin", "nanargmax"], array) == {"nanargmin": -1, "nanargmax": -1}


def test_count_leaves_out_what_is_absent(opened: DeviceContext):
    array = np.array([1, np.nan, 0, np.nan, 5], "f4")
    skipping = [as_monoid(op).skipping() for op in ("count", "any", "all", "logsumexp", "norm2")]
    bound = bind(skipping, [array.dtype])
    fold = Fold(
        opened, bound.accumulator, choose(opened.device, bound.accumulator, kernels=("flat",))
    )
    fold.add([upload(opened, array)], box((5,), (0,)))
    partial = fold.read_back()
    got = {s.name: s.finish(partial, (5,), (0,))[0] for s in bound.statistics}
    assert (got["count"], got["any"], got["all"]) == (3, True, False)
    np.testing.assert_allclose(got["logsumexp"], np.log(np.exp([1, 0, 5]).sum()), rtol=1e-6)
    np.testing.assert_allclose(got["norm2"], np.sqrt(26), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_sums_and_means(opened: DeviceContext, dtype: str):
    @given(LENGTHS, st.integers(0, 2**32))
    def check(count: int, seed: int) -> None:
        parts = values("float64", 2 * count, seed)
        array = (parts[:count] + 1j * parts[count:]).astype(dtype)
        got = results(opened, ["sum", "mean", "any", "count_nonzero"], array)
        scale = np.abs(array.astype("c16")).sum() + 1
        tolerance = 1e-6 if dtype == "complex64" else 1e-12
        assert abs(got["sum"] - array.astype("c16").sum()) <= tolerance * scale
        assert got["sum"].dtype == dtype
        if count:
            assert abs(got["mean"] - array.astype("c16").mean()) <= tolerance * scale / count
        assert got["count_nonzero"] == np.count_nonzero(array)

    check()
    array = np.array([1 + 2j, 3 - 1j, np.nan], dtype)
    assert results(opened, ["nansum", "nanprod"], array) == {"nansum": 4 + 1j, "nanprod": 5 + 5j}
    with pytest.raises(MonoidError, match="'min' is not defined for complex64, only for bool"):
        results(opened, ["min"], array.astype("c8"))


@pytest.mark.parametrize("dtype", ["M8[ns]", "m8[s]", "M8[D]"])
def test_times_have_extremes_and_means(opened: DeviceContext, dtype: str):
    @given(LENGTHS.filter(bool), st.integers(0, 2**32))
    def check(count: int, seed: int) -> None:
        numbers = np.random.default_rng(seed).integers(-(2**62), 2**62, count)
        array = numbers.view(dtype)
        got = results(opened, ["min", "max", "mean", "argmin", "argmax"], array)
        assert (got["min"], got["max"]) == (array.min(), array.max())
        assert (got["argmin"], got["argmax"]) == (array.argmin(), array.argmax())
        exact = sum(numbers.tolist()) / count
        assert abs(int(got["mean"].astype("i8")) - exact) <= 0.5 + abs(exact) * 2.0**-52
        assert got["mean"].dtype == array.dtype
        array[seed % count] = "NaT"
        got = results(opened, ["min", "max", "mean", "argmax", "nanmax"], array)
        assert all(np.isnat(got[op]) for op in ("min", "max", "mean"))
        assert got["argmax"] == array.argmax()
        if count > 1:
            assert got["nanmax"] == array[~np.isnat(array)].max()
        else:
            assert np.isnat(got["nanmax"])

    check()


def test_bfloat16_is_read_and_given_back(opened: DeviceContext):
    array = np.arange(-70, 1000).astype(ml_dtypes.bfloat16)
    array[5] = np.nan
    got = results(opened, ["nansum", "nanmin", "nanmax", "sum", "nanargmax", "nanmean"], array)
    wide = array.astype("f8")
    assert got["nansum"] == np.nansum(wide).astype(ml_dtypes.bfloat16)
    assert (got["nanmin"], got["nanmax"]) == (-70, np.nanmax(wide))
    assert got["nansum"].dtype == ml_dtypes.bfloat16
    assert np.isnan(got["sum"].astype("f4"))
    assert got["nanargmax"] == np.nanargmax(wide)
    assert got["nanmean"].dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize("dtype", ["i2", "u4", "f2", "f8", "c8", "M8[s]", "bool"])
def test_foreign_byte_order_is_swapped_on_the_device(opened: DeviceContext, dtype: str):
    native = np.dtype(dtype)
    array = np.arange(-40, 1001).astype("i8").astype(native)
    ops = ["sum", "mean"] if native.kind == "c" else ["min", "max", "argmax"]
    got = results(opened, ops, array.astype(native.newbyteorder(">")))
    want = {op: getattr(np, op)(array) for op in ops}
    assert got == want
    assert all(got[op].dtype == want[op].dtype for op in ops)


@pytest.mark.parametrize("dtypes", [("f4", "f4"), ("f8", "f4"), ("i4", "i4"), ("u1", "u1")])
def test_two_inputs_equal_numpy(opened: DeviceContext, dtypes: tuple[str, str]):
    ops = ["dot", "sum_sq_diff", "max_abs_diff", "first_mismatch"]

    @given(LENGTHS.filter(bool), st.integers(0, 2**32))
    def check(count: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        x, y = (rng.integers(0, 100, count).astype(dtype) for dtype in dtypes)
        y[: seed % count] = x[: seed % count]
        a, b = x.astype("f8"), y.astype("f8")
        got = results(opened, ops, x, y)
        assert got["dot"] == a @ b
        assert got["sum_sq_diff"] == ((a - b) ** 2).sum()
        assert got["max_abs_diff"] == np.abs(a - b).max()
        differ = np.flatnonzero(a != b)
        assert got["first_mismatch"] == (differ[0] if differ.size else -1)

    check()


def test_nan_matches_nan_alone(opened: DeviceContext):
    x, y = np.array([1, np.nan, 2.0]), np.array([1, np.nan, np.nan])
    got = results(opened, ["first_mismatch", "max_abs_diff"], x, y)
    assert got["first_mismatch"] == 2
    assert np.isnan(got["max_abs_diff"])


def test_the_catalogue_is_listed_in_the_docs():
    from pathlib import Path

    text = (Path(__file__).parents[3] / "docs" / "reductions.md").read_text()
    missing = [name for name in CATALOGUE if f"`{name}`" not in text]
    assert not missing


def test_ten_statistics_share_what_they_can():
    ops = ["count", "sum", "min", "max", "mean", "var", "std", "sumsq", "norm2", "minmax"]
    accumulator = bind([as_monoid(op) for op in ops], [np.dtype("f4")]).accumulator
    # sum and mean; var and std; sumsq and norm2; min and minmax; max and minmax
    assert len(accumulator.components) == 5


def test_a_truth_is_lifted_as_0_or_1(opened: DeviceContext):
    from chunkfold.kernels import Monoid

    odd = Monoid(
        "odd", fields={"n": "int64"}, zero=0, lift=lambda x: (x & 1) == 1, op="add", kinds="iu"
    )
    bound = bind([odd], [np.dtype("i2")])
    fold = Fold(
        opened, bound.accumulator, choose(opened.device, bound.accumulator, kernels=("flat",))
    )
    fold.add([upload(opened, np.arange(1001, dtype="i2"))], box((1001,), (0,)))
    assert bound.statistics[0].finish(fold.read_back()) == [500]


@pytest.mark.parametrize(
    ("lift", "each"),
    [
        (lambda x: x * x, np.int8(16)),
        (lambda x: wide(x) * x, 10_000),
        (lambda x: (-x).astype("u1"), 156),
        (lambda x: x.astype("u1"), 100),
    ],
    ids=["narrow", "wide", "negative as unsigned", "unsigned"],
)
def test_narrow_integers_wrap_as_numpy_s_unless_widened(
    opened: DeviceContext, lift: Callable, each: int
):
    from chunkfold.kernels import Monoid

    square = Monoid("square", fields={"n": "int64"}, zero=0, lift=lift, op="add")
    bound = bind([square], [np.dtype("i1")])
    fold = Fold(
        opened, bound.accumulator, choose(opened.device, bound.accumulator, kernels=("flat",))
    )
    fold.add([upload(opened, np.full(1001, 100, "i1"))], box((1001,), (0,)))
    assert bound.statistics[0].finish(fold.read_back()) == [1001 * int(each)]


def test_what_does_not_build_says_so_once(opened: DeviceContext, monkeypatch):
    monkeypatch.setenv("CHUNKFOLD_BUILD_OPTIONS", "-D__kernel=undeclared")
    bound = bind([as_monoid("sum")], [np.dtype("i4")])
    with pytest.raises(BuildError, match="undeclared") as found:
        choose(opened.device, bound.accumulator, kernels=("flat",))
    said = str(found.value)
    assert said.count("sum does not compile on") == 1, said
    assert "did not build" not in said
    assert "work-items" not in said
