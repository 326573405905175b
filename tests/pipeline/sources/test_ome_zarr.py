"""Images of OME-Zarr have their axes' names in all versions, wherever axes are named."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
import zarr

import chunkfold as cf
from chunkfold.errors import PlanError
from chunkfold.settings import IMAGE_LEVEL
from chunkfold.sources.ome_zarr import ome_of
from chunkfold.sources.opening import open_each, open_source
from chunkfold.workflows.transforms.project import project
from tests.ome_images import axes_of, ome_image
from tests.web import served

pytestmark = pytest.mark.unoptimised
VALUES = np.random.default_rng(0).integers(0, 99, (2, 3, 4, 5)).astype("u2")


@pytest.mark.parametrize("path", ["0", "scale0/image"])
@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_axes_of_an_image_are_named_for_all_that_names_axes(
    tmp_path: Path, version: str, path: str
):
    source = ome_image(tmp_path / "a.zarr", VALUES, version, path=path)
    (tmp_path / "a.zarr").rename(tmp_path / "b.zarr")  # whatever it is called
    source = tmp_path / "b.zarr" / path
    np.testing.assert_array_equal(cf.reduce(source, "max", axis="z"), VALUES.max(1))
    assert cf.reduce(source, "max", axis=["c", "z"], labels=True).dims == ("y", "x")
    given = zarr.open_group(str(tmp_path / "b.zarr"), mode="r")[path]
    np.testing.assert_array_equal(cf.reduce(given, "max", axis="x"), VALUES.max(3))
    whole = cf.reduce(source, "mean", axis="c", coarsen={"y": 2, "x": 5})
    np.testing.assert_array_equal(whole, VALUES.reshape(2, 3, 2, 2, 5).mean((0, 3, 4))[..., None])
    made: Any = project(source, tmp_path / "p.zarr", "min", axis="z")["min"]
    np.testing.assert_array_equal(made[...], VALUES.min(1))
    assert made.metadata.dimension_names == ("c", "y", "x")
    with pytest.raises(PlanError, match="has no axis 'q'; its axes are 'c', 'z', 'y', 'x'"):
        cf.reduce(source, "max", axis="q")


@pytest.mark.parametrize("axes", [list("tczyx"), None])
def test_axes_of_older_versions_are_named(tmp_path: Path, axes: Any):
    source = ome_image(tmp_path / "a.zarr", VALUES[None], "0.3", axes=axes)
    if axes is None:
        group = zarr.open_group(str(tmp_path / "a.zarr"))
        group.attrs["multiscales"] = [{"datasets": [{"path": "0"}], "version": "0.1"}]
    assert open_source(source).dims == ("t", "c", "z", "y", "x")


@pytest.mark.parametrize("path", ["0", "scale0/image"])
def test_axes_are_named_on_the_web_and_in_archives(tmp_path: Path, path: str):
    ome_image(tmp_path / "a.zarr", VALUES, "0.4", path=path)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for file in (tmp_path / "a.zarr").rglob("*"):
            archive.write(file, file.relative_to(tmp_path / "a.zarr"))
    places = [f"{tmp_path}/a.zip/{path}", f"zip://{path}::{tmp_path}/a.zip"]
    with served(tmp_path) as web:
        for place in (*places, f"{web.url}/a.zarr/{path}"):
            np.testing.assert_array_equal(cf.reduce(place, "max", axis="z"), VALUES.max(1))
        assert not any("//" in asked for asked in web.asked)


def test_an_array_in_memory_has_no_group_where_this_process_runs(tmp_path: Path, monkeypatch):
    ome_image(tmp_path / "a.zarr", VALUES, "0.4", path="a")
    monkeypatch.chdir(tmp_path / "a.zarr")
    assert open_source(zarr.create_array({}, data=VALUES)).dims is None
    assert open_source("a").dims == tuple("czyx")


def test_names_of_the_array_itself_are_taken_first(tmp_path: Path):
    source = ome_image(tmp_path / "a.zarr", VALUES, "0.5", axes=axes_of("tzyx"))
    assert open_source(source).dims == ("c", "z", "y", "x")


@pytest.mark.parametrize(
    "said",
    [
        {"axes": axes_of("zyx")},
        {"axes": "czyx"},
        {"axes": [{"type": "space"}] * 4},
        {"axes": None, "coordinateSystems": []},
        {"datasets": [{"path": "1"}]},
        {"datasets": "0"},
    ],
)
def test_what_fits_no_array_names_no_axes(tmp_path: Path, said: dict[str, Any]):
    source = ome_image(tmp_path / "a.zarr", VALUES, "0.4", **said)
    assert open_source(source).dims is None


def test_metadata_are_under_ome_or_at_the_top():
    top, new = {"multiscales": [1]}, {"ome": {"multiscales": [2]}}
    assert ome_of(top) == top
    assert ome_of(top | new) == new["ome"]
    assert ome_of(top | {"ome": {"series": []}})["multiscales"] == [1]
    assert ome_of({"ome": "0.5"}) == {"ome": "0.5"}
    assert ome_of({"ome": {"series": []}}) == {"series": []}


def two_levels(folder: Path, version: str) -> Path:
    """Write an image of the levels s0 and deep/s1, which count from 0 on."""
    ome_image(folder, np.arange(24, dtype="u2").reshape(4, 6), version, path="s0")
    group = zarr.open_group(str(folder), mode="r+")
    group.create_array("deep/s1", data=np.arange(6, dtype="u2").reshape(2, 3))
    said = group.attrs.asdict()
    (image,) = said.get("ome", said)["multiscales"]
    image["datasets"].append({**image["datasets"][0], "path": "deep/s1"})
    group.attrs.update(said)
    return folder


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_a_group_is_the_first_level_of_its_image(tmp_path: Path, version: str):
    place = two_levels(tmp_path / "i.zarr", version)
    for given in (place, str(place), zarr.open_group(str(place), mode="r")):
        with pytest.warns(UserWarning, match=r"an image of 2 levels: 's0' is read"):
            found = open_source(given)
        assert found.name.endswith("i.zarr/s0")
        assert found.dims == ("y", "x")
        assert found.whole().tolist() == np.arange(24).reshape(4, 6).tolist()
        with dask.config.set({IMAGE_LEVEL: 1}):
            assert open_source(given).shape == (2, 3)
            assert [one.name[-7:] for one in open_each(given)] == ["deep/s1"]
        with (
            dask.config.set({IMAGE_LEVEL: 2}),
            pytest.raises(cf.PlanError, match="level is 2, but the image has 2 levels"),
        ):
            open_source(given)
    with dask.config.set({IMAGE_LEVEL: 1}):
        assert open_source(place / "s0").shape == (4, 6)
        with pytest.raises(cf.SourceError, match="is a Zarr group, not an array"):
            open_source(place / "deep")
    with dask.config.set({IMAGE_LEVEL: "1"}), pytest.raises(cf.PlanError, match="level is '1'"):
        open_source(place)


@pytest.mark.filterwarnings("ignore:.*an image of 2 levels")
def test_results_of_a_group_are_those_of_its_level(tmp_path: Path):
    place = two_levels(tmp_path / "i.zarr", "0.5")
    assert cf.reduce(place, "max") == 23
    assert cf.reduce(str(place), "max", axis="x").tolist() == [5, 11, 17, 23]
