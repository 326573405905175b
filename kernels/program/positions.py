"""Emit how positions of extremes pass elements over that are no nearer than what was found."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.accumulator.component import BoundField, Component
from chunkfold.kernels.accumulator.indices import is_position
from chunkfold.kernels.dtypes import FIELD
from chunkfold.kernels.expressions.library import rank_high, rank_low
from chunkfold.kernels.expressions.nodes import input_node
from chunkfold.kernels.expressions.style import LANES
from chunkfold.kernels.expressions.symbols import Symbol
from chunkfold.kernels.program.elements import mask, named_lanes
from chunkfold.kernels.program.kind import Kind
from chunkfold.kernels.program.kinds import kinds_of
from chunkfold.kernels.program.texts import assigned, joined
from chunkfold.kernels.program.vectors import kept, zero_lanes


def has_positions(accumulator: Accumulator) -> bool:
    """Whether an accumulator is of nothing but first positions of extremes, and on vectors."""
    return all(is_position(kind.part) and kind.on_vectors for kind in kinds_of(accumulator))


def positions(accumulator: Accumulator, kinds: Sequence[Kind]) -> str:
    """Return what finds out whether any of some elements may change a state, of positions."""
    if not has_positions(accumulator):
        return "#define CHF_POSITIONS 0\n#define CHF_PLACES 0"
    parts = [(kind.name, kind.part) for kind in kinds]
    members = " ".join(f"{_vector(part.fields[0])} {c};" for c, part in parts)
    begins = " ".join(f"n.{c} = {zero_lanes(part.fields[0])};" for c, part in parts)
    looks = "\n".join(_look(c, part) for c, part in parts)
    nearer = " || ".join(_nearer(c, part) for c, part in parts)
    notes = joined(_note(number, *named) for number, named in enumerate(parts))
    places = 0 if _may_be_farthest(accumulator) else len(parts)
    return f"""\
#define CHF_POSITIONS CHF_CPU
#if CHF_STRIP || CHF_LANES > 1
#define CHF_PLACES 0
#else
#define CHF_PLACES {places}
#endif
#if CHF_POSITIONS || CHF_PLACES
typedef struct {{ {members} }} nearest_t;
static nearest_t chf_farthest(void) {{ nearest_t n; {begins} return n; }}
static void chf_look(nearest_t *nearest, const values_t *v)
{{
    {named_lanes(accumulator)}
{looks}
}}
static int chf_nearer(const acc_t *best, const nearest_t *nearest, ulong index)
{{
    return {nearer};
}}
#if CHF_PLACES
static void chf_note(nearest_t *nearest, uint *where, const nearest_t *found, uint batch)
{{
{notes}
}}
#endif
#endif"""


def _may_be_farthest(accumulator: Accumulator) -> bool:
    """Whether an element may be as far as none at all, and stand behind absent ones.

    Batches that are no nearer than the farthest are not told apart, and the first of them may then
    have nothing but what is absent. Of floats' keys none but NaN's is as far.
    """
    if "time" in accumulator.value:
        return any(part.absent is not None for part in accumulator.components)
    x = Symbol(input_node(0, _value(accumulator)))
    keys = {
        Symbol(key(x).node).astype(part.fields[0].dtype).node
        for key in (rank_low, rank_high)
        for part in accumulator.components
    }
    return any(
        part.absent is not None and part.fields[0].lift not in keys
        for part in accumulator.components
    )


def _value(accumulator: Accumulator) -> np.dtype:
    """Return the dtype of symbols of the first input's elements."""
    name = accumulator.value[0]
    return np.dtype({"bfloat16": "float32", "float16": "float32"}.get(name, name))


def _vector(field: BoundField) -> str:
    return f"CHF_VEC({FIELD[field.dtype]})"


def _look(c: str, part: Component) -> str:
    field = part.fields[0]
    lines = [
        "    {",
        f"    {mask(part)}",
        f"    {_vector(field)} m;",
        assigned([("m", field.lift)], LANES),
        kept(part, field.dtype, "m", zero_lanes(field)),
        f"    nearest->{c} = {field.op}(nearest->{c}, m);",
        "    }",
    ]
    return joined(lines)


def _nearer(c: str, part: Component) -> str:
    """Of equal elements the first one counts, and where nothing was found, any."""
    extreme, index = part.fields
    nearest, best = f"nearest->{c}", f"best->{c}"
    beats = "<" if extreme.op == "min" else ">"
    return (
        f"CHF_ANY({nearest} {beats} {best}.{extreme.name})"
        f" || ((long)index < {best}.{index.name}"
        f" && CHF_ANY({nearest} == {best}.{extreme.name}))"
    )


def _note(number: int, c: str, part: Component) -> str:
    """Return how a batch is noted that has a nearer extreme; of equals the first one stays."""
    beats = "<" if part.fields[0].op == "min" else ">"
    return f"""\
    where[{number}] = found->{c} {beats} nearest->{c} ? batch : where[{number}];
    nearest->{c} = {part.fields[0].op}(nearest->{c}, found->{c});"""
