"""Why results are NaN: since elements are, or for other reasons."""

from __future__ import annotations

import numpy as np

from chunkfold.kernels.accumulator.partial import Partial
from chunkfold.kernels.accumulator.sums import Rounded, exact_sums
from chunkfold.kernels.binding.statistic import Statistic
from chunkfold.kernels.dtypes import COUNT
from chunkfold.kernels.exact.limbs import SPECIALS

_OF_NAN_ALONE = ("min", "max", "minmax", "norminf", "norm1", "norm2", "sumsq")
"""Of anything else these are numbers, or infinite."""


def since_elements_are(
    statistic: Statistic, whole: Partial, done: np.ndarray, *, grouped: bool = False
) -> bool | None:
    """Whether results are NaN or NaT since elements are, which `skipna` would leave out.

    None if that may be, but infinities may have done it too, such as those of both signs in a sum.
    Outputs of nothing, of no more elements than `ddof`, or of too few are NaN anyway. Of elements
    that are `grouped` a partial does not know how many each result has; a statistic may.
    """
    if statistic.monoid.skipna or done.dtype.kind not in "fcmM" or not done.size:
        return False
    counts = _counted(statistic, whole) if grouped else np.asarray(whole.count)
    odd = np.isnan(done.reshape(whole.outputs, -1)).any(axis=1)
    if counts is not None:
        least = max(statistic.ddof, statistic.monoid.min_count - 1)
        odd &= np.broadcast_to(counts, whole.outputs) > least
    if not odd.any():
        return False
    monoid = statistic.monoid
    if monoid.where is not None or monoid.masked or counts is None:  # there may have been nothing
        return None
    if done.dtype.kind in "mM" or statistic.name in _OF_NAN_ALONE:
        return True
    sums = [
        exact_sums(whole, slot, statistic.limbs[name])
        for name, slot in statistic.slots.items()
        if name in statistic.limbs
    ]
    if not sums or any(one.terms for one in sums):
        return None
    return any(bool((one.wide.tables[odd, -SPECIALS] > 0).any()) for one in sums)


def since_rounded_are(
    statistic: Statistic, found: Rounded, *, grouped: bool = False
) -> bool | None:
    """Tell the same of results that a device has rounded."""
    monoid, enough = statistic.monoid, grouped or np.all(np.asarray(found.count) > statistic.ddof)
    if monoid.skipna or not found.nan[statistic.name] or not enough:
        return False
    known = not grouped and monoid.where is None and not monoid.masked
    return True if known and statistic.name in _OF_NAN_ALONE else None


def _counted(statistic: Statistic, whole: Partial) -> np.ndarray | None:
    """Return of how many elements each result is, if the statistic has counted them."""
    rules = statistic.monoid.fields
    slots = [slot for name, slot in statistic.slots.items() if rules[name] == COUNT]
    return whole.arrays[slots[0]] if slots else None
