"""Results as text and JSON; progress as bytes."""

from __future__ import annotations

import io
import json

import numpy as np
import zarr
from rich.console import Console

import chunkfold as cf
from chunkfold.events import BlockProgress, RunStarted, WorkerRetired
from chunkfold.workflows.as_json import jsonable
from chunkfold.workflows.files.results_json import plan_json
from chunkfold.workflows.terminal.progress import run_progress


def test_json_carries_what_json_has_no_word_for():
    values = np.array([[1, np.nan], [np.inf, -np.inf]], "f4")
    text = json.dumps(jsonable(values), allow_nan=False)
    assert json.loads(text) == [[1.0, "NaN"], ["Infinity", "-Infinity"]]
    assert jsonable(np.uint64(2**64 - 1)) == 2**64 - 1


def test_plans_for_machines_say_how_values_are_made():
    attributes = {"scale_factor": 0.01, "add_offset": -3, "_FillValue": -1}
    array = zarr.create_array({}, shape=(4,), dtype="i2", attributes=attributes)
    told = [
        plan_json(cf.plan(array, "sum", mask_and_scale=asked))["sources"][0]["unpacked"]
        for asked in (False, True)
    ]
    assert told == [None, "float64: stored * 0.01 - 3.0; missing: -1"]


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
