"""Rows of elements that are folded first: the bits are those of elements one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from distributed import Client

import chunkfold as cf
from chunkfold.planning import preaggregation, rules, workers
from chunkfold.planning.work import Work
from chunkfold.worker import question_folds, ring
from tests.conftest import DEVICES

pytestmark = pytest.mark.unoptimised
SHAPE = (9, 8, 12)
LAT = np.linspace(0.25, 2, 8)[:, None]
OPS = ["mean", "sum", "var"]


@pytest.fixture(autouse=True)
def few_elements(monkeypatch):
    """Make rows of few elements worth while, on every device."""
    monkeypatch.setattr(workers, "SLOW_BY_KEY", frozenset({"cpu", "gpu"}))
    monkeypatch.setattr(preaggregation, "LEAST_WEIGHED", 2)
    monkeypatch.setattr(preaggregation, "LEAST_GROUPED", 2)
    monkeypatch.setattr(preaggregation, "LEAST_OF_LEAF", 1)


def stored(folder: Path, chunks: tuple[int, ...], *, nans: bool = False) -> str:
    """Store numbers of many magnitudes in chunks of which some are absent."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal(SHAPE) * 10.0 ** rng.integers(-9, 9, SHAPE)
    values[:3] = 7
    if nans:
        values[rng.random(SHAPE) < 0.3] = np.nan
    made = zarr.create_array(
        folder / "a.zarr", shape=SHAPE, chunks=chunks, dtype="f4", fill_value=7, overwrite=True
    )
    made[...] = values
    return str(folder / "a.zarr")


def is_factored(path: str, **given: Any) -> bool:
    return Work.of("", cf.plan(path, OPS, **given)).first.preaggregation is not None


def one_by_one(monkeypatch, path: str, **given: Any) -> Any:
    with monkeypatch.context() as patched:
        patched.setenv(rules.VARIABLE, "factored_weights")
        assert not is_factored(path, **given)
        return cf.reduce(path, OPS, **given)


def same(found: Any, wanted: Any) -> None:
    assert list(found) == list(wanted)
    for op, one in found.items():
        np.testing.assert_array_equal(np.asarray(one), np.asarray(wanted[op]))


@pytest.mark.parametrize("chunks", [(1, 8, 12), (2, 3, 5)], ids=str)
@pytest.mark.parametrize(
    ("weights", "given"),
    [
        (LAT, {}),
        (LAT, {"axis": (1, 2)}),
        (LAT, {"axis": (0, 2)}),
        (np.arange(12.0), {"axis": (0, 2), "skipna": True, "min_count": 40}),
        (np.arange(9)[:, None, None], {"where": np.arange(96).reshape(8, 12) % 3 > 0}),
        (2.5, {"axis": (0, 1), "skipna": True, "where": lambda x, _: x > 0}),
        (LAT, {"selection": (slice(None), [6, 1, 3], slice(None, None, -2)), "keepdims": True}),
    ],
    ids=["all", "kept-time", "kept-lat", "lon", "time-and-mask", "one", "places"],
)  # fmt: skip
def test_rows_are_weighed_as_elements_are(
    tmp_path: Path, monkeypatch, chunks: tuple[int, ...], weights: Any, given: dict[str, Any]
):
    path = stored(tmp_path, chunks, nans="skipna" in given)
    given = {"weights": weights, **given}
    assert is_factored(path, **given)
    same(cf.reduce(path, OPS, **given), one_by_one(monkeypatch, path, **given))


@pytest.mark.parametrize(
    ("weights", "given"),
    [
        (np.ones(SHAPE), {}),
        (np.where(LAT > 1, np.nan, LAT), {}),
        (LAT, {"by": np.arange(9) % 2, "by_axis": 0, "axis": 0}),
        (LAT, {"where": lambda _, w: w > 0}),
        (LAT, {"coarsen": {1: 4}}),
    ],
    ids=["each", "nan", "by", "where-of-weights", "windows"],
)
def test_other_weights_are_not_taken_out(tmp_path: Path, weights: Any, given: dict[str, Any]):
    path = stored(tmp_path, (2, 3, 5))
    assert not is_factored(path, weights=weights, **given)


@pytest.mark.parametrize("room", [0, 64 << 20])
def test_questions_beside_are_weighed_so_too(tmp_path: Path, monkeypatch, room: int):
    monkeypatch.setattr(ring, "OPEN_BYTES", room)  # with none tiles are read back in between
    path = stored(tmp_path, (2, 3, 5))
    asked = {
        "weighed": cf.ask(OPS, weights=LAT),
        "rows": cf.ask(OPS, weights=LAT, axis=(0, 2)),
        "plain": cf.ask("max", axis=0),
    }
    found = cf.reduce(path, asked)
    same(found["weighed"], one_by_one(monkeypatch, path, weights=LAT))
    same(found["rows"], one_by_one(monkeypatch, path, weights=LAT, axis=(0, 2)))


def test_workers_and_graphs_of_dask_weigh_rows_so_too(tmp_path: Path, monkeypatch):
    values = np.random.default_rng(0).normal(280, 9, (64, 8, 64)).astype("f4")
    path = str(tmp_path / "b.zarr")
    zarr.create_array(path, data=values, chunks=(8, 3, 64))
    monkeypatch.setattr(preaggregation, "LEAST_WEIGHED", 256)  # as workers have it
    assert is_factored(path, weights=LAT)
    want = cf.reduce(path, OPS, weights=LAT)
    made = cf.LocalOpenCLCluster(DEVICES[0].spec, workers_per_device=2, dashboard_address=None)
    with made as cluster, Client(cluster) as client:
        same(cf.reduce(path, OPS, weights=LAT, client=client), want)
        later = cf.reduce(path, "mean", weights=LAT, compute=False, client=client)
        assert later.compute() == want["mean"]


def test_elements_that_are_left_out_are_in_no_weighed_row(tmp_path: Path, monkeypatch):
    path = stored(tmp_path, (3, 4, 6))
    (tmp_path / "a.zarr" / "c" / "1" / "1" / "0").write_bytes(b"spoiled")
    given = {"weights": LAT, "on_bad_chunk": "skip", "memory": "1GB"}
    assert is_factored(path, **given)
    same(cf.reduce(path, OPS, **given), one_by_one(monkeypatch, path, **given))


def test_what_is_no_number_goes_its_way(tmp_path: Path, monkeypatch):
    path = stored(tmp_path, (2, 3, 5))
    zarr.open_array(path)[5, 0, 0] = np.inf
    given = {"weights": np.maximum(LAT, 0), "axis": (0, 1)}
    with np.errstate(invalid="ignore"):
        same(cf.reduce(path, OPS, **given), one_by_one(monkeypatch, path, **given))


def test_the_plan_says_which_kernels_fold_rows(tmp_path: Path):
    path = stored(tmp_path, (1, 8, 12))
    made = cf.plan(path, "mean", weights=LAT)
    told = {one.what: one.choice for one in made.explain()}
    plain = {one.what: one.choice for one in cf.plan(path, "mean", axis=(0, 2)).explain()}
    assert told["kernel"] == plain["kernel"]


GROUPED_OPS = ["mean", "var", "min", "argmax", "count"]
ZONES = np.random.default_rng(1).integers(-1, 4, SHAPE[1:])


def in_rows(path: str, ops: list[str], **given: Any) -> bool:
    return Work.of("", cf.plan(path, ops, **given)).first.preaggregation is not None


def by_key(monkeypatch, path: str, ops: list[str], **given: Any) -> Any:
    with monkeypatch.context() as patched:
        patched.setenv(rules.VARIABLE, "labelled_rows")
        assert not in_rows(path, ops, **given)
        return cf.reduce(path, ops, **given)


@pytest.mark.parametrize("chunks", [(1, 8, 12), (2, 3, 5)], ids=str)
@pytest.mark.parametrize(
    "given",
    [
        {"by": ZONES},
        {"by": np.arange(12) // 5, "by_axis": 2, "axis": (0, 2)},
        {"by": np.arange(8) % 3, "by_axis": 1, "axis": (0, 1)},
        {"by": np.arange(8) % 3, "by_axis": 1, "axis": (1, 2)},
        {"by": (np.arange(8) % 3, ZONES), "by_axis": (1, (1, 2))},
        {"by": np.arange(12) // 5, "by_axis": 2, "skipna": True, "min_count": 20},
        {"by": ZONES, "where": np.arange(96).reshape(SHAPE[1:]) % 3 > 0},
        {"by": ZONES, "where": lambda x: x > 0, "skipna": True},
        {"by": ZONES, "selection": (slice(None), [6, 1, 3], slice(None, None, -2))},
        {"by": ZONES, "weights": np.linspace(0, 2, 8)[:, None]},
    ],
    ids=[
        *("map", "kept-lat", "kept-lon", "kept-time", "two"),
        *("skipna", "mask", "where", "places", "weights"),
    ],
)
def test_rows_are_grouped_as_elements_are(
    tmp_path: Path, monkeypatch, chunks: tuple[int, ...], given: dict[str, Any]
):
    path = stored(tmp_path, chunks, nans="skipna" in given)
    ops = ["mean", "sum", "var"] if "weights" in given else GROUPED_OPS
    assert in_rows(path, ops, **given)
    same(cf.reduce(path, ops, **given), by_key(monkeypatch, path, ops, **given))


@pytest.mark.parametrize(
    "given",
    [
        {"by": np.arange(864).reshape(SHAPE) % 5},
        {"by": ZONES, "axis": (1, 2)},
        {"by": cf.bins([0, 1, 9])},
    ],
    ids=["each", "kept", "own-values"],
)
def test_labels_of_all_reduced_axes_are_keys_of_elements(tmp_path: Path, given: dict[str, Any]):
    assert not in_rows(stored(tmp_path, (2, 3, 5)), ["sum"], **given)


@pytest.mark.parametrize("name", ["LEAST_GROUPED", "LEAST_OF_LEAF", "MOST_BYTES", "MOST_OPEN"])
def test_rows_that_do_not_pay_are_not_made(tmp_path: Path, monkeypatch, name: str):
    path = stored(tmp_path, (2, 3, 5))
    assert in_rows(path, ["sum"], by=ZONES)
    monkeypatch.setattr(preaggregation, name, 0 if name.startswith("MOST") else 1 << 40)
    assert not in_rows(path, ["sum"], by=ZONES)


@pytest.mark.parametrize("room", [0, 64 << 20])
def test_questions_beside_are_grouped_so_too(tmp_path: Path, monkeypatch, room: int):
    monkeypatch.setattr(ring, "OPEN_BYTES", room)  # with none tiles are read back in between
    path = stored(tmp_path, (2, 3, 5))
    asked = {
        "zones": cf.ask(GROUPED_OPS, by=ZONES),
        "columns": cf.ask(GROUPED_OPS, by=np.arange(8) % 3, by_axis=1, axis=(0, 1)),
        "plain": cf.ask("max", axis=0),
    }
    found = cf.reduce(path, asked)
    same(found["zones"], by_key(monkeypatch, path, GROUPED_OPS, by=ZONES))
    given = {"by": np.arange(8) % 3, "by_axis": 1, "axis": (0, 1)}
    same(found["columns"], by_key(monkeypatch, path, GROUPED_OPS, **given))


def test_workers_group_rows_so_too_and_combine_what_each_has(tmp_path: Path, monkeypatch):
    values = np.random.default_rng(0).normal(280, 9, (64, 8, 64)).astype("f4")
    path = str(tmp_path / "b.zarr")
    zarr.create_array(path, data=values, chunks=(8, 3, 64))
    monkeypatch.setattr(preaggregation, "LEAST_GROUPED", 64)
    monkeypatch.setattr(preaggregation, "LEAST_OF_LEAF", 4)  # as workers have it
    given = {"by": np.random.default_rng(1).integers(0, 7, (8, 64))}
    assert in_rows(path, GROUPED_OPS, **given)
    want = by_key(monkeypatch, path, GROUPED_OPS, **given)
    made = cf.LocalOpenCLCluster(DEVICES[0].spec, workers_per_device=2, dashboard_address=None)
    with made as cluster, Client(cluster) as client:
        same(cf.reduce(path, GROUPED_OPS, client=client, **given), want)


def test_boxes_of_rows_are_joined_when_they_are_too_many(tmp_path: Path, monkeypatch):
    path = stored(tmp_path, (2, 3, 5))
    monkeypatch.setattr(question_folds, "MOST_OPEN", 2)
    assert in_rows(path, GROUPED_OPS, by=ZONES)
    same(cf.reduce(path, GROUPED_OPS, by=ZONES), by_key(monkeypatch, path, GROUPED_OPS, by=ZONES))


def test_boxes_of_rows_are_counted_along_each_axis(tmp_path: Path):
    path = stored(tmp_path, (9, 7, 11))
    work = Work.of("", cf.plan(path, "sum", by=ZONES, selection=(..., slice(1, 12)))).first
    assert work.preaggregation is not None
    assert work.preaggregation.rows.boxes == work.layout.leaves


def test_sums_that_expansions_lose_are_folded_again_by_key(tmp_path: Path, monkeypatch):
    path = stored(tmp_path, (2, 3, 5))
    made = zarr.open_array(path)
    made[:] = 2.0 ** np.random.default_rng(2).integers(-120, 120, SHAPE)
    same(cf.reduce(path, GROUPED_OPS, by=ZONES), by_key(monkeypatch, path, GROUPED_OPS, by=ZONES))


def test_elements_that_are_left_out_are_in_no_grouped_row(tmp_path: Path, monkeypatch):
    path = stored(tmp_path, (3, 4, 6))
    (tmp_path / "a.zarr" / "c" / "1" / "1" / "0").write_bytes(b"spoiled")
    given = {"by": ZONES, "on_bad_chunk": "skip", "memory": "1GB"}
    assert in_rows(path, GROUPED_OPS, **given)
    same(cf.reduce(path, GROUPED_OPS, **given), by_key(monkeypatch, path, GROUPED_OPS, **given))


def test_where_nothing_can_be_read_groups_are_of_nothing(tmp_path: Path, monkeypatch):
    path = stored(tmp_path, (3, 4, 6))
    for chunk in (tmp_path / "a.zarr" / "c").rglob("*"):
        if chunk.is_file():
            chunk.write_bytes(b"spoiled")
    ops, given = ["sum", "count"], {"by": ZONES, "on_bad_chunk": "skip", "axis": (0, 1, 2)}
    assert in_rows(path, ops, **given)
    same(cf.reduce(path, ops, **given), by_key(monkeypatch, path, ops, **given))


def test_the_plan_says_which_kernels_fold_grouped_rows(tmp_path: Path):
    path = stored(tmp_path, (1, 8, 12))
    told = {one.what: one.choice for one in cf.plan(path, "mean", by=ZONES).explain()}
    plain = {one.what: one.choice for one in cf.plan(path, "mean", axis=0).explain()}
    assert told["kernel"] == plain["kernel"]


def test_without_memory_for_rows_elements_are_folded_by_key(tmp_path: Path, monkeypatch):
    path = stored(tmp_path, (2, 3, 5))
    needed = cf.plan(path, GROUPED_OPS, by=ZONES).memory.total
    assert in_rows(path, GROUPED_OPS, by=ZONES)
    with monkeypatch.context() as patched:
        patched.setenv(rules.VARIABLE, "labelled_rows")
        least = cf.plan(path, GROUPED_OPS, by=ZONES, memory=needed - 1).memory.total
    assert least < needed
    given = {"by": ZONES, "memory": least}
    assert not in_rows(path, GROUPED_OPS, **given)
    same(cf.reduce(path, GROUPED_OPS, **given), by_key(monkeypatch, path, GROUPED_OPS, by=ZONES))
