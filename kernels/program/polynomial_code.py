"""Say of what factors an exact sum's elements are polynomials, to kernels/cl/polynomials.clh."""

from __future__ import annotations

import numpy as np

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.accumulator.component import BoundField, Component
from chunkfold.kernels.dtypes import FIELD
from chunkfold.kernels.expressions.nodes import Node
from chunkfold.kernels.expressions.operations import cast
from chunkfold.kernels.expressions.style import LANES, ONE
from chunkfold.kernels.program.element_code import head_of_lanes, names, skipped
from chunkfold.kernels.program.opencl_code import assigned, joined
from chunkfold.kernels.program.products import dtypes_of, factors_of, grouped, ranges_of
from chunkfold.kernels.program.vectors import kept

_DOUBLE = np.dtype(np.float64)


def factors(c: str, part: Component, accumulator: Accumulator, *, fp64: bool) -> str:
    """Return what makes the factors of an element: doubles, or integers and powers of two."""
    (field,) = part.fields
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
{joined([names(accumulator), skipped(part, "return y;")])}
    {" ".join(f"{FIELD[tree.dtype.name]} {name};" for name, tree in made)}
{joined([assigned(made, ONE), *(f"    {one}" for one in numbers)])}
    y.found = {" || ".join(odd) or "0"} ? -1 : 1;
    return y;
}}"""


def factors_of_lanes(c: str, part: Component, accumulator: Accumulator) -> str:
    """Return the same for lanes of doubles: 0 where elements are absent."""
    made = [(f"y.y{n}", cast(one, _DOUBLE)) for n, one in enumerate(part.fields[0].factors)]
    absent = [kept(part, "float64", name, "(chf_doubles)(0)") for name, _ in made]
    members = " ".join(f"chf_doubles y{n};" for n in range(len(made)))
    return f"""\
typedef struct {{ {members or "int none;"} }} {c}_factors_of_lanes_t;
static {c}_factors_of_lanes_t {c}_factors_of_lanes(const values_t *v, ulong i0, ulong di)
{{
    {c}_factors_of_lanes_t y;
{head_of_lanes(part, accumulator)}
{joined([assigned(made, LANES), *absent])}
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
