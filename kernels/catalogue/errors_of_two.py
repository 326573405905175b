"""Errors of one array against another: bias, mean absolute and root mean square error.

Exact, and rounded once, with weights too. They follow Willmott and Matsuura, "Advantages of the
mean absolute error (MAE) over the root mean square error (RMSE)", 2005.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chunkfold.kernels.catalogue.covariances import of_two, weighted_of_two
from chunkfold.kernels.catalogue.exact_sums import ExactFields
from chunkfold.kernels.expressions.symbols import Symbol
from chunkfold.kernels.monoid.context import Context


def _apart(x: Any, y: Any) -> Any:
    """Return how far the first is above the second; NumPy subtracts no bools."""
    if x.dtype.kind == "b":
        x, y = x.astype("int8"), y.astype("int8")
    return x - y


def _far(x: Symbol, y: Symbol) -> Any:
    """Return how far two are apart: of factors, which are not rounded."""
    return _apart(np.maximum(x, y), np.minimum(x, y))


def _mean(fields: ExactFields, _context: Context) -> Any:
    return fields["s"] / fields["n"]


def _root_of_mean(fields: ExactFields, _context: Context) -> Any:
    return (fields["s"] / fields["n"]).sqrt()


_DIFFERENCE: Any = {"s": _apart}
_DISTANCE: Any = {"s": _far}
_SQUARE: Any = {"s": lambda x, y: _apart(x, y) ** 2}
BIAS = of_two("bias", _mean, _DIFFERENCE)
MAE = of_two("mae", _mean, _DISTANCE)
RMSE = of_two("rmse", _root_of_mean, _SQUARE)
WEIGHTED_BIAS = weighted_of_two("bias", _mean, _DIFFERENCE)
WEIGHTED_MAE = weighted_of_two("mae", _mean, _DISTANCE)
WEIGHTED_RMSE = weighted_of_two("rmse", _root_of_mean, _SQUARE)
