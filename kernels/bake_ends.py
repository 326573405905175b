"""Bake how lanes become accumulators as vectors, where their ends mean the same on vectors."""

from __future__ import annotations

from collections.abc import Mapping

from chunkfold.kernels.accumulator import Accumulator
from chunkfold.kernels.bake_texts import joined, op_text
from chunkfold.kernels.bake_vectors import assign_lanes, mask_of, of_two, on_vectors
from chunkfold.kernels.component import Component
from chunkfold.kernels.dtypes import FIELD, literal
from chunkfold.kernels.texts import COLLECTIVES, fits_lanes


def ends_on_vectors(part: Component, accumulator: Accumulator) -> bool:
    """Whether lanes become accumulators as vectors: `<component>_ended`; those of sums are some."""
    ends = part.state.end if part.state else ()
    return on_vectors(part, accumulator) and all(fits_lanes(text) for _, text in ends)


def adds_up(part: Component) -> bool:
    """Whether vectors of accumulators can be made one: `<component>_merged`, but for exact sums.

    A user's op may mix fields of several dtypes, which vectors cannot; without a state, steps do.
    """
    if part.state is None:
        return True
    if part.rtol is not None:
        return all(f.op in COLLECTIVES for f in part.fields)
    return all(fits_lanes(op_text(f)) for f in part.fields)


def late_fields(part: Component) -> frozenset[str]:
    """Return the state fields that are NaN in lanes until an element is present."""
    return frozenset(dict(part.state.first) if part.state and part.skipna else ())


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
    if not ends_on_vectors(part, accumulator):
        return ""
    dtypes = {f.name: f.dtype for f in part.fields}
    merged = ""
    if adds_up(part):
        ops = {f.name: (f.dtype, op_text(f)) for f in part.fields}
        merged = "\n" + of_two(part, f"{c}_merged", f"{c}_accs", "op", ops)
    state = part.state
    if state is None:
        return f"""\
typedef {c}_states {c}_accs;
static {c}_accs {c}_ended(const {c}_states *l) {{ return *l; }}{merged}"""
    lanes = [
        f"    s.{name} = {held(part, name, dtype, start)};" for name, dtype, start in state.fields
    ]
    ends = [
        assign_lanes(part, f"r.{name}", dtypes[name], f"accumulate.end of {name}", text)
        for name, text in state.end
    ]
    return f"""\
typedef struct {{ {_members(dtypes)} }} {c}_accs;
static {c}_accs {c}_ended(const {c}_states *l)
{{
    struct {{ {_members(state.dtypes)} }} s;
{joined(lanes)}
    {c}_accs r;
{joined(ends)}
    return r;
}}{merged}"""


def _members(dtypes: Mapping[str, str]) -> str:
    return " ".join(f"CHF_VEC({FIELD[dtype]}) {name};" for name, dtype in dtypes.items())
