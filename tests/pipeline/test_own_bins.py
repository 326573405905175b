"""Groups that are bins of the reduced elements themselves: pandas' and NumPy's, in one read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import chunkfold as cf
import chunkfold.xarray  # the accessor
from chunkfold.planning import blocks, planner
from chunkfold.workflows.job.schema import Reduction
from tests.conftest import DEVICES, workers_of
from tests.kernels.catalogue.test_quantiles import elements
from tests.pipeline.test_by import SHAPE, stored

pytestmark = pytest.mark.unoptimised
EDGES = [-3, -0.5, 0, 0.25, 2.5]


@pytest.fixture(autouse=True)
def _small_leaves(monkeypatch):
    """Several leaves to a block, and several blocks."""
    monkeypatch.setattr(planner, "LEAF_BYTES", 2048)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", (4096, 8192))


def codes_of(x: np.ndarray, edges: Any, *, right: bool = False) -> np.ndarray:
    """Return the number of each element's bin, -1 of none, by pandas."""
    flat = pd.Series(x.reshape(-1).astype("f4" if x.dtype == "f2" else x.dtype))
    return pd.cut(flat, edges, right=right, labels=False).fillna(-1).to_numpy(int).reshape(x.shape)


@settings(max_examples=5, deadline=None, phases=[Phase.generate])
@given(st.data())
def test_they_are_pandas_of_any_dtype_and_axes(data: st.DataObject):
    dtype = data.draw(st.sampled_from(["f4", "f8", "f2", "i2", "u1", "i8"]))
    x = elements(dtype, SHAPE) if dtype[0] == "f" else elements("f4", SHAPE, odd=False)
    x = (x if dtype[0] == "f" else np.clip(x * 3, 0, 9)).astype(dtype)
    if dtype[0] == "f":
        x[4, 5] = np.nan
    right, axis = data.draw(st.booleans()), data.draw(st.sampled_from([None, (0, 2), (1, 2)]))
    edges = EDGES if dtype[0] == "f" else [-2.5, 1, 2, 4.5]
    chunks = data.draw(st.tuples(*(st.integers(2, n) for n in SHAPE)))
    by = cf.bins(edges, right=right)
    got = cf.reduce(stored(x, chunks), ["count", "max", "sum"], axis=axis, by=by, dtype="f8")
    codes, axes = codes_of(x, edges, right=right), axis or (0, 1, 2)
    at = sum(n < axes[0] for n in range(3) if n not in axes)
    for n in range(len(edges) - 1):
        held = codes == n
        wide = x.astype("f8")
        for op, want in [
            ("count", held.sum(axis=axis)),
            ("max", wide.max(axis=axis, where=held, initial=-np.inf)),
        ]:
            mine = np.take(got[op].values, n, axis=at)
            some = held.any(axis=axis)
            np.testing.assert_array_equal(mine[some], want[some])
        sums = np.take(got["sum"].values, n, axis=at)
        with np.errstate(invalid="ignore"):
            np.testing.assert_allclose(sums, wide.sum(axis=axis, where=held), atol=1e-9)


def test_masks_weights_gaps_selections_and_a_second_source_go_with_them():
    x, w = elements("f4", SHAPE, odd=False), np.arange(1.0, SHAPE[2] + 1)
    mask = np.random.default_rng(0).random(SHAPE[1:]) < 0.5
    given = {"by": cf.bins(EDGES), "selection": np.s_[20:1:-1], "where": (mask, "x > -1")}
    got = cf.reduce(stored(x), ["mean"], weights=w, **given)["mean"]
    cut = x[20:1:-1].astype("f8")
    kept, codes = mask & (cut > -1), codes_of(x[20:1:-1], EDGES)
    wide = np.broadcast_to(w, cut.shape)
    pair = cf.reduce((stored(x), stored(np.ones_like(x))), "dot", by=cf.bins(EDGES))
    for n in range(len(EDGES) - 1):
        held = kept & (codes == n)
        np.testing.assert_allclose(got.values[n], np.average(cut[held], weights=wide[held]))
        np.testing.assert_allclose(pair.values[n], x[codes_of(x, EDGES) == n].sum(), rtol=1e-4)


def test_chunks_that_are_not_stored_count_as_fill_and_packed_values_as_what_they_say():
    array = zarr.create_array(store={}, shape=(40, 6), chunks=(5, 3), dtype="i2", fill_value=7)
    array[:10] = np.arange(60).reshape(10, 6)
    counts = cf.reduce(array, "count", by=cf.bins([0, 7, 8, 60]))
    assert counts.values.tolist() == [7, 1 + 180, 52]
    array.attrs.update(scale_factor=0.5, _FillValue=9)
    counts = cf.reduce(array, "count", by=cf.bins([0, 3.5, 4, 4.5, 5]), mask_and_scale=True)
    assert counts.values.tolist() == [7, 1 + 180, 1, 0]


def test_times_have_bins_of_dates():
    days = np.arange("2001-01-01", "2001-03-01", dtype="M8[D]").astype("M8[s]")
    days[5] = "NaT"
    got = cf.reduce(days, "count", by=cf.bins(["2001-01-01", "2001-02-01", "2001-02-10"]))
    assert got.values.tolist() == [30, 9]


def test_workers_dask_and_xarray_call_them_as_xarray_does(tmp_path: Path):
    x = elements("f4", SHAPE, odd=False)
    zarr.create_array(tmp_path / "x.zarr", data=x, chunks=(5, 3, 4))
    want = [int((codes_of(x, EDGES) == n).sum()) for n in range(4)]
    with (
        cf.LocalOpenCLCluster(workers_of(DEVICES[0], 2), dashboard_address=None) as cluster,
        cluster.get_client() as client,
    ):
        run = cf.submit(tmp_path / "x.zarr", "count", by=cf.bins(EDGES), client=client)
        assert run.labelled().values.tolist() == want
        assert sum(entry.nbytes for entry in run.profile.values()) == x.nbytes
        dask = cf.reduce(da.from_array(x, (5, 3, 9)) + 0, "count", by=cf.bins(EDGES), client=client)
    assert dask.values.tolist() == want
    held = xr.DataArray(x, dims=("t", "y", "x"), name="air")
    one = held.chunkfold.count(by=cf.bins(EDGES, right=True))
    other = held.groupby_bins(held, EDGES).count()
    assert one.dims == ("air_bins",)
    np.testing.assert_array_equal(one.values, other.values)
    assert one.indexes["air_bins"].equals(other.indexes["air_bins"])
    several = xr.Dataset({"air": held, "sea": held * 2}).chunkfold.count(by=cf.bins(EDGES))
    assert several.air.values.tolist() == want
    assert several.sea.values.sum() < several.air.values.sum()


def test_the_shell_and_job_files_have_them(tmp_path: Path, command: Callable):
    x = elements("f4", SHAPE, odd=False)
    zarr.save_array(tmp_path / "x.zarr", x)
    want = [int((codes_of(x, EDGES) == n).sum()) for n in range(4)]
    words = ("--op", "count", "--bins=-3,-0.5,0,0.25,2.5", "--json", "--quiet")
    told = json.loads(command("reduce", tmp_path / "x.zarr", *words).stdout)
    assert told["results"]["count"] == want
    for bins in ([-3, -0.5, 0, 0.25, 2.5], "-3,-0.5,0,0.25,2.5"):
        by = Reduction(statistics=["count"], bins=bins).library["by"]
        assert cf.reduce(x, "count", by=by).values.tolist() == want
    assert "by the elements' own values: 4 acc" in str(
        cf.plan(str(tmp_path / "x.zarr"), "count", by=cf.bins(EDGES))
    )


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"by": (cf.bins(EDGES), np.zeros(23, int))}, "own elements must be the only label, but 2"),
        ({"op": "median"}, "median of .* needs several reads, but groups by bins of its own"),
        ({"by": cf.bins(np.array(["2001", "2002"], "M8[D]"))}, "edges of datetime64.*are float32"),
        ({"axis": ()}, "groups are made along reduced axes, but no axis is"),
        ({"groups": [1]}, r"groups is \[1\], but bins of the elements themselves"),
        ({"by_axis": 0}, "by_axis is 0, but bins of the elements themselves"),
    ],
)
def test_what_is_no_group_is_refused(given: dict[str, Any], says: str):
    with pytest.raises(cf.ChunkfoldError, match=says):
        cf.reduce(stored(elements("f4", SHAPE)), **{"op": "sum", "by": cf.bins(EDGES), **given})
