"""What results of a reduction are, measured by what is reduced; and what CF calls the reduction.

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
from chunkfold.kernels.catalogue.named import is_percentile, is_sorted


class Kind(Enum):
    """How results are measured, where elements have units."""

    ELEMENT = "some of the elements themselves"
    LEVEL = "on the scale of the elements, but none of them"
    RANK = "on that scale too, and between elements by their order, which a negative scale turns"
    DIFFERENCE = "how far apart elements are: of dates it is a time"
    TOTAL = "amounts put together: dates and degrees Celsius have none"
    SQUARED = "differences or amounts multiplied by themselves"
    BITS = "bits of the elements"
    OTHER = "another quantity: a number of elements, a position, a truth, a product"


ON_SCALE = (Kind.ELEMENT, Kind.LEVEL, Kind.RANK)
"""Of results that are measured as elements are."""


@dataclass(frozen=True)
class Quantity:
    """What results of a reduction are."""

    kind: Kind = Kind.OTHER
    method: str | None = None
    """What `cell_methods` call the reduction, if they know it."""

    @property
    def named(self) -> bool:
        """Whether the elements' name is theirs too: as it is, or by what `cell_methods` say."""
        return self.kind in ON_SCALE or self.method is not None


QUANTITIES: Mapping[str, Quantity] = MappingProxyType(
    {
        "sum": Quantity(Kind.TOTAL, "sum"),
        "prod": Quantity(),
        "min": Quantity(Kind.ELEMENT, "minimum"),
        "max": Quantity(Kind.ELEMENT, "maximum"),
        "minmax": Quantity(Kind.ELEMENT),
        "argmin": Quantity(),
        "argmax": Quantity(),
        "mean": Quantity(Kind.LEVEL, "mean"),
        "var": Quantity(Kind.SQUARED, "variance"),
        "std": Quantity(Kind.DIFFERENCE, "standard_deviation"),
        "sumsq": Quantity(Kind.SQUARED, "sum_of_squares"),
        "norm1": Quantity(Kind.TOTAL),
        "norm2": Quantity(Kind.TOTAL),
        "norminf": Quantity(Kind.TOTAL, "maximum_absolute_value"),
        "logsumexp": Quantity(),
        "count": Quantity(),
        "count_nonzero": Quantity(),
        "any": Quantity(),
        "all": Quantity(),
        "bitwise_and": Quantity(Kind.BITS),
        "bitwise_or": Quantity(Kind.BITS),
        "bitwise_xor": Quantity(Kind.BITS),
        "dot": Quantity(),
        "sum_sq_diff": Quantity(Kind.SQUARED),
        "median": Quantity(Kind.LEVEL, "median"),
        "mode": Quantity(Kind.ELEMENT, "mode"),
        "nunique": Quantity(),
        "approx_nunique": Quantity(),
        "quantile": Quantity(Kind.RANK),
        "weighted_sum": Quantity(),
        "weighted_mean": Quantity(Kind.LEVEL, "mean"),
        "weighted_median": Quantity(Kind.LEVEL, "median"),
        "weighted_var": Quantity(Kind.SQUARED, "variance"),
        "weighted_std": Quantity(Kind.DIFFERENCE, "standard_deviation"),
        "sum_of_weights": Quantity(),
        "covariance": Quantity(),
        "correlation": Quantity(),
        "weighted_covariance": Quantity(),
        "weighted_correlation": Quantity(),
        "max_abs_diff": Quantity(Kind.DIFFERENCE),
        "first_mismatch": Quantity(),
        "histogram/left": Quantity(Kind.LEVEL),
        "histogram/right": Quantity(Kind.LEVEL),
        "histogram/count": Quantity(),
        "histogram/weight": Quantity(),
        "histogram/density": Quantity(),
    }
)
"""By the names of reductions, and of fields of those whose results are records."""

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
    if is_percentile(op) or op == "weighted_quantile":
        return QUANTITIES["quantile"]
    if is_sorted(op):
        return Quantity() if "arg" in op else Quantity(Kind.ELEMENT)
    return QUANTITIES.get(plain, Quantity())


def units_of(kind: Kind, units: Any) -> Any:
    """Return the units of results of a kind, where elements have some; None if they have none.

    >>> [units_of(Kind.DIFFERENCE, one) for one in ("days since 2000-01-01", "degC", "m s-1")]
    ['days', 'K', 'm s-1']
    >>> [units_of(Kind.TOTAL, one) for one in ("days since 2000-01-01", "degC", "m s-1")]
    [None, None, 'm s-1']
    """
    if kind in ON_SCALE:
        return units
    if kind not in (Kind.DIFFERENCE, Kind.TOTAL):
        return None
    apart = _apart(units)
    return units if apart is None else apart if kind is Kind.DIFFERENCE else None


def _apart(units: Any) -> str | None:
    """Return what differences are in, of units whose zero is somewhere; None of others."""
    if not isinstance(units, str):
        return None
    since = _SINCE.match(units)
    if since:
        return since[1]
    degree = _DEGREE.fullmatch(units)
    return _DEGREES[degree[1].lower()] if degree and units.strip() not in _NOT_DEGREES else None
