"""Bake how exact sums take in elements that are polynomials of factors.

Each monomial is some doubles whose sum it is (TwoProduct: Dekker, "A floating-point technique",
1971; Ogita, Rump, Oishi, "Accurate sum and dot product", 2005), or, where those would not be
doubles, an integer that is deposited in limbs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chunkfold.kernels.accumulator import Accumulator
from chunkfold.kernels.bake_components import head
from chunkfold.kernels.bake_texts import assigned, joined
from chunkfold.kernels.component import BoundField, Component
from chunkfold.kernels.dtypes import FIELD
from chunkfold.kernels.expressions.nodes import Node
from chunkfold.kernels.expressions.operations import cast
from chunkfold.kernels.expressions.style import ONE
from chunkfold.kernels.limbs import FORMATS
from chunkfold.kernels.polynomials import Monomial, format_of, significant

_DIGITS = 53
"""Bits of a double."""
_LOWEST, _HIGHEST = -1074, 1000
"""Exponents between which all bits of what is multiplied must be. Sums of it need room above."""


def factors_of(field: BoundField) -> dict[Node, str]:
    """Name the factors of a polynomial."""
    return {factor: f"y{number}" for number, factor in enumerate(field.factors)}


def polynomial_step(c: str, part: Component, accumulator: Accumulator, beyond: str) -> str:
    """Return how one element's monomials are added; its own state is an accumulator.

    `beyond` is what is done about one that is not some doubles, given its `{parts}`.
    """
    (field,) = part.fields
    names = factors_of(field)
    values = [_dtype_of(value) for value in accumulator.value]
    monomials = [
        _monomial(f"{c}_take{number}", c, one, names, values, beyond)
        for number, one in enumerate(field.polynomial)
    ]
    takes = "\n".join(
        f"    {c}_take{number}(state{_arguments(one, names)});"
        for number, one in enumerate(field.polynomial)
    )
    doubles = [(name, cast(factor, np.dtype(np.float64))) for factor, name in names.items()]
    return f"""\
{joined(monomials)}
typedef {c}_t {c}_state;
static void {c}_begin({c}_state *state) {{ *state = {c}_zero(); }}
{head(c, part, accumulator)}
{joined(f"    double {name};" for name in names.values())}
{assigned(doubles, ONE)}
{_odd(field, "double", f"{c}_add(state, odd);")}
{takes}
}}
static {c}_t {c}_end({c}_state s) {{ return s; }}"""


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
static void {c}_begin({c}_state *state) {{ *state = {c}_zero(); }}
{head(c, part, accumulator)}
{joined(f"    {FIELD[wide[factor].name]} {name};" for factor, name in names.items())}
{assigned(taken, ONE)}
{_odd(field, "float", special)}
{joined(deposits)}
}}"""


def _dtype_of(value: str) -> np.dtype:
    """Return the dtype of values, of which bfloat16 is none of NumPy's, nor times."""
    return _BFLOAT16 if value == "bfloat16" else np.dtype("i8" if value == "time" else value)


_BFLOAT16 = np.dtype(np.float32)


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


def _arguments(one: Monomial, names: dict[Node, str]) -> str:
    return "".join(f", {names[factor]}" for factor in dict.fromkeys(one.factors))


def _number(one: Monomial) -> str:
    negative = int(one.digits < 0)
    return f"(chf_number){{ {abs(one.digits)}UL, {one.exponent}, {negative} }}"


def _deposit(low: int, one: Monomial, read: dict[Node, str], table: str) -> str:
    """Return how a monomial is deposited as an integer."""
    parts = [read[factor] for factor in one.factors] + [_number(one)]
    return f"""\
    {{
        const chf_number parts[] = {{ {", ".join(parts)} }};
        chf_deposit_product({table}, {low}, parts, {len(parts)});
    }}"""


@dataclass(frozen=True)
class _Group:
    """Some factors whose product is a double."""

    text: str
    digits: int


def _grouped(one: Monomial, names: dict[Node, str], values: Sequence[np.dtype]) -> list[_Group]:
    """Put factors together as long as their products are doubles, and the number with them."""
    single = [_Group(names[factor], format_of(factor, values).precision) for factor in one.factors]
    number = float(one.number)
    if number != 1 or not single:
        single.append(_Group(f"({number.hex()})", significant(one)))
    groups: list[_Group] = []
    for item in sorted(single, key=lambda group: group.digits):
        fit = next((g for g in groups if g.digits + item.digits <= _DIGITS), None)
        if fit is None:
            groups.append(item)
        else:
            groups.remove(fit)
            groups.append(_Group(f"{fit.text} * {item.text}", fit.digits + item.digits))
    return groups


def _range(one: Monomial, values: Sequence[np.dtype]) -> tuple[int, int, int]:
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


def _monomial(
    function: str,
    c: str,
    one: Monomial,
    names: dict[Node, str],
    values: Sequence[np.dtype],
    beyond: str,
) -> str:
    """Return how a monomial of finite factors is added."""
    given = list(dict.fromkeys(one.factors))
    takes = "".join(f", double {names[factor]}" for factor in given)
    parts = [f"chf_of_double({names[factor]})" for factor in one.factors] + [_number(one)]
    otherwise = beyond.format(parts=", ".join(parts), count=len(parts))
    if len(one.factors) == 1 and abs(one.number) == 1:
        sign = "-" if one.number < 0 else ""
        body = f"    {c}_add(s, {sign}{names[given[0]]});"
    elif (inside := _inside(one, names, values)) is None:
        body = f"    {otherwise}"
    else:
        zero = " || ".join(f"{names[factor]} == 0" for factor in given)
        body = joined(
            [
                f"    if ({zero})\n        return;" if given else "",
                f"    if (!({inside})) {{\n        {otherwise}\n        return;\n    }}"
                if inside
                else "",
                _products(c, _grouped(one, names, values)),
            ]
        )
    return f"static void {function}({c}_t *s{takes})\n{{\n{body}\n}}"


def _inside(one: Monomial, names: dict[Node, str], values: Sequence[np.dtype]) -> str | None:
    """Return whether a monomial is a few doubles, as a condition; None: it never is known."""
    wide, below, above = _range(one, values)
    if not wide:
        return "" if below == 0 and above > 0 else None
    if below < 1 or above < 1:
        return None
    doubles = [f for f in dict.fromkeys(one.factors) if format_of(f, values) == FORMATS["float64"]]
    return " && ".join(
        f"fabs({names[factor]}) > 0x1p-{below} && fabs({names[factor]}) < 0x1p+{above}"
        for factor in doubles
    )


def _products(c: str, groups: Sequence[_Group]) -> str:
    """Return how the product of doubles is added, as doubles whose sum it is."""
    lines = [f"    const double g{n} = {group.text};" for n, group in enumerate(groups)]
    terms = ["g0"]
    for number in range(1, len(groups)):
        made = []
        for at, term in enumerate(terms):
            product, error = f"p{number}_{at}", f"e{number}_{at}"
            lines += [
                f"    const double {product} = {term} * g{number};",
                f"    const double {error} = fma({term}, g{number}, -{product});",
            ]
            made += [product, error]
        terms = made
    return joined([*lines, *(f"    {c}_add(s, {term});" for term in terms)])
