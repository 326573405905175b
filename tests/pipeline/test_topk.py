"""The first elements in order, of chunked arrays: in one read, with all else that there is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import chunkfold as cf
from chunkfold.errors import MonoidError, PlanError
from chunkfold.planning import blocks, planner
from tests.conftest import DEVICES, workers_of
from tests.kernels.catalogue.test_topk import assert_first, ordered, rows_of, sample
from tests.pipeline.test_by import SHAPE, stored

pytestmark = pytest.mark.unoptimised


@pytest.fixture(autouse=True)
def _small_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several leaves to a block, and several blocks."""
    monkeypatch.setattr(planner, "LEAF_BYTES", 2048)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", (4096, 8192))


@settings(max_examples=8, deadline=None, phases=[Phase.generate])
@given(st.data())
def test_they_are_numpys(data: st.DataObject):
    """In any chunks, over any axes, of any selection."""
    x = sample(data.draw(st.sampled_from(["f4", "i2", "f8"])), SHAPE)
    chunks = data.draw(st.tuples(*(st.integers(2, n) for n in SHAPE)))
    cut, axes = data.draw(st.sampled_from([(np.s_[:], (0, 1, 2)), (np.s_[3:20:2], (0, 2))]))
    end = data.draw(st.sampled_from(["top", "bottom"]))
    ops = [f"{end}3", f"arg{end}3", "mean"]
    got = cf.reduce(stored(x, chunks), ops, axis=axes, selection=cut)
    assert_first(got[ops[0]], got[ops[1]], rows_of(x[cut], axes), 3, end)


def test_groups_masks_conditions_and_gaps_leave_elements_out():
    """Positions are among all elements that are reduced; NaN and -1 stand behind too few."""
    x, labels = sample("f4", SHAPE), np.arange(SHAPE[0]) % 3
    labels[labels == 2] = 5
    mask = np.random.default_rng(0).random(SHAPE[1:]) < 0.4
    there = mask & (x > 20) & ~np.isnan(x)
    got = cf.reduce(
        stored(x), ["nantop4", "nanargtop4"], axis=(0, 1), by=labels, by_axis=0,
        where=(mask, lambda x: x > 20),
    )  # fmt: skip
    values, where = got["nantop4"].values, got["nanargtop4"].values
    assert np.isnan(values).any()
    for group, label in enumerate((0, 1, 5)):
        kept = there & (labels == label)[:, None, None]
        rows, some = rows_of(x, (0, 1)), rows_of(kept, (0, 1))
        for n, (row, keeps) in enumerate(zip(rows, some, strict=True)):
            at = np.flatnonzero(keeps)
            first = at[ordered(row[at], greatest=True)][:4]
            wanted = np.full(4, -1)
            wanted[: len(first)] = first
            assert where[group, n].tolist() == wanted.tolist()
            np.testing.assert_array_equal(
                values[group, n], np.where(wanted < 0, np.nan, row[wanted])
            )


def test_integers_of_too_few_are_refused():
    """They have no NaN; floats do, and `min_count` asks for it."""
    x = np.arange(60, dtype="i4").reshape(12, 5)
    with pytest.raises(MonoidError, match="fewer than 3 elements remain, as in 5 of 5 output"):
        cf.reduce(stored(x, (5, 3)), "top3", axis=0, where=lambda x: x > 55)
    with pytest.raises(MonoidError, match="fewer than 3 elements remain"):
        cf.reduce(stored(x, (5, 3)), "top3", axis=0, by=np.arange(12) // 11, by_axis=0)
    got = cf.reduce(stored(x, (5, 3)), "top3", where=lambda x: x > 57, dtype="f8")
    np.testing.assert_array_equal(got, [59, 58, np.nan])
    got = cf.reduce(stored(x, (5, 3)), "bottom16", axis=0, min_count=1, dtype="f4")
    np.testing.assert_array_equal(got[:, 11:], [[n, *[np.nan] * 4] for n in range(55, 60)])


def test_more_than_are_reduced_is_refused_before_anything_is_read():
    x = stored(sample("f4", SHAPE))
    with pytest.raises(PlanError, match=r"top9 takes 9 elements for each result, and .* has 8"):
        cf.plan(x, "top9", axis=1)
    with pytest.raises(PlanError, match=r"argbottom5 takes 5 elements .* has 4"):
        cf.plan(x, "argbottom5", coarsen={1: 4})
    with pytest.raises(MonoidError, match="k of topk is 17; give an integer from 1 to 16"):
        cf.plan(x, "top17")
    assert cf.reduce(x, "top4", coarsen={1: 4}).shape == (23, 2, 9, 4)


def test_chunks_that_are_not_stored_count_as_fill():
    array = zarr.create_array(store={}, shape=(40, 6), chunks=(5, 3), dtype="f4", fill_value=2.5)
    array[5:10] = sample("f4", (20, 6))[:5]
    array[7, 3] = np.nan
    x = array[...]
    for end, axes in (("top", (0, 1)), ("bottom", (0,))):
        got = cf.reduce(array, [f"{end}7", f"arg{end}7"], axis=axes)
        assert_first(got[f"{end}7"], got[f"arg{end}7"], rows_of(x, axes), 7, end)


def test_workers_find_the_same(tmp_path: Path):
    x = sample("f4", SHAPE)
    zarr.create_array(tmp_path / "x.zarr", data=x, chunks=(5, 3, 4))
    with (
        cf.LocalOpenCLCluster(workers_of(DEVICES[0], 2), dashboard_address=None) as cluster,
        cluster.get_client() as client,
    ):
        got = cf.reduce(tmp_path / "x.zarr", ["top5", "argtop5"], client=client)
    assert_first(got["top5"], got["argtop5"], rows_of(x, (0, 1, 2)), 5, "top")


def test_they_make_a_last_axis_of_ranks_and_keep_what_elements_are():
    x = sample("f4", (20, 6))
    source = zarr.create_array(
        store={}, data=x, chunks=(5, 3), dimension_names=["time", "x"], attributes={"units": "K"}
    )
    found = cf.reduce(source, ["top3", "argbottom3"], axis="time", labels=True)
    assert (found["top3"].dims, found["top3"].shape) == (("x", "rank"), (6, 3))
    assert found.to_xarray()["rank"].values.tolist() == [1, 2, 3]
    assert found["top3"].attrs["units"] == "K"
    assert "units" not in found["argbottom3"].attrs
    several = cf.reduce(source, ["top2", "bottom3"], labels=True).to_xarray()
    assert dict(several.sizes) == {"top2_rank": 2, "bottom3_rank": 3}
    lazy = cf.reduce(source, "top3", axis="time", compute=False)
    assert lazy.shape == (6, 3)
    np.testing.assert_array_equal(lazy.compute(), found["top3"].values)
