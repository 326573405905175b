"""Fold a tile of one leaf into levels of a pyramid, or into a partial if these are not exact."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyopencl as cl

from chunkfold.kernels import Accumulator, Box, Fold, Partial
from chunkfold.kernels.fold.launch import Input
from chunkfold.kernels.fold.levels import LevelsFold
from chunkfold.kernels.fold.profile import Profile, merged

LevelArrays = list[np.ndarray]
"""Results of each level, with the source's axes."""


class LevelFold:
    """Takes the one box of a tile; otherwise as `Fold`.

    Parameters
    ----------
    begin
        Makes the fold that replaces levels which are not exact.
    shape
        Shape of the box, whose elements are in C order.
    """

    def __init__(
        self,
        accumulator: Accumulator,
        levels: LevelsFold,
        begin: Callable[[], Fold],
        shape: Sequence[int],
    ) -> None:
        self.accumulator = accumulator
        self._levels, self._begin, self._shape = levels, begin, shape
        self._made: LevelArrays | None = None
        self._fold: Fold | None = None

    def add(
        self, inputs: Sequence[Input], box: Box, wait_for: Sequence[cl.Event] = ()
    ) -> cl.Event | None:
        """Make the levels of the box, or enqueue its fold; raises as `Fold.add`."""
        assert self._made is None
        assert self._fold is None
        self._made = self._levels.made(inputs[0], self._shape, wait_for)
        if self._made is not None:
            return None
        self._fold = self._begin()
        return self._fold.add(inputs, box, wait_for)

    def read_back(self) -> LevelArrays | Partial:
        """Return the levels, or the partial of the finest; raises as `Fold.read_back`."""
        if self._fold is not None:
            return self._fold.read_back()
        assert self._made is not None
        return self._made

    def profile(self) -> Profile:
        """Return the times of all launches."""
        own = self._levels.taken_profile()
        return own if self._fold is None else merged([own, self._fold.profile()])
