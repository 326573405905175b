"""Finds the quantity that results are, from that of the elements, and CF's name of the reduction.

CF conventions 1.11, section 7.3 and appendix E.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any

from chunkfold.kernels import CATALOGUE
from chunkfold.kernels.catalogue.named import is_sorted, percent_of


class QuantityKind(Enum):
    """The kind of quantity that results are, if the elements have units."""

    ELEMENT = "some of the elements themselves"
    LEVEL = "on the scale of the elements, but not one of them"
    RANK = "on that scale too, and between elements by their order, which a negative scale turns"
    DIFFERENCE = "how far apart elements are: of dates it is a time"
    TOTAL = "amounts put together: dates and degrees Celsius have none"
    SQUARED = "differences or amounts multiplied by themselves"
    BITS = "bits of the elements"
    OTHER = "another quantity: a number of elements, a position, a truth, a product"


ON_SCALE = (QuantityKind.ELEMENT, QuantityKind.LEVEL, QuantityKind.RANK)
"""Kinds of results that are measured as the elements are."""


@dataclass(frozen=True)
class Quantity:
    """The quantity that results of a reduction are."""

    kind: QuantityKind = QuantityKind.OTHER
    method: str | None = None
    """The name of the reduction in `cell_methods`, if CF has one."""

    @property
    def named(self) -> bool:
        """Return True if results keep the elements' name, as it is or with `cell_methods`."""
        return self.kind in ON_SCALE or self.method is not None


QUANTITIES: Mapping[str, Quantity] = MappingProxyType(
    {
        "sum": Quantity(QuantityKind.TOTAL, "sum"),
        "prod": Quantity(),
        "min": Quantity(QuantityKind.ELEMENT, "minimum"),
        "max": Quantity(QuantityKind.ELEMENT, "maximum"),
        "minmax": Quantity(QuantityKind.ELEMENT),
        "argmin": Quantity(),
        "argmax": Quantity(),
        "mean": Quantity(QuantityKind.LEVEL, "mean"),
        "var": Quantity(QuantityKind.SQUARED, "variance"),
        "std": Quantity(QuantityKind.DIFFERENCE, "standard_deviation"),
        "sumsq": Quantity(QuantityKind.SQUARED, "sum_of_squares"),
        "norm1": Quantity(QuantityKind.TOTAL),
        "norm2": Quantity(QuantityKind.TOTAL),
        "norminf": Quantity(QuantityKind.TOTAL, "maximum_absolute_value"),
        "logsumexp": Quantity(),
        "count": Quantity(),
        "count_nonzero": Quantity(),
        "any": Quantity(),
        "all": Quantity(),
        "bitwise_and": Quantity(QuantityKind.BITS),
        "bitwise_or": Quantity(QuantityKind.BITS),
        "bitwise_xor": Quantity(QuantityKind.BITS),
        "dot": Quantity(),
        "sum_sq_diff": Quantity(QuantityKind.SQUARED),
        "median": Quantity(QuantityKind.LEVEL, "median"),
        "mode": Quantity(QuantityKind.ELEMENT, "mode"),
        "nunique": Quantity(),
        "approx_nunique": Quantity(),
        "quantile": Quantity(QuantityKind.RANK),
        "weighted_sum": Quantity(),
        "weighted_mean": Quantity(QuantityKind.LEVEL, "mean"),
        "weighted_median": Quantity(QuantityKind.LEVEL, "median"),
        "weighted_var": Quantity(QuantityKind.SQUARED, "variance"),
        "weighted_std": Quantity(QuantityKind.DIFFERENCE, "standard_deviation"),
        "sum_of_weights": Quantity(),
        "covariance": Quantity(),
        "correlation": Quantity(),
        "weighted_covariance": Quantity(),
        "weighted_correlation": Quantity(),
        "cov": Quantity(),
        "corr": Quantity(),
        "weighted_cov": Quantity(),
        "weighted_corr": Quantity(),
        "max_abs_diff": Quantity(QuantityKind.DIFFERENCE),
        "bias": Quantity(QuantityKind.DIFFERENCE),
        "mae": Quantity(QuantityKind.DIFFERENCE),
        "rmse": Quantity(QuantityKind.DIFFERENCE),
        "weighted_bias": Quantity(QuantityKind.DIFFERENCE),
        "weighted_mae": Quantity(QuantityKind.DIFFERENCE),
        "weighted_rmse": Quantity(QuantityKind.DIFFERENCE),
        "first_mismatch": Quantity(),
        "histogram/left": Quantity(QuantityKind.LEVEL),
        "histogram/right": Quantity(QuantityKind.LEVEL),
        "histogram/count": Quantity(),
        "histogram/weight": Quantity(),
        "histogram/density": Quantity(),
    }
)
"""Quantities by names of reductions, and of fields of reductions whose results are records."""

_SINCE = re.compile(r"\s*(\S.*?)\s*(?:\s(?:since|after|from|ref)\s|@)", re.IGNORECASE)
"""Units whose zero is somewhere: at a date, as a rule."""
_DEGREES = MappingProxyType({"c": "K", "celsius": "K", "f": "degR", "fahrenheit": "degR"})
"""Scales of temperature whose zero is somewhere, and what differences of them are in."""
_DEGREE = re.compile(r"\s*(?:°\s*|deg(?:ree)?s?[\s_]*)?(celsius|fahrenheit|c|f)\s*", re.IGNORECASE)
_NOT_DEGREES = ("C", "c", "F", "f")
"""Coulomb and farad, as UDUNITS reads them."""


def quantity_of(op: str) -> Quantity:
    """Return what results are, by the reduction's name; one of your own is another quantity.

    >>> quantity_of("nanstd").method, quantity_of("energy").kind.name
    ('standard_deviation', 'OTHER')
    """
    plain = op.removeprefix("nan") if op in CATALOGUE else op
    if percent_of(op) is not None or op == "weighted_quantile":
        return QUANTITIES["quantile"]
    if is_sorted(op):
        return Quantity() if "arg" in op else Quantity(QuantityKind.ELEMENT)
    return QUANTITIES.get(plain, Quantity())


def units_of(kind: QuantityKind, units: Any) -> Any:
    """Return the units of results of a kind, where elements have some; None if they have none.

    >>> given = ("days since 2000-01-01", "degC", "m s-1")
    >>> [units_of(QuantityKind.DIFFERENCE, one) for one in given]
    ['days', 'K', 'm s-1']
    >>> [units_of(QuantityKind.TOTAL, one) for one in given]
    [None, None, 'm s-1']
    """
    if kind in ON_SCALE:
        return units
    if kind not in (QuantityKind.DIFFERENCE, QuantityKind.TOTAL):
        return None
    apart = _apart(units)
    return units if apart is None else apart if kind is QuantityKind.DIFFERENCE else None


def _apart(units: Any) -> str | None:
    """Return what differences are in, of units whose zero is somewhere; None of others."""
    if not isinstance(units, str):
        return None
    since = _SINCE.match(units)
    if since:
        return since[1]
    degree = _DEGREE.fullmatch(units)
    return _DEGREES[degree[1].lower()] if degree and units.strip() not in _NOT_DEGREES else None
