"""Conditions that compare elements with a map beside them: NumPy's comparison, on every way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkfold as cf
import chunkfold.xarray
from chunkfold.kernels import CATALOGUE
from chunkfold.planning import broadcast_inputs
from chunkfold.workflows.cli.reduce_command import reduce_command

pytestmark = pytest.mark.unoptimised
DIMS = ("time", "lat", "lon")
SHAPE = (90, 4, 6)


def sample(dtype: str = "f4") -> xr.DataArray:
    """Days of three months on a map, with NaN if they are floats."""
    rng = np.random.default_rng(2)
    values = rng.normal(0, 100, SHAPE).astype(dtype)
    if values.dtype.kind == "f":
        values[rng.random(SHAPE) < 0.05] = np.nan
    time = xr.date_range("2001-01-01", periods=SHAPE[0])
    return xr.DataArray(values, {"time": time, "lat": np.arange(4.0)}, DIMS, "a")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("maps")
    chunks = {"a": {"chunks": (20, 4, 3)}}
    p90 = sample().quantile(0.9, "time", skipna=True).astype("f4").drop_vars("quantile")
    held = sample().to_dataset().assign(p90=p90)
    held.to_zarr(made / "a.zarr", consolidated=False, encoding=chunks)
    return made


@settings(max_examples=12)
@given(data=st.data())
def test_elements_count_that_numpys_comparison_takes(data: st.DataObject):
    array = sample(data.draw(st.sampled_from(["f4", "f8", "i2"])))
    along = data.draw(st.sets(st.sampled_from(DIMS), min_size=1, max_size=2))
    shape = [array.sizes[dim] for dim in DIMS if dim in along]
    dtype = {"f4": "f8", "f8": "f4", "i2": "i4"}[array.dtype.str[1:]]
    values = np.random.default_rng(len(along)).normal(0, 60, shape).astype(dtype)
    if dtype != "i4" and data.draw(st.booleans()):
        values.flat[0] = np.nan
    held = xr.DataArray(values, dims=[dim for dim in DIMS if dim in along])
    axis = data.draw(st.sampled_from([None, "time", ("lat", "lon")]))
    found = cf.reduce(array, ["count", "max"], axis=axis, where=("x >= y", held), dtype="f8")
    want = array.where(array >= held).transpose(*DIMS)
    np.testing.assert_array_equal(found["count"], want.count(axis))
    np.testing.assert_array_equal(found["max"], want.max(axis))


def test_days_above_the_percentile_of_each_place_by_month(folder: Path):
    path, array = f"{folder}/a.zarr/a", sample()
    p90 = cf.reduce(path, "p90", axis="time", skipna=True)
    found = cf.reduce(path, "count", axis="time", by="time.month", where=("x > y", p90))
    above = array > array.quantile(0.9, "time", skipna=True).astype("f4").drop_vars("quantile")
    want = above.groupby("time.month").sum()
    np.testing.assert_array_equal(found, want)
    lazily = xr.open_zarr(folder / "a.zarr", consolidated=False)
    held = lazily[["a"]].chunkfold.count("time", by="time.month", where=("x > y", lazily.p90))
    np.testing.assert_array_equal(held["a"], want)


def test_a_map_goes_with_weights_and_other_conditions(folder: Path):
    path, array = f"{folder}/a.zarr/a", sample()
    p90 = xr.open_zarr(folder / "a.zarr", consolidated=False).p90.load()
    weights = xr.DataArray([1.0, 2.0, 4.0, 8.0], dims="lat")
    mean = cf.reduce(path, "mean", where=(lambda x, _, y: x > y, p90), weights=weights)
    there = array.where(array > p90)
    np.testing.assert_allclose(mean, there.weighted(weights).mean(), rtol=1e-6)
    found = cf.reduce(path, "max", axis="time", where=("x > y", "x < 200", p90))
    np.testing.assert_array_equal(found, there.where(there < 200).max("time"))


def test_numpy_alone_gives_the_same():
    monoid = CATALOGUE["count"].among(lambda x, y: x > y).among_input()
    values, held = np.array([[1.0, 5.0], [3.0, 2.0]]), np.array([2.0, 2.0])
    assert monoid.evaluate(values, held, axis=0).tolist() == [1, 1]


def test_a_command_compares_with_a_map_by_its_name_or_path(folder: Path):
    want = int((sample() > sample().quantile(0.9, "time", skipna=True).astype("f4")).sum())
    found = cf.reduce(f"{folder}/a.zarr/a", "count", where=("x > y", folder / "a.zarr/p90"))
    words = ("--op", "count", "--where", "x > y", "--mask", "p90", "--json", "-q")
    done = CliRunner().invoke(reduce_command, [f"{folder}/a.zarr/a", *words])
    assert json.loads(done.stdout)["results"]["count"] == found == want


def test_a_ledger_tells_maps_apart_and_skips_no_block_by_them(folder: Path, tmp_path: Path):
    given: dict[str, Any] = {"axis": "time", "ledger": tmp_path / "a.ledger"}
    path, array = f"{folder}/a.zarr/a", sample()
    cf.reduce(path, ["min", "max"], skipna=True, ledger=given["ledger"])
    for threshold in (-1e6, 1e6, 0.0):
        held = np.full(SHAPE[1:], threshold, "f4")
        found = cf.reduce(path, "count", where=("x > y", held), **given)
        np.testing.assert_array_equal(found, (array > threshold).sum("time"))


@pytest.mark.parametrize("condition", ["y > 0", "not isnan(y) and y <= 40"])
def test_a_condition_on_the_map_alone_is_a_mask(folder: Path, tmp_path: Path, condition: str):
    array = sample()
    held = array.isel(time=3, drop=True) * 2
    mask = held > 0 if condition == "y > 0" else held <= 40
    path = f"{folder}/a.zarr/a"
    for axis in (None, "time", ("lat", "lon")):
        given: dict[str, Any] = {"axis": axis, "skipna": True}
        want = cf.reduce(path, ["count", "mean"], where=mask, **given)
        for more in ({}, {"ledger": tmp_path / "a.ledger"}):
            found = cf.reduce(path, ["count", "mean"], where=(condition, held), **given, **more)
            for op in want:
                np.testing.assert_array_equal(found[op], want[op])
    pair = cf.reduce([path, path], "dot", where=(condition, held), skipna=True)
    assert pair == cf.reduce([path, path], "dot", where=mask, skipna=True)


@pytest.mark.parametrize(
    ("where", "told"),
    [
        (("x > y", np.ones(6, bool)), "where is bool, but the condition 'x > y' compares with its"),
        (("x > 3", np.ones(6)), "where ignores the map given with it"),
        ((lambda x: x > 3, np.ones(6)), "takes 1 positional argument but 2 were given"),
        ((np.ones(6),), r"give a condition too, which calls these .* as where=\('y > 0', map\)"),
        ("y > 3", "'y > 3' compares with y, a map of numbers, but no map is given: give both"),
        ((np.ones(6, bool), "x > y", np.ones(6)), r"give map\.where\(mask\), NaN where"),
        ("x > y", "'x > y' compares with y, a map of numbers, but no map is given: give both"),
        (("x > y", np.ones(5)), "does not fit"),
    ],
)
def test_maps_and_conditions_that_do_not_go_together_are_refused(where: Any, told: str):
    with pytest.raises(cf.ChunkfoldError, match=told):
        cf.plan(sample(), "count", where=where)


def test_a_mask_of_all_axes_that_no_worker_holds_names_the_map(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(broadcast_inputs, "MOST_BYTES", 1000)
    array = sample()
    with pytest.raises(cf.PlanError, match=r"condition and a map .* as where=\('x > y', map\)"):
        cf.plan(array, "count", where=array > array.mean("time"))
