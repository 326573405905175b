"""Emit how lanes become accumulators as vectors, where their ends mean the same on vectors."""

from __future__ import annotations

from collections.abc import Mapping

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.accumulator.component import Component
from chunkfold.kernels.dtypes import FIELD, literal
from chunkfold.kernels.expressions.style import LANES
from chunkfold.kernels.program.texts import assigned, joined
from chunkfold.kernels.program.vectors import mask_of, of_two, on_vectors


def late_fields(part: Component) -> frozenset[str]:
    """Return the state fields that are NaN in lanes until an element is present."""
    return frozenset(dict(part.state.first) if part.state and part.absent is not None else ())


def held(part: Component, name: str, dtype: str, start: str) -> str:
    """Return what the lanes `l` have of a state field."""
    lanes = f"(CHF_VEC({FIELD[dtype]}))(l->{name})"
    if name not in late_fields(part):
        return lanes
    # A lane without an element begins as any other state does.
    begun = mask_of(dtype, f"l->{name} == l->{name}")
    return f"select((CHF_VEC({FIELD[dtype]}))({literal(start, dtype)}), {lanes}, {begun})"


def ended_lanes(c: str, part: Component, accumulator: Accumulator) -> str:
    """Return what makes vectors of accumulators of lanes, and one of two such, if vectors can."""
    if not on_vectors(part, accumulator):
        return ""
    dtypes = {f.name: f.dtype for f in part.fields}
    ops = [(f.name, f.op_tree) for f in part.fields]
    merged = "\n" + of_two(f"{c}_merged", f"{c}_accs", ops)
    state = part.state
    if state is None:
        return f"""\
typedef {c}_states {c}_accs;
static {c}_accs {c}_ended(const {c}_states *l) {{ return *l; }}{merged}"""
    lanes = [
        f"    s.{name} = {held(part, name, dtype, start)};" for name, dtype, start in state.fields
    ]
    ends = assigned([(f"r.{name}", tree) for name, tree in state.end], LANES)
    return f"""\
typedef struct {{ {_members(dtypes)} }} {c}_accs;
static {c}_accs {c}_ended(const {c}_states *l)
{{
    struct {{ {_members(state.dtypes)} }} s;
{joined(lanes)}
    {c}_accs r;
{ends}
    return r;
}}{merged}"""


def _members(dtypes: Mapping[str, str]) -> str:
    return " ".join(f"CHF_VEC({FIELD[dtype]}) {name};" for name, dtype in dtypes.items())
