"""Emit how exact sums take in elements that are polynomials of factors.

Each monomial is some doubles whose sum it is (TwoProduct: Dekker, "A floating-point technique",
1971; Ogita, Rump, Oishi, "Accurate sum and dot product", 2005), or, where those would not be
doubles, an integer that is deposited in limbs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.accumulator.component import BoundField, Component
from chunkfold.kernels.dtypes import FIELD
from chunkfold.kernels.exact.polynomials import Monomial
from chunkfold.kernels.expressions.nodes import Node
from chunkfold.kernels.expressions.operations import cast
from chunkfold.kernels.expressions.style import LANES, ONE
from chunkfold.kernels.program.elements import head, head_of_lanes
from chunkfold.kernels.program.products import (
    Group,
    dtypes_of,
    factors_of,
    grouped,
    ranges_of,
)
from chunkfold.kernels.program.texts import assigned, joined
from chunkfold.kernels.program.vectors import kept

_DOUBLE = np.dtype(np.float64)


def polynomial_step(c: str, part: Component, accumulator: Accumulator, beyond: str) -> str:
    """Return how one element's monomials are added; its own state is an accumulator.

    `beyond` is what is done about one that is not some doubles, given its `{parts}`.
    """
    (field,) = part.fields
    names = factors_of(field)
    values = dtypes_of(accumulator.value)
    monomials = [
        _monomial(f"{c}_take{number}", c, one, names, values, beyond)
        for number, one in enumerate(field.polynomial)
    ]
    takes = "\n".join(
        f"    {c}_take{number}(state{_arguments(one, names)});"
        for number, one in enumerate(field.polynomial)
    )
    made = [(name, cast(factor, _DOUBLE)) for factor, name in names.items()]
    return f"""\
{joined(monomials)}
{head(c, part, accumulator)}
{joined(f"    double {name};" for name in names.values())}
{assigned(made, ONE)}
{_odd(field, "double", f"{c}_add(state, odd);")}
{takes}
}}"""


def integer_step(c: str, part: Component, accumulator: Accumulator) -> str:
    """Return the same for devices without float64: every monomial is deposited."""
    (field,) = part.fields
    names, limbs = factors_of(field), field.limbs
    assert limbs is not None
    wide = {
        factor: np.dtype(np.float32 if factor.dtype.kind == "f" else np.int64) for factor in names
    }
    taken = [(name, cast(factor, wide[factor])) for factor, name in names.items()]
    read = {factor: f"chf_of_{FIELD[wide[factor].name]}({name})" for factor, name in names.items()}
    deposits = [_deposit(limbs.low, one, read, "state->table") for one in field.polynomial]
    special = f"chf_deposit_float(state->table, {limbs.count}, {limbs.low}, odd, 0);"
    return f"""\
{head(c, part, accumulator)}
{joined(f"    {FIELD[wide[factor].name]} {name};" for factor, name in names.items())}
{assigned(taken, ONE)}
{_odd(field, "float", special)}
{joined(deposits)}
}}"""


def _odd(field: BoundField, ctype: str, done: str) -> str:
    """Return what is done about an element of which a factor is no number."""
    floats = [name for factor, name in factors_of(field).items() if factor.dtype.kind == "f"]
    if not floats:
        return ""
    finite = " && ".join(f"isfinite({name})" for name in floats)
    return f"""\
    if (!({finite})) {{
        {ctype} odd;
{assigned([("odd", field.lift)], ONE)}
        {done}
        return;
    }}"""


def _arguments(one: Monomial, names: Mapping[Node, str]) -> str:
    return "".join(f", {names[factor]}" for factor in dict.fromkeys(one.factors))


def _number(one: Monomial) -> str:
    negative = int(one.digits < 0)
    return f"(chf_number){{ {abs(one.digits)}UL, {one.exponent}, {negative} }}"


def _deposit(low: int, one: Monomial, read: Mapping[Node, str], table: str) -> str:
    """Return how a monomial is deposited as an integer."""
    parts = [read[factor] for factor in one.factors] + [_number(one)]
    return f"""\
    {{
        const chf_number parts[] = {{ {", ".join(parts)} }};
        chf_deposit_product({table}, {low}, parts, {len(parts)});
    }}"""


def _monomial(
    function: str,
    c: str,
    one: Monomial,
    names: Mapping[Node, str],
    values: Sequence[np.dtype],
    beyond: str,
) -> str:
    """Return how a monomial of finite factors is added."""
    given = list(dict.fromkeys(one.factors))
    takes = "".join(f", double {names[factor]}" for factor in given)
    parts = [f"chf_of_double({names[factor]})" for factor in one.factors] + [_number(one)]
    otherwise = beyond.format(parts=", ".join(parts), count=len(parts))
    ranges = ranges_of(one, values)
    lines = [f"    {otherwise}"]
    if ranges is not None:
        lines, terms = doubles(one, names, values, "double")
        lines += [f"{c}_add(s, {term});" for term, _ in terms]
        lines = [f"    {line}" for line in lines]
    if ranges:
        zero = " || ".join(f"{names[factor]} == 0" for factor in given)
        inside = " && ".join(
            f"fabs({names[factor]}) > 0x1p-{below} && fabs({names[factor]}) < 0x1p+{above}"
            for factor, (below, above) in ranges.items()
        )
        lines = [
            f"    if ({zero})\n        return;",
            f"    if (!({inside})) {{\n        {otherwise}\n        return;\n    }}",
            *lines,
        ]
    return f"static void {function}({c}_t *s{takes})\n{{\n{joined(lines)}\n}}"


def doubles(
    one: Monomial,
    names: Mapping[Node, str],
    values: Sequence[np.dtype],
    ctype: str,
    prefix: str = "",
) -> tuple[list[str], list[tuple[str, int]]]:
    """Return statements, and doubles behind them, or vectors, that add up to it.

    With the name of each, how many doubles' digits it is below the largest.
    """
    groups: list[Group] = grouped(one, names, values)
    lines = [f"const {ctype} {prefix}g{n} = {group.text};" for n, group in enumerate(groups)]
    terms = [(f"{prefix}g0", 0)]
    for number in range(1, len(groups)):
        made: list[tuple[str, int]] = []
        for at, (term, below) in enumerate(terms):
            product, error = (f"{prefix}{kind}{number}_{at}" for kind in "pe")
            factor = f"{prefix}g{number}"
            lines += [
                f"const {ctype} {product} = {term} * {factor};",
                f"const {ctype} {error} = fma({term}, {factor}, -{product});",
            ]
            made += [(product, below), (error, below + 1)]
        terms = made
    return lines, terms


def polynomial_lanes(c: str, part: Component, accumulator: Accumulator) -> str:
    """Return how lanes take in elements, as vectors.

    Where anything is left over in any lane, or is no double, elements are taken in one by one.
    """
    (field,) = part.fields
    names, values = factors_of(field), dtypes_of(accumulator.value)
    assert field.limbs is not None
    last = field.limbs.terms - 1
    adds: list[str] = []
    outside: list[str] = []
    for number, one in enumerate(field.polynomial):
        lines, added = doubles(one, names, values, "chf_doubles", f"m{number}")
        adds += lines
        adds += [
            f"left = chfv_grow({term}, now.a, now.a, {min(below, last)}, CHF_FIRST); "
            "found |= CHF_AS(ulong, left);"
            for term, below in added
        ]
        outside += [
            f"((fabs({names[f]}) <= 0x1p-{below}) & ({names[f]} != 0)) "
            f"| (fabs({names[f]}) >= 0x1p+{above})"
            for f, (below, above) in (ranges_of(one, values) or {}).items()
        ]
    bad = [f"found |= CHF_TO(ulong, {text});" for text in dict.fromkeys(outside)]
    absent = [kept(part, "float64", name, "(chf_doubles)(0)") for name in names.values()]
    return f"""\
static void {c}_steps({c}_states *state, const values_t *v, ulong i0, ulong di)
{{
{head_of_lanes(part, accumulator)}
    {" ".join(f"chf_doubles {name};" for name in names.values())}
{assigned([(name, cast(factor, _DOUBLE)) for factor, name in names.items()], LANES)}
{joined(absent)}
    {c}_states now = *state;
    CHF_VEC(ulong) found = 0;
    chf_doubles left;
{joined(f"    {line}" for line in [*adds, *bad])}
    if (!chf_any_left(found)) {{
        *state = now;
        return;
    }}
    {c}_states kept = *state; /* a copy: what has an address is kept in memory */
    const values_t given = *v;
    {c}_step_each(&kept, &given, i0, di);
    *state = kept;
}}"""
