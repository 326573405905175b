"""With a ledger nothing is read twice, and results are the same bits."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
import zarr
from distributed import Client

import chunkfold as cf
from chunkfold.errors import CancelledError, LedgerError, LedgerWarning, PlanError
from chunkfold.events import BlockProgress
from chunkfold.ledger.ledger import Ledger
from chunkfold.ledger.segments import NewEntry
from chunkfold.ledger.upkeep import prune
from chunkfold.planning import planner
from tests.ledgers import aged, asked, assert_same, small_blocks, stored

ROWS, SIDE = 50, 12
QUESTIONS = int(os.environ.get("CHUNKFOLD_LEDGER_QUESTIONS", "15"))
_MASK = np.arange(SIDE) % 3 > 0
_KEYS = np.arange(ROWS) // 7 % 4
ASKED = {
    "flat": ("sum", {}),
    "several": (["mean", "std", "min", "max", "count"], {}),
    "rows": ("mean", {"axis": 0}),
    "columns": ("max", {"axis": (1, 2)}),
    "positions": ("argmax", {}),
    "positions of rows": ("argmin", {"axis": 0}),
    "median": ("median", {}),
    "percentile": ("p90", {"axis": 0}),
    "top": ("top3", {}),
    "histogram": (cf.histogram(edges=np.linspace(-3, 3, 7)), {}),
    "sketch": (cf.quantile(0.5, method="sketch", rtol=0.01), {}),
    "labels": ("mean", {"axis": 0, "by": _KEYS, "by_axis": 0}),
    "labels of all": (["sum", "min"], {"by": _KEYS, "by_axis": 0}),
    "two labels": ("sum", {"by": (_KEYS, np.arange(SIDE) // 5), "by_axis": (0, 2)}),
    "bins": ("mean", {"by": cf.bins(edges=[-3, -1, 0, 1, 3])}),
    "weights": ("mean", {"axis": (1, 2), "weights": np.linspace(0.5, 1, SIDE)}),
    "mask": ("var", {"where": _MASK}),
    "condition": ("sum", {"where": "x > 0.5"}),
    "windows": ("mean", {"coarsen": {0: 5}, "boundary": "pad"}),
    "integers": ("sum", {"dtype": "i4"}),
}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many blocks of few leaves."""
    small_blocks(monkeypatch, 3000, (6000, 12000))


def values(rows: int = ROWS) -> np.ndarray:
    """Return rows of numbers, of which more have the same first ones."""
    return np.random.default_rng(0).normal(size=(rows, SIDE, SIDE)).astype("f4")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    stored(tmp_path / "a.zarr", values(), (2, 6, SIDE))
    return tmp_path / "a.zarr"


def grown(source: Path, rows: int) -> None:
    """Append rows to an array."""
    array = zarr.open_array(source)
    before = array.shape[0]
    array.resize((rows, *array.shape[1:]))
    array[before:] = values(rows)[before:]
    aged(source)


@pytest.mark.parametrize("name", ASKED)
def test_a_question_that_was_answered_is_not_read_again(source: Path, tmp_path: Path, name: str):
    op, options = ASKED[name]
    first = asked(source, op, tmp_path / "l", **options)
    assert first.ledger.known == 0
    again = asked(source, op, tmp_path / "l", **options)
    assert (again.ledger.known, again.ledger.kept) == (first.ledger.kept, 0)
    assert first.ledger.kept > 1 or name == "percentile"
    assert again.plan.scan.nbytes == 0
    assert not any(isinstance(event, BlockProgress) for event in again.events)


@pytest.mark.parametrize("name", [one for one in ASKED if one not in ("labels", "two labels")])
def test_of_an_array_that_grew_only_new_chunks_are_read(source: Path, tmp_path: Path, name: str):
    op, options = ASKED[name]
    grown(source, 64)
    if "by" in options and "by_axis" in options:
        options = {**options, "by": np.arange(64) // 7 % 4}
    asked(source, op, tmp_path / "l", **options)
    grown(source, 68)
    if "by" in options and "by_axis" in options:
        options = {**options, "by": np.arange(68) // 7 % 4}
    run = asked(source, op, tmp_path / "l", **options)
    row = SIDE * SIDE * 4
    if name not in ("median", "percentile"):  # what is asked next may be another question
        assert run.plan.scan.nbytes <= 8 * row
    assert run.ledger.known > 0 or name == "percentile"


def test_a_new_label_leaves_the_groups_of_old_chunks_known(source: Path, tmp_path: Path):
    years = np.arange(ROWS + 14) // 10
    asked(source, "mean", tmp_path / "l", by=years[:ROWS], by_axis=0)
    grown(source, ROWS + 14)
    run = asked(source, "mean", tmp_path / "l", by=years, by_axis=0)
    assert 0 < run.plan.scan.nbytes <= 16 * SIDE * SIDE * 4


def test_other_questions_find_what_one_has_left(source: Path, tmp_path: Path):
    asked(source, ["mean", "std", "min", "max"], tmp_path / "l")
    for op in ("mean", "sum", "std", "min", "max", ["max", "mean"], "var"):
        assert asked(source, op, tmp_path / "l").plan.scan.nbytes == 0, op
    assert asked(source, "count_nonzero", tmp_path / "l").plan.scan.nbytes > 0


def test_several_questions_of_one_read_are_known_together(source: Path, tmp_path: Path):
    questions = {
        "all": cf.ask(["mean", "max"]),
        "rows": cf.ask("std", axis=0),
        "groups": cf.ask("sum", axis=(0, 1), by=_KEYS, by_axis=0),
    }
    first = cf.submit(source, questions, ledger=tmp_path / "l")
    alone = cf.reduce(source, questions)
    assert_same(first.result(), alone)
    again = cf.submit(source, questions, ledger=tmp_path / "l")
    assert_same(again.result(), alone)
    assert again.plan.scan.nbytes == 0
    grown(source, ROWS + 2)
    more = {**questions, "groups": cf.ask("sum", axis=(0, 1), by=np.arange(52) // 7 % 4, by_axis=0)}
    third = cf.submit(source, more, ledger=tmp_path / "l")
    assert_same(third.result(), cf.reduce(source, more))
    assert third.ledger.known > 0


def test_positions_in_windows_of_an_array_that_grew_behind_them_are_found_anew(tmp_path: Path):
    x = values().reshape(4, -1)
    x[1, 0] = -9
    stored(tmp_path / "a.zarr", x[:, :1200], (4, 100))
    options = {"axis": 1, "coarsen": {0: 2}}
    asked(tmp_path / "a.zarr", "argmin", tmp_path / "l", **options)
    array = zarr.open_array(tmp_path / "a.zarr")
    array.resize(x.shape)
    array[:, 1200:] = x[:, 1200:]
    aged(tmp_path / "a.zarr")
    asked(tmp_path / "a.zarr", "argmin", tmp_path / "l", **options)


def test_a_question_without_windows_is_known_beside_one_that_has_them(source, tmp_path: Path):
    windows = cf.ask("sum", axis=0, coarsen={1: 2})
    questions = {"rows": cf.ask("mean", axis=0), "windows": windows}
    first = cf.submit(source, questions, ledger=tmp_path / "l")
    assert_same(first.result(), cf.reduce(source, questions))
    again = cf.submit(source, questions, ledger=tmp_path / "l")
    assert_same(again.result(), first.result())
    assert (again.ledger.known, again.ledger.kept) == (first.ledger.kept, 0)


@pytest.mark.parametrize(
    "change",
    [
        lambda array, path: array.__setitem__((3, 0, 0), 9.0),
        lambda array, path: shutil.rmtree(path / "c" / "3"),
        lambda array, path: array.attrs.update(units="K"),
    ],
    ids=["a chunk", "a deletion", "attributes"],
)
def test_what_was_changed_is_read_again_and_no_more(source: Path, tmp_path: Path, change):
    asked(source, ["sum", "argmax"], tmp_path / "l")
    before = {file: file.stat().st_mtime_ns for file in source.rglob("*") if file.is_file()}
    change(zarr.open_array(source), source)
    for file in source.rglob("*"):  # those that were written look a minute old
        if file.is_file() and before.get(file) != file.stat().st_mtime_ns:
            then = time.time() - 60
            os.utime(file, (then, then))
    run = asked(source, ["sum", "argmax"], tmp_path / "l")
    assert run.ledger.known > 0
    assert run.plan.scan.nbytes <= 4 * 2 * SIDE * SIDE * 4


@pytest.mark.parametrize(
    "given",
    [{"dtype": "f8"}, {"chunks": (5, 12, 12)}, {"compressors": None}, {"fill_value": 3.0}],
    ids=str,
)
def test_an_array_that_is_decoded_otherwise_is_another(source: Path, tmp_path: Path, given):
    asked(source, "sum", tmp_path / "l")
    shutil.rmtree(source)
    dtype, chunks = given.pop("dtype", "f4"), given.pop("chunks", (2, 6, SIDE))
    stored(source, values().astype(dtype), chunks, **given)
    assert asked(source, "sum", tmp_path / "l").ledger.known == 0


def test_a_chunk_that_was_just_written_is_not_trusted(source: Path, tmp_path: Path):
    zarr.open_array(source)[0, 0, 0] = 5
    first = asked(source, "sum", tmp_path / "l")
    assert 0 < first.ledger.kept < len(first.plan.blocks)
    zarr.open_array(source)[0, 0, 0] = 6
    assert asked(source, "sum", tmp_path / "l").ledger.known == first.ledger.kept


@pytest.mark.parametrize("seed", range(2))
def test_blocks_of_other_sizes_and_selections_find_them(
    source: Path, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
):
    """Whoever works, whatever leaves, blocks and selections: the same bits, and never a lie."""
    rng = random.Random(seed)
    ops = ["sum", "argmin", "max"]
    for _ in range(6):
        size = rng.choice((3000, 6000, 24000))
        monkeypatch.setattr("chunkfold.planning.ledger_spans.BLOCK_BYTES", (size, 4 * size))
        begin, end = sorted(rng.sample(range(0, ROWS + 1, rng.choice((1, 2, 4))), 2))
        selection = np.s_[begin:end] if rng.random() < 0.6 else None
        axis = rng.choice((None, 0, (1, 2), 2))
        op = "sum" if axis == (1, 2) else ops
        asked(source, op, tmp_path / "l", selection=selection, axis=axis)
    monkeypatch.setattr("chunkfold.planning.ledger_spans.BLOCK_BYTES", (3000, 3000))
    asked(source, ops, tmp_path / "l")
    monkeypatch.setattr("chunkfold.planning.ledger_spans.BLOCK_BYTES", (24000, 24000))
    assert asked(source, ops, tmp_path / "l").plan.scan.nbytes == 0


@pytest.mark.parametrize("chunks", [(2, 6, SIDE), (1, 2, SIDE), (3, SIDE, SIDE)])
@pytest.mark.parametrize("leaves", [(3000, 12_000), (12_000, 3000), (1800, 7000)])
@pytest.mark.parametrize(
    ("op", "options"),
    [
        ("sum", {}),
        (["mean", "std", "max"], {}),
        ("argmax", {}),
        (["mean", "std"], {"axis": 0}),
        ("min", {"axis": (1, 2)}),
        ("mean", {"axis": (0, 2), "by": _KEYS, "by_axis": 0}),
        ("sum", {"by": _KEYS, "by_axis": 0, "axis": (0, 1)}),
    ],
)
def test_leaves_of_other_sizes_find_them(tmp_path, monkeypatch, chunks, leaves, op, options):
    """As other devices and other memory have them; blocks are no smaller than these."""
    source = tmp_path / "a.zarr"
    stored(source, values(), chunks)
    first, then = leaves
    small_blocks(monkeypatch, first, (20_000, 24_000))
    before = asked(source, op, tmp_path / "l", **options)
    assert before.ledger.kept > 1
    monkeypatch.setattr(planner, "LEAF_BYTES", then)
    run = asked(source, op, tmp_path / "l", **options)
    assert before.plan.layout != run.plan.layout
    assert run.ledger.known >= 1
    assert run.plan.scan.nbytes < 18 * SIDE * SIDE * 4 + 1  # rows of no whole block


def test_a_run_that_was_cancelled_goes_on_from_what_it_had(source: Path, tmp_path: Path):
    ended = threading.Event()
    done = []

    def slowly(event: object) -> None:
        if isinstance(event, BlockProgress) and event.done:
            done.append(event.block)
            if len(done) == 3:
                run.cancel()
                ended.set()

    run = cf.submit(source, "sum", ledger=tmp_path / "l", on_event=slowly)
    try:
        run.result(60)
    except CancelledError as error:
        said = "".join(error.__notes__)
    else:
        said = "goes on from there"  # it was done before
    assert "goes on from there" in said
    assert run.ledger.kept >= 3
    again = asked(source, "sum", tmp_path / "l")
    assert again.ledger.known >= run.ledger.kept


_KILLED = """
import os, signal, sys, numpy as np
import chunkfold as cf
from chunkfold.events import BlockProgress
from chunkfold.planning import blocks, planner, ledger_spans
planner.LEAF_BYTES = 3000
blocks.BLOCK_BYTES = ledger_spans.BLOCK_BYTES = (6000, 12000)
ledger_spans.BLOCK_PER_PARTIAL = 1
count = 0
def hear(event):
    global count
    count += isinstance(event, BlockProgress) and event.done
    if count == int(sys.argv[3]):
        import time; time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGKILL)
cf.reduce(sys.argv[1], "sum", ledger=sys.argv[2], on_event=hear)
"""


@pytest.mark.short
def test_after_a_kill_of_the_process_only_blocks_under_way_run_again(source: Path, tmp_path: Path):
    number = len(cf.plan(source, "sum", ledger=tmp_path / "l").blocks) * 3 // 4
    command = [sys.executable, "-c", _KILLED, source, tmp_path / "l", str(number)]
    ended = subprocess.run(command, check=False, timeout=120)
    assert ended.returncode == -signal.SIGKILL
    run = asked(source, "sum", tmp_path / "l")
    assert run.ledger.known >= number - 2
    assert run.ledger.known + run.ledger.kept == len(run.plan.blocks)


def test_a_damaged_ledger_is_computed_anew_and_counted(source: Path, tmp_path: Path):
    asked(source, ["mean", "argmax"], tmp_path / "l")
    rng = random.Random(1)
    for file in (tmp_path / "l").iterdir():
        content = bytearray(file.read_bytes())
        content[-rng.randrange(1, 200)] ^= 1 << rng.randrange(8)
        file.write_bytes(content)
    run = asked(source, ["mean", "argmax"], tmp_path / "l")
    assert run.ledger.damaged > 0
    assert run.ledger.kept >= run.ledger.damaged
    assert asked(source, ["mean", "argmax"], tmp_path / "l").plan.scan.nbytes == 0


def test_partials_of_another_form_are_refused(source: Path, tmp_path: Path):
    """As from a version that had a fault: what has other arrays than it should is not used."""
    asked(source, "sum", tmp_path / "l")
    ledger = Ledger.at(str(tmp_path / "l"))
    entries = [note for _, note in ledger.notes()]
    wrong = [
        NewEntry(note.key, note.components, {"0.count": np.array(3)}, note.span) for note in entries
    ]
    prune(ledger, older_than=timedelta(0))
    ledger.write(wrong)
    run = asked(source, "sum", tmp_path / "l")
    assert run.ledger.damaged == len(entries)
    assert run.ledger.kept == len(entries)


def test_a_ledger_that_cannot_be_written_ends_no_run(source: Path, tmp_path: Path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("chunkfold.ledger.ledger_folders.LocalFolder.write", full)
    run = cf.submit(source, "sum", ledger=tmp_path / "l")
    with pytest.warns(LedgerWarning, match="No space left on device.*not kept"):
        found = run.result()
    assert found == cf.reduce(source, "sum")
    assert run.ledger.kept == 0


def test_what_keeps_no_partials_says_so(source: Path, tmp_path: Path):
    with pytest.raises(PlanError, match="mode is 'fast'"):
        cf.reduce(source, "sum", ledger=tmp_path / "l", mode="fast")
    with pytest.raises(PlanError, match="compute=False"):
        cf.reduce(source, "sum", ledger=tmp_path / "l", compute=False)
    with pytest.raises(LedgerError, match="chunks that can be listed"):
        cf.reduce(values(), "sum", ledger=tmp_path / "l")
    with pytest.raises(PlanError, match="give the path of a folder"):
        cf.reduce(source, "sum", ledger=3)


def test_concatenated_arrays_keep_theirs_when_one_more_follows(tmp_path: Path):
    for number in range(3):
        part = values()[16 * number : 16 * number + 16]
        stored(tmp_path / f"{number}.zarr", part, (2, 6, SIDE))
    two = cf.concatenate([tmp_path / "0.zarr", tmp_path / "1.zarr"])
    asked(two, "mean", tmp_path / "l")
    three = cf.concatenate([tmp_path / f"{n}.zarr" for n in range(3)])
    run = asked(three, "mean", tmp_path / "l")
    assert 0 < run.plan.scan.nbytes == 16 * SIDE * SIDE * 4


def test_arrays_of_two_inputs_are_known(source: Path, tmp_path: Path):
    stored(tmp_path / "b.zarr", values() + 1, (2, 6, SIDE))
    pair = source, tmp_path / "b.zarr"
    asked(pair, ["rmse", "corr"], tmp_path / "l")
    assert asked(pair, ["rmse", "corr"], tmp_path / "l").plan.scan.nbytes == 0
    assert asked((pair[1], pair[0]), "bias", tmp_path / "l").ledger.known == 0


@pytest.mark.short
def test_on_a_cluster_a_dead_worker_costs_what_was_under_way(
    source: Path, tmp_path: Path, client: Client
):
    client.wait_for_workers(2, timeout=60)
    killed = list[int]()

    def hear(event: object) -> None:
        if isinstance(event, BlockProgress) and event.done and len(killed) < 1:
            killed.append(1)
            pids = client.run(os.getpid)
            os.kill(pids[event.worker], signal.SIGKILL)

    run = cf.submit(
        source, ["sum", "argmax"], axis=0, ledger=tmp_path / "l", client=client, on_event=hear
    )
    assert_same(run.result(200), cf.reduce(source, ["sum", "argmax"], axis=0))
    assert killed
    assert run.ledger.kept == len(run.plan.blocks)
    again = cf.submit(source, ["sum", "argmax"], axis=0, ledger=tmp_path / "l", client=client)
    assert_same(again.result(200), cf.reduce(source, ["sum", "argmax"], axis=0))
    assert again.plan.scan.nbytes == 0


def test_large_partials_are_kept_and_found_on_a_cluster(
    source: Path, tmp_path: Path, client: Client, monkeypatch
):
    """They stay on workers, and go to combines by way of one."""
    client.wait_for_workers(2, timeout=60)
    monkeypatch.setattr("chunkfold.running.sending.GATHER_BYTES", 100)
    for known in (False, True):
        run = cf.submit(source, "mean", axis=0, ledger=tmp_path / "l", client=client)
        assert_same(run.result(200), cf.reduce(source, "mean", axis=0))
        assert (run.ledger.known, run.ledger.kept)[known] == 0
        assert run.ledger.known + run.ledger.kept == len(run.plan.blocks) > 2


def test_a_plan_with_a_ledger_says_what_is_known(source: Path, tmp_path: Path):
    asked(source, "sum", tmp_path / "l")
    made = cf.plan(source, "sum", ledger=tmp_path / "l")
    assert f"ledger    {tmp_path / 'l'}" in str(made)
    assert made.scan.nbytes == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cf.reduce(made) == cf.reduce(source, "sum")


OPS = (
    "sum", "mean", "std", "min", "argmax", "argmin", "count_nonzero", "nanmean", "median", "p90",
    "top3", "norm2", "minmax", "any", ["mean", "max"], ["sum", "argmin", "var"],
)  # fmt: skip
WITH = {
    "": lambda rng, rows: {},
    "where": lambda rng, rows: {"where": f"x > {rng.choice((0, 0.5))}"},
    "mask": lambda rng, rows: {"where": np.arange(SIDE) % rng.choice((2, 3)) > 0},
    "weights": lambda rng, rows: {"weights": np.linspace(rng.choice((0.5, 0.7)), 1, SIDE)},
    "dtype": lambda rng, rows: {"dtype": rng.choice(("f8", "i4"))},
    "skipna": lambda rng, rows: {"skipna": True},
    "initial": lambda rng, rows: {"initial": rng.choice((3.0, 5.0))},
    "by": lambda rng, rows: {"by": np.arange(rows) // rng.choice((5, 7)) % 4, "by_axis": 0},
    "bins": lambda rng, rows: {"by": cf.bins(edges=rng.choice(([-3, 0, 3], [-1, 0.5, 2])))},
}


def _selection(rng: random.Random, rows: int) -> tuple[object, ...]:
    begin, end = sorted(rng.sample(range(rows + 1), 2))
    first = (slice(begin, end), slice(begin, end, 2), slice(end - 1, begin or None, -1))
    rest = ((), (slice(2, 9),), (slice(None, None, 2),), (slice(None, None, -1),), ([0, 3, 5],))
    return (rng.choice(first), *rng.choice(rest))


def _question(rng: random.Random, rows: int) -> tuple[object, dict[str, object]]:
    """Return a random question of an array of so many rows; some cannot be asked."""
    given = {"axis": rng.choice((None, None, 0, 1, 2, (0, 1), (1, 2), (0, 2)))}
    if rng.random() < 0.5:
        given["selection"] = _selection(rng, rows)
    return rng.choice(OPS), given | WITH[rng.choice([*WITH])](rng, rows)


@pytest.mark.parametrize("seed", range(2))
def test_one_ledger_serves_any_questions_of_an_array_that_changes(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
):
    """No partial of another question, selection, array or state of it is taken."""
    rng, rows, known, before = random.Random(seed), ROWS, 0, [("sum", {})]
    stored(tmp_path / "b.zarr", values() * 2, (2, 6, SIDE))
    for number in range(QUESTIONS):
        if number % 10 == 9:
            array = zarr.open_array(source)
            row = rng.randrange(rows)
            array[row] = rng.random()
            for chunk in (source / "c" / str(row // 2)).rglob("*"):
                os.utime(chunk, (1.7e9 + number, 1.7e9 + number))
            if rng.random() < 0.5:
                rows += rng.randrange(1, 5)
                array.resize((rows, *array.shape[1:]))
        monkeypatch.setattr(planner, "LEAF_BYTES", rng.choice([1500, 3000, 3000, 9000]))
        one, length = (source, rows) if rng.random() < 0.8 else (tmp_path / "b.zarr", ROWS)
        op, options = _question(rng, length) if rng.random() < 0.5 else rng.choice(before)
        try:
            cf.plan(one, op, **options)
        except cf.ChunkfoldError:  # weights of a count, labels of another length
            continue
        before.append((op, options))
        known += asked(one, op, tmp_path / "l", **options).ledger.known
    assert known > 0


def test_a_chunk_that_was_replaced_by_an_older_one_meanwhile_is_not_kept(tmp_path: Path):
    """Files of the same size, so that the read does not notice it."""
    source, other, one = tmp_path / "a.zarr", tmp_path / "b.zarr", Path("c", "3", "0", "0")
    stored(source, values() * 0 + 2, (2, 6, SIDE), compressors=None)
    stored(other, values() * 0 + 3, (2, 6, SIDE), compressors=None)
    planned = cf.plan(source, "sum", ledger=tmp_path / "l")
    original = (source / one).read_bytes()
    os.utime(other / one, (1.6e9, 1.6e9))
    (other / one).replace(source / one)
    run = cf.submit(planned)
    assert run.result() == 2 * ROWS * SIDE * SIDE + 2 * 6 * SIDE
    assert run.ledger.kept == len(run.plan.blocks) - 1
    (source / one).write_bytes(original)
    aged(source)
    assert asked(source, "sum", tmp_path / "l").result() == 2 * ROWS * SIDE * SIDE


def test_reductions_that_round_keep_no_ledger(source: Path, tmp_path: Path):
    with pytest.raises(LedgerError, match="prod: rounded in every operation"):
        cf.reduce(source, ["prod", "sum"], ledger=tmp_path / "l")
