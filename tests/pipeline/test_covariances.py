"""Matrices of channels: exact, rounded once, of one read."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray
import zarr
from hypothesis import given
from hypothesis import strategies as st

import chunkfold as cf
from chunkfold import covariances
from chunkfold.kernels.exact import gram as grams
from chunkfold.sources.zarr_source import ZarrSource
from tests.exactly import nearest, nearest_root

ROWS = st.integers(1, 3).flatmap(
    lambda n: st.lists(st.lists(st.floats(-1e150, 1e150), min_size=n, max_size=n), min_size=2)
)


def apart(rows: np.ndarray) -> list[list[Fraction]]:
    """Return sums of products of deviations, of the rows of a matrix."""
    each = [[Fraction(x) for x in row] for row in rows.tolist()]
    away = [[x - sum(row) / len(row) for x in row] for row in each]
    return [[sum(map(Fraction.__mul__, a, b), Fraction()) for b in away] for a in away]


@given(ROWS)
def test_every_element_is_rounded_once(columns: list[list[float]]):
    rows = np.array(columns).T
    exactly = apart(rows)
    got, corr = cf.cov(rows), cf.corrcoef(rows)
    for i, j in np.ndindex(got.shape):
        assert got[i, j] == nearest(exactly[i][j] / (rows.shape[1] - 1), "float64")
        both = exactly[i][i] * exactly[j][j]
        if not both:
            assert np.isnan(corr[i, j])
        else:
            root = nearest_root(exactly[i][j] ** 2 / both, "float64")
            assert corr[i, j] == (-root if exactly[i][j] < 0 else root)


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint16", "int64", "uint64", "float16", "float32"]
)
def test_integers_and_floats_of_any_size(dtype: str):
    rng = np.random.default_rng(0)
    if np.dtype(dtype).kind in "iu":
        limits = np.iinfo(dtype)
        rows = rng.integers(limits.min, limits.max, (3, 40), dtype, endpoint=True)
    else:
        rows = (rng.normal(size=(3, 40)) * 9).astype(dtype)
    exactly = apart(rows)
    got = cf.cov(rows, ddof=0)
    assert got.tolist() == [[float(nearest(x / 40, "float64")) for x in row] for row in exactly]


@pytest.mark.parametrize("chunks", [(1, 4, 7), (5, 2, 7), (2, 3, 2)])
@pytest.mark.parametrize("axis", ["channel", 0, -1])
def test_stored_channels_along_any_axis_are_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunks: tuple[int, ...], axis: Any
):
    values = np.random.default_rng(1).normal(280, 15, (5, 8, 7)).astype("f4")
    path = tmp_path / "a.zarr"
    names = ("time", "y", "channel") if axis == "channel" else ("time", "y", "x")
    made = zarr.create_array(path, shape=values.shape, chunks=chunks, dtype="f4",
                             dimension_names=names)  # fmt: skip
    made[...] = values
    seen, read = [], ZarrSource.read
    monkeypatch.setattr(
        ZarrSource,
        "read",
        lambda self, region, *more: (seen.append(region), read(self, region, *more))[1],
    )
    monkeypatch.setattr(covariances, "READ_BYTES", 600)
    got = cf.cov(path, axis)
    elements = sum(np.prod([cut.stop - cut.start for cut in region]) for region in seen)
    assert elements == values.size
    assert len(seen) > 1
    rows = np.moveaxis(values, 0 if axis == 0 else 2, 0)
    wide = rows.reshape(len(rows), -1).astype("f8")
    np.testing.assert_allclose(got, np.cov(wide), rtol=1e-10, atol=1e-9)
    np.testing.assert_allclose(cf.corrcoef(path, axis), np.corrcoef(wide), atol=1e-12)
    part = (slice(1, 5, 2), 3)
    some = np.moveaxis(values[part], 0 if axis == 0 else 1, 0)
    np.testing.assert_allclose(
        cf.cov(path, axis, selection=part), np.cov(some.astype("f8")), atol=1e-9
    )


def test_sums_do_not_depend_on_how_columns_come(monkeypatch: pytest.MonkeyPatch):
    rows = np.random.default_rng(2).normal(size=(4, 300)) * 10.0 ** np.arange(4)[:, None]
    want = cf.cov(rows)
    monkeypatch.setattr(grams, "MOST", 7)
    monkeypatch.setattr(grams, "_SETTLED", 3)
    assert cf.cov(rows[:, ::-1].copy()).tolist() == want.tolist()


def test_what_is_no_number_stays_in_its_channel():
    rows = np.array([[1.0, 2, 4], [np.nan, 1, 2], [3, np.inf, 1], [1, 0, 7]])
    got = cf.cov(rows)
    there = np.array([True, False, False, True])
    assert np.isfinite(got[np.ix_(there, there)]).all()
    assert np.isnan(got[~there]).all()
    assert np.isnan(got[:, ~there]).all()
    assert np.isnan(cf.cov(rows[:, :1])).all()
    assert np.isnan(cf.cov(rows[:, :0])).all()


def test_dataarrays_have_the_values_that_xarray_gives_them(tmp_path: Path):
    held = xarray.DataArray(np.arange(24.0).reshape(4, 6) ** 1.5, dims=("t", "band"), name="a")
    packed = {"a": {"dtype": "i2", "scale_factor": 0.5, "add_offset": 3.0, "_FillValue": -1}}
    held.to_dataset().to_zarr(tmp_path / "a.zarr", encoding=packed)
    opened = xarray.open_zarr(tmp_path / "a.zarr", chunks=None)["a"][1:]
    want = np.cov(opened.values.T)
    np.testing.assert_allclose(cf.cov(opened, "band"), want, rtol=1e-9)
    stored = tmp_path / "a.zarr" / "a"
    got = cf.cov(stored, "band", selection=slice(1, None), mask_and_scale=True)
    np.testing.assert_allclose(got, want, rtol=1e-9)


def test_channels_and_observations_are_selected_as_everywhere(tmp_path: Path):
    values, years = np.random.default_rng(3).normal(size=(9, 5)), np.arange(2000, 2009)
    held = xarray.DataArray(values, {"year": years, "band": list("abcde")}, ("year", "band"), "a")
    held.to_dataset().to_zarr(tmp_path / "a.zarr")
    np.save(tmp_path / "bands.npy", [1, 3])
    want = np.cov(values[2:6, 1:4:2].T)
    for source in (tmp_path / "a.zarr" / "a", held):
        got = cf.cov(source, "band", sel={"year": slice(2002, 2005), "band": ["b", "d"]})
        np.testing.assert_allclose(got, want, rtol=1e-12)
        picked = (slice(2, 6), tmp_path / "bands.npy")
        assert cf.cov(source, "band", selection=picked).tolist() == got.tolist()
        near = cf.corrcoef(source, "band", sel={"year": [1, 2004]}, sel_method="nearest")
        np.testing.assert_allclose(near, np.corrcoef(values[[0, 4]].T), rtol=1e-9)


@pytest.mark.parametrize(
    ("given", "axis", "told"),
    [
        (
            np.zeros((513, 2), "f4"),
            0,
            "has 513 channels, and every pair of them needs a sum; at most 512",
        ),
        (np.zeros((3, 2), "c8"), 0, "is complex64; covariances take bools"),
        (np.zeros((3, 2), "M8[s]"), 0, r"is datetime64\[s\]; covariances take bools"),
        (np.zeros((3, 2)), "band", "no axis 'band'"),
        (np.zeros((3, 2)), 5, "axis"),
    ],
)
def test_what_has_no_matrix_is_refused(given: np.ndarray, axis: Any, told: str):
    with pytest.raises(cf.ChunkfoldError, match=told):
        cf.cov(given, axis)


def test_one_axis_and_a_finite_ddof_are_asked_for():
    x = np.zeros((2, 3, 4))
    for axis in (None, (0, 1)):
        with pytest.raises(cf.ChunkfoldError, match="channels are along one"):
            cf.corrcoef(x, axis)
    for ddof in (np.nan, np.inf, "1"):
        with pytest.raises(cf.ChunkfoldError, match=r"ddof is .*; give a finite number"):
            cf.cov(x, ddof=ddof)
