"""Results as text and JSON; progress as bytes."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from rich.console import Console

from chunkfold import PlanError
from chunkfold.events import BlockProgress, RunStarted, WorkerRetired
from chunkfold.workflows.parsing import parse_selection
from chunkfold.workflows.progress import run_progress
from chunkfold.workflows.results import jsonable


def test_json_carries_what_json_has_no_word_for():
    values = np.array([[1, np.nan], [np.inf, -np.inf]], "f4")
    text = json.dumps(jsonable(values), allow_nan=False)
    assert json.loads(text) == [[1.0, "NaN"], ["Infinity", "-Infinity"]]
    assert jsonable(np.uint64(2**64 - 1)) == 2**64 - 1


@pytest.mark.parametrize("text", ["0:1:2:3", "a", "1,,2", "1.5"])
def test_a_bad_selection_is_quoted(text: str):
    with pytest.raises(PlanError, match="selection"):
        parse_selection(text)


def test_a_block_that_is_folded_again_is_not_counted_twice():
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with run_progress(console, quiet=False) as watch:
        watch(RunStarted("r", "s", ("sum",), 2, 100, {}))
        for nbytes in (20, 50, 10, 50):  # a worker died, and another began again
            watch(BlockProgress("r", 0, nbytes, done=False, worker="", device="", seconds=0))
        watch(BlockProgress("r", 1, 50, done=True, worker="", device="", seconds=0))
        watch(WorkerRetired("r", "tcp://1.2.3.4:5", "no device"))
    shown = console.file.getvalue()
    assert "100/100" in shown
    assert "retired" in shown


def test_quiet_is_quiet():
    console = Console(file=io.StringIO(), force_terminal=True)
    with run_progress(console, quiet=True) as watch:
        watch(RunStarted("r", "s", ("sum",), 1, 10, {}))
        watch(WorkerRetired("r", "tcp://1.2.3.4:5", "no device"))
    assert console.file.getvalue() == ""
