"""The longest run of elements that meet a condition: a loop's answer, on every way to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import pytest
import xarray as xr
import zarr
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkfold as cf
from chunkfold.planning import blocks, planner
from chunkfold.workflows.cli.reduce_command import reduce_command

pytestmark = pytest.mark.unoptimised
DRY = "longest_run(x < 1)"


def runs(there: np.ndarray, axis: int) -> np.ndarray:
    """Count elements one after another, and keep the most."""
    rows = np.moveaxis(there, axis, 0)
    now = most = np.zeros(rows.shape[1:], np.int64)
    for row in rows:
        now = np.where(row, now + 1, 0)
        most = np.maximum(most, now)
    return most


def spells(shape: tuple[int, ...], axis: int, seed: int = 0) -> np.ndarray:
    """Return numbers that stay above or below 1 for a while along an axis."""
    rng = np.random.default_rng(seed)
    values = np.cumsum(rng.normal(0, 0.7, shape), axis) % 6 - 2
    return values.astype("f4")


@pytest.fixture
def _many_blocks(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(planner, "LEAF_BYTES", 1024)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", (1024, 2048))


CUTS = [
    ((9000, 2, 3), (170, 2, 3), 0), ((9000, 3, 4), (70, 2, 2), 0), ((2, 6000, 2), (1, 330, 2), 1),
    ((2, 3, 9000), (2, 1, 500), 2), ((9, 9000), (9, 71), 1), ((40000,), (700,), 0),
    ((9000, 1), (70, 1), 0),
]  # fmt: skip
"""Shapes, chunks, and the axis along which runs go."""


@pytest.mark.usefixtures("_many_blocks")
@pytest.mark.parametrize(("shape", "chunks", "axis"), CUTS)
def test_blocks_and_combines_keep_the_order(shape, chunks, axis):
    long = np.zeros(shape, "f4")
    long[(np.random.default_rng(1).random(shape) < 1e-3) & (np.arange(shape[-1]) != 1)] = 5
    for values in (spells(shape, axis), long):
        stored = zarr.create_array({}, data=values, chunks=chunks)
        plan = cf.plan(stored, DRY, axis=axis)
        assert plan.largest_tree.block_count > 1
        assert cf.reduce(plan).tolist() == runs(values < 1, axis).tolist()


@pytest.mark.usefixtures("_many_blocks")
@settings(max_examples=15)
@given(data=st.data())
@pytest.mark.filterwarnings("ignore::chunkfold.EmptyWarning")
def test_any_selection_is_taken_in_its_order(data: st.DataObject):
    values = spells((60, 4, 3), 0, seed=5)
    missing = data.draw(st.sampled_from([0.0, 5.0]))
    stored = zarr.create_array(
        {}, shape=values.shape, chunks=(7, 2, 3), dtype="f4", fill_value=missing
    )
    for first in data.draw(st.sets(st.sampled_from(range(0, 60, 7)))):
        stored[first : first + 7] = values[first : first + 7]
    place = st.integers(-60, 59)
    step = st.sampled_from([1, 2, -1, -3])
    along = data.draw(
        st.builds(slice, place, place, step) | st.lists(place, min_size=1, max_size=30)
    )
    found = cf.reduce(stored, DRY, axis=0, selection=(along, 2), allow_empty=True)
    np.testing.assert_array_equal(found, runs(stored[...][along, 2] < 1, 0))


@pytest.mark.parametrize("dtype", ["f8", "i2", "u1", "?"])
def test_conditions_are_of_any_numbers_and_nan_ends_a_run(dtype: str):
    values = (spells((90, 4), 0) + 2).astype(dtype)
    if dtype == "f8":
        values[::11] = np.nan
    asked = cf.longest_run(lambda x: (x < 3) & (x != 1))
    want = runs((values < 3) & (values != 1), 0)
    assert cf.reduce(values, asked, axis=0).tolist() == want.tolist()
    assert asked.evaluate(values, axis=0).tolist() == want.tolist()
    if dtype == "f8":
        assert cf.reduce(values, asked, axis=0, skipna=True).tolist() == want.tolist()


def test_other_reductions_of_the_read_are_what_they_are_alone():
    values = spells((400, 3, 5), 0)
    found = cf.reduce(values, [DRY, "mean", "argmax", "count"], axis=0)
    assert found["longest_run"].tolist() == runs(values < 1, 0).tolist()
    alone = cf.reduce(values, ["mean", "argmax"], axis=0)
    for op in ("mean", "argmax"):
        np.testing.assert_array_equal(found[op], alone[op])


def test_xarray_dask_and_a_graph_give_the_same(tmp_path: Path):
    values = spells((120, 3, 4), 0)
    time = xr.date_range("2001-01-01", periods=120)
    array = xr.DataArray(values, {"time": time}, ("time", "lat", "lon"), "rain")
    want = runs(values < 1, 0)
    array.to_dataset().chunk(time=13).to_zarr(tmp_path / "a.zarr", consolidated=False)
    lazy = xr.open_zarr(tmp_path / "a.zarr", consolidated=False)
    for source in (array, lazy.rain, dask.array.from_array(values, chunks=(11, 2, 4))):
        axis: Any = 0 if isinstance(source, dask.array.Array) else "time"
        np.testing.assert_array_equal(cf.reduce(source, DRY, axis=axis), want)
    later = cf.reduce(str(tmp_path / "a.zarr/rain"), DRY, axis="time", compute=False)
    np.testing.assert_array_equal(later, want)
    march = cf.reduce(lazy.rain, DRY, axis="time", sel={"time.month": 3})
    np.testing.assert_array_equal(march, runs(values[59:90] < 1, 0))
    words = [
        "--op",
        "longest_run(minimum(x, 9) < 1),max",
        "--axis",
        "time",
        "--select",
        ":, 1, 2",
        "--json",
    ]
    done = CliRunner().invoke(reduce_command, [f"{tmp_path}/a.zarr/rain", *words])
    assert json.loads(done.stdout)["results"]["longest_run"] == want[1, 2]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"axis": None}, "0, 1 are reduced: name one of them in axis="),
        (
            {"axis": 0, "by": np.arange(6) // 2},
            "groups separate them: reduce each group separately",
        ),
        ({"coarsen": {0: 2}}, "windows separate them"),
        ({"axis": 0, "where": "x > 3"}, "where= omits some, .*: write it into its own"),
        ({"axis": 0, "on_bad_chunk": "skip"}, "chunks may be skipped, .* on_bad_chunk='stop'"),
        ({"axis": 0, "weights": np.ones(3)}, "takes no weights"),
        ({"axis": 0, "min_count": 2}, "min_count is 2, but longest_run has no NaN"),
    ],
)
def test_what_disturbs_the_order_is_refused(given: dict[str, Any], told: str):
    with pytest.raises(cf.ChunkfoldError, match=told):
        cf.plan(spells((6, 3), 0), DRY, **given)


@pytest.mark.filterwarnings("ignore::chunkfold.LawsWarning")
def test_a_declaration_that_says_it_goes_in_order_is_tried_all_the_same():
    last = cf.Monoid(
        "last", fields={"x": "float64"}, zero=0, lift=lambda x: x, op=lambda a, b: {"x": b.x},
        in_order=True,
    )  # fmt: skip
    with pytest.raises(cf.MonoidError, match="op is not commutative"):
        cf.reduce(np.arange(9.0), last)


def test_a_ledger_and_other_questions_are_refused(tmp_path: Path):
    stored = zarr.create_array(tmp_path / "a.zarr", data=spells((6, 3), 0))
    with pytest.raises(cf.PlanError, match="omit ledger="):
        cf.plan(stored, DRY, axis=0, ledger=tmp_path / "ledger")
    with pytest.raises(cf.PlanError, match="compute it separately"):
        cf.reduce(stored, {"a": cf.ask(DRY, axis=0), "b": cf.ask("mean")})


@pytest.mark.parametrize(
    ("op", "told"),
    [
        ("longest_run(x <)", "is not a condition"),
        ("longest_run()", "is not a condition"),
        ("longest_run(x > y)", "takes no map: write it with x only"),
        ("longest_run", "takes a condition, as in"),
    ],
)
def test_what_is_no_condition_is_refused(op: str, told: str):
    with pytest.raises(cf.ChunkfoldError, match=told):
        cf.plan(np.zeros(3), op)
    with pytest.raises(cf.ChunkfoldError, match="takes a condition"):
        cf.longest_run(3)
