"""The limbs that sums of floats, and of their squares, are kept in."""

from __future__ import annotations

import numpy as np

from chunkfold.kernels import as_monoid, bind
from chunkfold.kernels.exact.limbs import Limbs


def limbs_of(dtype: np.dtype, power: int) -> Limbs:
    """Return the limbs of a bound sum of values, or of their squares."""
    monoid = as_monoid({1: "sum", 2: "sumsq"}[power])
    (statistic,) = bind([monoid], [dtype], exact=True).statistics
    (limbs,) = statistic.limbs.values()
    return limbs
