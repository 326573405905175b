"""Write the code that computes polynomials of elements as doubles, or as sums of doubles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.accumulator.component import BoundField, Component
from chunkfold.kernels.dtypes import FIELD
from chunkfold.kernels.exact.limbs import FORMATS
from chunkfold.kernels.exact.polynomials import Monomial, format_of, significant
from chunkfold.kernels.expressions.nodes import Node
from chunkfold.kernels.expressions.operations import cast
from chunkfold.kernels.expressions.style import LANES, ONE
from chunkfold.kernels.opencl.element_code import head_of_lanes, names, skipped, where_ignored
from chunkfold.kernels.opencl.opencl_code import assigned, joined

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
    """Return whether a monomial is one factor, or its negative."""
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
    """Return whether elements are few enough doubles to be added as vectors.

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


_DOUBLE = np.dtype(np.float64)


def factors(c: str, component: Component, accumulator: Accumulator, *, fp64: bool) -> str:
    """Return what makes the factors of an element: doubles, or integers and powers of two."""
    (field,) = component.fields
    made = [(f"f{n}", cast(one, _wide(one, fp64=fp64))) for n, one in enumerate(field.factors)]
    odd = [f"!isfinite(f{n})" for n, one in enumerate(field.factors) if one.dtype.kind == "f"]
    ctype, numbers = (
        "double" if fp64 else "chf_number",
        [
            f"y.y{n} = {name if fp64 else f'chf_of_{FIELD[tree.dtype.name]}({name})'};"
            for n, (name, tree) in enumerate(made)
        ],
    )
    members = " ".join(f"{ctype} y{n};" for n in range(len(made)))
    return f"""\
typedef struct {{ int found; {members} }} {c}_factors_t;
static {c}_factors_t {c}_factors(value_t v, ulong i)
{{
    {c}_factors_t y;
    y.found = 0;
{joined([names(accumulator), skipped(component, "return y;")])}
    {" ".join(f"{FIELD[tree.dtype.name]} {name};" for name, tree in made)}
{joined([assigned(made, ONE), *(f"    {one}" for one in numbers)])}
    y.found = {" || ".join(odd) or "0"} ? -1 : 1;
    return y;
}}"""


def factors_of_lanes(c: str, component: Component, accumulator: Accumulator) -> str:
    """Return the same for lanes of doubles: 0 where elements are ignored."""
    made = [(f"y.y{n}", cast(one, _DOUBLE)) for n, one in enumerate(component.fields[0].factors)]
    ignored = [where_ignored(component, "float64", name, "(chf_doubles)(0)") for name, _ in made]
    members = " ".join(f"chf_doubles y{n};" for n in range(len(made)))
    return f"""\
typedef struct {{ {members or "int none;"} }} {c}_factors_of_lanes_t;
static {c}_factors_of_lanes_t {c}_factors_of_lanes(const values_t *v, ulong i0, ulong di)
{{
    {c}_factors_of_lanes_t y;
{head_of_lanes(component, accumulator)}
{joined([assigned(made, LANES), *ignored])}
    return y;
}}"""


def _wide(factor: Node, *, fp64: bool) -> np.dtype:
    if fp64:
        return _DOUBLE
    return np.dtype(np.float32 if factor.dtype.kind == "f" else np.int64)


def monomials(field: BoundField, accumulator: Accumulator, *, fp64: bool) -> dict[str, object]:
    """Return the definitions that tell of the monomials, each by its number."""
    values, named = dtypes_of(accumulator.value), factors_of(field)
    given: dict[str, object] = {}
    takes, beyond = [], []
    for m, one in enumerate(field.polynomial):
        own = [named[factor] for factor in one.factors]
        parts = [f"chf_of_double({name})" if fp64 else name for name in own]
        number = f"{{ {abs(one.digits)}UL, {one.exponent}, {int(one.digits < 0)} }}"
        given[f"PARTS_{m}"] = f"{{ {', '.join([*parts, number])} }}"
        ranges = ranges_of(one, values) if fp64 else None
        if ranges is not None:
            groups = [f"(T)({group.text})" for group in grouped(one, named, values)]
            terms = f"CHF_TERMS_{len(groups)}(ADD, T, 0, {', '.join(groups)})"
            given[f"TERMS_OF_{m}(ADD, T)"] = terms
        if ranges:
            given[f"OUTSIDE_{m}"] = outside = _outside(ranges, named)
            given[f"ZERO_{m}"] = " || ".join(f"{name} == 0" for name in dict.fromkeys(own))
            beyond.append(outside)
        how = "WHOLE" if ranges is None else "WITHIN" if ranges else "DOUBLES"
        takes.append(f"{how}({m})")
    if beyond:
        given["OUTSIDE"] = " | ".join(dict.fromkeys(beyond))
    return given | {"MONOMIALS(DOUBLES, WITHIN, WHOLE)": " ".join(takes)}


def _outside(ranges: dict[Node, tuple[int, int]], named: dict[Node, str]) -> str:
    """Return whether any factor of a monomial is out of its range, of one element or lanes."""
    return " | ".join(
        f"CHF_OUT_OF({named[f]}, 0x1p-{below}, 0x1p+{above})"
        for f, (below, above) in ranges.items()
    )
