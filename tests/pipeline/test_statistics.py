"""The catalogue through cf.reduce: axes, selections, chunks, ddof, skipna, pairs."""

from __future__ import annotations

import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkfold as cf
from chunkfold.planning import blocks, planner
from tests.pipeline.test_reduce import stored

pytestmark = pytest.mark.unoptimised


@pytest.fixture(autouse=True)
def _small_leaves(monkeypatch):
    monkeypatch.setattr(planner, "LEAF_BYTES", 256)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", (512, 1024))


def numpy_position(array: np.ndarray, axes: tuple[int, ...], op: str) -> np.ndarray:
    """NumPy takes one axis; several are those of the array with them moved behind and merged."""
    kept = [n for n in range(array.ndim) if n not in axes]
    moved = np.transpose(array, [*kept, *axes])
    merged = moved.reshape([array.shape[n] for n in kept] + [-1])
    return np.asarray(getattr(np, op)(merged, axis=-1))


@given(st.data())
@settings(max_examples=40)
def test_positions_count_among_the_reduced_axes(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=4), "shape"))
    chunks = tuple(data.draw(st.integers(1, 5), "chunk") for _ in shape)
    axes = tuple(sorted(data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1), "axes")))
    first = data.draw(st.integers(0, shape[0] - 1), "selection starts at")
    array = np.random.default_rng(2).integers(0, 5, shape).astype("f4")
    got = cf.reduce(
        stored(array, chunks=chunks), ["argmin", "argmax"], axis=axes, selection=slice(first, None)
    )
    for op, positions in got.items():
        np.testing.assert_array_equal(positions, numpy_position(array[first:], axes, op))


@pytest.mark.parametrize("axis", [None, 0, (1, 2), 2])
@pytest.mark.parametrize("ddof", [0, np.int64(1), 1.5, np.float32(0.5), Fraction(1, 2)])
def test_moments_and_ddof(axis, ddof):
    array = np.random.default_rng(3).normal(280, 15, (6, 7, 8)).astype("f4")
    got = cf.reduce(stored(array, chunks=(4, 3, 5)), ["var", "std"], axis=axis, ddof=ddof)
    for op, value in got.items():
        want = getattr(np, op)(array.astype("f8"), axis=axis, ddof=float(ddof))
        np.testing.assert_allclose(value, want, rtol=1e-6)
        assert value.dtype == "f4"


def test_skipna_is_numpys_nan_form():
    array = np.random.default_rng(4).normal(size=(9, 10)).astype("f8")
    array[array > 1] = np.nan
    array[3] = np.nan
    source = stored(array, chunks=(4, 4))
    ops = ["sum", "min", "max", "mean", "std", "var", "prod"]
    got = cf.reduce(source, ops, axis=1, skipna=True)
    named = cf.reduce(source, [f"nan{op}" for op in ops], axis=1)
    for op in ops:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            want = getattr(np, f"nan{op}")(array, axis=1)
        np.testing.assert_allclose(got[op], want, rtol=1e-12)
        np.testing.assert_array_equal(got[op], named[f"nan{op}"])
    assert cf.reduce(source, "count", skipna=True) == np.count_nonzero(~np.isnan(array))
    got, some = cf.reduce(source, "argmin", axis=1, skipna=True), np.arange(9) != 3
    np.testing.assert_array_equal(got[some], np.nanargmin(array[some], axis=1))
    assert got[3] == -1


def test_a_pair_per_output_is_a_last_axis():
    array = np.random.default_rng(5).integers(0, 100, (4, 5, 6))
    source = stored(array, chunks=(3, 3, 3))
    got = cf.reduce(source, "minmax", axis=1)
    np.testing.assert_array_equal(got[..., 0], array.min(axis=1))
    np.testing.assert_array_equal(got[..., 1], array.max(axis=1))
    low, high = cf.reduce(source, "minmax", keepdims=True)[0, 0, 0]
    assert (low, high) == (array.min(), array.max())


@pytest.mark.parametrize("axis", [None, 0, (0, 2), 1])
def test_a_histogram_per_output(axis):
    array = np.random.default_rng(6).normal(0, 3, (6, 7, 8)).astype("f4")
    edges = [-5, -1, 0, 0.5, 4]
    got = cf.reduce(stored(array, chunks=(4, 3, 5)), cf.histogram(edges), axis=axis)
    axes = tuple(range(3)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    kept = [n for n in range(3) if n not in axes]
    rows = array.transpose(*kept, *axes).reshape([array.shape[n] for n in kept] + [-1])
    want = np.apply_along_axis(lambda row: np.histogram(row, edges)[0], -1, rows)
    assert got.shape == want.shape
    np.testing.assert_array_equal(got["count"], want)
    assert got["left"][..., 0].min() == -5
    auto = cf.reduce(stored(array, chunks=(4, 3, 5)), "histogram", axis=axis)
    np.testing.assert_array_equal(
        auto["count"].sum(axis=-1), np.full(want.shape[:-1], rows.shape[-1])
    )
    assert (auto["left"] == auto["left"].reshape(-1, auto.shape[-1])[0]).all()
    mean, bins = cf.reduce(stored(array, chunks=(4, 3, 5)), ["mean", "histogram"]).values()
    assert bins["count"].sum() == array.size
    assert (bins["left"] <= mean).any()


def test_all_outputs_share_the_bins_that_follow_the_data():
    """Though they are of several tiles, with other bins each."""
    array = np.ones((3, 40, 50), "f4")
    array[0] = np.random.default_rng(2).uniform(1, 2, (40, 50))
    array[2] = np.nan
    bins = cf.reduce(stored(array, chunks=(1, 40, 50)), "histogram", axis=(1, 2))
    assert bins.shape == (3, 16)
    assert bins["count"].sum(axis=1).tolist() == [2000, 2000, 0]
    assert bins["count"][1, 0] == 2000
    assert (bins["left"] == bins["left"][0]).all()


@pytest.mark.parametrize("axis", [None, 1])
@pytest.mark.parametrize("chunks", [((3, 4), (3, 4)), ((3, 4), (4, 3)), ((10, 2), (1, 11))])
def test_two_inputs_with_grids_of_their_own(axis, chunks):
    rng = np.random.default_rng(6)
    x, y = rng.normal(size=(10, 11)).astype("f4"), rng.normal(size=(10, 11))
    y[:5] = x[:5]
    pair = [stored(x, chunks=chunks[0]), stored(y, chunks=chunks[1])]
    ops = ["dot", "sum_sq_diff", "max_abs_diff", "first_mismatch"]
    got = cf.reduce(pair, ops, axis=axis)
    wide = x.astype("f8")
    np.testing.assert_allclose(got["dot"], (wide * y).sum(axis=axis), rtol=1e-12)
    np.testing.assert_allclose(got["sum_sq_diff"], ((wide - y) ** 2).sum(axis=axis), rtol=1e-12)
    np.testing.assert_array_equal(got["max_abs_diff"], np.abs(wide - y).max(axis=axis))
    differs = wide != y
    first = np.where(differs.any(axis=axis), numpy_position(differs, (0, 1) if axis is None
                     else (axis,), "argmax"), -1)  # fmt: skip
    np.testing.assert_array_equal(got["first_mismatch"], first)


def test_two_inputs_of_different_shapes_are_refused():
    pair = [stored(np.zeros((3, 4)), chunks=(2, 2)), stored(np.zeros((4, 3)), chunks=(2, 2))]
    with pytest.raises(cf.PlanError, match=r"has shape \(3, 4\), but .* has \(4, 3\)"):
        cf.reduce(pair, "dot")
    with pytest.raises(cf.MonoidError, match="'dot' reduces 2 arrays together, but 1 given"):
        cf.reduce(pair[0], "dot")
    with pytest.raises(cf.MonoidError, match="'sum' reduces one array, but 2 given"):
        cf.reduce([pair[0], pair[0]], "sum")


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("axis", [None, 0])
def test_big_endian_arrays(zarr_format: int, axis):
    import zarr

    array = np.random.default_rng(7).integers(-100, 100, (20, 30)).astype(">i4")
    kwargs = {"serializer": zarr.codecs.BytesCodec(endian="big")} if zarr_format == 3 else {}
    source = stored(array, chunks=(7, 8), zarr_format=zarr_format, **kwargs)
    got = cf.reduce(source, ["sum", "min", "argmax"], axis=axis)
    np.testing.assert_array_equal(got["sum"], array.sum(axis=axis))
    np.testing.assert_array_equal(got["min"], array.min(axis=axis))
    np.testing.assert_array_equal(got["argmax"], array.argmax(axis=axis))
    assert got["min"].dtype.isnative


@pytest.mark.parametrize("dtype", ["M8[ms]", "m8[D]"])
def test_times(dtype: str):
    array = np.random.default_rng(8).integers(-(10**9), 10**9, (12, 13)).view(dtype)
    source = stored(array, chunks=(5, 5))
    got = cf.reduce(source, ["min", "max", "mean", "argmin"], axis=0)
    np.testing.assert_array_equal(got["min"], array.min(axis=0))
    np.testing.assert_array_equal(got["max"], array.max(axis=0))
    np.testing.assert_array_equal(got["argmin"], array.argmin(axis=0))
    assert got["mean"].dtype == array.dtype
    if dtype[0] == "m":
        np.testing.assert_array_equal(cf.reduce(source, "sum", axis=1), array.sum(axis=1))
    else:
        with pytest.raises(cf.MonoidError, match="'sum' is not defined for"):
            cf.reduce(source, "sum")
    assert cf.reduce(source, "count_nonzero") == np.count_nonzero(array)
    with pytest.raises(cf.MonoidError, match="cannot be cast to float64"):
        cf.reduce(source, "max", dtype="f8")


def test_complex_numbers():
    rng = np.random.default_rng(9)
    array = (rng.normal(size=(8, 9)) + 1j * rng.normal(size=(8, 9))).astype("c8")
    got = cf.reduce(stored(array, chunks=(3, 4)), ["sum", "mean", "count_nonzero"], axis=1)
    np.testing.assert_allclose(got["sum"], array.sum(axis=1), rtol=1e-5)
    np.testing.assert_allclose(got["mean"], array.mean(axis=1), rtol=1e-5)
    assert got["sum"].dtype == "c8"


def test_nothing_has_positions_nowhere():
    nothing = stored(np.zeros((0, 3)), chunks=(1, 1))
    with pytest.raises(cf.PlanError, match="argmin of no elements has no value"):
        cf.reduce(nothing, "argmin")
    assert cf.reduce([nothing, nothing], "first_mismatch") == -1
    assert cf.reduce(nothing, "argmin", axis=1).shape == (0,)
    assert np.isnan(cf.reduce(nothing, "std", axis=0)).all()


def test_ddof_is_refused_where_nothing_has_it():
    source = stored(np.arange(4.0), chunks=(2,))
    with pytest.raises(cf.PlanError, match="ddof is 1, but sum, nanmean has none; var and std do"):
        cf.reduce(source, ["sum", "nanmean"], ddof=1)
    assert cf.reduce(source, ["sum", "nanvar"], ddof=1)["nanvar"] == np.var(np.arange(4), ddof=1)


@pytest.mark.parametrize("ddof", ["one", None, float("nan"), float("inf"), True, 2**63])
def test_ddof_is_a_number(ddof):
    with pytest.raises(cf.PlanError, match=r"ddof is .*; give a finite number"):
        cf.reduce(stored(np.zeros(3), chunks=(2,)), "var", ddof=ddof)


@pytest.mark.parametrize("to", ["u1", "i1", "u2", "i4", "u8"])
@pytest.mark.parametrize("given", ["f2", "f4", "f8"])
def test_floats_saturate_when_cast_to_integers(given: str, to: str):
    array = np.array([300.0, -5.5, np.nan, 7.25, np.inf], given)
    limits = np.iinfo(to)
    exact = [min(max(int(x), limits.min), limits.max) for x in (300, -5.5, 0, 7.25)]
    got = cf.reduce(stored(array[:4], chunks=(2,)), ["max", "min"], dtype=to)
    assert (got["min"], got["max"]) == (min(exact), max(exact))
    assert cf.reduce(stored(array, chunks=(2,)), "max", dtype=to) == limits.max
