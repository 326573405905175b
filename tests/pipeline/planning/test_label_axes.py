"""Labels are laid along the axes that they have; along others they are the same for all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr

import chunkfold as cf
from chunkfold.errors import PlanError
from tests.ome_images import ome_image

pytestmark = pytest.mark.unoptimised
RNG = np.random.default_rng(0)
VALUES = RNG.integers(0, 99, (2, 3, 4, 5)).astype("u2")
CELLS = RNG.integers(0, 4, (1, 3, 4, 5)).astype("u2")
WANT = np.array([[VALUES[c][CELLS[0] == label].max() for label in (1, 2, 3)] for c in (0, 1)])


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_labels_of_one_channel_are_those_of_all_channels(tmp_path: Path, version: str):
    source = ome_image(tmp_path / "a.zarr", VALUES, version)
    labels = ome_image(tmp_path / "a.zarr/labels/cells", CELLS, version, name="nuclei")
    found = cf.reduce(source, "max", axis=["z", "y", "x"], by=labels, groups=[1, 2, 3], labels=True)
    np.testing.assert_array_equal(found, WANT)
    assert found.dims == ("c", "nuclei")
    all_channels = cf.reduce(source, "max", by=labels, groups=[1, 2, 3])
    np.testing.assert_array_equal(all_channels, WANT.max(0))


@pytest.mark.parametrize(
    ("by", "by_axis"),
    [
        (CELLS, None),
        (CELLS, [0, 1, 2, 3]),
        (xr.DataArray(CELLS, dims=list("czyx")), None),
        (xr.DataArray(CELLS[0][None], dims=list("tzyx")), None),
        (xr.DataArray(CELLS.transpose(3, 0, 2, 1), dims=list("xcyz")), None),
    ],
)
def test_axes_of_one_element_are_broadcast(by: Any, by_axis: Any):
    data = xr.DataArray(VALUES, dims=list("czyx"))
    given = {"axis": ["z", "y", "x"], "by": by, "groups": [1, 2, 3]}
    if by_axis:
        given["axis"] = None
        got = cf.reduce(VALUES, "max", by_axis=by_axis, **given)
        np.testing.assert_array_equal(got, WANT.max(0))
    else:
        np.testing.assert_array_equal(cf.reduce(data, "max", **given), WANT)


@pytest.mark.parametrize("shape", [(1,), (1, 1), (4, 2), (2, 1)])
def test_labels_that_fit_no_axis_are_refused(shape: tuple[int, ...]):
    with pytest.raises(PlanError, match="none of its axes have this shape"):
        cf.reduce(np.ones((4, 5)), by=np.zeros(shape, int))
    dims = [*"yx"][: len(shape)]
    with pytest.raises(PlanError, match="labels have shape"):
        cf.reduce(xr.DataArray(np.ones((3, 5)), dims=["y", "x"]),
                  by=xr.DataArray(np.zeros(shape, int), dims=dims))  # fmt: skip


@pytest.mark.parametrize(
    ("path", "name", "called"),
    [
        ("labels/cells", None, "cells"),
        ("labels/cells", "nuclei", "nuclei"),
        ("labels/cells", "/labels/nuclei", "nuclei"),
        ("labels/cells", "0", "cells"),
        ("labels", None, "labels"),
        ("7", None, "a"),
    ],
)
def test_groups_are_called_as_the_image_of_labels(
    tmp_path: Path, path: str, name: str | None, called: str
):
    said = {} if name is None else {"name": name}
    labels = ome_image(tmp_path / "a.zarr" / path, CELLS[0], "0.4", **said)
    for by in (labels, zarr.open_array(str(labels), mode="r")):
        assert cf.reduce(VALUES[0], by=by, labels=True).dims == (called,)
    del zarr.open_group(str(labels.parent)).attrs["multiscales"]
    own = {"nuclei": "cells"}.get(called, called)
    assert cf.reduce(VALUES[0], by=labels, labels=True).dims == (own,)


def test_arrays_of_labels_have_names_of_their_own(tmp_path: Path):
    group = zarr.open_group(str(tmp_path / "a.zarr"))
    for path, called in (("zones", "zones"), ("b/zones", "zones"), ("a+b", "group")):
        array = group.create_array(path, data=CELLS[0])
        assert cf.reduce(VALUES[0], by=array, labels=True).dims == (called,)
    two = (ome_image(tmp_path / "b/one", CELLS[0]), ome_image(tmp_path / "b/two", CELLS[0] % 2))
    assert cf.reduce(VALUES[0], by=two, labels=True).dims == ("one", "two")
