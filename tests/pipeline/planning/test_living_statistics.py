"""Statistics that a run keeps in its ledger, beside what was asked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkfold as cf
from chunkfold.errors import PlanError
from chunkfold.planning.living_statistics import STATISTICS
from tests.ledgers import aged, asked, assert_same, small_blocks, stored

SHAPE, CHUNKS = (24, 6, 8), (2, 6, 8)
ASKED = {
    "flat": ("sum", {}),
    "kept axes": (["mean", "std"], {"axis": 0}),
    "positions": ("argmax", {"axis": (1, 2)}),
    "quantiles": (["median", "p90"], {"axis": 0}),
    "labels": ("mean", {"axis": 0, "by": np.arange(24) // 5, "by_axis": 0}),
    "a condition": ("count", {"where": "x > 0"}),
    "weights": ("mean", {"weights": np.arange(8.0)}),
    "questions": ({"a": cf.ask("max", axis=1), "b": cf.ask("mean", skipna=True)}, {}),
}
PLAIN = ("min", "max", "mean", "std", "var", "sum")


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    small_blocks(monkeypatch, 512, (1 << 11, 1 << 11))


def values(dtype: str = "f4") -> np.ndarray:
    made = np.random.default_rng(0).normal(size=SHAPE) * 50
    return np.abs(made).astype(dtype)


@pytest.mark.parametrize("name", ASKED)
def test_later_statistics_read_nothing(tmp_path: Path, name: str):
    op, options = ASKED[name]
    stored(tmp_path / "a.zarr", values(), CHUNKS)
    run = asked(tmp_path / "a.zarr", op, tmp_path / "l", ledger_statistics=True, **options)
    assert run.ledger.kept == run.ledger.blocks
    described = asked(tmp_path / "a.zarr", list(STATISTICS), tmp_path / "l", skipna=True)
    plain = [asked(tmp_path / "a.zarr", one, tmp_path / "l") for one in PLAIN]
    assert [one.plan.scan.nbytes for one in (described, *plain)] == [0] * (1 + len(PLAIN))
    assert described.ledger.oldest is not None


@pytest.mark.parametrize("dtype", ["f8", "f2", "i2", "u1", "?", "M8[s]", "c8"])
def test_they_are_those_that_are_defined(tmp_path: Path, dtype: str):
    stored(tmp_path / "a.zarr", values("i8").astype(dtype), CHUNKS)
    asked(tmp_path / "a.zarr", "count", tmp_path / "l", ledger_statistics=True)
    for op in ("count", "mean") if dtype == "c8" else ("count", "max"):
        assert asked(tmp_path / "a.zarr", op, tmp_path / "l", skipna=True).plan.scan.nbytes == 0


@settings(max_examples=12, deadline=None)
@given(holes=st.lists(st.integers(0, 23), max_size=3), op=st.sampled_from(PLAIN))
def test_blocks_with_nan_are_read_where_nan_counts(tmp_path_factory, holes: list[int], op: str):
    x, folder = values(), tmp_path_factory.mktemp("nan")
    x[holes, 0, 0] = np.nan
    stored(folder / "a.zarr", x, CHUNKS)
    with pytest.MonkeyPatch.context() as patch:
        small_blocks(patch, 512, (1 << 11, 1 << 11))
        first = asked(folder / "a.zarr", "count", folder / "l", ledger_statistics=True)
        run = asked(folder / "a.zarr", op, folder / "l")
    rows = 24 // first.ledger.blocks
    assert run.ledger.blocks - run.ledger.known == len({hole // rows for hole in holes})


def test_an_array_that_grew_has_those_of_its_new_chunks(tmp_path: Path):
    array = stored(tmp_path / "a.zarr", values()[:16], CHUNKS)
    asked(tmp_path / "a.zarr", "mean", tmp_path / "l", axis=0, ledger_statistics=True)
    array.resize(SHAPE)
    array[16:] = values()[16:]
    aged(tmp_path / "a.zarr")
    run = asked(tmp_path / "a.zarr", "mean", tmp_path / "l", axis=0, ledger_statistics=True)
    assert run.ledger.known > 0
    assert asked(tmp_path / "a.zarr", "std", tmp_path / "l").plan.scan.nbytes == 0


def test_blocks_that_were_known_are_not_read_for_statistics(tmp_path: Path):
    stored(tmp_path / "a.zarr", values(), CHUNKS)
    asked(tmp_path / "a.zarr", "mean", tmp_path / "l", axis=0)
    run = asked(tmp_path / "a.zarr", "mean", tmp_path / "l", axis=0, ledger_statistics=True)
    assert run.plan.scan.nbytes == 0
    assert run.ledger.known == run.ledger.blocks


def test_results_and_plans_have_what_was_asked_alone(tmp_path: Path):
    stored(tmp_path / "a.zarr", values(), CHUNKS)
    run = cf.submit(tmp_path / "a.zarr", "mean", ledger=tmp_path / "l", ledger_statistics=True)
    assert_same(run.result(), cf.reduce(tmp_path / "a.zarr", "mean"))
    assert list(run.values) == ["mean"]
    assert list(run.answers) == [""]
    assert "question" not in str(run.plan)
    assert run.plan.result_names == ("mean",)


def test_without_a_ledger_they_are_refused(tmp_path: Path):
    array = stored(tmp_path / "a.zarr", values(), CHUNKS)
    with pytest.raises(PlanError, match="ledger_statistics is True, but no ledger is given"):
        cf.reduce(array, "mean", ledger_statistics=True)


def test_several_arrays_and_windows_are_refused(tmp_path: Path):
    stored(tmp_path / "a.zarr", values(), CHUNKS)
    kept = {"ledger": tmp_path / "l", "ledger_statistics": True}
    with pytest.raises(PlanError, match="take one array"):
        cf.reduce((tmp_path / "a.zarr", tmp_path / "a.zarr"), "rmse", **kept)
    with pytest.raises(PlanError, match="coarsen cuts"):
        cf.reduce(zarr.open_array(tmp_path / "a.zarr"), "mean", coarsen={0: 2}, **kept)
