"""Try on a few sums whether a device rounds right, before it rounds others."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np
import pyopencl as cl

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.accumulator.partial import Partial, pack, zero_partial
from chunkfold.kernels.accumulator.sums import Rounded, Rounding
from chunkfold.kernels.binding.statistic import Statistic
from chunkfold.kernels.errors import DeviceError
from chunkfold.kernels.fold.launch import Launcher
from chunkfold.kernels.fold.passes import Passes
from chunkfold.kernels.program.device_context import DeviceContext, device_errors
from chunkfold.kernels.program.options import Tuning

_COUNT = 6
"""Elements of each sum."""
_FIRST = np.array(
    [0, 1, -1, 3, 2.0**-24, 2**24 + 1, 65520, 2**40, -(2**40 + 2.0**-12), np.inf, np.nan]
)
"""First terms of sums, which are sums of every dtype's numbers."""
_BEHIND = np.array([0, 2.0**-14, -(2.0**-14), 2.0**-24])
"""Second terms: sums are near ties, and on both sides of them."""
_known: WeakKeyDictionary[DeviceContext, dict[object, bool]] = WeakKeyDictionary()


def rounds_right(
    opened: DeviceContext, accumulator: Accumulator, tuning: Tuning, statistics: Sequence[Statistic]
) -> bool:
    """Tell whether a device rounds all of these as the host does; the answer is kept."""
    how = [one.rounding(accumulator) for one in statistics]
    known = _known.setdefault(opened, {})
    key = accumulator, tuple(how)
    if key not in known:
        able = [one for one in how if one is not None]
        known[key] = len(able) == len(how) and _tried(opened, accumulator, tuning, statistics, able)
    return known[key]


def _tried(
    opened: DeviceContext,
    accumulator: Accumulator,
    tuning: Tuning,
    statistics: Sequence[Statistic],
    how: Sequence[Rounding],
) -> bool:
    outputs = len(_FIRST) * len(_BEHIND)
    partial = Partial(_sums(accumulator, how, outputs), count=_COUNT)
    try:
        settled = in_passes(opened, accumulator, tuning, partial, ())
        found = in_passes(opened, accumulator, tuning, partial, how)
    except (DeviceError, cl.Error):  # it does not build, or is not run
        return False
    if not isinstance(settled, Partial) or not isinstance(found, Rounded):
        return False
    return all(
        one.finish(settled).tobytes() == found.values[one.name].tobytes() for one in statistics
    )


def _sums(accumulator: Accumulator, how: Sequence[Rounding], outputs: int) -> dict[str, np.ndarray]:
    arrays = dict(zero_partial(accumulator, outputs).arrays)
    squares = {one.squares or one.sum for one in how if one.squares or one.root}
    for name in accumulator.sums:
        first = np.repeat(_FIRST * _FIRST + 1 if name in squares else _FIRST, len(_BEHIND))
        behind = np.where(np.isfinite(first), np.tile(_BEHIND, len(_FIRST)), 0)
        arrays |= {f"{name}0": first, f"{name}1": behind}
    for one in how:
        if one.count is not None:
            arrays[one.count] = np.full(outputs, _COUNT)
    return arrays


def in_passes(
    opened: DeviceContext,
    accumulator: Accumulator,
    tuning: Tuning,
    partial: Partial,
    how: Sequence[Rounding],
) -> Partial | Rounded:
    """Bring a partial to the device, and back: settled, or rounded if it says `how`.

    Raises
    ------
    DeviceError
        If the device fails.
    """
    assert isinstance(partial.count, int)
    passes = Passes(Launcher(opened, accumulator, tuning), partial.outputs)
    raw, buffer = np.empty(accumulator.scalar_bytes * partial.outputs, np.uint8), passes.buffer(1)
    pack(accumulator, [partial], raw)
    with device_errors(opened.device, "uploading a partial"):
        cl.enqueue_copy(passes.launcher.queue, buffer, raw, is_blocking=True)
    if how:
        return passes.rounded(buffer, 1, partial.outputs, partial.count, how)
    return passes.start(buffer, 1, partial.outputs, partial.count)()
