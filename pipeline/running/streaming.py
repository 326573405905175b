"""Results that leave as they come: each tile is written when it is finished, and kept by nobody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from chunkfold.boxes import Slices
from chunkfold.planning.plan import Plan
from chunkfold.planning.tiles import FinishedTile, finishing_of
from chunkfold.planning.work import Work
from chunkfold.results.results import in_order
from chunkfold.worker.finishing import Finishing
from chunkfold.worker.fold_block import Folded

AHEAD = 2
"""Roots whose results may wait to be written."""


class Sink(Protocol):
    """Receives results tile by tile. Its methods are called by one thread at a time."""

    def begin(self, plan: Plan) -> None:
        """Get ready for what a plan makes."""

    def write(self, level: int, op: str, region: Slices, values: np.ndarray) -> None:
        """Take some results: of a level, where they stand among all of it."""

    def end(self) -> Mapping[str, Any]:
        """Write the last of it; return what stands for the results of the first level, by op."""

    def stop(self) -> None:
        """Write nothing more, and wait for what is being written; at the end of every run."""


class Arrays:
    """A sink that keeps the results."""

    def __init__(self) -> None:
        self._found: dict[str, np.ndarray] = {}

    def begin(self, plan: Plan) -> None:
        """Learn what results are of."""
        finishing = Finishing.of(plan)
        self._plan = plan
        self._shape = finishing.by_axis(plan.layout.outputs_shape, finishing.groups or (), 1)

    def write(self, level: int, op: str, region: Slices, values: np.ndarray) -> None:
        """Keep some results."""
        assert not level
        if op not in self._found:
            self._found[op] = np.empty(self._shape, values.dtype)
        self._found[op][region] = values

    def end(self) -> Mapping[str, np.ndarray]:
        """Return all results, by op."""
        return {op: in_order(self._plan, array) for op, array in self._found.items()}

    def stop(self) -> None:
        """Do nothing: nothing is being written."""


class Streaming:
    """Passes the results of roots on to a sink, in a thread of its own."""

    def __init__(self, plan: Plan, work: Work, sink: Sink) -> None:
        self._work, self._sink, self._finishing = work, sink, Finishing.of(plan)
        first = plan.first  # whose blocks finish no tiles where a ledger keeps partials
        tiles = first.finishing or finishing_of(
            plan.request, plan.terms, first.layout, first.accumulator
        )
        assert tiles is not None
        self._tiles = tiles
        self._writer = ThreadPoolExecutor(1, "chunkfold-write")
        self._writing: list[Future[None]] = []
        self.nan: dict[str, bool | None] = {}
        self.nothing = 0
        """Outputs of which every element was left out."""
        self._began = self._writer.submit(sink.begin, plan)

    def take(self, tiles: tuple[int, int], folded: Folded) -> Folded:
        """Pass a root on; return it without results.

        Raises
        ------
        Exception
            Whatever kept an earlier one from being written.
        """
        while len(self._writing) >= AHEAD:
            self._writing.pop(0).result()
        self._writing.append(self._writer.submit(self._write, tiles[0], folded))
        return replace(folded, partials=(), tiles=())

    def end(self) -> Mapping[str, Any]:
        """Wait until all is written; return what stands for the results, by op.

        Raises
        ------
        Exception
            Whatever kept it from being written.
        """
        self._began.result()
        for one in self._writing:
            one.result()
        return self._writer.submit(self._sink.end).result()

    def stop(self) -> None:
        """Write nothing more."""
        self._writer.shutdown(cancel_futures=True)
        self._sink.stop()

    def _write(self, first: int, folded: Folded) -> None:
        self._began.result()
        for one in folded.tiles or self._finished(first, folded):
            self._pass_on(one)

    def _finished(self, first: int, folded: Folded) -> Sequence[FinishedTile]:
        """Finish tiles that several blocks made, or blocks that leave partials for a ledger."""
        question, finishing = self._work.first, self._tiles
        layout = question.layout
        partials = folded.partials_of_all(finishing.accumulator, question.groups)
        numbered = enumerate(partials, first)
        return [finishing.finished(n, layout.tile_shape(n), one) for n, one in numbered]

    def _pass_on(self, tile: FinishedTile) -> None:
        self.nothing += tile.nothing
        for op, odd in tile.nan.items():
            before = self.nan.get(op, False)
            self.nan[op] = (
                True if True in (odd, before) else None if None in (odd, before) else False
            )
        firsts = [along.start for along in self._work.first.layout.tile_region(tile.tile)]
        finishing = self._tiles
        for number, level in enumerate(tile.levels):
            steps = number + finishing.modes
            if steps:
                by = finishing.factors[steps - 1]
                firsts = [n // factor for n, factor in zip(firsts, by, strict=True)]
            for op, values in level.values.items():
                region, shaped = self._placed(firsts, level.shape, values)
                self._sink.write(number, op, region, shaped)

    def _placed(
        self, firsts: Sequence[int], shape: Sequence[int], done: np.ndarray
    ) -> tuple[Slices, np.ndarray]:
        """Return where results of a tile stand among all, and they in their shape there."""
        finishing = self._finishing
        box = tuple(slice(at, at + size) for at, size in zip(firsts, shape, strict=True))
        groups = [slice(0, size) for size in finishing.groups or ()]
        extra = [slice(0, size) for size in done.shape[1:]]
        region = finishing.by_axis(box, groups, slice(0, 1))
        return (*region, *extra), finishing.shaped(done, box)
