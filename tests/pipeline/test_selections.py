"""Selections of every form: NumPy's values and positions, from the chunks that have them alone."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkfold as cf
from tests.pipeline.sources.test_contract import entries
from tests.pipeline.test_reduce import selected

pytestmark = pytest.mark.unoptimised

SHAPE, CHUNKS, DIMS = (12, 9, 10), (5, 4, 10), ("time", "lat", "lon")
DATA = np.random.default_rng(0).integers(0, 20, SHAPE).astype("i4")
"""Few values: their positions are of several elements, of which the first counts."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("a") / "a.zarr"
    made = {"data": (DIMS, DATA), "area": (("lat", "lon"), np.ones((9, 10)))}
    coords = {
        "time": np.arange(12) * 2.0, "lat": 40.0 - np.arange(9) * 10, "lon": np.arange(10) * 36,
        "height": (("lat", "lon"), np.arange(90.0).reshape(9, 10)),
    }  # fmt: skip
    xr.Dataset(made, coords).to_zarr(path, encoding={"data": {"chunks": CHUNKS}})
    return path


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 2)])
@settings(max_examples=8)
@given(data=st.data())
def test_values_and_positions_are_those_of_numpy(axis: Any, data: st.DataObject, store: Path):
    selection = tuple(data.draw(entries(size)) for size in SHAPE)
    want = selected(DATA, selection)
    if not want.size:
        return
    ops = ["sum", "max"] if isinstance(axis, tuple) else ["sum", "max", "argmin", "argmax"]
    found = cf.reduce(store / "data", ops, axis=axis, selection=selection)
    for op in ops:
        np.testing.assert_array_equal(found[op], getattr(want, op)(axis), str((op, selection)))
    sums = cf.reduce(store / "data", axis=axis, selection=selection)  # without positions to keep
    np.testing.assert_array_equal(sums, want.sum(axis))


@pytest.mark.parametrize(
    "selection",
    [
        ([9, 0, 4, 4], slice(None), slice(None)),
        (slice(None, None, -2), slice(7, 2, -1), 3),
        (slice(None), np.arange(9) % 2 == 0, [1, -1]),
        (5, [], slice(None)),
        (range(9, 2, -3), np.array([2], np.uint8), np.array(-1)),
    ],
)
def test_what_goes_along_the_data_is_of_the_places_before_a_selection(selection, store: Path):
    rng = np.random.default_rng(1)
    weights, mask = rng.integers(1, 5, (9, 10)), rng.random(SHAPE) < 0.7
    held = xr.open_zarr(store, chunks=None)["data"]
    x, kept, w = (selected(a, selection) for a in (DATA, mask, np.broadcast_to(weights, SHAPE)))
    given = {"selection": selection, "where": mask, "weights": weights, "allow_empty": True}
    wanted = (x * w * kept).sum()
    assert cf.reduce(store / "data", **given) == wanted
    assert cf.reduce(DATA, **given) == wanted
    labelled = {**given, "weights": xr.DataArray(weights, dims=DIMS[1:])}
    assert cf.reduce(held, **labelled).item() == wanted


def test_groups_are_of_the_places_before_a_selection(store: Path):
    by, places = np.random.default_rng(1).integers(0, 3, 12), [9, 0, 4, 4]
    selection = (places, slice(None, None, -1))
    given = {"by": by, "by_axis": "time", "groups": [0, 1, 2], "selection": selection}
    found = cf.reduce(store / "data", ["sum", "argmax"], axis="time", **given)
    x, labels = selected(DATA, selection), by[places]
    for n in range(3):
        np.testing.assert_array_equal(found["sum"].values[n], x[labels == n].sum(0))
    there = np.flatnonzero(labels == labels[2])
    np.testing.assert_array_equal(found["argmax"].values[labels[2]], there[x[there].argmax(0)])


@pytest.mark.parametrize("kind", ["path", "lazy", "dask", "memory"])
def test_labels_are_those_selected_in_the_order_of_the_selection(kind: str, store: Path):
    selection = ([9, 0, 4], slice(None, None, -1), [True] * 4 + [False] * 6)
    ds = xr.open_zarr(store, chunks={} if kind == "dask" else None)
    source: Any = store / "data" if kind == "path" else ds["data"]
    source = source.load() if kind == "memory" else source
    want = ds["data"].isel(time=[9, 0, 4], lat=slice(None, None, -1), lon=slice(4)).max("lon")
    found = cf.reduce(source, "max", axis="lon", selection=selection, labels=True)
    found = found.to_xarray() if isinstance(found, cf.Result) else found
    xr.testing.assert_equal(found.drop_vars("height", errors="ignore"), want)
    with_height = cf.reduce(store / "data", "max", axis="time", selection=selection, labels=True)
    height = selected(np.arange(90.0).reshape(9, 10), selection[1:])
    np.testing.assert_array_equal(with_height.to_xarray()["height"], height)


@pytest.mark.parametrize(
    "isel",
    [
        {"time": [9, 0, 4]},
        {"time": slice(None, None, -1), "lat": [3, 3, 1]},
        {"lat": np.arange(9) > 4, "lon": 3},
    ],
)
def test_what_xarray_picked_is_read_from_the_store_and_selected_again(isel, store: Path):
    array = xr.open_zarr(store, chunks=None)["data"].isel(isel)
    again = tuple([0, 0, -1] if size > 1 else slice(None) for size in array.shape)
    plan = cf.plan(array, selection=again)
    assert plan.sources[0].kind == "decoded in place"
    want = selected(array.values, again)
    np.testing.assert_array_equal(cf.reduce(array, "sum", axis=0, selection=again), want.sum(0))
    assert cf.reduce(array, "argmin", selection=again).item() == want.argmin()


@pytest.mark.parametrize(
    ("selection", "rows"),
    [
        ([11, 0, 0], {0, 2}),
        (slice(None, None, -6), {1, 2}),
        ([10], {2}),
        (np.arange(12) > 9, {2}),
        ([], set()),
    ],
)
def test_chunks_that_are_not_selected_are_neither_read_nor_counted(
    selection: Any, rows: set[int], tmp_path: Path
):
    made = zarr.create_array(tmp_path / "a", shape=SHAPE, chunks=CHUNKS, dtype="i4")
    made[...] = DATA
    want = selected(DATA, (selection,)).sum((1, 2))
    for row in {0, 1, 2} - rows:
        for damaged in (tmp_path / "a" / "c" / str(row)).glob("**/0"):
            if damaged.is_file():
                damaged.write_bytes(b"damaged")
    options: Any = {"selection": selection, "allow_empty": True}
    np.testing.assert_array_equal(cf.reduce(made, axis=(1, 2), **options), want)
    plan = cf.plan(made, axis=(1, 2), **options)
    assert plan.scan.nbytes == want.size * 9 * 10 * 4
    shutil.rmtree(tmp_path / "a" / "c")
    counts = (3 * len(rows),) * 2
    assert list(cf.plan(made, **options).missing.values()) == [counts]


def test_a_shuffled_axis_is_read_once_and_repeats_are_within_the_bound():
    asked = np.zeros(60, int)

    class Counting:
        shape, dtype, chunks = (60, 4), np.dtype("f4"), ((10,) * 6, (4,))

        def __getitem__(self, region: Any) -> np.ndarray:
            asked[region[0]] += 1
            return np.arange(240, dtype="f4").reshape(60, 4)[region]

    order = np.random.default_rng(0).permutation(60)
    for axis in (1, 0):  # that is kept, and reduced
        asked[:] = 0
        found = cf.reduce(Counting(), "sum", axis=axis, selection=(order,))
        want = np.arange(240, dtype="f4").reshape(60, 4)[order].sum(axis)
        np.testing.assert_array_equal(found, want)
        assert asked.max() == 1
    plan = cf.plan(Counting(), selection=([3] * 10_000,))
    assert plan.layout.leaves > 100  # each is as large as if nothing was picked twice
    assert plan.scan.leaf_bytes <= 2 * 240 * 4
    assert cf.reduce(Counting(), selection=([3] * 10_000,)) == np.arange(12, 16).sum() * 10_000


def test_what_is_kept_or_read_again_is_of_the_same_elements(store: Path):
    selection = ([9, 0, 4, 4, 11], slice(None, None, -1), [3, 3, 8])
    x = selected(DATA, selection)
    for axis in (0, None):
        found = cf.reduce(store / "data", ["median", "argmin"], axis=axis, selection=selection)
        np.testing.assert_array_equal(found["median"], np.median(x, axis))
        np.testing.assert_array_equal(found["argmin"], x.argmin(axis))
