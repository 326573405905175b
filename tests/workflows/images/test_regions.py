"""Regions of a segmentation are what scikit-image says of them, however arrays are cut."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from skimage.measure import regionprops_table

from chunkfold.errors import PlanError
from chunkfold.workflows.images import regions as module
from chunkfold.workflows.images.regions import Regions, regions
from tests.ome_images import axes_of, ome_image

pytestmark = pytest.mark.unoptimised
PROPERTIES = ("label", "area", "centroid", "bbox", "intensity_min", "intensity_max",
              "intensity_mean", "intensity_std")  # fmt: skip


def stored(array: np.ndarray, chunks: Any = None, **given: Any) -> zarr.Array:
    return zarr.create_array(store={}, data=array, chunks=tuple(chunks or array.shape), **given)


def check(found: Regions, labels: np.ndarray, image: np.ndarray, names: str) -> None:
    """Compare with scikit-image, by which all is computed in float64."""
    wanted = regionprops_table(labels, image.astype("f8"), PROPERTIES)
    columns, ndim = found.columns, labels.ndim
    np.testing.assert_array_equal(columns["label"], wanted["label"])
    np.testing.assert_array_equal(columns["area"], wanted["area"])
    for n, name in enumerate(names):
        np.testing.assert_allclose(columns[f"centroid_{name}"], wanted[f"centroid-{n}"])
        np.testing.assert_array_equal(columns[f"start_{name}"], wanted[f"bbox-{n}"])
        np.testing.assert_array_equal(columns[f"stop_{name}"], wanted[f"bbox-{ndim + n}"])
    for name in ("min", "max"):
        np.testing.assert_array_equal(columns[name], wanted[f"intensity_{name}"])
    np.testing.assert_allclose(columns["mean"], wanted["intensity_mean"], rtol=1e-12)
    np.testing.assert_allclose(columns["std"], wanted["intensity_std"], rtol=1e-6, atol=1e-6)


@st.composite
def segmentations(draw: st.DrawFn) -> tuple[np.ndarray, Any, Any]:
    """Return labels with gaps between them, scattered or in patches, and chunks of two arrays."""
    shape = draw(st.lists(st.integers(2, 9), min_size=2, max_size=3).map(tuple))
    known = draw(st.lists(st.integers(1, 70_000), min_size=1, max_size=5, unique=True))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    patch = draw(st.integers(1, 4))
    small = [-(-n // patch) for n in shape]
    values = rng.choice([0, 0, *known], small)
    for axis in range(len(shape)):
        values = values.repeat(patch, axis)
    values = values[tuple(slice(n) for n in shape)].astype(draw(st.sampled_from(["i4", "u8"])))
    chunks = st.tuples(*(st.integers(1, n) for n in shape))
    return values, draw(chunks), draw(chunks)


@pytest.mark.short
@settings(max_examples=15, deadline=None)
@given(segmentations(), st.sampled_from(["u2", "f4"]), st.sampled_from([1 << 24, 40]))
def test_regions_are_those_of_scikit_image(
    made: tuple[np.ndarray, Any, Any], dtype: str, at_once: int
):
    labels, chunks, other = made
    rng = np.random.default_rng(0)
    image = (rng.standard_normal(labels.shape) * 2.0 ** rng.integers(0, 9, labels.shape)).clip(0)
    image = (image * 16).astype(dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "AT_ONCE", at_once)
        found = regions(stored(image, chunks), stored(labels, other))
    if labels.any():
        check(found, labels.astype("i8"), image, "012"[: labels.ndim])
    else:
        assert {len(values) for values in found.columns.values()} == {0}


@pytest.mark.parametrize("dtype", ["i2", "f8"])
def test_sums_are_exact_wherever_the_arrays_are_cut(dtype: str, monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 5, (12, 10)) * 3
    image = rng.standard_normal(labels.shape) * 2.0 ** rng.integers(-40, 40, labels.shape)
    image = rng.integers(-99, 99, labels.shape).astype(dtype) if dtype == "i2" else image
    image = image.astype(dtype)
    whole = regions(stored(image, (5, 10)), stored(labels))
    monkeypatch.setattr(module, "AT_ONCE", 20)
    parts = regions(stored(image, (2, 10)), stored(labels, (7, 3)))
    assert whole.columns.keys() == parts.columns.keys()
    for name, values in whole.columns.items():
        assert values.tobytes() == parts.columns[name].tobytes(), name
    for row, label in enumerate(whole.columns["label"]):
        held = [Fraction(float(x)) for x in image[labels == label]]
        assert whole.columns["sum"][row] == float(sum(held))
        assert whole.columns["mean"][row] == float(sum(held) / len(held))


@pytest.mark.filterwarnings("ignore::chunkfold.errors.NaNWarning")
@pytest.mark.parametrize("at_once", [1 << 24, 12])
def test_missing_elements_are_left_out_on_demand(at_once: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "AT_ONCE", at_once)
    labels = np.repeat([[1, 2], [1, 3]], 6, axis=1)
    image = np.arange(24.0, dtype="f4").reshape(2, 12)
    image[0, :3] = image[0, 6:] = np.nan
    found = regions(stored(image, (1, 12)), stored(labels), skipna=True).columns
    assert found["count"].tolist() == [9, 0, 6]
    assert found["mean"].tolist()[::2] == [np.nanmean(image[:, :6]), image[1, 6:].mean()]
    assert np.isnan([found[name][1] for name in ("min", "max", "mean", "std")]).all()
    plain = regions(stored(image, (1, 12)), stored(labels)).columns
    assert np.isnan(plain["mean"]).tolist() == [True, True, False]
    assert plain["area"].tolist() == [12, 6, 6]


@pytest.mark.parametrize("skipna", [True, False])
@pytest.mark.parametrize("at_once", [1 << 24, 4])
def test_a_table_without_regions_has_all_columns(
    skipna: bool, at_once: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "AT_ONCE", at_once)
    image = stored(np.ones((2, 4, 3), "u1"), (1, 2, 3), dimension_names=["c", "y", "x"])
    some = regions(image, stored(np.eye(4, 3, dtype="i4")), skipna=skipna).columns
    none = regions(image, stored(np.zeros((4, 3), "i4")), skipna=skipna).columns
    assert list(none) == list(some)
    assert {name: len(values) for name, values in none.items()} == dict.fromkeys(some, 0)
    assert [none[name].dtype for name in some][1:] == [each.dtype for each in some.values()][1:]


def test_each_channel_has_columns_and_labels_may_have_axes_of_one_element():
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 4, (4, 6))
    image = rng.integers(0, 99, (2, 4, 3, 6)).astype("u1")
    names = {"dimension_names": ["t", "y", "c", "x"]}
    other = stored(labels[None, :, None], dimension_names=["t", "y", "c", "x"])
    found = regions(stored(image, (1, 2, 3, 6), **names), other).columns
    for t in range(2):
        for c in range(3):
            alone = regions(stored(image[t, :, c]), stored(labels)).columns
            for name in ("min", "max", "sum", "mean", "std"):
                np.testing.assert_array_equal(found[f"{name}_t{t}_c{c}"], alone[name])
    assert {"centroid_y", "centroid_x"} <= found.keys()
    assert not {"centroid_t", "centroid_c"} & found.keys()


def test_physical_areas_are_those_of_the_metadata(tmp_path: Path):
    axes = [{**axis, "unit": "micrometer"} for axis in axes_of("zyx")]
    labels = np.zeros((2, 4, 4), "u2")
    labels[:, 1:3, 1:4] = 7
    scale = [{"type": "scale", "scale": [2.0, 0.5, 0.25]}]
    cells = ome_image(tmp_path / "cells", labels, "0.4", transforms=scale, axes=axes)
    image = ome_image(tmp_path / "image", labels, transforms=scale, axes=axes)
    found = regions(image, cells)
    assert found.unit == "micrometer^3"
    assert found.columns["physical_area"].tolist() == [12 * 0.25]
    assert regions(image, labels).columns["physical_area"].tolist() == [12 * 0.25]
    assert regions(labels, labels).unit is None


@pytest.mark.parametrize(
    ("image", "labels", "told"),
    [
        (np.ones((4, 6)), np.ones((4, 5), int), r"shape \(4, 5\), and .* has \(4, 6\)"),
        (np.ones((4, 6)), np.ones((3, 4, 6), int), "level of the image that was segmented"),
        (np.ones((4, 6)), np.ones((4, 6)), "elements are float64; take integers"),
        (np.ones((4, 6), "c8"), np.ones((4, 6), int), "complex64; take real numbers"),
        (np.float32(3), np.int32(3), "labels must have at least one axis"),
    ],
)
def test_what_does_not_fit_is_refused(image: np.ndarray, labels: np.ndarray, told: str):
    with pytest.raises(PlanError, match=told):
        regions(image, labels)


def test_a_command_writes_the_same_table_in_every_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Callable
):
    monkeypatch.chdir(tmp_path)
    labels = np.random.default_rng(3).integers(0, 9, (20, 30)).astype("u4")
    zarr.save_array("labels.zarr", labels)
    zarr.save_array("image.zarr", labels.astype("f4") / 3)
    columns = regions("image.zarr", "labels.zarr").columns
    printed = command("regions", "image.zarr", "labels.zarr", "-q").stdout
    for out in ("t.csv", "t.parquet", "t.json"):
        command("regions", "image.zarr", "labels.zarr", "--out", out)
    assert Path("t.csv").read_text() == printed
    assert printed.splitlines()[0] == ",".join(columns)
    assert json.loads(Path("t.json").read_text())["regions"]["mean"] == columns["mean"].tolist()
    table = parquet.read_table("t.parquet")
    assert {name: table[name].to_pylist() for name in columns} == {
        name: values.tolist() for name, values in columns.items()
    }
    refused = command("regions", "image.zarr", "labels.zarr", "--out", "t.csv", code=2)
    assert "exists" in refused.stderr
