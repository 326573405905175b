"""Statistics of changes along an axis are those of NumPy's differences, for any chunks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkfold as cf
from chunkfold.errors import PlanError

FORMULAS: Mapping[str, Callable] = {
    "mean": np.mean,
    "var": np.var,
    "std": np.std,
    "rmse": lambda d, axis: np.sqrt(np.mean(d * d, axis)),
    "mae": lambda d, axis: np.mean(np.abs(d), axis),
}


def stored(path: Path, dtype: str, chunk: int) -> np.ndarray:
    values = (np.random.default_rng(0).normal(size=(23, 4, 5)) * 90).astype(dtype)
    zarr.create_array(
        path, data=values, chunks=(chunk, 2, 5), dimension_names=("time", "y", "x"), overwrite=True
    )
    return values


@settings(max_examples=30, deadline=None)
@given(
    chunk=st.sampled_from([1, 3, 8, 23]),
    dtype=st.sampled_from(["f4", "f8", "i2", "u1"]),
    step=st.integers(1, 24),
    axis=st.sampled_from([None, 0, (0, 1), (1, 2)]),
    part=st.sampled_from([slice(None), slice(3, 17), slice(20, 2, -3), slice(5, 6)]),
)
def test_it_is_numpys_of_differences(tmp_path_factory, chunk, dtype, step, axis, part):
    folder = tmp_path_factory.mktemp("t")
    values = stored(folder / "a", dtype, chunk).astype("f8")
    places = np.arange(23)[part]
    places = places[places + step < 23]
    asked = {"tendency": "time" if step == 1 else {"time": step}, "selection": part, "axis": axis}
    if not len(places):
        with pytest.raises(PlanError):
            cf.reduce(folder / "a", list(FORMULAS), **asked)
        return
    changes = values[places + step] - values[places]
    found = cf.reduce(folder / "a", list(FORMULAS), **asked)
    for op, formula in FORMULAS.items():
        np.testing.assert_allclose(found[op], formula(changes, axis), rtol=1e-5, atol=1e-4)


def test_nothing_cancels(tmp_path: Path):
    """The mean of changes is that of the ends, exactly."""
    values = np.cumsum(np.full(1000, 0.1)) + 1e9
    zarr.create_array(tmp_path / "a", data=values, chunks=(7,))
    assert cf.reduce(tmp_path / "a", "mean", tendency=0) == (values[-1] - values[0]) / 999


def test_groups_are_of_the_first_of_two(tmp_path: Path):
    values, labels = stored(tmp_path / "a", "f8", 4), np.arange(23) % 3
    found = cf.reduce(tmp_path / "a", "mean", tendency="time", by=labels, by_axis="time", axis=0)
    changes = np.diff(values, axis=0)
    for n in range(3):
        expected = changes[labels[:-1] == n].mean(axis=0)
        np.testing.assert_allclose(found.values[n], expected, rtol=1e-12)


def test_selected_by_coordinates_the_next_need_not_be(tmp_path: Path):
    values = np.random.default_rng(0).normal(size=(24, 3))
    time = np.arange("2000-01", "2002-01", dtype="M8[M]").astype("M8[ns]")
    data = xr.DataArray(values, {"time": time}, ("time", "x"), "a")
    data.to_dataset().to_zarr(tmp_path / "s.zarr")
    found = cf.reduce(tmp_path / "s.zarr/a", "mean", tendency="time", sel={"time": "2000"})
    assert found == pytest.approx(np.diff(values[:13], axis=0).mean(), rel=1e-12)


@pytest.mark.parametrize(
    ("op", "options", "message"),
    [
        ("max", {"tendency": "time"}, "op is 'max'; it takes mean, var, std, rmse, mae"),
        ("mean", {"tendency": "tim"}, "did you mean 'time'"),
        ("mean", {"tendency": {"time": 0}}, "give one axis, or its distance too"),
        ("mean", {"tendency": {"time": 1, "x": 1}}, "give one axis"),
        ("mean", {"tendency": "time", "selection": 3}, "but only one element of it is selected"),
        (
            "mean",
            {"tendency": {"time": 23}},
            "no selected element of its 23 has another one at that",
        ),
        ("mean", {"tendency": "time", "weights": np.ones(5)}, "tendency takes no weights"),
    ],
)
def test_what_it_is_not_is_refused(tmp_path: Path, op: str, options: dict, message: str):
    stored(tmp_path / "a", "f4", 4)
    with pytest.raises(PlanError, match=message):
        cf.reduce(tmp_path / "a", op, **options)


def test_two_arrays_and_those_of_xarray_are_refused(tmp_path: Path):
    stored(tmp_path / "a", "f4", 4)
    with pytest.raises(PlanError, match="takes one array"):
        cf.reduce((tmp_path / "a", tmp_path / "a"), "mean", tendency="time")
    with pytest.raises(PlanError, match="takes no arrays of xarray"):
        cf.reduce(xr.DataArray(np.ones((3, 4)), dims=("time", "x")), "mean", tendency="time")
