"""Fold the reads of a block's first question into the accumulators of secondary questions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pyopencl as cl

from chunkfold.boxes import Slices, place_key
from chunkfold.kernels import Fold, KeyedFold, Partial
from chunkfold.kernels.accumulator.partial import assembled
from chunkfold.kernels.accumulator.sums import any_lost
from chunkfold.kernels.fold.launch import Input
from chunkfold.kernels.fold.power import Powers
from chunkfold.planning.layout import Layout
from chunkfold.planning.tile_finishing import Combine
from chunkfold.planning.work import Work
from chunkfold.reading.box_kernels import secondary_kernels, secondary_window
from chunkfold.reading.reads import Read, fold_input_of
from chunkfold.worker.question_folds import PreaggregatedFold, QuestionFold, QuestionFolds
from chunkfold.worker.totals import Totals
from chunkfold.worker.worker_device import WorkerDevice


@dataclass
class _Tile:
    """The state of a tile of a question, without its accumulators on the device."""

    parts: list[int] = field(default_factory=list)
    """Leaves that were folded."""
    partial: Partial | None = None
    """The partial of accumulators that were read back."""


class _OpenFold(NamedTuple):
    """Accumulators on the device, of some outputs of a tile."""

    tile: int
    place: Slices
    fold: QuestionFold
    split_bytes: int
    """Bytes of one accumulator for each output of each group."""

    @property
    def nbytes(self) -> int:
        """Bytes of all its accumulators."""
        if isinstance(self.fold, PreaggregatedFold):
            return self.fold.nbytes
        return self.split_bytes * (1 if isinstance(self.fold, KeyedFold) else self.fold.splits)


class SecondaryFolds:
    """The accumulators of a secondary question, for the tiles that a block's leaves reach.

    Leaves come in the order of the first question's tiles. So accumulators of several tiles stay on
    the device; if they are too many, the least recently used are read back, and combined with later
    ones. Additions since `keep` can be undone, as a bad chunk needs.

    Parameters
    ----------
    work
        The work for the question alone.
    first
        The layout of the first question.
    buffer_bytes
        Most bytes of one read of one input.
    open_bytes
        Most bytes of accumulators on the device, next to those of the tile in use.
    """

    def __init__(
        self,
        worker_device: WorkerDevice,
        work: Work,
        first: Layout,
        queue: cl.CommandQueue,
        totals: Totals,
        combine: Combine,
        buffer_bytes: int,
        open_bytes: int,
    ) -> None:
        self._worker_device, self._work, self._first = worker_device, work, first
        self._question = work.first
        self._totals, self._combine = totals, combine
        self._buffer_bytes, self._open_bytes = buffer_bytes, open_bytes
        self._folds = QuestionFolds(worker_device, work.first, work.scan.variant, queue, combine)
        self._tiles = defaultdict[int, _Tile](_Tile)
        self._open: dict[Hashable, _OpenFold] = {}
        """Open folds, the most recently used last."""
        self._before: dict[int, tuple[Partial | None, int]] = {}
        """State at `keep` of tiles that changed since: their partial, and number of leaves."""
        self._filled = 0

    def add(
        self, inputs: Sequence[Input], read: Read, wait_for: Sequence[cl.Event]
    ) -> cl.Event | None:
        """Enqueue the fold of a read; return its event (None if it is empty)."""
        question, within = self._question, read.within
        number, part = question.layout.tile_and_part(self._first.numbers(*read.leaf))
        pieces, tile = question.layout.leaf(number, part), self._tiles[number]
        self._before.setdefault(number, (tile.partial, len(tile.parts)))
        tile.parts.append(part)
        fold = self._fold(number, question.layout.outputs_of(within))
        fold_input, given = fold_input_of(question, pieces, within), self._folds.inputs(inputs)
        if isinstance(fold, Fold):
            return fold.add(given, fold_input.box, wait_for)
        return self._folds.add(fold, given, fold_input, wait_for)

    def add_fill(self, count: int) -> None:
        """Fold the fill value `count` times into the only output."""
        self._filled += count

    def keep(self) -> None:
        """Keep all additions so far: `drop` cannot undo them."""
        for key in [*self._open]:
            self._read_back(key)
        self._before.clear()

    def drop(self) -> None:
        """Undo all additions since `keep`, except fill values."""
        for one in self._open.values():
            one.fold.read_back()
        self._open.clear()
        for number, (partial, parts) in self._before.items():
            self._tiles[number] = _Tile(self._tiles[number].parts[:parts], partial)
        self._before.clear()

    def finish(
        self, again: Callable[[int, Sequence[int]], Partial], fills: Powers
    ) -> Mapping[int, Partial]:
        """Return the partial of each tile that has additions.

        `again` folds some leaves of a tile once more, where expansions lost an exact sum.
        """
        self.keep()
        accumulator, done = self._question.accumulator, dict[int, Partial]()
        for number, tile in self._tiles.items():
            if tile.partial is not None:
                lost = any_lost(accumulator, tile.partial).any()
                done[number] = again(number, sorted({*tile.parts})) if lost else tile.partial
        if self._filled:
            found = [*done.values(), fills.of(accumulator, self._filled, 1)]
            done = {0: self._combine(accumulator, found)}
        self._tiles.clear()
        return done

    def _fold(self, number: int, place: Slices) -> QuestionFold:
        """Return the open fold of some outputs of a tile."""
        key = number, place_key(place)
        found = self._open.pop(key, None)
        if found is None:
            found, taken = self._begin(number, place), 0
            for other, one in reversed([*self._open.items()]):
                taken += one.nbytes
                if taken > self._open_bytes:
                    self._read_back(other)
        self._open[key] = found
        return found.fold

    def _begin(self, number: int, place: Slices) -> _OpenFold:
        question, window = self._question, secondary_window(self._work, number, place)
        kernels = secondary_kernels(self._work, window, self._buffer_bytes)
        tuning = self._worker_device.tuning(question.folded, self._work.scan.variant, kernels)
        nbytes = question.groups * window.outputs * question.accumulator.nbytes
        fold = self._folds.begin(question.accumulator, tuning, window.outputs)
        return _OpenFold(number, place, fold, nbytes)

    def _read_back(self, key: Hashable) -> None:
        """Read accumulators back into the partial of their tile."""
        number, place, fold, _ = self._open.pop(key)
        question, tile = self._question, self._tiles[number]
        accumulator, region = question.accumulator, question.outputs_region(place)
        shape = question.outputs_shape(question.layout.tile_shape(number))
        found = assembled(accumulator, shape, [(region, fold.read_back())])
        self._totals.launched(fold.profile())
        both = [found] if tile.partial is None else [tile.partial, found]
        tile.partial = self._combine(accumulator, both)
