"""Several questions in one read: each has the bits that it has alone, and chunks are read once."""

from __future__ import annotations

import copy
import os
import pickle
import signal
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from distributed import Client
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkfold as cf
from chunkfold.errors import PlanError
from chunkfold.events import BlockProgress, Event, RunStarted
from chunkfold.planning import blocks, memory, planner
from chunkfold.planning.questions import Question
from chunkfold.planning.work import Work
from chunkfold.reading import tile_leaves
from chunkfold.worker.worker_device import process_device
from tests.conftest import DEVICES
from tests.pipeline.test_skipping import damaged, removed

pytestmark = pytest.mark.unoptimised
SHAPE, CHUNKS = (12, 9, 10), (5, 4, 6)
RNG = np.random.default_rng(0)
WIDE = (RNG.normal(size=SHAPE) * 10.0 ** RNG.integers(-30, 30, SHAPE)).astype("f4")
"""Sums of these are more than expansions hold."""
NARROW = RNG.normal(size=SHAPE).astype("f4")
MONTHS, ZONES = np.arange(12) // 3, RNG.integers(-1, 4, SHAPE[1:])
ASKED: Mapping[str, Question] = {
    "mean": cf.ask("mean", axis=0),
    "weighted": cf.ask(["mean", "std"], axis=0, weights=RNG.random((12, 1, 1))),
    "whole": cf.ask(["sum", "max", "argmax"]),
    "of times": cf.ask("sum", axis=(1, 2)),
    "kept": cf.ask("min", axis=1, keepdims=True),
    "by month": cf.ask("mean", axis=0, by=MONTHS),
    "zones": cf.ask(["sum", "count"], axis=(1, 2), by=ZONES),
    "above": cf.ask("count_nonzero", axis=2, where="x > 0"),
    "histogram": cf.ask(cf.histogram([-1.0, 0.0, 1.0])),
}
MEDIANS = {"median": cf.ask("median", axis=0), "of all": cf.ask(["median", "mean"])}


@pytest.fixture(autouse=True)
def _small_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "LEAF_BYTES", 512)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", (1024, 2048))
    monkeypatch.setattr(blocks, "BLOCK_PER_PARTIAL", 0)


def alone(source: Any, question: Question, **common: Any) -> Any:
    return cf.reduce(source, question.op, **{**common, **question.given})


def same(found: Any, want: Any) -> None:
    """See that results are equal, bit for bit, and of the same types."""
    assert type(found) is type(want)
    if isinstance(want, Mapping):
        assert list(found) == list(want)
        for name in want:
            same(found[name], want[name])
        return
    assert np.asarray(found).dtype == np.asarray(want).dtype
    assert np.asarray(found).tobytes() == np.asarray(want).tobytes()


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    made = cf.LocalOpenCLCluster(DEVICES[0].spec, workers_per_device=2, dashboard_address=None)
    with made as cluster, Client(cluster, set_as_default=False) as connected:
        yield connected


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stores")
    for name, values in {"narrow": NARROW, "wide": WIDE}.items():
        made = zarr.create_array(path / name, shape=SHAPE, chunks=CHUNKS, dtype="f4", fill_value=2)
        made[:10] = values[:10]  # of the last two chunks along the first axis half is fill
        made[10:, :4, :6] = values[10:, :4, :6]
    return path


@pytest.mark.parametrize("name", ["narrow", "wide"])
@settings(max_examples=8)
@given(asked=st.lists(st.sampled_from([*ASKED]), min_size=2, max_size=4, unique=True))
def test_each_has_the_bits_that_it_has_alone(name: str, asked: list[str], stores: Path):
    questions = {one: ASKED[one] for one in asked}
    found = cf.reduce(stores / name, questions)
    assert list(found) == asked
    for one, question in questions.items():
        same(found[one], alone(stores / name, question))


def test_chunks_are_read_once_for_all_and_again_for_those_that_need_it(stores: Path):
    events: list[Event] = []
    asked = {"mean": ASKED["mean"], **MEDIANS, "by month": ASKED["by month"]}
    common = {"selection": (slice(None), slice(3, 5), slice(5, 8))}
    found = cf.submit(stores / "narrow", asked, on_event=events.append, **common)
    whole = found.result()
    reads = [event for event in events if isinstance(event, RunStarted)]
    assert len(reads) == found.plan.reads == 2  # the second for the last digits of both medians
    assert sum(entry.nbytes for entry in found.profile.values()) == 2 * found.plan.scan.nbytes
    for name, question in asked.items():
        same(whole[name], alone(stores / "narrow", question, **common))


def test_accumulators_that_are_too_many_leave_the_device_and_come_back(
    stores: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(memory, "OPEN_BYTES", 0)
    monkeypatch.setattr("chunkfold.worker.ring.OPEN_BYTES", 0)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", (1 << 20, 1 << 20))
    asked = {name: ASKED[name] for name in ("mean", "of times", "zones", "kept")}
    found = cf.reduce(stores / "wide", asked)
    for name, question in asked.items():
        same(found[name], alone(stores / "wide", question))


@settings(max_examples=8)
@given(
    name=st.sampled_from(["narrow", "wide"]),
    asked=st.lists(st.sampled_from([*ASKED]), min_size=1, max_size=3, unique=True),
    windows=st.fixed_dictionaries(
        {}, optional={0: st.integers(1, 13), 1: st.integers(1, 5), 2: st.integers(1, 7)}
    ).filter(bool),
    ops=st.lists(st.sampled_from(["mean", "sum", "max", "argmax"]), min_size=1, unique=True),
    selection=st.sampled_from(
        [
            None,
            (slice(None, None, -1),) * 3,
            ([3, 11, 2, 2, 9], slice(None), [7, 8, 1]),
            (slice(1, None, 2), 3, slice(None)),
        ]
    ),
)
def test_windows_of_some_go_with_questions_of_all(
    name: str,
    asked: list[str],
    windows: Mapping[int, int],
    ops: list[str],
    selection: Any,
    stores: Path,
):
    if selection and 3 in selection:  # positions of the axes that are left
        questions, windows, others = (
            {"all": cf.ask(ops), "rows": cf.ask("mean", axis=0)},
            {0: 4},
            [1],
        )
    else:
        questions = {one: ASKED[one] for one in asked}
        others = [n for n in range(len(SHAPE)) if n not in windows][:1]
    if selection:  # what goes along the axes is along all of them
        labelled = ("weighted", "by month", "zones")
        questions = {name: one for name, one in questions.items() if name not in labelled}
    questions["windows"] = cf.ask(ops, coarsen=windows, boundary="pad")
    questions["same windows"] = cf.ask("sum", coarsen=windows, boundary="pad", axis=others)
    found = cf.reduce(stores / name, questions, selection=selection)
    for one, question in questions.items():
        same(found[one], alone(stores / name, question, selection=selection))


def test_windows_have_a_mean_and_a_quantile_of_one_read(stores: Path):
    windows = {"coarsen": {0: 5, 2: 4}, "boundary": "pad"}
    asked = {
        "mean": cf.ask("mean", **windows),
        "middle": cf.ask("median", **windows),
        **MEDIANS,
    }
    run = cf.submit(stores / "narrow", asked)
    found = run.result()
    assert sum(isinstance(one, RunStarted) for one in run.events) <= run.plan.reads
    values = zarr.open_array(stores / "narrow")[...]
    padded = np.full((15, 9, 12), np.nan, "f4")
    padded[:12, :, :10] = values
    apart = padded.reshape(3, 5, 9, 3, 4).transpose(0, 2, 3, 1, 4).reshape(3, 9, 3, 20)
    np.testing.assert_allclose(found["middle"], np.nanmedian(apart, axis=-1), rtol=1e-6)
    for name, question in asked.items():
        same(found[name], alone(stores / "narrow", question))


def broken(folder: Path, values: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Store an array of which some chunks cannot be read, and others are not stored.

    Returns what is there, with NaN in the place of the bad ones.
    """
    rng = np.random.default_rng(seed)
    grid = [-(-n // c) for n, c in zip(SHAPE, CHUNKS, strict=True)]
    rest = damaged(folder, values, rng.random(grid) < share, chunks=CHUNKS)
    removed(folder, rest, rng.random(grid) < share)
    return rest.filled(np.nan)


LEFT_OUT = {**ASKED, "middle": cf.ask(["median", "count"], where="x > -9", axis=2), **MEDIANS}


@settings(max_examples=8)
@given(
    wide=st.booleans(),
    asked=st.lists(
        st.sampled_from([one for one in LEFT_OUT if one != "kept"]),
        min_size=2,
        max_size=3,
        unique=True,
    ),
    windowed=st.booleans(),
    share=st.sampled_from([0.1, 0.4]),
    seed=st.integers(0, 99),
)
def test_chunks_that_cannot_be_read_are_left_out_of_each(
    tmp_path_factory, wide: bool, asked: list[str], windowed: bool, share: float, seed: int
):
    folder = tmp_path_factory.mktemp("bad") / "a"
    rest = broken(folder, WIDE if wide else NARROW, share, seed)
    questions = {one: LEFT_OUT[one] for one in asked}
    if windowed:
        questions["windows"] = cf.ask(["sum", "count"], coarsen={0: 3, 2: 4}, boundary="pad")
    questions["number"] = cf.ask("count")
    run = cf.submit(folder, questions, on_bad_chunk="skip")
    found = run.result()
    assert sum(run.skipped.values()) == np.isnan(rest).sum()
    assert found["number"] == (~np.isnan(rest)).sum()
    for one, question in questions.items():
        same(found[one], alone(folder, question, on_bad_chunk="skip"))


def test_what_has_left_the_device_is_taken_back_where_a_chunk_is_bad(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("chunkfold.worker.ring.OPEN_BYTES", 0)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", (1 << 20, 1 << 20))
    broken(tmp_path / "a", WIDE, 0.2, 1)
    asked = {name: ASKED[name] for name in ("mean", "of times", "zones", "whole")}
    found = cf.reduce(tmp_path / "a", asked, on_bad_chunk="skip")
    for name, question in asked.items():
        same(found[name], alone(tmp_path / "a", question, on_bad_chunk="skip"))


def test_outputs_of_nothing_but_bad_chunks_are_told_by_question(tmp_path: Path):
    bad = np.zeros((3, 3, 2), bool)
    bad[:, 1, 0] = True
    rest = damaged(tmp_path / "a", NARROW, bad, chunks=CHUNKS)
    asked = {"all": cf.ask(["sum", "min"]), "map": cf.ask("max", axis=0)}
    with pytest.raises(cf.ChunkError, match=r"map: max .* no value in 24 outputs: .* skipped"):
        cf.reduce(tmp_path / "a", asked, on_bad_chunk="skip")
    asked["map"] = cf.ask("count", axis=0)
    found = cf.reduce(tmp_path / "a", asked, on_bad_chunk="skip")
    assert found["all"]["min"] == rest.min()
    np.testing.assert_array_equal(found["map"], (~rest.mask).sum(axis=0))


def test_what_is_not_stored_is_counted_not_read_where_that_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(planner, "LEAF_BYTES", 4096)
    monkeypatch.setattr(tile_leaves, "READ_BYTES", 100)
    made = zarr.create_array(tmp_path / "a", shape=SHAPE, chunks=CHUNKS, dtype="f4", fill_value=2.5)
    made[:5, :4, 6:] = NARROW[:5, :4, 6:]
    made[10:, 8:] = NARROW[10:, 8:]
    asked = {
        "map": cf.ask("mean", axis=0),
        "all": cf.ask(["sum", "std", "max"]),
        "bins": cf.ask(cf.histogram([-9.0, 0.0, 2.0, 9.0])),
    }
    found = cf.reduce(tmp_path / "a", asked)
    for one, question in asked.items():
        same(found[one], alone(tmp_path / "a", question))
    counts = np.histogram(made[...], [-9.0, 0.0, 2.0, 9.0])[0]
    assert found["bins"]["count"].tolist() == counts.tolist()
    work = Work.of("run", cf.plan(tmp_path / "a", asked))
    assert work.fills_implicitly
    assert not Work.of(
        "run", cf.plan(tmp_path / "a", {**asked, "t": ASKED["of times"]})
    ).fills_implicitly


def test_leaves_that_no_buffer_holds_are_folded_in_parts(
    stores: Path, monkeypatch: pytest.MonkeyPatch
):
    worker_device = process_device()
    small = replace(worker_device.opened.device, max_alloc_bytes=200)
    monkeypatch.setattr(worker_device.opened, "device", small)
    asked = {name: ASKED[name] for name in ("mean", "of times", "zones", "whole")}
    found = cf.reduce(stores / "wide", asked)
    for name, question in asked.items():
        same(found[name], alone(stores / "wide", question))


def test_what_is_read_is_said_once_and_the_rest_by_each():
    questions = {"all": cf.ask("sum"), "rows": cf.ask("sum", axis=(1, 2), skipna=False)}
    holes = np.where(NARROW > 1, np.nan, NARROW).astype("f8")
    common = {"selection": (slice(None, None, -2), [7, 1, 3]), "skipna": True}
    found = cf.reduce(holes, questions, **common)
    for name, question in questions.items():
        same(found[name], alone(holes, question, **common))
    assert np.isnan(found["rows"]).any()


def test_positions_of_one_keep_the_order_of_all():
    values = RNG.integers(0, 4, SHAPE)  # equal ones: the first counts
    questions = {"sum": cf.ask("sum", axis=1), "where": cf.ask("argmax", axis=0)}
    selection = (slice(None, None, -1), slice(None, None, -2))
    found = cf.reduce(values, questions, selection=selection)
    for name, question in questions.items():
        same(found[name], alone(values, question, selection=selection))


def test_results_are_labelled_as_they_are_alone():
    array = xr.DataArray(
        NARROW, dims=("time", "y", "x"), coords={"time": np.arange(12)}, attrs={"units": "K"}
    )
    questions = {
        "map": cf.ask("mean", axis="time"),
        "months": cf.ask("sum", by=MONTHS, axis="time"),
    }
    run = cf.submit(array, questions)
    found = run.result()
    xr.testing.assert_identical(found["map"], alone(array, questions["map"]))
    assert found["months"].dims == alone(array, questions["months"]).dims
    assert set(run.labelled()) == set(questions)
    assert list(run.values) == ["map/mean", "months/sum"]
    with pytest.raises(PlanError, match="map, months"):
        _ = run.results


def test_a_plan_says_what_each_is_and_travels(stores: Path):
    plan = cf.plan(stores / "narrow", ASKED)
    told = str(plan)
    for name in ASKED:
        assert f"question  {name}\n" in told
    assert told.count("leaves ") == told.count("memory ") == 1
    same(cf.reduce(pickle.loads(pickle.dumps(plan))), cf.reduce(plan))


def test_the_memory_of_all_of_them_counts(stores: Path):
    one = cf.plan(stores / "narrow", "mean", axis=0)
    both = cf.plan(stores / "narrow", {"a": cf.ask("mean", axis=0), "b": cf.ask("mean", axis=0)})
    assert both.memory.accumulators > one.memory.accumulators
    small = {"a": cf.ask("max"), "b": cf.ask()}
    assert cf.plan(np.arange(24), small).memory.total < 4 << 20
    with pytest.raises(PlanError, match="a worker needs"):
        cf.plan(stores / "narrow", {"a": cf.ask("mean", axis=0), "b": cf.ask()}, memory="512 KiB")


@pytest.mark.parametrize(
    ("questions", "common", "said"),
    [
        ({}, {}, "no question is given"),
        (
            {"a": "mean"},
            {},
            r"'a' is not a question, but a str: give one, as in \{'a': chunkfold.ask",
        ),
        ({"a/b": cf.ask()}, {}, "a question is called 'a/b'"),
        ({"..": cf.ask()}, {}, r"a question is called '\.\.'"),
        ({"zarr.json": cf.ask()}, {}, "a question is called 'zarr.json'"),
        ({"a": cf.ask(), "b": cf.ask(axis=9)}, {}, "b: "),
        ({"a": cf.ask(keepdims=3)}, {}, "a: keepdims is 3"),
        ({"a": cf.ask("dot")}, {}, "a: "),
        ({3: cf.ask()}, {}, "a question is called 3"),
        (
            {"a": cf.ask(coarsen={0: 2}), "b": cf.ask(coarsen={0: 3})},
            {},
            "b: its windows are 3 along 0, but those of a are 2 along 0: leaves end",
        ),
        (
            {"a": cf.ask(), "b": cf.ask(coarsen={1: 2}, boundary="trim")},
            {},
            "b: its last windows are trimmed, but a needs their elements: give boundary='pad'",
        ),
        ({"a": cf.ask(), "b": cf.ask(axis=7)}, {}, "7"),
    ],
)
def test_what_cannot_be_asked_is_refused(questions: Any, common: Any, said: str):
    with pytest.raises((PlanError, cf.MonoidError), match=said):
        cf.reduce(NARROW, questions, **common)


def test_what_says_what_is_read_is_no_question():
    with pytest.raises(PlanError, match="sel applies to what all questions read: give it once"):
        cf.ask("mean", sel={"lat": 3})
    for alone in (cf.ask("mean"), [cf.ask("mean"), cf.ask("sum")]):
        with pytest.raises(PlanError, match="a question needs a name"):
            cf.reduce(NARROW, alone)  # type: ignore[arg-type] # which is the point


def test_a_question_is_a_value_and_may_complete_what_all_are_given():
    asked = cf.ask("max", groups=[1, 0])
    again = pickle.loads(pickle.dumps(copy.deepcopy(asked)))
    assert (again.op, again.given, len({asked, again})) == (asked.op, asked.given, 2)
    found = cf.reduce(NARROW, {"a": asked, "b": cf.ask("max")}, by=MONTHS, axis=0)
    assert (found["a"].labels.tolist(), found["b"].labels.tolist()) == ([1, 0], [0, 1, 2, 3])


def test_of_no_elements_each_has_what_it_has_alone():
    questions = {"a": cf.ask("sum"), "b": cf.ask("count"), "c": cf.ask("sum", axis=0)}
    found = cf.reduce(np.zeros((0, 3)), questions)
    for name, question in questions.items():
        same(found[name], alone(np.zeros((0, 3)), question))


def test_a_descending_selection_finds_what_is_stored(tmp_path: Path):
    made = zarr.create_array(tmp_path / "a", shape=(12,), chunks=(3,), dtype="i4", fill_value=-1)
    made[...] = np.arange(12)
    for selection in (slice(None, None, -1), [11, 2, 5, 0]):
        found = cf.reduce(tmp_path / "a", ["sum", "argmax"], selection=(selection,))
        chosen = np.arange(12)[selection]
        assert (found["sum"], found["argmax"]) == (chosen.sum(), chosen.argmax())


def test_a_graph_has_one_question_only():
    with pytest.raises(PlanError, match="several questions"):
        cf.reduce(NARROW, {"a": cf.ask()}, compute=False)


def test_workers_that_are_lost_cost_no_answer(stores: Path, client: Client):
    pids, killed = client.run(os.getpid), list[str]()

    def kill(event: Event) -> None:
        if isinstance(event, BlockProgress) and event.done and event.block == 3 and not killed:
            killed.append(event.worker)
            os.kill(pids[event.worker], signal.SIGKILL)

    run = cf.submit(stores / "wide", ASKED, client=client, on_event=kill)
    found = run.result(120)
    assert killed
    for name, question in ASKED.items():
        same(found[name], alone(stores / "wide", question))
