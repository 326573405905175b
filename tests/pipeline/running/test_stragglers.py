"""A block that is late runs elsewhere too: the first result wins, and counts once."""

from __future__ import annotations

import os
import time
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
from distributed import Client

import chunkfold as cf
from chunkfold.running import stragglers
from chunkfold.running.stragglers import Stragglers
from chunkfold.running.tree_nodes import Attempt, TreeNode

pytestmark = pytest.mark.unoptimised
ROWS = 12
_HANGS_S = 150.0
"""Longer than the test waits for an answer."""


@pytest.fixture(autouse=True)
def _soon(a_row_each: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stragglers, "LEAST_S", 1.0)


def _hang(values: np.ndarray, folder: Path, block_info=None) -> np.ndarray:
    """Hang in the first process that computes a certain row, which answers all the same."""
    if block_info[0]["chunk-location"][0] == 5:
        mark = folder / "hangs"
        try:
            mark.touch(exist_ok=False)
            mark.write_text(str(os.getpid()))
        except FileExistsError:
            return values
        until = time.monotonic() + _HANGS_S
        while not (folder / "answered").exists() and time.monotonic() < until:
            time.sleep(0.05)
    return values


@pytest.mark.short
def test_a_block_whose_worker_hangs_is_run_by_another(client: Client, tmp_path: Path):
    client.wait_for_workers(2, timeout=60)
    slow = da.ones((ROWS, 500), chunks=(1, 500)).map_blocks(_hang, tmp_path, dtype="f8")
    run = cf.submit(slow, "sum", client=client)
    assert run.result(_HANGS_S - 20) == ROWS * 500
    (tmp_path / "answered").touch()
    assert (tmp_path / "hangs").exists()
    assert run.attempts.again >= 1


NODE = TreeNode((0, 1), 0, 0)


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("failed", [False, True])
def test_of_two_attempts_the_first_result_counts(number: int, failed: bool):
    times, first, second = Stragglers(), Attempt(0, "a"), Attempt(1, "b")
    times.copy(NODE, first)
    counts, released = times.settled(NODE, second, number, failed=failed)
    ended, other = (first, second) if number == 0 else (second, first)
    assert counts is (other if failed else ended)
    assert released == [(ended if failed else other).ticket]
    assert times.settled(NODE, counts, counts.number, failed=False) == (counts, [])


def test_an_attempt_before_both_changes_nothing():
    times, first, second = Stragglers(), Attempt(1, "a"), Attempt(2, "b")
    times.copy(NODE, first)
    assert times.settled(NODE, second, 0, failed=False) == (second, [])
    assert NODE in times.copied


def test_few_blocks_say_nothing_of_others():
    times = Stragglers()
    nodes = [TreeNode((0, 1), 0, n) for n in range(4)]
    for node in nodes:
        times.began(node, 0.0)
    for node in nodes[:2]:
        times.ended(node, 1.0)
    assert times.late(1000.0) == []
    times.ended(nodes[2], 1.0, failed=True)
    assert times.late(1000.0) == []
