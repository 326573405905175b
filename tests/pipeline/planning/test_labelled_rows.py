"""Labels that lack long axes: the bits are those of elements that are folded by key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from distributed import Client

import chunkfold as cf
from chunkfold.planning import labelled_rows
from chunkfold.planning.work import Work
from chunkfold.worker import question_folds, ring
from tests.conftest import DEVICES
from tests.pipeline.planning.test_factored_weights import SHAPE, same, stored

pytestmark = pytest.mark.unoptimised
OPS = ["mean", "var", "min", "argmax", "count"]
ZONES = np.random.default_rng(1).integers(-1, 4, SHAPE[1:])


@pytest.fixture(autouse=True)
def few_elements(monkeypatch):
    """Make rows of few elements worth while, on every device."""
    monkeypatch.setattr(labelled_rows, "KINDS", frozenset({"cpu", "gpu"}))
    monkeypatch.setattr(labelled_rows, "LEAST_ELEMENTS", 2)
    monkeypatch.setattr(labelled_rows, "LEAST_OF_LEAF", 1)


def in_rows(path: str, ops: list[str], **given: Any) -> bool:
    return Work.of("", cf.plan(path, ops, **given)).rowwise is not None


def by_key(monkeypatch, path: str, ops: list[str], **given: Any) -> Any:
    with monkeypatch.context() as patched:
        patched.setattr(labelled_rows, "LEAST_ELEMENTS", 1 << 40)
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
    ops = ["mean", "sum", "var"] if "weights" in given else OPS
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


@pytest.mark.parametrize("name", ["LEAST_ELEMENTS", "LEAST_OF_LEAF", "MOST_BYTES", "MOST_OPEN"])
def test_rows_that_do_not_pay_are_not_made(tmp_path: Path, monkeypatch, name: str):
    path = stored(tmp_path, (2, 3, 5))
    assert in_rows(path, ["sum"], by=ZONES)
    monkeypatch.setattr(labelled_rows, name, 0 if name.startswith("MOST") else 1 << 40)
    assert not in_rows(path, ["sum"], by=ZONES)


@pytest.mark.parametrize("room", [0, 64 << 20])
def test_questions_beside_are_grouped_so_too(tmp_path: Path, monkeypatch, room: int):
    monkeypatch.setattr(ring, "OPEN_BYTES", room)  # with none tiles are read back in between
    path = stored(tmp_path, (2, 3, 5))
    asked = {
        "zones": cf.ask(OPS, by=ZONES),
        "columns": cf.ask(OPS, by=np.arange(8) % 3, by_axis=1, axis=(0, 1)),
        "plain": cf.ask("max", axis=0),
    }
    found = cf.reduce(path, asked)
    same(found["zones"], by_key(monkeypatch, path, OPS, by=ZONES))
    given = {"by": np.arange(8) % 3, "by_axis": 1, "axis": (0, 1)}
    same(found["columns"], by_key(monkeypatch, path, OPS, **given))


def test_workers_group_rows_so_too_and_combine_what_each_has(tmp_path: Path, monkeypatch):
    values = np.random.default_rng(0).normal(280, 9, (64, 8, 64)).astype("f4")
    path = str(tmp_path / "b.zarr")
    zarr.create_array(path, data=values, chunks=(8, 3, 64))
    monkeypatch.setattr(labelled_rows, "LEAST_ELEMENTS", 64)
    monkeypatch.setattr(labelled_rows, "LEAST_OF_LEAF", 4)  # as workers have it
    given = {"by": np.random.default_rng(1).integers(0, 7, (8, 64))}
    assert in_rows(path, OPS, **given)
    want = by_key(monkeypatch, path, OPS, **given)
    made = cf.LocalOpenCLCluster(DEVICES[0].spec, workers_per_device=2, dashboard_address=None)
    with made as cluster, Client(cluster) as client:
        same(cf.reduce(path, OPS, client=client, **given), want)


def test_boxes_of_rows_are_joined_when_they_are_too_many(tmp_path: Path, monkeypatch):
    path = stored(tmp_path, (2, 3, 5))
    monkeypatch.setattr(question_folds, "MOST_OPEN", 2)
    assert in_rows(path, OPS, by=ZONES)
    same(cf.reduce(path, OPS, by=ZONES), by_key(monkeypatch, path, OPS, by=ZONES))


def test_boxes_of_rows_are_counted_along_each_axis(tmp_path: Path):
    path = stored(tmp_path, (9, 7, 11))
    work = Work.of("", cf.plan(path, "sum", by=ZONES, selection=(..., slice(1, 12))))
    assert work.rowwise is not None
    assert work.rowwise.rows.boxes == work.layout.leaves


def test_sums_that_expansions_lose_are_folded_again_by_key(tmp_path: Path, monkeypatch):
    path = stored(tmp_path, (2, 3, 5))
    made = zarr.open_array(path)
    made[:] = 2.0 ** np.random.default_rng(2).integers(-120, 120, SHAPE)
    same(cf.reduce(path, OPS, by=ZONES), by_key(monkeypatch, path, OPS, by=ZONES))


def test_elements_that_are_left_out_are_in_no_row(tmp_path: Path, monkeypatch):
    path = stored(tmp_path, (3, 4, 6))
    (tmp_path / "a.zarr" / "c" / "1" / "1" / "0").write_bytes(b"spoiled")
    given = {"by": ZONES, "on_bad_chunk": "skip", "memory": "1GB"}
    assert in_rows(path, OPS, **given)
    same(cf.reduce(path, OPS, **given), by_key(monkeypatch, path, OPS, **given))


def test_where_nothing_can_be_read_groups_are_of_nothing(tmp_path: Path, monkeypatch):
    path = stored(tmp_path, (3, 4, 6))
    for chunk in (tmp_path / "a.zarr" / "c").rglob("*"):
        if chunk.is_file():
            chunk.write_bytes(b"spoiled")
    ops, given = ["sum", "count"], {"by": ZONES, "on_bad_chunk": "skip", "axis": (0, 1, 2)}
    assert in_rows(path, ops, **given)
    same(cf.reduce(path, ops, **given), by_key(monkeypatch, path, ops, **given))


def test_the_plan_says_which_kernels_fold_rows(tmp_path: Path):
    path = stored(tmp_path, (1, 8, 12))
    told = {one.what: one.choice for one in cf.plan(path, "mean", by=ZONES).explain()}
    plain = {one.what: one.choice for one in cf.plan(path, "mean", axis=0).explain()}
    assert told["kernel"] == plain["kernel"]


def test_without_memory_for_rows_elements_are_folded_by_key(tmp_path: Path, monkeypatch):
    path = stored(tmp_path, (2, 3, 5))
    needed = cf.plan(path, OPS, by=ZONES).memory.total
    assert in_rows(path, OPS, by=ZONES)
    with monkeypatch.context() as patched:
        patched.setattr(labelled_rows, "LEAST_ELEMENTS", 1 << 40)
        least = cf.plan(path, OPS, by=ZONES, memory=needed - 1).memory.total
    assert least < needed
    given = {"by": ZONES, "memory": least}
    assert not in_rows(path, OPS, **given)
    same(cf.reduce(path, OPS, **given), by_key(monkeypatch, path, OPS, by=ZONES))
