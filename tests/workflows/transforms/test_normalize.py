"""Normalized channels have the mean and spread that they should, for any chunks."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zarr

from chunkfold.errors import ChunkError, PlanError
from chunkfold.workflows.images.ome_channels import omero_of
from chunkfold.workflows.transforms.normalize import apply, normalization
from tests.ome_images import ome_image, valid_image
from tests.workflows.test_cli import interrupted_once

pytestmark = pytest.mark.unoptimised


@pytest.fixture
def images(tmp_path: Path) -> tuple[Path, np.ndarray]:
    """Images by their number, channel, row, column; the third channel is the same everywhere."""
    rng = np.random.default_rng(0)
    values = rng.normal([[[[3]], [[50]], [[7]]]], [[[[1]], [[20]], [[0]]]], (12, 3, 16, 16))
    made = zarr.create_array(
        str(tmp_path / "images.zarr"), shape=values.shape, chunks=(5, 2, 16, 16), dtype="f4",
        shards=(5, 4, 16, 16), dimension_names=("image", "channel", "y", "x"),
    )  # fmt: skip
    made[...] = values
    return tmp_path / "images.zarr", values.astype("f4")


def test_interrupted_it_leaves_nothing(tmp_path: Path):
    """Tasks that write go on for a moment when they are cancelled, and would make folders again."""
    source = zarr.create_array(
        str(tmp_path / "a.zarr"), shape=(64, 512, 512), chunks=(1, 128, 512), dtype="i4"
    )
    source[...] = np.random.default_rng(0).integers(-1000, 1000, source.shape)
    words = ["normalize", f"{tmp_path}/a.zarr", "--apply", f"{tmp_path}/b.zarr", "-q"]
    interrupted_once(words, lambda _: list(tmp_path.glob(".b.zarr.*/b.zarr/zarr.json")))
    time.sleep(1)
    assert [path.name for path in tmp_path.iterdir()] == ["a.zarr"]


def test_channels_become_comparable(images, tmp_path: Path):
    source, values = images
    found = normalization(source, channels=1)
    wide = values.astype("f8")
    np.testing.assert_allclose(found.offset, wide.mean(axis=(0, 2, 3)), rtol=1e-6)
    assert found.scale[2] == 1
    made = apply(source, found, tmp_path / "scaled.zarr")
    assert (made.chunks, made.shards, made.dtype) == ((5, 2, 16, 16), (5, 4, 16, 16), "f4")
    assert made.metadata.dimension_names == ("image", "channel", "y", "x")
    assert made.attrs["chunkfold"]["offset"] == found.offset.tolist()
    scaled = made[...].astype("f8")
    np.testing.assert_allclose(scaled.mean(axis=(0, 2, 3)), 0, atol=1e-6)
    np.testing.assert_allclose(scaled.std(axis=(0, 2, 3)), [1, 1, 0], atol=1e-6)


def test_by_extremes_they_fill_the_unit_interval(images, tmp_path: Path):
    source, _ = images
    found = normalization(source, channels=-3, by="min-max")
    made = apply(source, found, tmp_path / "scaled.zarr", "float64")[...]
    assert made[:, :2].min(axis=(0, 2, 3)).tolist() == [0, 0]
    assert made[:, :2].max(axis=(0, 2, 3)).tolist() == [1, 1]
    assert not made[:, 2].any()


def test_without_channels_the_array_is_one(images):
    source, values = images
    found = normalization(source, by="min-max")
    assert found.channels is None
    assert found.offset.tolist() == [values.min()]
    assert found.scale.tolist() == [values.max().astype("f8") - values.min().astype("f8")]


@pytest.mark.parametrize("dtype", ["u2", "f4"])
@pytest.mark.parametrize(("low", "high"), [(None, None), (5, 62.5), (0, 100)])
def test_percentiles_are_those_of_numpy(dtype: str, low: float | None, high: float | None):
    values = np.random.default_rng(5).gamma(3, 200, (3, 50, 40)).astype(dtype)
    given = zarr.create_array({}, data=values, chunks=(1, 20, 40))
    found = normalization(given, channels=0, by="percentiles", low=low, high=high)
    bounds = np.percentile(values, [1 if low is None else low, high or 99.8], axis=(1, 2))
    np.testing.assert_allclose(found.offset, bounds[0], rtol=1e-6)
    np.testing.assert_allclose(found.offset + found.scale, bounds[1], rtol=1e-6)


def test_channels_along_several_axes_are_normalized_each_by_itself(images, tmp_path: Path):
    source, values = images
    found = normalization(source, channels=["channel", 0], by="min-max")
    assert (found.channels, found.offset.shape) == ((0, 1), (12, 3))
    np.testing.assert_array_equal(found.offset, values.min(axis=(2, 3)))
    made = apply(source, found, tmp_path / "scaled.zarr", "float64")
    low, high = (values.astype("f8").min((2, 3), keepdims=True) for values in (values, -values))
    np.testing.assert_array_equal(
        made[...], (values - low) / np.where(low == -high, 1, -high - low)
    )
    assert made.attrs["chunkfold"]["channels"] == [0, 1]


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_windows_of_channels_are_the_bounds_and_the_rest_stays(
    tmp_path: Path, version: str, command: Callable
):
    values = np.random.default_rng(6).integers(9, 999, (2, 3, 16, 16)).astype("u2")
    channels = [{"color": f"00000{n}", "label": f"dye {n}", "window": {"min": 0}} for n in range(3)]
    scale = [{"type": "scale", "scale": [2.0, 1.0, 0.5, 0.25]}]
    ome_image(tmp_path / "i", values, version, names="tcyx", transforms=scale,
              beside={"omero": {"channels": channels, "rdefs": {"model": "color"}}})  # fmt: skip
    words = ("normalize", tmp_path / "i", "--channels", "t,c", "--by", "percentiles", "--low", 2)
    told = json.loads(command(*words, "--omero", "--apply", tmp_path / "o.zarr").stdout)
    assert told["omero"]["rdefs"] == {"model": "color"}
    assert "omero" not in json.loads(command(*words).stdout)
    low, high = np.percentile(values, [2, 99.8], axis=(2, 3))
    for n, one in enumerate(told["omero"]["channels"]):
        window = one.pop("window")
        assert (window["min"], window["max"]) == (0, 65535)
        np.testing.assert_allclose(
            [window["start"], window["end"]], [low[:, n].min(), high[:, n].max()]
        )
        assert one == {"active": True, **{key: channels[n][key] for key in ("color", "label")}}
    made = valid_image(zarr.open_group(str(tmp_path / "o.zarr"), mode="r"))
    (multiscale,) = made.attributes.ome.multiscales
    assert multiscale.datasets[0].coordinateTransformations[0].scale == [2.0, 1.0, 0.5, 0.25]
    windows = [one["window"] for one in made.attributes.ome.omero["channels"]]
    assert {(one["start"], one["end"]) for one in windows} == {(0, 1)}
    scaled = zarr.open_array(str(tmp_path / "o.zarr" / "0"), mode="r")[...]
    np.testing.assert_allclose(min(one["min"] for one in windows), scaled.min(), rtol=1e-6)
    np.testing.assert_allclose(max(one["max"] for one in windows), scaled.max(), rtol=1e-6)
    with pytest.raises(PlanError, match="take by='percentiles' or 'min-max', and extremes"):
        omero_of(tmp_path / "i", normalization(tmp_path / "i", channels="c"))
    refused = command("normalize", tmp_path / "i", "--omero", code=2)
    assert "give --by percentiles, or min-max" in " ".join(refused.stderr.split())


def test_bad_input_leaves_nothing(images, tmp_path: Path):
    source, _ = images
    before = set(tmp_path.iterdir())
    with pytest.raises(PlanError, match="by is 'median'"):
        normalization(source, by="median")
    with pytest.raises(PlanError, match="axis 4"):
        normalization(source, channels=4)
    with pytest.raises(PlanError, match="cannot hold normalized values"):
        apply(source, normalization(source), tmp_path / "i.zarr", "int8")
    with pytest.raises(PlanError, match="'sandwich' cannot hold"):
        apply(source, normalization(source), tmp_path / "i.zarr", "sandwich")
    with pytest.raises(PlanError, match="twice"):
        normalization(source, channels=[0, 0])
    with pytest.raises(PlanError, match="low is 60 and high is 40"):
        normalization(source, by="percentiles", low=60, high=40)
    with pytest.raises(PlanError, match="percentiles, but by is 'min-max'"):
        normalization(source, by="min-max", low=1)
    with pytest.raises(PlanError, match="OME-Zarr images have 2 to 5"):
        apply(source, normalization(source), tmp_path / "o.zarr", omero=True)
    found, other = normalization(source, channels=1), zarr.create_array({}, data=np.zeros((2, 4)))
    with pytest.raises(PlanError, match="is of 3 channels along axis 1"):
        apply(other, found, tmp_path / "o.zarr")
    with pytest.raises(PlanError, match=r"datetime64\[s\] cannot be normalized"):
        normalization(zarr.create_array({}, data=np.zeros(3, "M8[s]")), by="min-max")
    assert set(tmp_path.iterdir()) == before


def test_what_is_no_number_is_not_applied(tmp_path: Path, here):
    values = np.arange(8, dtype="f4").reshape(2, 4)
    values[1, 2] = np.nan
    made = zarr.create_array(str(tmp_path / "a.zarr"), data=values)
    out = tmp_path / "out.zarr"
    words = ("normalize", tmp_path / "a.zarr", "--channels", "0", "--apply", out)
    for more, why in (
        ((), "the offset of 1 of 2 channels is not finite: there are NaN, which skipna"),
        (
            ("--skipna", "--ddof", "3"),
            "the scale of 1 of 2 channels is not finite: there are no more values",
        ),
    ):
        code, _, said = here(*words, *more)
        assert code == 2
        assert why in " ".join(said.split())
        assert not out.exists()
    apply(made, normalization(made, channels=0, skipna=True), out)
    assert np.isnan(zarr.open_array(out)[...]).sum() == 1


def test_short_floats_have_long_means():
    found = normalization(zarr.create_array({}, data=np.array([2**24, 2**24 + 2], "f4")))
    assert found.offset.tolist() == [2**24 + 1]


@pytest.mark.parametrize("by", ["mean-std", "min-max"])
def test_packed_values_are_normalized_as_floats_would_be(by: str, tmp_path: Path):
    rng = np.random.default_rng(1)
    numbers = rng.integers(-300, 300, (3, 40, 7)).astype(">i2")
    numbers[rng.random(numbers.shape) < 0.1] = -32767
    attributes = {"scale_factor": -0.01, "add_offset": 273.15, "_FillValue": -32767}
    packed = zarr.create_array({}, data=numbers, chunks=(2, 9, 7), attributes=attributes)
    values = np.where(numbers == -32767, np.nan, numbers.astype("f8") * -0.01 + 273.15)
    floats = zarr.create_array({}, data=values, chunks=(3, 40, 7))
    found = normalization(packed, channels=0, by=by, skipna=True, mask_and_scale=True)
    plain = normalization(floats, channels=0, by=by, skipna=True)
    assert found.offset.tolist() == plain.offset.tolist()
    assert found.scale.tolist() == plain.scale.tolist()
    made = apply(packed, found, tmp_path / "packed.zarr")
    np.testing.assert_array_equal(made[...], apply(floats, plain, tmp_path / "floats.zarr")[...])
    assert np.isnan(made[...]).sum() == (numbers == -32767).sum()
    assert made.attrs["chunkfold"]["mask_and_scale"]
    assert "scale_factor" not in made.attrs


def test_nothing_stays_of_what_cannot_be_written(images, tmp_path: Path):
    source, _ = images
    found, before = normalization(source), set(tmp_path.iterdir())
    (source / "c/1/0/0/0").write_bytes(b"spoiled")
    with pytest.raises(
        ChunkError, match=r"images\.zarr: \[5:10, 0:3, 0:16, 0:16\] cannot be read, or not written"
    ):
        apply(source, found, tmp_path / "o.zarr")
    assert set(tmp_path.iterdir()) == before


def test_the_command_prints_json_and_writes(images, tmp_path: Path, command: Callable):
    source, values = images
    words = ("normalize", source, "--channels", 1, "--apply", tmp_path / "out.zarr", "--quiet")
    told = json.loads(command(*words).stdout)
    assert (told["channels"], told["by"]) == (1, "mean-std")
    assert len(told["mean"]) == len(told["std"]) == 3
    offset, scale = (np.array(told[name])[:, None, None] for name in ("offset", "scale"))
    made = zarr.open_array(str(tmp_path / "out.zarr"), mode="r")[...]
    np.testing.assert_array_equal(made, ((values - offset) / scale).astype("f4"))
