"""Bake how states become one accumulator, where a monoid says how they join; others end each."""

from __future__ import annotations

from collections.abc import Sequence

from chunkfold.kernels.accumulator import Accumulator
from chunkfold.kernels.bake_texts import joined, named
from chunkfold.kernels.component import Component


def joins(accumulator: Accumulator, *, gridded: bool) -> str:
    """Return how states become one accumulator: two of them, and what a work-item has of a row.

    `gridded` sums have joined the state behind the lanes before.
    """
    parts = named(accumulator)
    if gridded:
        return f"#define CHF_JOINS 0\n#if CHF_GRID\n{_of_lanes(parts)}\n#endif"
    if accumulator.tables or accumulator.exact or not any(_joinable(part) for *_, part in parts):
        return "#define CHF_JOINS 0"
    two = [
        f"    r.{c} = {c}_end({h}_join(a->{h}, b->{h}));"
        if _joinable(part)
        else f"    r.{c} = {c}_op({c}_end(a->{h}), {c}_end(b->{h}));"
        for c, h, part in parts
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


def alike(accumulator: Accumulator) -> str:
    """Return how two parts of a stream become one, where a monoid says it, for its laws.

    The second begins with the first element of the first; if there was none yet, as any does.
    """
    held = named(accumulator)
    parts = [(c, h, part.state) for c, h, part in held if part.state and part.state.join_alike]
    if accumulator.tables or accumulator.exact or not parts:
        return "#define CHF_ALIKE 0"
    begins = [
        f"    b->{c}.{name} = a->{c}.{name};"
        for c, h, state in parts
        if c == h
        for name in (*dict(state.first), "_begun")
    ]
    two = [f"    r.{c} = {c}_op({c}_end(a->{h}), {c}_end(b->{h}));" for c, h, _ in held]
    two += [
        f"    if (a->{h}._begun) r.{c} = {c}_end({h}_join_alike(a->{h}, b->{h}));"
        for c, h, _ in parts
    ]
    return f"""\
#define CHF_ALIKE 1
static void chf_begin_alike(state_t *b, const state_t *a)
{{
    chf_begin(b);
{joined(begins)}
}}
static acc_t chf_joined_alike(const state_t *a, const state_t *b)
{{
    acc_t r;
{joined(two)}
    return r;
}}"""


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
