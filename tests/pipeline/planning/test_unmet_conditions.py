"""Blocks of which no element meets a condition are not read, if a ledger has their extremes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr

import chunkfold as cf
from chunkfold.errors import LedgerError
from chunkfold.planning import planner
from tests.ledgers import aged, asked, assert_same, stored

pytestmark = [pytest.mark.unoptimised, pytest.mark.filterwarnings("ignore::UserWarning")]
ROWS, SIDE = 64, 12
_KEYS = np.arange(ROWS) % 3
QUESTIONS = {
    "mean": ("mean", {}),
    "count": ("count", {}),
    "rows": ("max", {"axis": 0}),
    "columns": ("std", {"axis": (1, 2)}),
    "median": ("median", {}),
    "position": ("argmax", {}),
    "labels": ("mean", {"by": _KEYS, "by_axis": 0}),
    "labels of columns": ("sum", {"axis": (0, 1), "by": _KEYS, "by_axis": 0}),
    "weights": ("mean", {"weights": np.linspace(1, 2, SIDE)}),
    "without NaN": (["sum", "std"], {"skipna": True}),
    "enough": ("mean", {"axis": 0, "min_count": 4}),
    "half": ("max", {"selection": (slice(16, 64),)}),
    "histogram": (cf.histogram(edges=np.linspace(0, 64, 5)), {}),
}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "LEAF_BYTES", 3000)
    for module in ("blocks", "ledger_spans"):
        monkeypatch.setattr(f"chunkfold.planning.{module}.BLOCK_BYTES", (6000, 12_000))


def rising(dtype: str = "f4", *, nan: bool = False) -> np.ndarray:
    """Return rows that are about as large as their numbers; some may have NaN."""
    rng = np.random.default_rng(0)
    x = rng.random((ROWS, SIDE, SIDE)) + np.arange(ROWS)[:, None, None]
    if nan:
        x[::17, 0, 0] = np.nan
    return x.astype(dtype)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    stored(tmp_path / "a.zarr", rising(), (2, 6, SIDE))
    return tmp_path / "a.zarr"


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("where", ["x > 50", "x > 1000", "2 < x < 4 or x == 60.5"])
def test_only_blocks_that_may_meet_a_condition_are_read(source, tmp_path, name, where):
    asked(source, ["min", "max"], tmp_path / "l")
    op, options = QUESTIONS[name]
    run = asked(source, op, tmp_path / "l", where=where, **options)
    assert run.plan.scan.nbytes <= (0 if "1000" in where else rising().nbytes / 2)


@pytest.mark.parametrize("skipna", [False, True])
@pytest.mark.parametrize("where", ["x > 50", "not (x <= 50)", "isnan(x)"])
def test_nan_may_meet_a_condition_that_no_number_meets(tmp_path, where, skipna):
    stored(tmp_path / "a.zarr", rising(nan=True), (2, 6, SIDE))
    for known in (True, False):
        asked(tmp_path / "a.zarr", ["min", "max"], tmp_path / "l", skipna=known)
    asked(tmp_path / "a.zarr", ["count", "sum"], tmp_path / "l", where=where, skipna=skipna)


@pytest.mark.parametrize("dtype", ["i2", "u8", "f8", "f2"])
def test_elements_of_every_dtype_are_compared(tmp_path, dtype):
    stored(tmp_path / "a.zarr", rising(dtype), (2, 6, SIDE))
    asked(tmp_path / "a.zarr", ["min", "max"], tmp_path / "l")
    run = asked(tmp_path / "a.zarr", "sum", tmp_path / "l", where="x >= 40.5")
    assert run.plan.scan.nbytes < rising(dtype).nbytes * 0.6


@pytest.mark.parametrize(
    ("dtype", "op", "options"),
    [
        ("M8[D]", "count", {"where": "x > 50"}),
        ("m8[s]", "sum", {"where": "x > 50"}),
        ("c8", "sum", {"where": lambda x: x.real > 50}),
        ("i4", "sum", {"where": "x > 50", "dtype": "object"}),
    ],
)
def test_elements_without_an_order_of_numbers_are_all_read(tmp_path, dtype, op, options):
    stored(tmp_path / "a.zarr", rising("i8").astype(dtype), (2, 6, SIDE))
    if dtype != "c8":
        asked(tmp_path / "a.zarr", ["min", "max"], tmp_path / "l")
    run = asked(tmp_path / "a.zarr", op, tmp_path / "l", **options)
    assert run.plan.scan.unneeded == 0


def test_packed_values_are_compared_as_what_they_stand_for(tmp_path):
    array = stored(tmp_path / "a.zarr", rising("i2"), (2, 6, SIDE))
    array.attrs.update({"scale_factor": 0.1, "add_offset": 100.0})
    aged(tmp_path)
    options = {"mask_and_scale": True}
    asked(tmp_path / "a.zarr", ["min", "max"], tmp_path / "l", **options)
    run = asked(tmp_path / "a.zarr", "mean", tmp_path / "l", where="x > 105", **options)
    assert run.plan.scan.nbytes < rising("i2").nbytes / 2


def test_a_chunk_that_changed_is_read(source, tmp_path):
    asked(source, ["min", "max"], tmp_path / "l")
    zarr.open_array(source)[3, 3, 3] = 70
    aged(source / "c" / "1", 1.71e9)
    found = cf.submit(source, "count", where="x > 65", ledger=tmp_path / "l")
    assert found.result(60) == 1
    assert 0 < found.plan.scan.nbytes < rising().nbytes / 2


def test_all_questions_of_a_read_must_have_a_condition(source, tmp_path):
    asked(source, ["min", "max"], tmp_path / "l")
    questions = {"high": cf.ask("mean", where="x > 50"), "low": cf.ask("mean", where="x < 4")}
    for asked_for in (questions, {**questions, "all": cf.ask("std")}):
        run = cf.submit(source, asked_for, ledger=tmp_path / "l")
        assert_same(run.result(60), cf.reduce(source, asked_for))
        assert (run.plan.scan.nbytes < rising().nbytes) == (asked_for is questions)


def test_an_array_without_times_is_refused_with_a_condition_too(source, tmp_path):
    asked(source, ["min", "max"], tmp_path / "l")
    with pytest.raises(LedgerError, match="a ledger needs chunks that can be listed"):
        cf.reduce(rising(), "mean", where="x > 50", ledger=tmp_path / "l")


def test_what_was_not_read_is_not_kept(source, tmp_path):
    """Its partials lack elements; later it may be another condition's."""
    asked(source, ["min", "max"], tmp_path / "l")
    for where in ("x > 50", "x > 20", "x > 50"):
        asked(source, ["mean", "count", "max"], tmp_path / "l", where=where)
        asked(source, ["mean", "count"], tmp_path / "l", where=where, axis=0)
