"""Fold one element any number of times over, by squaring."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyopencl as cl

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.accumulator.partial import Partial, Wide, without_indices
from chunkfold.kernels.accumulator.sums import any_lost, restored
from chunkfold.kernels.fold.combine import Combiner
from chunkfold.kernels.fold.fold import Fold
from chunkfold.kernels.geometry import box
from chunkfold.kernels.program.device_context import DeviceContext, device_errors
from chunkfold.kernels.program.options import Tuning


class Powers:
    """Folds of one element, as often as is asked for; what was made once is kept.

    Parameters
    ----------
    element
        One element of each input, in its dtype.
    tuning_of
        How the device folds into an accumulator.
    """

    def __init__(
        self,
        opened: DeviceContext,
        element: Sequence[np.ndarray],
        tuning_of: Callable[[Accumulator], Tuning],
    ) -> None:
        self._opened, self._element, self._tuning_of = opened, element, tuning_of
        self._made: dict[tuple[Accumulator, int], Partial] = {}

    def of(self, accumulator: Accumulator, count: int, outputs: int) -> Partial:
        """Fold `count` elements, at least one, into each of some outputs.

        They have no index: what reads it is left as it is of no element. Exact sums that expansions
        do not hold are folded in limbs.

        Raises
        ------
        DeviceError
            If the device fails.
        """
        one = self._one(accumulator, count)
        partial = without_indices(accumulator, _repeated(one, outputs))
        if not any_lost(accumulator, one).any():
            return partial
        again = _repeated(self._one(accumulator.with_limbs(), count), outputs)
        return restored(accumulator, partial, np.arange(outputs), again)

    def _one(self, accumulator: Accumulator, count: int) -> Partial:
        """Fold `count` elements into one output, by at most 2 * log2(count) combines."""
        key = accumulator, count
        if key not in self._made:
            tuning = self._tuning_of(accumulator)
            if count == 1:
                fold = Fold(self._opened, accumulator, tuning)
                fold.add(self._uploaded(), box((1,), (0,)))
                self._made[key] = fold.read_back()
            else:
                half = self._one(accumulator, count // 2)
                rest = [self._one(accumulator, 1)] if count % 2 else []
                combiner = Combiner(self._opened, accumulator, tuning)
                self._made[key] = combiner.combine([half, half, *rest])
        return self._made[key]

    def _uploaded(self) -> list[cl.Buffer]:
        flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
        with device_errors(self._opened.device, "uploading an element"):
            return [
                cl.Buffer(self._opened.context, flags, hostbuf=np.reshape(one, 1))
                for one in self._element
            ]


def _repeated(one: Partial, outputs: int) -> Partial:
    """Return a partial of one output for several."""
    arrays = {name: np.repeat(array, outputs, axis=0) for name, array in one.arrays.items()}
    wide = {
        name: Wide(np.arange(outputs), np.repeat(rows.tables, outputs, axis=0))
        for name, rows in one.wide.items()
    }
    return replace(one, arrays=arrays, wide=wide)
