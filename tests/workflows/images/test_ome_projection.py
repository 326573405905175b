"""A projection of an image is an image of the axes that are left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from chunkfold.workflows.images.pyramid import pyramid
from chunkfold.workflows.transforms.project import project
from tests.ome_images import axes_of, ome_image, valid_image
from tests.workflows.images.test_pyramid import check_ome

pytestmark = pytest.mark.unoptimised
VALUES = np.random.default_rng(0).integers(8, 200, (2, 3, 4, 8, 9)).astype("u2")
SCALE, FIRST = np.array([1, 1, 3, 0.5, 0.25]), np.array([0, 0, 10, -1, 2.0])
TRANSFORMS = [
    {"type": "scale", "scale": SCALE.tolist()},
    {"type": "translation", "translation": FIRST.tolist()},
]
CHANNELS = [{"label": name, "color": "FF0000"} for name in ("red", "green", "blue")]
ALL = slice(None)


def scan(folder: Path, version: str = "0.4", **said: Any) -> Path:
    given = {"transforms": TRANSFORMS, "name": "scan", "beside": {"omero": {"channels": CHANNELS}}}
    return ome_image(folder, VALUES, version, **{**given, **said})


def placed(one: dict[str, Any]) -> tuple[list[float], list[float]]:
    """Return the scale and the translation of the one level of an image."""
    (dataset,) = one["datasets"]
    scale, *rest = dataset["coordinateTransformations"]
    first = rest[0]["translation"] if rest else [0.0] * len(scale["scale"])
    return scale["scale"], first


@pytest.mark.parametrize(
    ("given", "names", "scale", "first", "labels"),
    [
        ({"axis": "z"}, "tcyx", SCALE[[0, 1, 3, 4]], FIRST[[0, 1, 3, 4]], ["red", "green", "blue"]),
        ({"axis": ["t", "c"]}, "zyx", SCALE[2:], FIRST[2:], None),
        ({"axis": ["t", "z"], "selection": (ALL, 1)}, "yx", SCALE[3:], FIRST[3:], ["green"]),
        ({"axis": "y"}, "tczx", SCALE[[0, 1, 2, 4]], FIRST[[0, 1, 2, 4]],
         ["red", "green", "blue"]),
        ({"axis": ["t", "z"], "selection": (ALL, [0, 2, 1], ALL, slice(1, 8, 3))}, "cyx",
         [1, 1.5, 0.25], [0, -0.5, 2], ["red", "blue", "green"]),
        ({"axis": ["t", "c", "z"], "keepdims": True}, "tczyx",
         [2, 1, 12, 0.5, 0.25], [0.5, 0, 14.5, -1, 2], None),
        ({"axis": ["t", "z"], "coarsen": {"y": 2, "x": 3}}, "cyx",
         [1, 1, 0.75], [0, -0.75, 2.25], ["red", "green", "blue"]),
    ],
)  # fmt: skip
def test_what_is_left_of_axes_is_where_it_was(
    tmp_path: Path, given: dict[str, Any], names: str, scale: Any, first: Any, labels: Any
):
    made: Any = project(scan(tmp_path / "a"), tmp_path / "p", ["max", "mean"], **given)
    ome = made.attrs["ome"]
    valid_image(made)
    assert [one["datasets"][0]["path"] for one in ome["multiscales"]] == ["max", "mean"]
    for one in ome["multiscales"]:
        assert one["name"] == "scan"
        assert one["axes"] == axes_of(names)
        got = placed(one)
        np.testing.assert_allclose(got[0], scale)
        np.testing.assert_allclose(got[1], first)
        array = made[one["datasets"][0]["path"]]
        assert array.metadata.dimension_names == tuple(names)
        assert array.ndim == len(names)
    told = [one["label"] for one in ome["omero"]["channels"]] if "omero" in ome else None
    assert told == labels


@pytest.mark.parametrize("command", ["project", "reduce"])
def test_a_projection_is_read_as_an_image(tmp_path: Path, here, command: str):
    source, out = scan(tmp_path / "a", "0.5"), tmp_path / "p.zarr"
    place = (out,) if command == "project" else ("--out", out)
    code, _, err = here(command, source, *place, "--op", "max", "--axis", "z")
    assert code == 0, err
    made: Any = pyramid(out / "max", out, 2)
    assert check_ome(made) == ["max", "1", "2"]
    again: Any = project(out / "max", tmp_path / "q.zarr", "max", axis="t")
    np.testing.assert_array_equal(again["max"][...], VALUES.max((0, 2)))
    assert again.attrs["ome"]["multiscales"][0]["axes"] == axes_of("cyx")


def test_transformations_of_all_levels_are_those_of_the_axes_left(tmp_path: Path):
    of_all = [{"type": "scale", "scale": [2, 1, 1, 3, 1]}]
    made: Any = project(scan(tmp_path / "a", coordinateTransformations=of_all), tmp_path / "p",
                        "max", axis="z")  # fmt: skip
    (one,) = made.attrs["ome"]["multiscales"]
    assert one["coordinateTransformations"] == [{"type": "scale", "scale": [2, 1, 3, 1]}]


@pytest.mark.parametrize(
    "given",
    [
        {"axis": ["t", "c", "z", "y"]},
        {"axis": ["z", "y"]},
        {"axis": "z", "selection": (ALL, ALL, ALL, [0, 1, 3])},
        {"axis": ["t"], "by": [0, 1], "by_axis": "t"},
    ],
)
def test_what_is_no_image_is_not_called_one(tmp_path: Path, given: dict[str, Any]):
    made: Any = project(scan(tmp_path / "a"), tmp_path / "p", "max", **given)
    assert "ome" not in made.attrs


def test_an_array_that_no_group_calls_an_image_is_none(tmp_path: Path):
    group = zarr.open_group(str(tmp_path / "a"))
    group.create_array("0", data=VALUES, dimension_names=list("tczyx"))
    made: Any = project(tmp_path / "a/0", tmp_path / "p", "max", axis="z")
    assert "ome" not in made.attrs


def test_metadata_of_which_none_follow_are_left_out_with_a_warning(tmp_path: Path):
    source = scan(tmp_path / "a", transforms=[{"type": "affine", "affine": [[1]]}])
    with pytest.warns(RuntimeWarning, match="OME-Zarr metadata of results are omitted: .*affine"):
        made: Any = project(source, tmp_path / "p", "max", axis="z")
    assert "ome" not in made.attrs
    np.testing.assert_array_equal(made["max"][...], VALUES.max(2))


@pytest.mark.parametrize(
    ("op", "kept"),
    [("max", ["image-label", "omero"]), ("mean", ["omero"]), ("std", []), (["max", "argmax"], [])],
)
def test_channels_and_labels_are_told_of_what_is_measured_as_they_are(tmp_path: Path, op, kept):
    beside = {"omero": {"channels": CHANNELS}, "image-label": {"colors": []}}
    source = scan(tmp_path / "a", beside=beside)
    told: Any = project(source, tmp_path / "p", op, axis="z").attrs["ome"]
    assert sorted({*told} - {"version", "multiscales"}) == kept
