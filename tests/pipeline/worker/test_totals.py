"""What a block tells of itself."""

from __future__ import annotations

import pytest

import chunkfold as cf
from chunkfold.worker import totals
from chunkfold.worker.totals import Totals, Watch


def test_a_block_is_heard_of_though_its_bytes_do_not_grow(monkeypatch):
    """As of chunks that are left out, and of what is read once more."""
    told: list[int] = []
    watched = Totals("run", Watch(lambda nbytes, _: told.append(nbytes), lambda: False))
    monkeypatch.setattr(totals, "REPORT_EVERY_S", -1.0)
    watched.report_progress()
    watched.report_progress()
    watched.nbytes = 5
    watched.report_progress(underway=2)
    assert told == [0, 0, 7]


def test_a_block_tells_no_more_than_now_and_then():
    told: list[int] = []
    watched = Totals("run", Watch(lambda nbytes, _: told.append(nbytes), lambda: False))
    for _ in range(100):
        watched.report_progress()
    assert not told


def test_a_cancelled_run_ends_its_block():
    with pytest.raises(cf.CancelledError, match="run 7 was cancelled"):
        Totals("7", Watch(lambda *_: None, lambda: True)).check()
