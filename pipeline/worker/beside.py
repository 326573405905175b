"""Fold what a block reads for its first question into the accumulators of the others, too."""

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
from chunkfold.planning.tiles import Combine
from chunkfold.planning.work import Work
from chunkfold.reading.kinds_of_boxes import kernels_beside, window_beside
from chunkfold.reading.reads import Read, fold_input_of
from chunkfold.worker.question_folds import QuestionFold, QuestionFolds
from chunkfold.worker.rows_fold import RowsFold
from chunkfold.worker.totals import Totals
from chunkfold.worker.worker_device import WorkerDevice


@dataclass
class _Tile:
    """What is known of a tile of a question, but for what is on the device."""

    parts: list[int] = field(default_factory=list)
    """Which leaves were folded."""
    partial: Partial | None = None
    """What was read back."""


class _Underway(NamedTuple):
    """Accumulators on the device, of some outputs of a tile."""

    tile: int
    place: Slices
    fold: QuestionFold
    one_split: int
    """Bytes of an accumulator for each output, of each group."""

    @property
    def nbytes(self) -> int:
        """Bytes of all of them."""
        if isinstance(self.fold, RowsFold):
            return self.fold.nbytes
        return self.one_split * (1 if isinstance(self.fold, KeyedFold) else self.fold.splits)


class Beside:
    """The accumulators of one question, tile by tile, of those that a block's leaves are in.

    Leaves, or parts of them, come in the order in which another question's tiles have them. So
    accumulators of several tiles stay on the device; when they are too many, those that were used
    least lately are read back, and combined with what comes later. What was added since `keep` can
    be taken back, as where a chunk of it turns out to be bad.

    Parameters
    ----------
    work
        The question's.
    first
        The layout of the question that leaves are read for.
    buffer_bytes
        Most that is read at a time of one input.
    room
        Bytes of accumulators on the device, beside those of a tile.
    """

    def __init__(
        self,
        owned: WorkerDevice,
        work: Work,
        first: Layout,
        queue: cl.CommandQueue,
        totals: Totals,
        combine: Combine,
        buffer_bytes: int,
        room: int,
    ) -> None:
        self._owned, self._work, self._first = owned, work, first
        self._totals, self._combine = totals, combine
        self._buffer_bytes, self._room = buffer_bytes, room
        self._folds = QuestionFolds(owned, work, queue, combine)
        self._tiles = defaultdict[int, _Tile](_Tile)
        self._open: dict[Hashable, _Underway] = {}
        """Those used last behind the others."""
        self._before: dict[int, tuple[Partial | None, int]] = {}
        """Of each tile that was added to since `keep` what was read back then, and of how many
        leaves."""
        self._filled = 0

    def add(
        self, inputs: Sequence[Input], read: Read, wait_for: Sequence[cl.Event]
    ) -> cl.Event | None:
        """Enqueue the fold of a leaf, or a part of it; return its event (None if it is empty)."""
        work, within = self._work, read.within
        number, part = work.layout.tile_and_part(self._first.numbers(*read.leaf))
        pieces, tile = work.layout.leaf(number, part), self._tiles[number]
        self._before.setdefault(number, (tile.partial, len(tile.parts)))
        tile.parts.append(part)
        fold = self._fold(number, work.layout.outputs_of(within))
        told, given = fold_input_of(work, pieces, within), self._folds.inputs(inputs)
        if isinstance(fold, Fold):
            return fold.add(given, told.box, wait_for)
        return self._folds.add(fold, given, told, wait_for)

    def add_fill(self, count: int) -> None:
        """Fold the fill value so many times into the one output that there is."""
        self._filled += count

    def keep(self) -> None:
        """Take nothing back of what was added so far."""
        for key in [*self._open]:
            self._read_back(key)
        self._before.clear()

    def drop(self) -> None:
        """Take back what was added since `keep`, but for fill values."""
        for one in self._open.values():
            one.fold.finish()
        self._open.clear()
        for number, (partial, parts) in self._before.items():
            self._tiles[number] = _Tile(self._tiles[number].parts[:parts], partial)
        self._before.clear()

    def finish(
        self, again: Callable[[int, Sequence[int]], Partial], fills: Powers
    ) -> Mapping[int, Partial]:
        """Return the partial of each tile of which anything was added.

        Exact sums that expansions have lost are folded `again`: some parts of a tile.
        """
        self.keep()
        accumulator, done = self._work.accumulator, dict[int, Partial]()
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
        """Return what folds into some outputs of a tile, on the device."""
        key = number, place_key(place)
        found = self._open.pop(key, None)
        if found is None:
            found, taken = self._begun(number, place), 0
            for other, one in reversed([*self._open.items()]):
                taken += one.nbytes
                if taken > self._room:
                    self._read_back(other)
        self._open[key] = found
        return found.fold

    def _begun(self, number: int, place: Slices) -> _Underway:
        work, window = self._work, window_beside(self._work, number, place)
        kernels = kernels_beside(work, window, self._buffer_bytes)
        tuning = self._owned.tuning(work.folded, work.variant, kernels)
        nbytes = work.groups * window.outputs * work.accumulator.nbytes
        fold = self._folds.begin(work.accumulator, tuning, window.outputs)
        return _Underway(number, place, fold, nbytes)

    def _read_back(self, key: Hashable) -> None:
        """Take accumulators off the device: their tile has them."""
        number, place, fold, _ = self._open.pop(key)
        accumulator, tile = self._work.accumulator, self._tiles[number]
        shape = self._work.outputs_shape(self._work.layout.tile_shape(number))
        found = assembled(accumulator, shape, [(self._work.outputs_region(place), fold.finish())])
        self._totals.launched(fold.profile())
        both = [found] if tile.partial is None else [tile.partial, found]
        tile.partial = self._combine(accumulator, both)
