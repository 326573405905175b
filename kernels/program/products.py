"""How products of factors are doubles, or some doubles whose sum they are, in kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from chunkfold.kernels.accumulator.component import BoundField
from chunkfold.kernels.exact.limbs import FORMATS
from chunkfold.kernels.exact.polynomials import Monomial, format_of, significant
from chunkfold.kernels.expressions.nodes import Node

_DIGITS = 53
"""Bits of a double."""
_LOWEST, _HIGHEST = -1074, 1000
"""Exponents between which all bits of what is multiplied must be. Sums of it need room above."""
_MOST_DOUBLES = 12
"""Doubles of an element that vectors are made of: more do not fit registers."""


@dataclass(frozen=True)
class Group:
    """Some factors whose product is a double."""

    text: str
    digits: int


def grouped(one: Monomial, names: Mapping[Node, str], values: Sequence[np.dtype]) -> list[Group]:
    """Put factors together as long as their products are doubles, and the number with them."""
    single = [Group(names[factor], format_of(factor, values).precision) for factor in one.factors]
    number = float(one.number)
    if number != 1 or not single:
        single.append(Group(f"({number.hex()})", significant(one)))
    groups: list[Group] = []
    for item in sorted(single, key=lambda group: group.digits):
        fit = next((g for g in groups if g.digits + item.digits <= _DIGITS), None)
        if fit is None:
            groups.append(item)
        else:
            groups.remove(fit)
            groups.append(Group(f"{fit.text} * {item.text}", fit.digits + item.digits))
    return groups


def bounds_of(one: Monomial, values: Sequence[np.dtype]) -> tuple[int, int, int]:
    """Return how many factors are doubles of any size, and powers of two they must be between."""
    forms = [format_of(factor, values) for factor in one.factors]
    wide = [form for form in forms if form == FORMATS["float64"]]
    others = [form for form in forms if form != FORMATS["float64"]]
    least = sum(form.least for form in others) + min(0, one.exponent)
    most = sum(form.top for form in others)
    most += max(0, one.exponent + abs(one.digits).bit_length())
    if not wide:
        return 0, min(0, least - _LOWEST), max(0, _HIGHEST - most)
    below = (least - _LOWEST) // len(wide) - 52
    return len(wide), below, (_HIGHEST - most) // len(wide)


def factors_of(field: BoundField) -> dict[Node, str]:
    """Name the factors of a polynomial."""
    return {factor: f"y.y{number}" for number, factor in enumerate(field.factors)}


def is_sum_of(one: Monomial) -> bool:
    """Whether a monomial is a factor as it is, or less than nothing by it."""
    return len(one.factors) == 1 and abs(one.number) == 1


def ranges_of(one: Monomial, values: Sequence[np.dtype]) -> dict[Node, tuple[int, int]] | None:
    """Return between which powers of two factors must be, which may be of any size.

    2**-below and 2**above; none where that is not needed. None: its bits are never all known to be
    some doubles'.
    """
    if is_sum_of(one):
        return {}
    wide, below, above = bounds_of(one, values)
    if not wide:
        return {} if below == 0 and above > 0 else None
    if below < 1 or above < 1:
        return None
    each = dict.fromkeys(one.factors)
    return {f: (below, above) for f in each if format_of(f, values) == FORMATS["float64"]}


def on_lanes(field: BoundField, values: Sequence[np.dtype], *, skips: bool) -> bool:
    """Whether elements are few enough doubles to be added as vectors.

    Where some are skipped, their factors are 0 there: all of it must have factors.
    """
    assert field.limbs is not None
    if field.limbs.power:
        return True
    if not field.polynomial or not field.limbs.terms:
        return False
    if any(ranges_of(one, values) is None for one in field.polynomial):
        return False
    if skips and not all(one.factors for one in field.polynomial):
        return False
    names = dict.fromkeys(field.factors, "")
    groups = (len(grouped(one, names, values)) for one in field.polynomial)
    return sum(1 << count - 1 for count in groups) <= _MOST_DOUBLES


def dtypes_of(values: Sequence[str]) -> list[np.dtype]:
    """Return the dtypes of values; for bfloat16, which NumPy lacks, and times what has as many."""
    held = {"bfloat16": "float32", "time": "int64"}
    return [np.dtype(held.get(value, value)) for value in values]
