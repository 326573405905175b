"""Fold all elements of a block into one output, beside what each output of its tiles gets."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyopencl as cl

from chunkfold.kernels import Accumulator, Box, Fold, Partial
from chunkfold.kernels.fold.launch import Input
from chunkfold.planning.tiles import Combine
from chunkfold.worker.totals import Totals


class OfAll:
    """What is known of all elements that were folded.

    What was added since `keep` can be taken back, as where a chunk of it turns out to be bad.

    Parameters
    ----------
    begin
        Makes a fold of one output, on a queue.
    fill
        Folds the fill value so many times.
    """

    def __init__(
        self,
        accumulator: Accumulator,
        begin: Callable[[cl.CommandQueue], Fold],
        fill: Callable[[int], Partial],
        combine: Combine,
        totals: Totals,
    ) -> None:
        self._accumulator, self._begin, self._fill = accumulator, begin, fill
        self._combine, self._totals = combine, totals
        self._fold: Fold | None = None
        self._kept: list[Partial] = []

    def add(
        self,
        inputs: Sequence[Input],
        box: Box,
        queue: cl.CommandQueue,
        wait_for: Sequence[cl.Event],
    ) -> cl.Event:
        """Enqueue the fold of a box that is not empty, on the one queue; raises as `Fold.add`."""
        self._fold = self._fold or self._begin(queue)
        event = self._fold.add(inputs, box.of_one_output, wait_for)
        assert event is not None
        return event

    def add_fill(self, count: int) -> None:
        """Fold the fill value so many times; raises as `Fold.add`."""
        self._kept.append(self._fill(count))

    def keep(self) -> None:
        """Take nothing back of what was added so far."""
        if self._fold is not None:
            self._kept.append(self._fold.finish())
        if len(self._kept) > 1:
            self._kept = [self._combine(self._accumulator, self._kept)]

    def drop(self) -> None:
        """Take back what was added since `keep`."""
        if self._fold is not None:
            self._fold.finish()

    def finish(self) -> Partial | None:
        """Return what was added: None if that is nothing."""
        self.keep()
        if self._fold is not None:
            self._totals.launched(self._fold.profile())
        return self._kept.pop() if self._kept else None
