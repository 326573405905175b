"""Kernels under a checker that sees races, uninitialized reads and accesses out of bounds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.real

HERE = Path(__file__).parent
CHECKS = ["--data-races", "--uninitialized"]


def checked(*words: object, limits: list[str]) -> str:
    """Run `checked_folds.py` under oclgrind; return all that it said."""
    command = ["oclgrind", *CHECKS, *limits, sys.executable, HERE / "checked_folds.py", *words]
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        # Its interpreter does not know the intrinsics that optimised LLVM has for inlined calls.
        env=os.environ | {"PYOPENCL_BUILD_OPTIONS": "-cl-opt-disable", "PYOPENCL_NO_CACHE": "1"},
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    "limits", [[], ["--max-wgsize", "8", "--local-mem-size", "4096"]], ids=["roomy", "tight"]
)
def test_folds_have_nothing_to_report(limits: list[str]):
    assert checked(limits=limits) == "folded 84 ways, climbed 36 rungs\n"


def test_folds_of_short_rows_have_nothing_to_report():
    assert checked("short_rows", limits=[]) == "folded 60 ways\n"


def test_the_checker_sees_the_cross_group_hazard():
    assert "data race" in checked(HERE / "cross_group_hazard.cl", limits=[]).lower()
