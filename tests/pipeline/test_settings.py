"""Deadlines are settings: each is documented, and refused where it is no time."""

from __future__ import annotations

from pathlib import Path

import dask
import numpy as np
import pytest

import chunkfold as cf
from chunkfold.settings import WAITS, wait_seconds

PAGE = Path(__file__).parents[2] / "docs" / "how-it-works.md"


@pytest.mark.parametrize(("name", "seconds"), WAITS.items())
def test_a_deadline_is_documented_with_its_default(name, seconds):
    assert f"| `{name}` | {seconds:.0f} s |" in PAGE.read_text()
    assert wait_seconds(name) == seconds
    with dask.config.set({name: "2 minutes"}):
        assert wait_seconds(name) == 120


@pytest.mark.parametrize("given", ["soon", 0, -1, None, [1]])
def test_what_is_no_time_is_refused_before_a_run_begins(given):
    with (
        dask.config.set({"chunkfold.workers.silent": given}),
        pytest.raises(cf.PlanError, match=r"chunkfold.workers.silent is .*; give a time"),
    ):
        cf.submit(np.arange(3))
