"""Emit how states become one accumulator, where a monoid says how they join; others end each."""

from __future__ import annotations

from collections.abc import Sequence

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.accumulator.component import Component
from chunkfold.kernels.program.texts import joined, named


def joins(accumulator: Accumulator, *, gridded: bool) -> str:
    """Return how what a work-item has of a row, lanes and a state, becomes one accumulator.

    `gridded` sums have joined the state behind the lanes before.
    """
    parts = named(accumulator)
    if gridded:
        return f"#define CHF_JOINS 0\n#if CHF_GRID\n{_of_lanes(parts)}\n#endif"
    if accumulator.tables or accumulator.exact or not any(_joinable(part) for *_, part in parts):
        return "#define CHF_JOINS 0"
    return f"#define CHF_JOINS 1\n{_of_lanes(parts)}"


def _of_lanes(parts: Sequence[tuple[str, str, Component]]) -> str:
    return f"""\
static acc_t chf_joined(const states_t *lanes, const state_t *rest)
{{
    acc_t r;
{joined(_joined_lanes(*part) for part in parts)}
    return r;
}}"""


def _joinable(part: Component) -> bool:
    return part.state is not None and bool(part.state.join)


def _joined_lanes(c: str, h: str, part: Component) -> str:
    """Return how component `c`, whose state `h` holds, is made of lanes and of a rest."""
    if part.limbs:
        return f"    r.{c} = {c}_end(rest->{c});"
    kind, first, merge, one, whole = (
        (f"{h}_state", f"rest->{h}", f"{h}_join", "out[j]", f"{c}_end(all)")
        if _joinable(part)
        else (f"{c}_t", f"{c}_end(rest->{h})", f"{c}_op", f"{c}_end(out[j])", "all")
    )
    return f"""\
    {{
        {h}_state out[CHF_LANES];
        {h}_ends(&lanes->{h}, out);
        {kind} all = {first};
        #pragma unroll
        for (int j = 0; j < CHF_LANES; j++)
            all = {merge}(all, {one});
        r.{c} = {whole};
    }}"""
