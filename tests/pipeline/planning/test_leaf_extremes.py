"""Leaves that another read passes over: nothing in them counts, and answers are the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkfold as cf
from chunkfold.axis_cuts import Cells
from chunkfold.events import RunStarted
from chunkfold.grid import Axis
from chunkfold.planning import planner
from chunkfold.planning.layout import Layout
from chunkfold.planning.leaf_extremes import ExtremesFound, LeafExtremes

pytestmark = pytest.mark.unoptimised
SHAPE, CHUNKS = (24, 3, 4), (2, 3, 2)


@pytest.fixture(autouse=True)
def _small_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "LEAF_BYTES", 96)


def rising(dtype: str) -> np.ndarray:
    """Return numbers that rise along the first axis, but for some noise."""
    rng = np.random.default_rng(0)
    values = np.linspace(-900, 900, SHAPE[0])[:, None, None] + rng.normal(0, 20, SHAPE)
    return values.astype(dtype)


def stored(folder: Path, values: np.ndarray) -> str:
    made = zarr.create_array(
        folder / "a", shape=SHAPE, chunks=CHUNKS, dtype=values.dtype, fill_value=0, overwrite=True
    )
    made[...] = values
    return str(folder / "a")


def read(source: Any, op: Any, **options: Any) -> tuple[Any, list[int]]:
    """Return results, and what each read brought."""
    run = cf.submit(source, op, **options)
    result = run.result()
    return result, [event.nbytes for event in run.events if isinstance(event, RunStarted)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint64"])
def test_of_rising_numbers_later_reads_bring_little(dtype: str, tmp_path: Path):
    values = rising("f8") * {"int32": 1e6, "uint64": 1e15}.get(dtype, 1)
    values = (np.abs(values) if dtype == "uint64" else values).astype(dtype)
    found, nbytes = read(stored(tmp_path, values), cf.quantile([0.1, 0.5], method="lower"))
    assert found.tolist() == np.quantile(values, [0.1, 0.5], method="lower").tolist()
    assert len(nbytes) == {4: 2, 8: 4}[values.dtype.itemsize]
    assert nbytes[0] == values.nbytes
    assert max(nbytes[1:]) < values.nbytes / 2


def test_where_leaves_are_alike_all_are_read_again(tmp_path: Path):
    values = np.random.default_rng(0).normal(size=SHAPE).astype("f4")
    found, nbytes = read(stored(tmp_path, values), "median")
    assert found == np.float32(np.quantile(values.astype("f8"), 0.5))
    assert nbytes == [values.nbytes] * 2


@settings(max_examples=4)
@given(data=st.data())
def test_the_answers_are_those_of_numpy(data: st.DataObject, tmp_path_factory):
    values = rising(data.draw(st.sampled_from(["f4", "i4"])))
    if values.dtype.kind == "f" and data.draw(st.booleans()):
        values[data.draw(st.integers(0, 23))] = np.nan
    axis = data.draw(st.sampled_from([None, (0,), (0, 2)]))
    given: dict[str, Any] = {"skipna": True} if values.dtype.kind == "f" else {}
    limit = data.draw(st.sampled_from([-np.inf, -500]))
    where = {} if np.isinf(limit) else {"where": f"x > {limit}"}
    if where and axis != (0,):
        return  # some outputs would be of nothing
    q = data.draw(st.sampled_from([0.0, 0.3, 0.5, 1.0]))
    source = stored(tmp_path_factory.mktemp("a"), values)
    found, _ = read(source, cf.quantile(q, method="higher"), axis=axis, **given, **where)
    kept = np.where(values > limit, values, np.nan) if where else values
    want = np.nanquantile(kept, q, axis=axis, method="higher")
    np.testing.assert_array_equal(found, want)


def test_groups_and_questions_pass_over_what_none_needs(tmp_path: Path):
    values = rising("f4")
    source = stored(tmp_path, values)
    halves = np.arange(24) // 12
    found, nbytes = read(source, "median", by=halves, by_axis=0)
    want = [np.quantile(values[halves == n].astype("f8"), 0.5) for n in (0, 1)]
    assert found.values.tolist() == np.float32(want).tolist()
    assert nbytes[1] < values.nbytes
    both = {"low": cf.ask("p10"), "high": cf.ask("p90", where="x > 0")}
    found, together = read(source, both)
    assert found["low"] == np.float32(np.quantile(values.astype("f8"), 0.1))
    assert found["high"] == np.float32(np.quantile(values[values > 0].astype("f8"), 0.9))
    alone = [read(source, one.op, **one.given)[1][1] for one in both.values()]
    assert max(alone) <= together[1] <= sum(alone) < values.nbytes


def test_where_later_reads_cut_leaves_otherwise_all_are_read(tmp_path: Path):
    values = rising("f8")
    source = stored(tmp_path, values)
    asked = {"map": cf.ask("mean", axis=(0, 1)), "q": cf.ask(cf.quantile(0.3, method="lower"))}
    found, _ = read(source, asked)
    assert found["q"] == np.quantile(values, 0.3, method="lower")


def test_some_of_several_questions_are_read_again(tmp_path: Path):
    values = rising("f8")
    lower = {share: cf.quantile(share, method="lower") for share in (0.3, 0.6)}
    asked = {"map": cf.ask("mean", axis=(0, 1)), "a": cf.ask(lower[0.3]), "b": cf.ask(lower[0.6])}
    found, nbytes = read(stored(tmp_path, values), asked)
    assert len(nbytes) > 1
    for name, share in (("a", 0.3), ("b", 0.6)):
        assert found[name] == np.quantile(values, share, method="lower")


def test_ranges_are_of_whole_leaves_that_differ():
    layout = Layout((Axis(Cells(12, 2), 0, 12, 1),), (0,))
    found = ExtremesFound(layout)
    found.add((0, 1), 3.0, 4.0, 1)
    assert not len(found.found().leaves)
    found.add((0, 1), 1.0, 2.0, 1)
    both = LeafExtremes.merged([found.found(), LeafExtremes()])
    assert (both.leaves.tolist(), both.low.tolist(), both.high.tolist()) == ([1], [1], [4])
    for part in (2, 3, 4):
        found.add((0, part), 0.0, 5.0, 2)
    assert not found.wanted
