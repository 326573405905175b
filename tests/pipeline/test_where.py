"""A condition decides which elements are there: as NumPy's where, in every mode and layout."""

from __future__ import annotations

import numpy as np
import pytest
import zarr

import chunkfold as cf
from chunkfold.errors import MonoidError, PlanError
from chunkfold.kernels import CATALOGUE

pytestmark = pytest.mark.unoptimised

OPS = ["sum", "mean", "std", "min", "max", "argmax", "count", "norm2", "any", "nansum"]


def stored(array: np.ndarray, chunks: tuple[int, ...]) -> zarr.Array:
    made = zarr.create_array(store={}, shape=array.shape, chunks=chunks, dtype=array.dtype)
    made[2:] = array[2:]  # the first chunk is not stored, and so is zeros
    array[:2] = 0
    return made


@pytest.mark.parametrize("mode", ["exact", "fast"])
@pytest.mark.parametrize("dtype", ["float32", "int16", "float64"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_results_are_of_the_elements_that_are_there(
    dtype: str, axis: int | None, mode: str
) -> None:
    rng = np.random.default_rng(3)
    array = rng.normal(0, 100, (30, 70)).astype(dtype)
    array[:, 5] = 500  # there is something in every row
    array[7] = 400
    source = stored(array, (2, 16))
    ops = [op for op in OPS if array.dtype.kind == "f" or not op.startswith("nan")]
    if axis == 1 and dtype == "int16":  # the first rows have nothing
        ops = [op for op in ops if op not in ("min", "max")]
    got = cf.reduce(source, ops, axis=axis, mode=mode, where=lambda x: (x > 50) & (x != 60))
    for op in ops:
        monoid = CATALOGUE[op].among(lambda x: (x > 50) & (x != 60))
        want = monoid.evaluate(array, axis=axis, exact=mode == "exact")
        np.testing.assert_allclose(got[op], want, rtol=1e-12 if mode == "exact" else 1e-6)
        function = getattr(np, op, None)
        if op in ("sum", "mean", "std", "nansum"):
            there = (array > 50) & (array != 60)
            wide = array.astype("f8") if array.dtype.kind == "f" else array
            np.testing.assert_allclose(got[op], function(wide, axis=axis, where=there), rtol=1e-5)


def test_text_and_function_are_one() -> None:
    array = np.arange(40.0).reshape(4, 10)
    source = stored(array, (2, 5))
    by_text = cf.reduce(source, "sum", axis=0, where="10 < x and x != 12")
    np.testing.assert_array_equal(
        by_text, cf.reduce(source, "sum", axis=0, where=lambda x: (x > 10) & (x != 12))
    )


def test_two_inputs_share_a_condition() -> None:
    a, b = np.arange(12.0).reshape(4, 3), np.arange(12.0)[::-1].reshape(4, 3).copy()
    pair = [stored(a, (2, 3)), stored(b, (2, 3))]
    assert cf.reduce(pair, "dot", where="x0 > x1") == (a * b)[a > b].sum()


def test_missing_elements_and_a_condition_are_both_left_out() -> None:
    array = np.array([[np.nan, 1.0, 5.0, 9.0]] * 4, "f4")
    source = stored(array, (2, 4))
    assert cf.reduce(source, "mean", skipna=True, where="x < 6 and x > 0") == 3
    assert np.isnan(cf.reduce(source, "mean", where="not x < 6"))


def test_a_complex_condition_reads_parts() -> None:
    array = (np.arange(8) + 1j * np.arange(8)[::-1]).reshape(4, 2).astype("c8")
    source = stored(array, (2, 2))
    want = array[array.real > array.imag].sum()
    assert cf.reduce(source, "sum", where=lambda x: x.real > x.imag) == want
    assert cf.reduce(source, "sum", where="x.real > x.imag") == want


def test_where_nothing_is_left_floats_are_nan_and_integers_an_error() -> None:
    array = np.arange(12, dtype="int32").reshape(4, 3)
    source = stored(array, (2, 3))
    assert cf.reduce(source, ["sum", "count"], where="x > 99") == {"sum": 0, "count": 0}
    assert np.isnan(cf.reduce(source, "max", where="x > 99", dtype="float64"))
    assert cf.reduce(source, "argmax", where="x > 99") == -1
    with pytest.raises(MonoidError, match=r"'max' of int32 has no value .* 1 of 3 outputs"):
        cf.reduce(source, "max", where="x > 9", axis=0)


@pytest.mark.parametrize(
    ("where", "error", "says"),
    [
        (5, PlanError, "where is int64; a mask has bools"),
        ("3 > 1", MonoidError, "does not contain x"),
        (lambda x: "a", MonoidError, "where gives 'a'"),
        (lambda x: 1 if x > 0 else 0, MonoidError, "cf.where"),
        (lambda x: np.gcd(x, 2), MonoidError, "np.gcd"),
    ],
)
def test_what_is_no_condition_is_refused(where: object, error: type, says: str) -> None:
    source = stored(np.arange(12, dtype="int32").reshape(4, 3), (2, 3))
    with pytest.raises(error, match=says):
        cf.reduce(source, "sum", where=where)
