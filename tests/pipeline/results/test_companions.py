"""What attributes name comes along with results, or they go."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray
import zarr

import chunkfold as cf
from chunkfold.planning.options import Options
from chunkfold.planning.resolve import resolve
from chunkfold.results.companions import Companions
from chunkfold.results.coordinates import Kept
from chunkfold.workflows.files.writing import write_results
from chunkfold.workflows.transforms.project import project

pytestmark = pytest.mark.unoptimised


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A grid as models write them, which is reduced, and everything that CF lets it name."""
    group = zarr.open_group(str(tmp_path / "g.zarr"), mode="w")

    def put(name: str, axes: str, values: Any = None, **said: Any) -> None:
        lengths = {"t": 4, "z": 3, "y": 6, "x": 5, "n": 2}
        shape = tuple(lengths[axis] for axis in axes)
        made = np.arange(np.prod(shape, dtype=int)).reshape(shape) + 0.5
        group.create_array(
            name,
            data=made if values is None else values,
            dimension_names=list(axes),
            attributes=said,
        )

    put(
        "a",
        "tzyx",
        coordinates="lat height",
        grid_mapping="crs",
        ancillary_variables="quality land gone",
        cell_measures="area: cells volume: gone",
        bounds="a_bounds",
    )
    put("t", "t", np.arange(4), units="days since 2000-01-01", climatology="t_bounds")
    put("t_bounds", "tn")
    put("z", "z", formula_terms="a: hya ps: ps", actual_range=[0.5, 2.5])
    put("y", "y", bounds="y_bounds", actual_range=[0.5, 5.5], axis="Y")
    put("y_bounds", "yn")
    put("x", "x", bounds="gone")
    put("hya", "z")
    put("ps", "tyx")
    put("lat", "yx")
    put("height", "", np.float64(2))
    put("crs", "", np.int32(0), grid_mapping_name="rotated_latitude_longitude")
    put("quality", "tzyx")
    put("land", "yx", flag_values=[0, 1], flag_meanings="sea land")
    put("cells", "yx")
    return tmp_path / "g.zarr"


def opened(out: Path, **how: Any) -> xarray.Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of attributes that name what is not there
        return xarray.open_zarr(out, decode_coords="all", **how).load()


def test_what_goes_along_kept_axes_comes_along(store: Path, tmp_path: Path):
    select = (slice(None), slice(None), slice(1, 6, 2), slice(None))
    project(store / "a", tmp_path / "o.zarr", ["mean", "argmax"], axis="t", selection=select)
    made, whole = opened(tmp_path / "o.zarr"), xarray.open_zarr(store, consolidated=False).load()
    some = whole.isel(y=slice(1, 6, 2))
    names = {"y", "x", "z", "lat", "height", "crs", "land", "cells", "y_bounds"}
    assert set(made.variables) == names | {"mean", "argmax"}
    for name in names:
        np.testing.assert_array_equal(made[name], some[name])
    for op in ("mean", "argmax"):
        assert made[op].attrs["ancillary_variables"] == "land"
        said = {name: made[op].encoding[name] for name in ("grid_mapping", "cell_measures")}
        assert said == {"grid_mapping": "crs", "cell_measures": "area: cells"}
    assert made["y"].encoding["bounds"] == "y_bounds"
    assert made["land"].attrs["flag_meanings"] == "sea land"
    assert ["actual_range" in made[name].attrs for name in "zy"] == [True, False]
    assert "formula_terms" not in made["z"].attrs  # one of its terms has times


def test_what_goes_along_reduced_axes_is_named_no_more(store: Path, tmp_path: Path):
    project(store / "a", tmp_path / "o.zarr", "mean", axis=("y", "x"))
    made = opened(tmp_path / "o.zarr")
    assert set(made.variables) == {"t", "z", "height", "t_bounds", "mean"}
    left = made["mean"].attrs.keys() | made["mean"].encoding.keys()
    assert not left & {"grid_mapping", "ancillary_variables", "cell_measures", "bounds"}
    assert made["t"].encoding["climatology"] == "t_bounds"
    assert made["t_bounds"].shape == (4, 2)


def test_a_formula_comes_with_all_of_its_terms(store: Path, tmp_path: Path):
    select = (slice(None), slice(0, 2), slice(None), slice(None))
    run = cf.submit(store / "a", "max", axis=(), selection=select)
    write_results(tmp_path / "o.zarr", {"": run.results})
    made = opened(tmp_path / "o.zarr")
    assert made["z"].encoding["formula_terms"] == "a: hya ps: ps"
    assert made["hya"].shape == (2,)
    assert "quality" in made


def test_records_have_their_own(store: Path, tmp_path: Path):
    run = cf.submit(store / "a", ["histogram", "min"], axis="t")
    write_results(tmp_path / "o.zarr", {"": run.results})
    made = opened(tmp_path / "o.zarr", group="histogram")
    assert made["count"].dims == ("z", "y", "x", "bin")
    assert {"x", "y", "z", "lat", "crs", "y_bounds"} <= set(made.coords)
    assert made["left"].attrs.keys() & {"grid_mapping", "coordinates"} == set()


@pytest.mark.parametrize(
    ("mapping", "axis", "left"),
    [
        ("crs: x y", "t", "crs: x y"),
        ("crs: x y other: lat", "t", "crs: x y"),
        ("crs: x y", "x", None),
        ("crs", "x", "crs"),
        ("gone", "t", None),
    ],
)
def test_a_grid_mapping_stays_where_its_coordinates_do(store: Path, mapping, axis, left):
    zarr.open_array(store / "a").attrs["grid_mapping"] = mapping
    found = Companions(Kept.of(resolve(store / "a", Options(axis=axis))), read=False)
    assert found.attributes.get("grid_mapping") == left
    assert ("crs" in {one.name for one in found.all}) == (left is not None)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_what_is_missing_of_a_coordinate_stays_missing(tmp_path: Path, zarr_format: int):
    lat = xarray.DataArray([1.5, np.nan, 3], dims="y")
    data = xarray.Dataset({"a": (("t", "y"), np.ones((2, 3)))}, {"lat": lat, "y": [4, 5, 6]})
    data = data.assign_coords(y_bounds=(("y", "n"), np.ones((3, 2))))
    data["y"].attrs["bounds"] = "y_bounds"
    data.to_zarr(
        tmp_path / "d.zarr",
        zarr_format=zarr_format,
        consolidated=False,
        encoding={"lat": {"dtype": "i2", "_FillValue": -9, "scale_factor": 0.5}},
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        project(tmp_path / "d.zarr/a", tmp_path / "o.zarr", "sum", axis="t")
    want, made = data.sum("t"), xarray.open_zarr(tmp_path / "o.zarr")
    assert set(made.coords) == set(want.coords)
    for name in want.coords:
        np.testing.assert_array_equal(made[name], want[name])
