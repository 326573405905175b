"""What trees call the elements that they read, one or lanes of them, and which are absent."""

from __future__ import annotations

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.accumulator.component import Component
from chunkfold.kernels.dtypes import FIELD, STORED
from chunkfold.kernels.expressions.nodes import Node
from chunkfold.kernels.expressions.style import LANES, ONE
from chunkfold.kernels.program.opencl_code import assigned, declared, joined


def names(accumulator: Accumulator) -> str:
    """Name the elements."""
    value = [STORED[name].value for name in accumulator.value]
    return " ".join(["   ", *(f"const {t} x{n} = v.x{n};" for n, t in enumerate(value))])


def head(c: str, part: Component, accumulator: Accumulator) -> str:
    """Begin a step: pass over an element that is absent."""
    return f"""\
static void {c}_step({c}_state *state, value_t v, ulong i)
{{
{joined([names(accumulator), skipped(part, "return;")])}"""


def skipped(part: Component, how: str) -> str:
    """Pass over an element that is absent, if any may be."""
    if part.absent is None:
        return ""
    return f"{declared('absent', part.absent, ONE)}\n    if (absent)\n        {how}"


def where_present(part: Component, body: str) -> str:
    """Do something with an element, unless it is absent."""
    if part.absent is None:
        return f"    {{\n{body}\n    }}"
    return f"""\
    {{
{declared("absent", part.absent, ONE)}
    if (!absent) {{
{body}
    }}
    }}"""


def element(c: str, part: Component, accumulator: Accumulator, lift: Node) -> str:
    """Return what makes a float of an element: 0 of one that is absent."""
    ctype = FIELD[lift.dtype.name]
    return f"""\
static {ctype} {c}_element(value_t v, ulong i)
{{
{joined([names(accumulator), skipped(part, "return 0;")])}
    {ctype} y;
{assigned([("y", lift)], ONE)}
    return y;
}}"""


def named_lanes(accumulator: Accumulator) -> str:
    """Name the elements of lanes."""
    value = [STORED[name].value for name in accumulator.value]
    return " ".join(f"const CHF_VEC({t}) x{n} = v->x{n};" for n, t in enumerate(value))


def head_of_lanes(part: Component, accumulator: Accumulator) -> str:
    """Name the elements of lanes, their indices if anything reads them, and which are absent."""
    index = "    const CHF_VEC(ulong) i = (CHF_VEC(ulong))(i0) + chfv_iota * di;\n"
    return f"""\
    {named_lanes(accumulator)}
{index if accumulator.uses_index else ""}{mask(part)}"""


def mask(part: Component) -> str:
    """Name the lanes whose elements are absent, if any may be."""
    return "" if part.absent is None else declared("absent", part.absent, LANES)
