"""Progress: what events add up to, and how it is shown."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from chunkfold.events import BlockProgress, RunStarted, Waiting, WorkerRetired
from chunkfold.running.tally import Tally
from chunkfold.workflows.terminal import progress
from chunkfold.workflows.terminal.progress import run_progress


def folded(block: int, nbytes: int, *, done=False, worker="w", device="d", seconds=1.0):
    return BlockProgress("r", block, nbytes, done, worker, device, seconds)


STARTED = RunStarted("r", "s", ("sum",), 2, 100, {"d": "pocl:0:cpu", "e": "intel:0:cpu"})


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.sampled_from("vw"))))
def test_bytes_never_shrink_and_are_those_of_the_furthest_try(steps):
    """Whatever worker folds a block again, and how far it comes."""
    tally, most = Tally(), {}
    for block, nbytes, worker in steps:
        before = tally.nbytes
        tally.hear(folded(block, nbytes, worker=worker, device=worker))
        most[block] = max(most.get(block, 0), nbytes)
        assert before <= tally.nbytes == sum(most.values()) == sum(tally.of_devices.values())


def test_blocks_that_begin_again_are_counted():
    tally = Tally()
    tally.hear(STARTED)
    for event in (
        folded(0, 20, seconds=1),
        folded(0, 40, seconds=2),
        folded(0, 10, seconds=1),  # the same worker, restarted
        folded(0, 50, seconds=2, done=True, worker="v", device="e"),  # another
        folded(1, 50, done=True),
    ):
        tally.hear(event)
    tally.hear(WorkerRetired("r", "w", "no device"))
    assert (tally.blocks, tally.again, tally.retries, tally.nbytes) == (2, 2, 3, 100)
    assert tally.of_devices == {"d": 90, "e": 10}


def test_blocks_of_a_further_read_are_not_begun_again():
    tally = Tally()
    for run, worker in (("r", "w"), ("r-1", "v")):
        tally.hear(RunStarted(run, "s", ("p95",), 2, 100, {}))
        for block in range(2):
            tally.hear(BlockProgress(run, block, 50, True, worker, "d", 1.0))
    assert (tally.blocks, tally.again, tally.retries, tally.nbytes) == (4, 0, 0, 200)


def test_a_lane_for_each_device_of_several():
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    with run_progress(console, quiet=False) as watch:
        for _ in range(2):  # one run after another
            watch(STARTED)
            watch(folded(0, 60, done=True))
            watch(folded(1, 40, done=True, device="e"))
        watch(WorkerRetired("r", "tcp://1.2.3.4:5", "no device [here]"))
    shown = console.file.getvalue()
    for text in ("sum of s", "pocl:0:cpu", "intel:0:cpu", "100/100", "60/100", "40/100"):
        assert text in shown
    assert "no device [here]" in shown
    assert "1 retried" in shown


def test_on_a_narrow_terminal_the_name_is_cut_and_no_figure():
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    name = "/data/of/an/institute/reanalysis.zarr/temperature"
    with run_progress(console, quiet=False) as watch:
        watch(RunStarted("r", name, ("mean", "std"), 2, 3 << 30, {"d": "pocl:0:cpu"}))
        watch(folded(0, 1 << 30))
    shown = console.file.getvalue()
    for text in ("mean, std of …temperature\x1b", "1.0/3.0 GiB"):
        assert text in shown


def test_the_time_left_counts_from_the_first_bytes(monkeypatch):
    """Before these kernels are compiled."""
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    console = Console(file=io.StringIO(), width=200)
    with run_progress(console, quiet=False) as watch:
        watch(STARTED)
        for clock[0], nbytes in ((60, 20), (62, 40), (75, 50)):
            watch(folded(0, nbytes))
    assert [line.partition(", ")[2] for line in console.file.getvalue().splitlines()] == [
        "",
        "2 B/s, 25 s left",
    ]


def test_logs_have_a_line_now_and_then(monkeypatch):
    now = iter(range(0, 1000, 4))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(now))
    console = Console(file=io.StringIO(), width=200)
    with run_progress(console, quiet=False) as watch:
        watch(STARTED)
        for nbytes in (10, 20, 30, 40):
            watch(folded(0, nbytes))
    lines = console.file.getvalue().splitlines()
    assert 1 <= len(lines) < 4
    assert lines[0].startswith("sum of s: ")
    assert "B of 100 B (" in lines[0]
    assert lines[-1].endswith(" s left")


@pytest.mark.parametrize("terminal", [True, False])
def test_what_is_waited_for_is_said(terminal):
    console = Console(file=io.StringIO(), force_terminal=terminal, width=120)
    with run_progress(console, quiet=False) as watch:
        watch(RunStarted("r", "s", ("sum",), 1, 10, {}))
        watch(Waiting("r", 12.0, "worker tcp://[::1]:5 was not heard for 12 s"))
    assert "waiting: worker tcp://[::1]:5 was not heard for 12 s" in _plain(console)


def _plain(console: Console) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", console.file.getvalue())
