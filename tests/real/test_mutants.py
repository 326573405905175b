"""Damaged stores give the right number or one sentence, in bounded time and memory.

`make mutants` tries thousands, `make test-real` some.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]

COUNT = int(os.environ.get("CHUNKFOLD_MUTANTS", "300"))
FIRST = int(os.environ.get("CHUNKFOLD_MUTANTS_FROM", "0"))
LONGEST_S = 60.0
"""Of one mutant, and of a process until its first."""
ROOT = Path(__file__).parents[2]


def _outcomes(folder: Path) -> list[dict[str, str]]:
    """Try all mutants, in processes that try many; one that hangs or dies is told, and replaced."""
    found: list[dict[str, str]] = []
    seed = FIRST
    while seed < FIRST + COUNT:
        words = [sys.executable, "-m", "tests.real.mutants", folder, seed, FIRST + COUNT]
        child = subprocess.Popen(
            [*map(str, words)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        lines: queue.Queue[str] = queue.Queue()
        reader = threading.Thread(target=_read, args=(child, lines), daemon=True)
        reader.start()
        while seed < FIRST + COUNT:
            try:
                line = lines.get(timeout=LONGEST_S)
            except queue.Empty:
                found.append({"seed": str(seed), "outcome": "hang"})
                break
            if not line:
                found.append({"seed": str(seed), "outcome": f"died: {child.wait()}"})
                break
            found.append(json.loads(line))
            seed += 1
        else:
            child.wait(LONGEST_S)
            return found
        child.kill()
        child.wait()
        seed += 1
    return found


def _read(child: subprocess.Popen[str], lines: queue.Queue[str]) -> None:
    assert child.stdout is not None
    for line in child.stdout:
        lines.put(line)
    lines.put("")


def test_mutants_are_right_or_refused(tmp_path: Path):
    found = _outcomes(tmp_path)
    assert len(found) == COUNT
    counted = Counter(one["outcome"].partition(":")[0] for one in found)
    print(dict(counted))
    bad = [one for one in found if one["outcome"] not in ("right", "refused")]
    for one in bad:
        print(one)
    assert not bad
    assert counted["refused"]
    assert counted["right"]
