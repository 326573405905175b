"""Number single elements on the device, as keys of a fold by key that comes next."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pyopencl as cl

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.fold.fold import Fold
from chunkfold.kernels.fold.launch import Input
from chunkfold.kernels.geometry import box
from chunkfold.kernels.program.device_context import DeviceContext, device_errors
from chunkfold.kernels.program.options import Tuning

KERNELS = frozenset({"columns", "flat"})
"""Which of `geometry.FOLDS` number elements."""
_MOST_FOLDS = 2
"""Sizes of boxes of which buffers are kept."""


class Numbering:
    """Numbers the elements of boxes that are one run in memory. Not for several threads at once.

    Parameters
    ----------
    accumulator
        Of one int32 of each output: a fold of one element makes its number.
    queue
        An in-order one, on which the numbers are read too.
    """

    def __init__(
        self,
        opened: DeviceContext,
        accumulator: Accumulator,
        tuning: Tuning,
        queue: cl.CommandQueue,
    ) -> None:
        self._opened, self._accumulator = opened, accumulator
        self._tuning, self._queue = tuning, queue
        self._folds: dict[int, tuple[Fold, cl.Buffer]] = {}

    def of(
        self, elements: Input, shape: Sequence[int], wait_for: Sequence[cl.Event] = ()
    ) -> cl.Buffer:
        """Enqueue that elements are numbered; return what will hold their numbers, until the next.

        Raises
        ------
        DeviceError
            If the device refuses it.
        """
        count = math.prod(shape)
        fold, numbers = self._fold(count)
        if count:
            fold.add([elements], box((count,), ()), wait_for)
            fold.copy_to(numbers, [(0, 0, count)])
        return numbers

    def _fold(self, count: int) -> tuple[Fold, cl.Buffer]:
        if count not in self._folds:
            if len(self._folds) == _MOST_FOLDS:
                # OpenCL keeps the memory until the launches that were given it are done.
                del self._folds[next(iter(self._folds))]
            nbytes = max(1, count) * self._accumulator.nbytes
            with device_errors(self._opened.device, f"taking {nbytes:,} bytes for numbers"):
                numbers = cl.Buffer(self._opened.context, cl.mem_flags.READ_WRITE, nbytes)
            fold = Fold(self._opened, self._accumulator, self._tuning, count, self._queue, splits=1)
            self._folds[count] = fold, numbers
        return self._folds[count]
