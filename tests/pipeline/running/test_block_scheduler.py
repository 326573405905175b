"""The block scheduler: what is lost that nobody else makes again is begun anew, no more."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

import chunkfold as cf
from chunkfold.planning import blocks, planner
from chunkfold.planning.blocks import Block
from chunkfold.running import ready
from chunkfold.running.backend import InProcess, OnOutcome, PartialsLostError
from chunkfold.worker.fold_block import Folded

pytestmark = pytest.mark.unoptimised
VALUES = np.arange(16 * 100).reshape(16, 100)


class Loses(InProcess):
    """Loses some partials: of combines by their numbers, or roots as they are gathered."""

    def __init__(self, losses: dict[int, slice], roots: int) -> None:
        super().__init__()
        self.folded = Counter[int]()
        self._losses, self._roots, self._combines = losses, roots, itertools.count()

    def fold(self, block: Block, attempt: int, on_outcome: OnOutcome) -> object:
        assert attempt == self.folded[block.number]
        self.folded[block.number] += 1
        return super().fold(block, attempt, on_outcome)

    def combine(self, parts: Sequence[object], attempt: int, on_outcome: OnOutcome) -> object:
        lost = parts[self._losses.get(next(self._combines), slice(0))]
        if lost:
            return on_outcome(PartialsLostError(lost))
        return super().combine(parts, attempt, on_outcome)

    def gather(self, handle: object) -> Folded:
        if self._roots:
            self._roots -= 1
            raise PartialsLostError([handle])
        return super().gather(handle)


@pytest.fixture(autouse=True)
def _a_row_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a block of every row, and combine them in twos."""
    monkeypatch.setattr(planner, "LEAF_BYTES", 800)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", (800, 800))
    monkeypatch.setattr(blocks, "BLOCK_PER_PARTIAL", 0)
    monkeypatch.setattr(blocks, "FAN_IN_SMALL", 2)


def reduced(backend: InProcess, monkeypatch: pytest.MonkeyPatch, source: object) -> cf.Run:
    monkeypatch.setattr(ready, "InProcess", lambda: backend)
    run = cf.submit(source, "sum")
    assert run.result(60) == VALUES[: run.plan.layout.shape[0]].sum()
    return run


@pytest.mark.parametrize(
    ("losses", "roots", "again"),
    [
        ({}, 0, 0),
        ({0: slice(1)}, 0, 1),
        ({0: slice(2)}, 0, 2),
        ({0: slice(1), 3: slice(1)}, 0, None),
        ({14: slice(1, 2)}, 0, 8),  # the last one: half of the tree
        ({14: slice(2)}, 0, 16),
        ({}, 1, 16),
        ({14: slice(1)}, 2, 8 + 32),
    ],
)
def test_what_is_lost_is_made_again_and_nothing_else(losses, roots, again, monkeypatch):
    backend = Loses(losses, roots)
    run = reduced(backend, monkeypatch, Rows(VALUES))
    assert len(run.plan.blocks) == 16
    assert again is None or backend.folded.total() == 16 + again
    assert bool(run.attempts.again) == bool(losses or roots)


@pytest.mark.parametrize("rows", [1, 3, 5, 13])
def test_trees_of_any_number_of_blocks_are_made_again(rows: int, monkeypatch):
    backend = Loses({}, 1)
    run = reduced(backend, monkeypatch, Rows(VALUES[:rows]))
    assert backend.folded == dict.fromkeys(range(len(run.plan.blocks)), 2)


class Rows:
    """An array of chunks of a row."""

    def __init__(self, values: np.ndarray) -> None:
        self._values, self.shape, self.dtype = values, values.shape, values.dtype
        self.chunks = (1, values.shape[1])

    def __getitem__(self, region: object) -> np.ndarray:
        return self._values[region]
