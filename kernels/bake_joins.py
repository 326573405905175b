"""Bake how states become one accumulator, where a monoid says how they join; others end each."""

from __future__ import annotations

from collections.abc import Sequence

from chunkfold.kernels.accumulator import Accumulator
from chunkfold.kernels.bake_texts import joined
from chunkfold.kernels.component import Component


def joins(accumulator: Accumulator, *, gridded: bool) -> str:
    """Return how states become one accumulator: two of them, and what a work-item has of a row.

    `gridded` sums have joined the state behind the lanes before.
    """
    parts = [(f"c{number}", part) for number, part in enumerate(accumulator.components)]
    if gridded:
        return f"#define CHF_JOINS 0\n#if CHF_GRID\n{_of_lanes(parts)}\n#endif"
    if accumulator.tables or accumulator.exact or not any(_joinable(part) for _, part in parts):
        return "#define CHF_JOINS 0"
    two = [
        f"    r.{c} = {c}_end({c}_join(a->{c}, b->{c}));"
        if _joinable(part)
        else f"    r.{c} = {c}_op({c}_end(a->{c}), {c}_end(b->{c}));"
        for c, part in parts
    ]
    return f"""\
#define CHF_JOINS 1
static acc_t chf_joined_two(const state_t *a, const state_t *b)
{{
    acc_t r;
{joined(two)}
    return r;
}}
{_of_lanes(parts)}"""


def _of_lanes(parts: Sequence[tuple[str, Component]]) -> str:
    return f"""\
static acc_t chf_joined(const states_t *lanes, const state_t *rest)
{{
    acc_t r;
{joined(_joined_lanes(c, part) for c, part in parts)}
    return r;
}}"""


def _joinable(part: Component) -> bool:
    return part.state is not None and bool(part.state.join)


def _joined_lanes(c: str, part: Component) -> str:
    if part.limbs:
        return f"    r.{c} = {c}_end(rest->{c});"
    kind, first, merge, one, whole = (
        (f"{c}_state", f"rest->{c}", "join", "out[j]", f"{c}_end(all)")
        if _joinable(part)
        else (f"{c}_t", f"{c}_end(rest->{c})", "op", f"{c}_end(out[j])", "all")
    )
    return f"""\
    {{
        {c}_state out[CHF_LANES];
        {c}_ends(&lanes->{c}, out);
        {kind} all = {first};
        #pragma unroll
        for (int j = 0; j < CHF_LANES; j++)
            all = {c}_{merge}(all, {one});
        r.{c} = {whole};
    }}"""
