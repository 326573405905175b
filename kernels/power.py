"""Fold one element any number of times over, by squaring."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyopencl as cl

from chunkfold.kernels.accumulator import Accumulator
from chunkfold.kernels.fold import Fold
from chunkfold.kernels.geometry import box
from chunkfold.kernels.opened import OpenedDevice, device_errors
from chunkfold.kernels.partial import Partial, Wide
from chunkfold.kernels.sums import any_lost, restored
from chunkfold.kernels.variant import Tuning


def power(
    opened: OpenedDevice,
    accumulator: Accumulator,
    tuning: Tuning,
    element: Sequence[np.ndarray],
    count: int,
) -> Partial:
    """Fold `count` elements that are all the same into one output.

    `element` is one element of each input, in its dtype; `count` is at least 1. No source may read
    the index: there is none. It takes at most 2 * log2(count) combines of two partials.

    Raises
    ------
    DeviceError
        If the device fails.
    """
    fold = Fold(opened, accumulator, tuning)
    flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
    with device_errors(opened.device, "uploading an element"):
        inputs = [cl.Buffer(opened.context, flags, hostbuf=np.reshape(one, 1)) for one in element]
    fold.add(inputs, box((1,), (0,)))
    square, result = fold.finish(), None
    while True:
        if count & 1:
            result = square if result is None else fold.combine([result, square])
        count >>= 1
        if not count:
            assert result is not None
            return result
        square = fold.combine([square, square])


def powers(
    opened: OpenedDevice,
    accumulator: Accumulator,
    tuning_of: Callable[[Accumulator], Tuning],
    element: Sequence[np.ndarray],
    count: int,
    outputs: int,
) -> Partial:
    """Do as `power` for each of some outputs.

    Exact sums that expansions do not hold are folded in limbs.
    """
    one = power(opened, accumulator, tuning_of(accumulator), element, count)
    partial = _repeated(one, outputs)
    if not any_lost(accumulator, one).any():
        return partial
    limbs = accumulator.with_limbs()
    again = power(opened, limbs, tuning_of(limbs), element, count)
    return restored(accumulator, partial, np.arange(outputs), _repeated(again, outputs))


def _repeated(one: Partial, outputs: int) -> Partial:
    """Return a partial of one output for several."""
    arrays = {name: np.repeat(array, outputs, axis=0) for name, array in one.arrays.items()}
    wide = {
        name: Wide(np.arange(outputs), np.repeat(rows.tables, outputs, axis=0))
        for name, rows in one.wide.items()
    }
    return replace(one, arrays=arrays, wide=wide)
