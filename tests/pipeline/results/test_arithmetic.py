"""Arithmetic of results keeps labels that are equal, and refuses others."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

import chunkfold as cf
from chunkfold.errors import PlanError

pytestmark = pytest.mark.unoptimised
VALUES = np.random.default_rng(0).normal(280, 9, (4, 3, 5)).astype("f4")
AIR = xr.DataArray(
    VALUES,
    {"time": np.arange(4), "lat": [10.0, 20.0, 30.0], "lon": np.arange(5.0)},
    ("time", "lat", "lon"),
    "air",
    {"units": "K", "long_name": "air temperature"},
)


def reduced(op: str, axis: object = "time", of: xr.DataArray = AIR, **given) -> cf.Result:
    run = cf.submit(of, op, axis=axis, **given)
    return run.labelled()


def test_of_equal_labels_all_is_kept():
    high, low = reduced("max"), reduced("min")
    got = high - low
    assert type(got) is cf.Result
    np.testing.assert_array_equal(got, VALUES.max(0) - VALUES.min(0))
    assert (got.name, got.dims, got.units) == ("max - min", ("lat", "lon"), "K")
    assert got.coordinates["lat"].values.tolist() == [10, 20, 30]
    xr.testing.assert_equal(got.to_xarray(), high.to_xarray() - low.to_xarray())


@pytest.mark.parametrize(
    ("compute", "units"),
    [
        (lambda r: r + r, "K"),
        (lambda r: np.maximum(r, r), "K"),
        (lambda r: -r, "K"),
        (abs, "K"),
        (lambda r: 2 * r, "K"),
        (lambda r: r / 2, "K"),
        (lambda r: r - 273.15, None),
        (lambda r: 1 / r, None),
        (lambda r: r * r, None),
        (lambda r: r / r, None),
        (np.sqrt, None),
        (lambda r: r - np.ones((3, 5)), None),
    ],
)
def test_units_are_kept_where_they_hold(compute, units):
    result = reduced("mean")
    got = compute(result)
    assert type(got) is cf.Result
    assert (got.dims, got.units) == (("lat", "lon"), units)
    np.testing.assert_array_equal(got, compute(result.values))


def test_other_units_are_dropped():
    other = reduced("mean", of=AIR.assign_attrs(units="degC"))
    assert (reduced("mean") - other).units is None


def test_an_axis_that_one_lacks_is_found_by_its_name():
    zonal = reduced("mean", ("time", "lon"))
    for got in (zonal - reduced("mean"), reduced("mean") - zonal):
        assert (got.dims, got.shape) == (("lat", "lon"), (3, 5))
    want = VALUES.mean((0, 2))[:, None] - VALUES.mean(0)
    np.testing.assert_allclose(zonal - reduced("mean"), want, rtol=1e-4, atol=1e-4)
    months = reduced("mean", by=xr.DataArray([1, 1, 2, 2], dims="time", name="month"))
    assert (months - reduced("mean")).labels.tolist() == [1, 2]


def test_other_labels_are_refused():
    with pytest.raises(PlanError, match=r"coordinate 'lat': 10\.0 to 30\.0, and 20\.0 to 40\.0"):
        reduced("mean") - reduced("mean", of=AIR.assign_coords(lat=[20.0, 30.0, 40.0]))
    with pytest.raises(PlanError, match=r"\(lat: 3, lon: 5\), and 'mean' has \(lat: 2, lon: 5\)"):
        reduced("mean") - reduced("mean", of=AIR[:, :2])
    with pytest.raises(PlanError, match="only results with equal axes"):
        reduced("mean", ("time", "lat")) - reduced("mean", ("time", "lon"))


def test_truths_and_other_shapes_are_numpys():
    result = reduced("mean")
    for got in (result > 280, result[0] + 1, result + np.ones((2, 3, 5)), np.add.reduce(result)):
        assert type(got) is np.ndarray


def test_names_say_what_was_computed():
    both = cf.reduce(np.arange(12.0).reshape(3, 4), ["max", "min"], axis=0, labels=True)
    most, least = both["max"], both["min"]
    assert ((most - least) / (most + least)).name == "(max - min) / (max + min)"
    assert np.sqrt(most).name == "sqrt(max)"
    assert (2 * most).name == "max"
    assert both.to_dataframe().columns.tolist() == ["max", "min"]


def test_arrays_of_xarray_take_no_values_by_position():
    mean, stored = reduced("mean"), AIR.mean("time")
    turned = stored.isel(lat=slice(None, None, -1))
    for got in (mean - stored.T, mean - turned, stored.T - mean, stored - mean):
        assert float(abs(got).max()) < 1e-4
    with pytest.raises(xr.MergeError, match="conflicting values"):
        turned - mean


def test_in_place_it_is_a_new_result():
    mean = reduced("mean")
    more = mean
    more += 1
    assert (more.dims, more.name) == (mean.dims, "mean")
    np.testing.assert_allclose(more.values, mean.values + 1, rtol=1e-6)
