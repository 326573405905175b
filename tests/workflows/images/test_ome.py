"""Pyramids keep what an image's group says of it: where its elements are, and how it is shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from chunkfold.errors import PlanError
from chunkfold.workflows.images.pyramid import pyramid
from tests.ome_images import axes_of, ome_image
from tests.pipeline.test_by import hard
from tests.workflows.images.test_pyramid import check_levels, check_ome

pytestmark = pytest.mark.unoptimised
VALUES = np.random.default_rng(0).integers(8, 999, (3, 32, 24)).astype("u2")
VALUES[1] += 1000


def scale(*numbers: float) -> dict[str, Any]:
    return {"type": "scale", "scale": list(numbers)}


def translation(*numbers: float) -> dict[str, Any]:
    return {"type": "translation", "translation": list(numbers)}


def stored(folder: Path) -> dict[str, Any]:
    """Return the metadata of a group as they are stored."""
    if (folder / "zarr.json").exists():
        found: dict[str, Any] = json.loads((folder / "zarr.json").read_text())["attributes"]
        return found
    return dict(json.loads((folder / ".zattrs").read_text()))


DERIVED = [
    ([scale(1, 0.5, 0.25)], [scale(1, 1, 0.5), translation(0, 0.25, 0.125)]),
    ([scale(1, 0.5, 0.25), translation(3, 1, 2)],
     [scale(1, 1, 0.5), translation(3, 1.25, 2.125)]),
    ([translation(0, 1, 2), scale(1, 2, 4)], [scale(1, 4, 8), translation(0, 3, 10)]),
    ([{"type": "identity"}], [scale(1, 2, 2), translation(0, 0.5, 0.5)]),
    ([{"type": "sequence", "transformations": [scale(1, 2, 2), {"type": "identity"}]}],
     [scale(1, 4, 4), translation(0, 1, 1)]),
]  # fmt: skip


@pytest.mark.parametrize(("own", "level"), DERIVED)
def test_transformations_of_the_image_stay_and_levels_follow_from_them(
    tmp_path: Path, own: list[Any], level: list[Any]
):
    of_all = [{"type": "affine", "affine": [[1, 0, 0, 2]] * 3}, scale(1.5, 1.5, 1)]
    source = ome_image(tmp_path / "a", VALUES, names="cyx", transforms=own,
                       coordinateTransformations=of_all, origin="a scanner")  # fmt: skip
    before = stored(tmp_path / "a")["ome"]["multiscales"][0]
    pyramid(source, tmp_path / "a", 1)
    (told,) = stored(tmp_path / "a")["ome"]["multiscales"]
    assert json.dumps(told["datasets"][0]) == json.dumps(before["datasets"][0])
    assert told["datasets"][1] == {"path": "1", "coordinateTransformations": level}
    for key in ("coordinateTransformations", "origin", "axes"):
        assert json.dumps(told[key]) == json.dumps(before[key])
    pyramid(source, tmp_path / "b", 1)
    (new,) = stored(tmp_path / "b")["ome"]["multiscales"]
    assert new["datasets"] == told["datasets"][1:]
    assert new["coordinateTransformations"] == of_all


@pytest.mark.parametrize(
    "own",
    [
        [{"type": "scale", "path": "scales"}],
        [{"type": "affine", "affine": [[1, 0, 0, 0], [0, 2, 0, 0], [0, 0, 2, 0]]}],
        [scale(1, 1, 1), {"type": "rotation", "rotation": [[0, 1], [1, 0]]}],
        [{"type": "sequence", "transformations": [{"type": "rotation", "rotation": []}]}],
        [{"type": "sequence"}],
        [scale(0.5, 0.5)],
        [scale(1, 1, 1), translation(1, 2)],
        [{"type": "scale", "scale": "1, 1, 1"}],
        [{"type": "scale", "scale": [1, None, 1]}],
        [{"type": "scale", "scale": [1, True, 1]}],
        [{"scale": [1, 1, 1]}],
        {"type": "scale", "scale": [1, 1, 1]},
        ["scale"],
    ],
)
@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_transformations_of_which_no_level_follows_are_refused_before_the_image_is_read(
    tmp_path: Path, own: Any, version: str
):
    source = ome_image(tmp_path / "a", VALUES, version, names="cyx", transforms=own)
    for chunk in (*source.glob("c/*/*/*"), *source.glob("0.0.0")):
        chunk.write_bytes(b"not read")
    before = stored(tmp_path / "a")
    for out in ("a", "b")[version == "0.4" :]:
        with pytest.raises(PlanError, match=r"the scale of another level cannot be derived"):
            pyramid(source, tmp_path / out, 1)
    assert stored(tmp_path / "a") == before
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a"]
    assert not (tmp_path / "a/1").exists()


@pytest.mark.parametrize(
    ("said", "match"),
    [
        ({"axes": axes_of("yx")}, "the axes .*'y'.*, but it has 3"),
        ({"axes": "cyx"}, "the axes 'cyx', but it has 3"),
        ({"axes": None, "coordinateSystems": [{"name": "physical"}]}, "the axes .*physical"),
        ({"axes": axes_of("ytx")}, "its axes are 'y', 't', 'x'; OME-Zarr images"),
    ],
)
def test_axes_that_are_not_understood_are_refused(tmp_path: Path, said: Any, match: str):
    source = ome_image(tmp_path / "a", VALUES, names="cyx", **said)
    before = stored(tmp_path / "a")
    with pytest.raises(PlanError, match=match):
        pyramid(source, tmp_path / "a", 1)
    assert stored(tmp_path / "a") == before


def test_a_group_of_a_later_version_is_not_written_into(tmp_path: Path):
    source = ome_image(tmp_path / "a", VALUES, names="cyx")
    group = zarr.open_group(str(tmp_path / "a"))
    group.attrs["ome"] = {**stored(tmp_path / "a")["ome"], "version": "0.6.dev1"}
    with pytest.raises(PlanError, match=r"version 0\.6\.dev1, but levels are described in 0\.5"):
        pyramid(source, tmp_path / "a", 1)
    assert check_ome(pyramid(source, tmp_path / "b", 1)) == ["1"]


def test_an_image_without_transformations_gets_some(tmp_path: Path):
    source = ome_image(tmp_path / "a", VALUES, names="cyx", transforms=[])
    made: Any = pyramid(source, tmp_path / "a", 1)
    assert check_ome(made) == ["0", "1"]
    first, _ = made.attrs["ome"]["multiscales"][0]["datasets"]
    assert first["coordinateTransformations"] == [scale(1, 1, 1)]


def test_images_stay_in_their_places_and_keep_finer_levels(tmp_path: Path):
    source = ome_image(tmp_path / "a", VALUES, names="cyx")
    group = zarr.open_group(str(tmp_path / "a"))
    (own,) = stored(tmp_path / "a")["ome"]["multiscales"]
    turned = {**own, "name": "turned", "coordinateTransformations": [{"type": "rotation"}]}
    other = {"name": "other", "axes": [], "datasets": [{"path": "aux"}]}
    group.attrs["ome"] = {"version": "0.5", "multiscales": [other, own, turned], "series": ["x"]}
    pyramid(source, tmp_path / "a", 1)
    pyramid(tmp_path / "a/1", tmp_path / "a", 1)
    told = stored(tmp_path / "a")["ome"]
    assert told["series"] == ["x"]
    first, second, third = told["multiscales"]
    assert (first, third) == (other, turned)
    assert [one["path"] for one in second["datasets"]] == ["0", "1", "2"]
    assert second["datasets"][2]["coordinateTransformations"] == [
        scale(1, 4, 4), translation(0, 1.5, 1.5)
    ]  # fmt: skip


CHANNELS = [
    {"label": "DAPI", "color": "0000FF", "active": False, "coefficient": 1,
     "window": {"start": 10, "end": 500, "min": 0, "max": 4095}},
    {"label": "GFP", "color": "00FF00", "window": {"start": 1100, "end": 1200}},
    {"label": "RFP", "color": "FF0000"},
]  # fmt: skip


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_channels_come_along_to_a_new_store(tmp_path: Path, version: str):
    omero = {"id": 1, "version": version, "name": "a", "channels": CHANNELS,
             "rdefs": {"model": "color"}}  # fmt: skip
    source = ome_image(tmp_path / "a", VALUES, version, names="cyx", beside={"omero": omero},
                       chunks=(1, 8, 8))  # fmt: skip
    made: Any = pyramid(source, tmp_path / "b", 2)
    assert check_ome(made) == ["1", "2"]
    check_levels(made, ["1", "2"], VALUES, {1: 2, 2: 2}, "mean")
    told = made.attrs["ome"]["omero"]
    assert told["rdefs"] == {"model": "color"}
    assert told.get("version", "0.5") == "0.5"
    dapi, gfp, rfp = told["channels"]
    assert dapi == CHANNELS[0]
    limits = {"min": 0, "max": 65535}
    assert gfp == {**CHANNELS[1], "window": {**limits, "start": 1100, "end": 1200}}
    ends = {"start": VALUES[2].min(), "end": VALUES[2].max()}
    assert rfp == {**CHANNELS[2], "window": limits | ends}
    bare: Any = pyramid(source, tmp_path / "c", 2, statistics=False)
    assert bare.attrs["ome"]["omero"]["channels"] == CHANNELS


@pytest.mark.parametrize("dtype", ["u2", "f4", "i8"])
def test_channels_without_elements_leave_the_others_their_windows(tmp_path: Path, dtype: str):
    values = VALUES.astype(dtype)
    source = ome_image(tmp_path / "a", values, names="cyx", chunks=(1, 8, 8))
    for chunk in source.glob("c/1/*/*"):
        chunk.write_bytes(b"spoiled")
    made: Any = pyramid(source, tmp_path / "b", 1, "sum", on_bad_chunk="skip")
    told = [one["window"] for one in made.attrs["ome"]["omero"]["channels"]]
    left = values[[0, 2]]
    for window, own in zip(told, (values[0], left, values[2]), strict=True):
        assert (window["start"], window["end"]) == (own.min(), own.max())


def test_windows_of_channels_are_from_one_read(tmp_path: Path):
    values = hard("float32", (2, 2, 24, 16))
    source = ome_image(tmp_path / "a", values, names="tcyx", chunks=(1, 1, 8, 8))
    made: Any = pyramid(source, tmp_path / "b", 2)
    for n, one in enumerate(made.attrs["ome"]["omero"]["channels"]):
        own = values[:, n]
        assert one["window"]["start"] == own.min()
        assert one["window"]["max"] == own.max()
    assert made.attrs["chunkfold"]["statistics"]["max"] == values.max()


@pytest.mark.parametrize("version", ["0.4", "0.5"])
@pytest.mark.parametrize("op", ["mode", "max"])
def test_images_of_labels_stay_such(tmp_path: Path, version: str, op: str):
    said = {"colors": [{"label-value": 1, "rgba": [255, 0, 0, 255]}],
            "properties": [{"label-value": 1, "class": "cell"}],
            "source": {"image": "../../"}}  # fmt: skip
    source = ome_image(tmp_path / "a", VALUES % 4, version, names="cyx",
                       beside={"image-label": {"version": version, **said}})  # fmt: skip
    told: Any = pyramid(source, tmp_path / "b", 2, op).attrs["ome"]
    assert {**told["image-label"], "version": version} == {**said, "version": version}
    assert "omero" not in told
    if version == "0.5":
        told = pyramid(source, tmp_path / "a", 2, op).attrs["ome"]
        assert told["image-label"] == {"version": version, **said}
        assert "omero" not in told
