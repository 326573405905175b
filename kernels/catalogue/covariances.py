"""Covariances and correlations of two arrays, plain and weighted: exact, and rounded once.

As `numpy.cov` and `numpy.corrcoef` of the two have them off the diagonal; weights are frequencies,
`fweights` there, which need not be whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from chunkfold.kernels.catalogue.exact_sums import ExactFields
from chunkfold.kernels.monoid.context import Context
from chunkfold.kernels.monoid.monoid import Monoid

_SUMS: Any = {"x": lambda x, _: x, "y": lambda _, y: y, "xy": lambda x, y: x * y}
_SQUARES: Any = {"xx": lambda x, _: x * x, "yy": lambda _, y: y * y}


def _apart(fields: ExactFields, product: str, one: str, other: str) -> Any:
    """Return the sum of products of deviations from the means."""
    return fields[product] - fields[one] * fields[other] / fields["n"]


def covariance(fields: ExactFields, context: Context) -> Any:
    """Divide the sum of products of deviations by n - ddof; of no degree as variances do."""
    n = fields["n"]
    degrees = n - context.ddof
    if isinstance(degrees, np.ndarray):
        degrees = np.maximum(degrees, 0)
    elif context.ddof:
        degrees = np.where(degrees > 0, degrees, 0)
    return _apart(fields, "xy", "x", "y") / degrees


def correlation(fields: ExactFields, _context: Context) -> Any:
    """Divide it by the root of both sums of squares; NaN where one is 0."""
    squares = _apart(fields, "xx", "x", "x") * _apart(fields, "yy", "y", "y")
    return _apart(fields, "xy", "x", "y") / squares.sqrt()


def of_two(name: str, finish: Any, lift: Mapping[str, Any]) -> Monoid:
    """Return a reduction of two inputs: exact sums of what is lifted, and the count `n`."""
    return Monoid(
        name,
        inputs=2,
        fields={"n": "count"} | dict.fromkeys(lift, "exact"),
        zero=dict.fromkeys(["n", *lift], 0),
        lift={"n": 1, **lift},
        op="add",
        finish=finish,
    )


def weighted_of_two(name: str, finish: Any, lift: Mapping[str, Any]) -> Monoid:
    """Return it with weights of pairs, a third input, whose exact sum is `n`."""
    weighed = {key: _times_weight(part) for key, part in lift.items()}
    return Monoid(
        f"weighted_{name}",
        inputs=3,
        weights=1,
        fields=dict.fromkeys(["n", *lift], "exact"),
        zero=dict.fromkeys(["n", *lift], 0),
        lift={"n": _weight, **weighed},
        op="add",
        finish=finish,
    )


def _weight(_x: Any, _y: Any, w: Any) -> Any:
    return w


def _times_weight(part: Any) -> Any:
    return lambda x, y, w: part(x, y) * w


COVARIANCE = of_two("covariance", covariance, _SUMS)
CORRELATION = of_two("correlation", correlation, _SUMS | _SQUARES)
WEIGHTED_COVARIANCE = weighted_of_two("covariance", covariance, _SUMS)
WEIGHTED_CORRELATION = weighted_of_two("correlation", correlation, _SUMS | _SQUARES)
COV, CORR = COVARIANCE.called("cov"), CORRELATION.called("corr")
WEIGHTED_COV = WEIGHTED_COVARIANCE.called("weighted_cov")
WEIGHTED_CORR = WEIGHTED_CORRELATION.called("weighted_corr")
