"""Projections are NumPy's, with the source's names and attributes."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray
import zarr
from numcodecs import VLenBytes

import chunkfold as cf
from chunkfold.errors import PlanError
from chunkfold.workflows.files.as_zarr import write_zarr
from chunkfold.workflows.transforms.project import project
from tests.processes import finished
from tests.strangers import old_numcodecs, texts, with_coordinate
from tests.web import served

pytestmark = pytest.mark.unoptimised


@pytest.fixture
def scan(tmp_path: Path) -> tuple[Path, np.ndarray]:
    values = np.random.default_rng(0).integers(0, 4000, (6, 20, 30)).astype("u2")
    made = zarr.create_array(
        str(tmp_path / "scan.zarr"),
        shape=values.shape,
        chunks=(4, 7, 30),
        dtype="u2",
        attributes={"units": "counts"},
        dimension_names=("z", "y", "x"),
    )
    made[...] = values
    return tmp_path / "scan.zarr", values


def test_an_op_makes_an_array_of_the_axes_left(scan, tmp_path: Path):
    source, values = scan
    made = project(source, tmp_path / "mip.zarr", "max", axis=0)["max"]
    np.testing.assert_array_equal(made[...], values.max(axis=0))
    assert (made.dtype, made.metadata.dimension_names) == (values.dtype, ("y", "x"))
    made_of = {"source": str(source), "op": "max", "axes": ["z"], "mode": "exact"}
    told = dict(made.attrs)
    assert json.loads(told.pop("chunkfold")) == made_of  # text, which NetCDF can hold
    assert told == {"units": "counts", "cell_methods": "z: maximum"}


def test_units_stay_where_they_are_the_same(scan, tmp_path: Path):
    made = project(scan[0], tmp_path / "p.zarr", ["mean", "var", "argmax"], axis=0)
    assert [name for name, one in made.arrays() if "units" in one.attrs] == ["mean"]


def test_what_is_made_of_packed_values_says_how_it_is_packed(scan, tmp_path: Path):
    packed = zarr.open_array(scan[0], mode="a")
    packed.attrs.update(scale_factor=0.1, add_offset=273, cell_methods="time: point")
    made = project(packed, tmp_path / "p.zarr", ["mean", "std", "var", "sum"], axis=0)
    left = {name: dict(one.attrs) for name, one in made.arrays()}
    for attributes in left.values():
        del attributes["chunkfold"]
    assert left == {
        "mean": {
            "units": "counts",
            "scale_factor": 0.1,
            "add_offset": 273,
            "cell_methods": "time: point z: mean",
        },
        "std": {
            "units": "counts",
            "scale_factor": 0.1,
            "cell_methods": "time: point z: standard_deviation",
        },
        "var": {},
        "sum": {},
    }


def test_unpacked_values_are_packed_no_more(scan, tmp_path: Path):
    source, values = scan
    zarr.open_array(source, mode="a").attrs.update(scale_factor=0.5, valid_max=100, _FillValue=-1)
    made = project(source, tmp_path / "p.zarr", "max", axis=0, mask_and_scale=True)["max"]
    np.testing.assert_array_equal(made[...], values.max(axis=0) * 0.5)
    made_of = json.loads(made.attrs["chunkfold"])
    assert made_of["mask_and_scale"] is True
    assert made.attrs["units"] == "counts"
    assert made.attrs.keys() == {"units", "cell_methods", "chunkfold"}


@pytest.mark.parametrize("option", [(), ("--mask-and-scale",)])
def test_attributes_that_are_not_applied_are_named(scan, tmp_path: Path, here, option):
    zarr.open_array(scan[0], mode="a").attrs["_FillValue"] = -32768
    given = ("project", scan[0], tmp_path / "p.zarr", "--op", "max", "--axis", "0", *option)
    code, _, err = here(*given)
    assert code == 0
    told = (
        "not applied: _FillValue -32768, computed like any number (--mask-and-scale applies them)"
    )
    assert (told in " ".join(err.split())) == (not option)


def test_bins_have_a_name(scan, tmp_path: Path):
    run = cf.submit(scan[0], ["histogram", "min"], axis=0)
    write_zarr(tmp_path / "h.zarr", {"": run.results})
    made = zarr.open_group(str(tmp_path / "h.zarr"))
    names = [made[f"histogram/{name}"].metadata.dimension_names for name in ("count", "left")]
    assert names == [("y", "x", "bin"), ("bin",)]


def test_several_make_a_group(scan, tmp_path: Path):
    source, values = scan
    made = project(
        source,
        tmp_path / "p.zarr",
        ["mean", "min"],
        axis=(0, 2),
        selection=(slice(1, None), slice(3, 9)),
    )
    assert sorted(made.array_keys()) == ["mean", "min"]
    np.testing.assert_array_equal(made["min"][...], values[1:, 3:9].min(axis=(0, 2)))
    np.testing.assert_array_equal(made["mean"][...], values[1:, 3:9].mean(axis=(0, 2)))
    assert json.loads(made["min"].attrs["chunkfold"])["selection"] == "1:, 3:9"
    kept = project(source, tmp_path / "k.zarr", "sum", axis=1, keepdims=True)["sum"]
    np.testing.assert_array_equal(kept[...], values.sum(axis=1, keepdims=True))
    assert kept.metadata.dimension_names == ("z", "y", "x")


def test_names_of_axes_are_found_where_xarray_keeps_them(tmp_path: Path):
    made = zarr.create_array(
        str(tmp_path / "a.zarr"), shape=(2, 3), dtype="f4", zarr_format=2,
        attributes={"_ARRAY_DIMENSIONS": ["time", "lat"]},
    )  # fmt: skip
    made[...] = 1
    got = project(made, tmp_path / "b.zarr", "mean", axis=0)["mean"]
    assert got.metadata.dimension_names == ("lat",)
    assert "_ARRAY_DIMENSIONS" not in got.attrs


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_coordinates_come_along_as_xarray_reads_them(tmp_path: Path, here, zarr_format: int):
    rng = np.random.default_rng(0)
    data = xarray.Dataset(
        {"t2m": (("time", "lat", "lon"), rng.integers(0, 99, (40, 6, 5)).astype("f4"))},
        {
            "time": np.arange("2020-01-01", "2020-02-10", dtype="M8[D]").astype("M8[ns]"),
            "lat": ("lat", np.linspace(90, -90, 6), {"units": "degrees_north"}),
            "row": ("lat", np.arange(6)),
            "curved": (("lon", "lat"), rng.normal(size=(5, 6))),
            "height": ((), 2.0, {"units": "m"}),
        },
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data.to_zarr(tmp_path / "d.zarr", zarr_format=zarr_format)
    some, days = data.isel(lon=slice(1, 4)), data.isel(time=slice(3, 30, 4))
    for name, given, want in (
        ("mean", ("--axis", "time", "--select", "...,1:4"), some.mean("time")),
        ("max", ("--axis", "lat,lon", "--select", "3:30:4"), days.max(("lat", "lon"))),
    ):
        for command in ("project", "reduce"):
            out = tmp_path / f"{command}-{name}.zarr"
            place = (out,) if command == "project" else ("--out", out)
            code, _, err = here(command, tmp_path / "d.zarr/t2m", *place, "--op", name, *given)
            assert code == 0, err
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                made = xarray.open_zarr(out)
            xarray.testing.assert_allclose(made[name], want["t2m"])
            assert set(made.coords) == set(want.coords)
            for coordinate in want.coords:
                xarray.testing.assert_equal(made[coordinate], want[coordinate])
            if name == "mean":
                assert made["lat"].attrs == {"units": "degrees_north"}


@pytest.fixture(scope="session")
def unpickling(tmp_path_factory) -> Path:
    """A numcodecs that unpickles whatever it is given, for PYTHONPATH."""
    return old_numcodecs(tmp_path_factory.mktemp("numcodecs"))


def test_no_code_of_a_store_is_run(tmp_path: Path, unpickling: Path):
    """Not by a numcodecs that would, nor over HTTP."""
    filters = [{"id": "vlen-utf8"}, {"id": "pickle", "protocol": 4}]
    told = tmp_path / "told"
    with_coordinate(tmp_path / "g.zarr", told=told, dtype="|O", filters=filters)
    code = """
import sys, numcodecs, warnings
from chunkfold.workflows.cli import cli
assert numcodecs.__version__ == "0.16.3"
url, folder = sys.argv[1:]
words = [f"{url}/g.zarr/a", "--op", "max", "--axis", "t", "--quiet"]
cli.main(["project", words[0], f"{folder}/p.zarr", *words[1:]], standalone_mode=False)
cli.main(["reduce", *words, "--out", f"{folder}/r.zarr"], standalone_mode=False)
"""
    told_to = {"PYTHONPATH": str(unpickling), "NUMCODECS_ALLOW_UNSAFE_PICKLE_DECODE": "1"}
    with served(tmp_path) as web:
        command = [sys.executable, "-c", code, web.url, tmp_path]
        done = finished(command, 100, {**os.environ, **told_to})
        asked = set(web.asked)
    assert done.returncode == 0, done.stderr
    assert "its coordinate 'x' is omitted, because it cannot be read" in done.stderr
    assert "its codec 'pickle' is not known to decode to data only" in done.stderr
    assert "/g.zarr/x/0" not in asked
    assert not told.exists()
    for name in ("p", "r"):
        assert list(zarr.open_group(tmp_path / f"{name}.zarr").array_keys()) == ["max"]


def test_what_is_left_out_is_told_once(tmp_path: Path, here):
    filters = [{"id": "vlen-utf8"}, {"id": "pickle", "protocol": 4}]
    array = with_coordinate(tmp_path / "g.zarr", told=tmp_path, dtype="|O", filters=filters)
    code, _, err = here("project", array, tmp_path / "p.zarr", "--op", "max", "--axis", "t")
    assert code == 0
    assert err.count("its coordinate 'x' is omitted") == 1


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_coordinates_that_are_texts_come_along(tmp_path: Path, zarr_format: int):
    names = ["é", "", "long " * 9]
    along = {"x": np.array(names, object), "fixed": ("x", np.array(["a", "bb", "c"]))}
    data = xarray.Dataset({"a": (("t", "x"), np.ones((2, 3)))}, along)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of fixed lengths
        data.to_zarr(tmp_path / "d.zarr", zarr_format=zarr_format)
        if zarr_format == 2:
            texts(tmp_path / "d.zarr/bytes", VLenBytes(), [b"a", b"", b"b\0"])
            zarr.open_array(tmp_path / "d.zarr/a").attrs["coordinates"] = "fixed bytes"
            data = data.assign_coords(bytes=("x", np.array([b"a", b"", b"b\0"], object)))
        project(tmp_path / "d.zarr/a", tmp_path / "p.zarr", "max", axis="t")
    made = xarray.open_zarr(tmp_path / "p.zarr").load()
    assert set(made.coords) == set(data.coords)
    for name, want in data.coords.items():
        assert made[name].values.tolist() == want.values.tolist()


def test_coordinates_that_are_none_are_left_out(tmp_path: Path):
    """They have another shape, or cannot be read: results are there all the same."""
    group = zarr.open_group(str(tmp_path / "g.zarr"), mode="w")
    names = ("time", "y", "x", "w")
    group.create_array("a", data=np.ones((2, 3, 4, 5)), dimension_names=names)
    group.create_array("y", data=np.arange(4))
    group.create_array("x", data=np.arange(4))
    (tmp_path / "g.zarr/x/c/0").write_bytes(b"spoiled")
    with pytest.warns(
        RuntimeWarning, match="its coordinate 'x' is omitted, because it cannot be read"
    ):
        made = project(tmp_path / "g.zarr/a", tmp_path / "p.zarr", "max", axis=0)
    assert list(made.array_keys()) == ["max"]
    assert made["max"].shape == (3, 4, 5)


def test_nothing_is_written_of_what_fails(scan, tmp_path: Path):
    source, _ = scan
    before = set(tmp_path.iterdir())
    with pytest.raises(PlanError, match=r"histogram has its own axes"):
        project(source, tmp_path / "h.zarr", "histogram", axis=0)
    with pytest.raises(PlanError, match=r"axis"):
        project(source, tmp_path / "h.zarr", "max", axis=7)
    with pytest.raises(PlanError, match=r"use \.zarr for Zarr"):
        project(source, tmp_path / "h.json", "max", axis=0)
    (tmp_path / "there.zarr").write_text("")
    before.add(tmp_path / "there.zarr")
    with pytest.raises(PlanError, match="exists"):
        project(source, tmp_path / "there.zarr", "max", axis=0)
    assert set(tmp_path.iterdir()) == before


def test_the_command_writes_what_the_function_does(scan, tmp_path: Path, command: Callable):
    source, values = scan
    command("project", source, tmp_path / "c.zarr", "--op", "min,max", "--axis", 0, "--quiet")
    made = zarr.open_group(str(tmp_path / "c.zarr"), mode="r")
    np.testing.assert_array_equal(made["max"][...], values.max(axis=0))


def test_without_an_op_it_is_the_sum_as_the_help_says(scan, tmp_path: Path, here):
    source, values = scan
    _, shown, _ = here("project", "--help")
    assert "[default: sum]" in " ".join(shown.split())
    assert here("project", source, tmp_path / "c.zarr", "--axis", 0, "-q") == (0, "", "")
    for made in (
        zarr.open_group(tmp_path / "c.zarr"),
        project(source, tmp_path / "p.zarr", axis=0),
    ):
        assert list(made.array_keys()) == ["sum"]
        np.testing.assert_array_equal(made["sum"][...], values.sum(axis=0))
