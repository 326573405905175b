"""Fold what a block reads for its first question into the accumulators of the others, too."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyopencl as cl

from chunkfold.kernels import Fold, KeyedFold, Partial
from chunkfold.kernels.accumulator.sums import any_lost
from chunkfold.kernels.fold.launch import Input
from chunkfold.planning.layout import Layout
from chunkfold.planning.tiles import Combine
from chunkfold.planning.work import Work
from chunkfold.reading.kinds_of_boxes import kernels_of
from chunkfold.reading.reads import Read, all_outputs, keyed_of, rows_of
from chunkfold.worker.device_inputs import uploaded
from chunkfold.worker.factored_fold import FactoredFold
from chunkfold.worker.group_folds import GroupKeys, begin_fold
from chunkfold.worker.totals import Totals
from chunkfold.worker.worker_device import WorkerDevice


@dataclass
class _Tile:
    """Some outputs of a question, and what was folded into them."""

    fold: Fold | KeyedFold | FactoredFold | None
    """What is on the device; None: nothing now."""
    nbytes: int
    """That accumulators on the device take."""
    parts: list[int]
    """Which leaves were folded."""
    partial: Partial | None = None
    """What was read back."""


class Beside:
    """The accumulators of one question, tile by tile, of those that a block's leaves are in.

    Leaves come in the order in which another question's tiles have them. So accumulators of several
    tiles stay on the device; when they are too many, those that were used least lately are read
    back, and combined with what comes later.

    Parameters
    ----------
    work
        The question's.
    first
        The layout of the question that leaves are read for.
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
        room: int,
    ) -> None:
        self._owned, self._work, self._first = owned, work, first
        self._queue, self._totals, self._combine = queue, totals, combine
        self._room = room
        self._keys = None if work.keys is None else GroupKeys(owned, work, queue)
        self._held = [uploaded(one, owned.opened) for one in work.held]
        self._tiles: dict[int, _Tile] = {}
        """By their numbers, those used last behind the others."""

    def add(
        self, inputs: Sequence[Input], read: Read, wait_for: Sequence[cl.Event]
    ) -> cl.Event | None:
        """Enqueue the fold of a whole leaf; return its event (None if it is empty)."""
        layout = self._work.layout
        number, part = layout.tile_and_part(self._first.numbers(*read.leaf))
        tile = self._open(number)
        tile.parts.append(part)
        pieces = layout.leaf(number, part)
        within = tuple(slice(0, piece.length) for piece in pieces)
        given = [*inputs, *self._held]
        if isinstance(tile.fold, KeyedFold):
            keyed = keyed_of(self._work, pieces, within)
            assert self._keys is not None
            assert keyed is not None
            return self._keys.add(tile.fold, given, read.shape, keyed, wait_for)
        assert tile.fold is not None
        if isinstance(tile.fold, FactoredFold):
            rows = rows_of(self._work, pieces, within)
            assert rows is not None
            return tile.fold.add(given, rows, wait_for)
        return tile.fold.add(given, self._work.box(pieces, within), wait_for)

    def finish(self, again: Callable[[int, Sequence[int]], Partial]) -> Mapping[int, Partial]:
        """Return the partial of each tile.

        Exact sums that expansions have lost are folded `again`: some parts of a tile.
        """
        done = {}
        for number, tile in self._tiles.items():
            self._read_back(tile)
            assert tile.partial is not None
            lost = any_lost(self._work.accumulator, tile.partial).any()
            done[number] = again(number, sorted(tile.parts)) if lost else tile.partial
        self._tiles.clear()
        return done

    def _open(self, number: int) -> _Tile:
        """Return a tile that has accumulators on the device."""
        tile = self._tiles.pop(number, None) or _Tile(None, 0, [])
        if tile.fold is None:
            tile.fold, tile.nbytes = self._begun(number)
            taken = 0
            for other in reversed(self._tiles.values()):
                taken += other.nbytes
                if taken > self._room:
                    self._read_back(other)
        self._tiles[number] = tile
        return tile

    def _begun(self, number: int) -> tuple[Fold | KeyedFold | FactoredFold, int]:
        """Return what folds into a tile's outputs, and what bytes that takes."""
        work = self._work
        window = all_outputs(work, number, ())
        kernels = kernels_of(work, window, work.leaf_bytes)
        tuning = self._owned.tuning(work.folded, work.variant, kernels)
        outputs = math.prod(window.shape)
        nbytes = work.groups * outputs * work.accumulator.nbytes
        fold = begin_fold(self._owned, work, work.accumulator, tuning, outputs, self._queue)
        return fold, nbytes * (1 if isinstance(fold, KeyedFold) else fold.splits)

    def _read_back(self, tile: _Tile) -> None:
        """Take a tile's accumulators off the device."""
        if tile.fold is None:
            return
        found = tile.fold.finish()
        self._totals.launched(tile.fold.profile())
        tile.fold, tile.nbytes = None, 0
        both = [found] if tile.partial is None else [tile.partial, found]
        tile.partial = self._combine(self._work.accumulator, both)
