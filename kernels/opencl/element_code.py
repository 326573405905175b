"""Texts of one element and of lanes: their names, which are ignored, fields as vectors."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.accumulator.component import BoundField, Component
from chunkfold.kernels.dtypes import FIELD, STORED, literal
from chunkfold.kernels.expressions.nodes import Node
from chunkfold.kernels.expressions.style import LANES, ONE
from chunkfold.kernels.opencl.opencl_code import assigned, declared, joined

_MASKS = {"int32": "int", "uint32": "int", "float32": "int"}
"""Type of a mask that selects among values of a field's dtype; long where not named."""


def names(accumulator: Accumulator) -> str:
    """Name the elements."""
    value = [STORED[name].value for name in accumulator.value]
    return " ".join(["   ", *(f"const {t} x{n} = v.x{n};" for n, t in enumerate(value))])


def head(c: str, component: Component, accumulator: Accumulator) -> str:
    """Begin a step: pass over an element that is ignored."""
    return f"""\
static void {c}_step({c}_state *state, value_t v, ulong i)
{{
{joined([names(accumulator), skipped(component, "return;")])}"""


def skipped(component: Component, how: str) -> str:
    """Pass over an element that is ignored, if any may be."""
    if component.ignored is None:
        return ""
    return f"{declared('ignored', component.ignored, ONE)}\n    if (ignored)\n        {how}"


def where_present(component: Component, body: str) -> str:
    """Do something with an element, unless it is ignored."""
    if component.ignored is None:
        return f"    {{\n{body}\n    }}"
    return f"""\
    {{
{declared("ignored", component.ignored, ONE)}
    if (!ignored) {{
{body}
    }}
    }}"""


def element(c: str, component: Component, accumulator: Accumulator, lift: Node) -> str:
    """Return what makes a float of an element: 0 of one that is ignored."""
    ctype = FIELD[lift.dtype.name]
    return f"""\
static {ctype} {c}_element(value_t v, ulong i)
{{
{joined([names(accumulator), skipped(component, "return 0;")])}
    {ctype} y;
{assigned([("y", lift)], ONE)}
    return y;
}}"""


def lifted(ctype: str, name: str, field: BoundField) -> str:
    """Declare a name for what a field lifts an element to."""
    return f"    {ctype} {name};\n{assigned([(name, field.lift)], ONE)}"


def named_lanes(accumulator: Accumulator) -> str:
    """Name the elements of lanes."""
    value = [STORED[name].value for name in accumulator.value]
    return " ".join(f"const CHF_VEC({t}) x{n} = v->x{n};" for n, t in enumerate(value))


def head_of_lanes(component: Component, accumulator: Accumulator) -> str:
    """Name the elements of lanes, their indices if anything reads them, and which are ignored."""
    index = "    const CHF_VEC(ulong) i = (CHF_VEC(ulong))(i0) + chfv_iota * di;\n"
    return f"""\
    {named_lanes(accumulator)}
{index if accumulator.uses_index else ""}{mask(component)}"""


def mask(component: Component) -> str:
    """Name the lanes whose elements are ignored, if any may be."""
    return "" if component.ignored is None else declared("ignored", component.ignored, LANES)


def of_two(
    name: str, kind: str, trees: Iterable[tuple[str, Node]], common: Collection[str] = ()
) -> str:
    """Return a function of two of a kind, `a` and `b`, whose fields have a tree each.

    Those that lanes have in common are scalars. What has no tree is as `a` has it.
    """
    pairs = [(f"r.{field}", field, tree) for field, tree in trees]
    shared = assigned([(to, tree) for to, field, tree in pairs if field in common], ONE)
    lanes = assigned(
        [(to, tree) for to, field, tree in pairs if field not in common], LANES, common=common
    )
    return f"""\
static {kind} {name}({kind} a, {kind} b)
{{
    {kind} r = a;
{joined([shared, lanes])}
    return r;
}}"""


def mask_of(dtype: str, lanes: str) -> str:
    """Make a mask over values of a field's dtype of one that names lanes."""
    return f"CHF_TO({_MASKS.get(dtype, 'long')}, {lanes})"


def where_ignored(component: Component, dtype: str, target: str, otherwise: str) -> str:
    """Keep a lane as it was where its element is ignored."""
    if component.ignored is None:
        return ""
    return f"    {target} = select({target}, {otherwise}, {mask_of(dtype, 'ignored')});"


def zero_lanes(field: BoundField) -> str:
    """Return a field's zero in each lane."""
    return f"(CHF_VEC({FIELD[field.dtype]}))({literal(field.zero, field.dtype)})"


def members(dtypes: Mapping[str, str], common: Collection[str] = ()) -> str:
    """Declare fields of lanes, a vector for each; scalars for those that lanes have in common."""
    types = {name: FIELD[dtype] for name, dtype in dtypes.items()}
    return " ".join(
        f"{kind if name in common else f'CHF_VEC({kind})'} {name};" for name, kind in types.items()
    )
