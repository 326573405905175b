"""Larger leaves: chosen where each accumulator is met less often, with the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import chunkfold as cf
from chunkfold.planning import leaves, planner, rules, workers
from tests.pipeline.planning.test_preaggregation import same

pytestmark = pytest.mark.unoptimised
SHAPE = (160, 8, 24)
CHUNKS = (8, 8, 24)
MONTHS = np.arange(SHAPE[0]) % 12
OPS = ["mean", "var", "min", "argmax", "count"]


@pytest.fixture(autouse=True)
def small_leaves(monkeypatch):
    """Make leaves of one chunk usual and of four larger, on every device."""
    monkeypatch.setattr(planner, "LEAF_BYTES", 1)
    monkeypatch.setattr(workers, "SLOW_BY_KEY", frozenset({"cpu", "gpu"}))
    monkeypatch.setattr(leaves, "LARGER_BYTES", (25_000,))
    monkeypatch.setattr(leaves, "LEAST_LEAVES", 0)


@pytest.fixture
def path(tmp_path: Path) -> str:
    rng = np.random.default_rng(5)
    array = rng.normal(0, 100, SHAPE).astype("f4")
    array[rng.random(SHAPE) < 0.05] = np.nan
    zarr.create_array(tmp_path / "a.zarr", data=array, chunks=CHUNKS)
    return str(tmp_path / "a.zarr")


def chunks_of_leaf(path: str, **given: Any) -> int:
    """Return of how many chunks a leaf is."""
    whole = cf.plan(path, "mean", axis=0, by=MONTHS, **given).scan.leaf_bytes
    return whole // (4 * int(np.prod(CHUNKS)))


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"by": None},
        {"skipna": True, "min_count": 9},
        {"where": lambda x: x > 0, "skipna": True},
        {"weights": np.linspace(0, 2, SHAPE[2])},
        {"by": (MONTHS // 3, MONTHS % 2), "by_axis": (0, 0)},
        {"by": np.random.default_rng(2).integers(-1, 5, SHAPE[0])},
        {"selection": (slice(150, 3, -1), slice(None), [5, 1, 2, 3, 9, 17, 20, 21])},
    ],
    ids=["months", "plain", "skipna", "where", "weights", "two", "any-order", "reversed"],
)
def test_results_are_those_of_smaller_leaves(path: str, monkeypatch, given: dict[str, Any]):
    ops = ["mean", "sum", "var"] if "weights" in given else OPS
    if "by" in given and given["by"] is None:
        ops = [*OPS, cf.histogram(np.linspace(-300, 300, 17))]
    given = {"by": MONTHS, "axis": 0, **given}
    larger = cf.plan(path, ops, **given).scan.leaf_bytes
    got = cf.reduce(path, ops, **given)
    monkeypatch.setenv(rules.VARIABLE, "larger_leaves")
    assert cf.plan(path, ops, **given).scan.leaf_bytes < larger
    same(got, cf.reduce(path, ops, **given))


def test_leaves_are_larger_only_where_each_key_is_met_less_often(path: str):
    assert chunks_of_leaf(path) == 4
    quarters = cf.plan(path, "mean", axis=0, by=np.arange(SHAPE[0]) // 4)
    assert quarters.scan.leaf_bytes == 4 * np.prod(CHUNKS)


def test_leaves_are_no_larger_than_what_is_held_anyway(path: str):
    chunk = 4 * np.prod(CHUNKS)
    many = [*OPS[:3], cf.histogram(np.linspace(-300, 300, 17))]
    alone = cf.plan(path, many, axis=0)
    assert chunk < alone.scan.leaf_bytes <= alone.layout.outputs * alone.accumulator.nbytes
    assert cf.plan(path, "max", axis=0).scan.leaf_bytes == chunk
    two = {"whole": cf.ask("sum"), "many": cf.ask(many, axis=0)}
    assert cf.plan(path, two).scan.leaf_bytes == alone.scan.leaf_bytes


@pytest.mark.parametrize(
    ("module", "name", "value"),
    [
        (leaves, "LEAST_LEAVES", 99),
        (leaves, "LARGER_BYTES", (12_287,)),
        (workers, "SLOW_BY_KEY", frozenset()),
    ],
)
def test_leaves_are_as_large_as_usual_where_larger_ones_do_not_pay(
    path: str, monkeypatch, module: Any, name: str, value: Any
):
    monkeypatch.setattr(module, name, value)
    assert chunks_of_leaf(path) == 1


def test_memory_that_is_short_is_not_spent_on_larger_leaves(path: str):
    needed = cf.plan(path, "mean", axis=0, by=MONTHS).memory
    assert chunks_of_leaf(path, memory=needed.total) == 4
    least = needed.total - needed.staging + needed.staging // 4
    assert chunks_of_leaf(path, memory=least) == 1
