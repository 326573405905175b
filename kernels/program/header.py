"""Emit a reduction into OpenCL C: the header that replaces kernels/cl/monoid.clh."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.expressions.emit import tables
from chunkfold.kernels.expressions.meanings import MEANINGS
from chunkfold.kernels.expressions.nodes import walk
from chunkfold.kernels.kinds import kinds_of
from chunkfold.kernels.kinds.exact_grid import grid_joined, grid_steps, grid_sums, has_grid
from chunkfold.kernels.kinds.kind import Kind
from chunkfold.kernels.kinds.position import positions, where_positions
from chunkfold.kernels.monoid.accumulate import CARRY_AFTER
from chunkfold.kernels.opencl.inputs import inputs
from chunkfold.kernels.opencl.opencl_code import generated, joined, library
from chunkfold.kernels.program.accumulator_memory import memory
from chunkfold.kernels.program.transpose import turns


def header(accumulator: Accumulator) -> str:
    """Return the generated counterpart of kernels/cl/monoid.clh for an accumulator."""
    kinds = kinds_of(accumulator)
    parts = [
        _preamble(accumulator),
        library("tables.clh") if accumulator.tables else "",
        library("expansions.clh") if accumulator.exact else "",
        library("limbs.clh") if accumulator.in_limbs else "",
        library("products.clh") if _has_products(accumulator) else "",
        generated("how elements are read"),
        inputs(accumulator),
        where_positions(kinds),
        *(f"{generated(_comment_of(kind))}\n{kind.source()}" for kind in kinds),
        generated("all components together"),
        _whole(kinds),
        positions(kinds),
        _attaching(accumulator),
        generated("accumulators in memory"),
        memory(accumulator, kinds),
        _collectives(accumulator, kinds),
    ]
    return "\n".join(parts)


def _comment_of(kind: Kind) -> str:
    """Return what a component is, and of which monoid."""
    fields = ", ".join(field.name for field in kind.component.fields)
    return f"component {kind.number}: {fields} of {kind.component.origin}, {kind.description}"


def _has_products(accumulator: Accumulator) -> bool:
    """Return whether any limbs add polynomials that are no power of one number."""
    return any(slot.field.limbs and not slot.field.limbs.power for slot in accumulator.tables)


def needs_fp64(accumulator: Accumulator) -> bool:
    """Return whether any element, value, field or step of the accumulator is float64."""
    states = [dtype for c in accumulator.components if c.state for _, dtype, _ in c.state.fields]
    fields = [slot.field.dtype for slot in accumulator.scalars]
    nodes = (one.dtype.name for c in accumulator.components for one in walk(c.trees))
    used = {*accumulator.stored, *accumulator.value, *fields, *states, *nodes}
    expansions = any(c.limbs and c.limbs.terms for c in accumulator.components)
    return expansions or not used.isdisjoint({"float64", "complex128"})


def divides(accumulator: Accumulator) -> bool:
    """Return whether any step divides or takes a root in float32: devices may round it wrongly."""
    nodes = (one for c in accumulator.components for one in walk(c.trees))
    return any(
        one.dtype == np.float32 and one.op in MEANINGS and MEANINGS[one.op].without_fp64 > 0
        for one in nodes
    )


def _preamble(accumulator: Accumulator) -> str:
    lines = [generated("what all of it needs")]
    if needs_fp64(accumulator):
        lines += ["#define CHF_FP64 1", "#pragma OPENCL EXTENSION cl_khr_fp64 : enable"]
    # A contracted multiply-add rounds once where the monoid says twice.
    lines.append("#pragma OPENCL FP_CONTRACT OFF")
    lines += [library("vectors.clh"), generated("what all of it needs")]
    if "float16" in accumulator.value:
        # One rounding: through float, a double would be rounded twice.
        wide = "double" if "float64" in accumulator.stored else "float"
        lines += [
            f"static float chf_to_half({wide} x)",
            "{",
            "    ushort bits;",
            "    vstore_half_rte(x, 0, (half *)&bits);",
            "    return vload_half(0, (const half *)&bits);",
            "}",
        ]
    return "\n".join([*lines, tables([t for c in accumulator.components for t in c.trees])])


def _whole(kinds: Sequence[Kind]) -> str:
    """Lay the components side by side."""
    held = [(kind.name, kind.holder) for kind in kinds if kind.in_accumulator]
    states = {kind.name: kind for kind in kinds if kind.is_holder}
    firsts = [c for c, kind in states.items() if kind.has_firsts]
    carried = [c for c, kind in states.items() if kind.has_carries]
    gridded = has_grid(kinds)

    def each(template: str) -> str:
        return " ".join(template.format(c=c) for c in states)

    def made(template: str) -> str:
        # C knows no empty structures.
        return " ".join(template.format(c=c, h=h) for c, h in held) or "r.none = 0;"

    return f"""\
{grid_sums(kinds) if gridded else "#define CHF_GRID 0"}
typedef struct {{ {" ".join(f"{c}_t {c};" for c, _ in held) or "int none;"} }} acc_t;
typedef struct {{ {each("{c}_state {c};")} }} state_t;
#define CHF_FIRSTS {int(bool(firsts))}
typedef struct {{
    {each("{c}_states {c};")}
    {"CHF_GRID_MEMBER" if gridded else ""}
    {"int begun;" if firsts else ""}
}} states_t;
static acc_t chf_zero(void) {{ acc_t r; {made("r.{c} = {c}_zero();")} return r; }}
static acc_t chf_op(acc_t a, acc_t b)
{{
    acc_t r;
    {made("r.{c} = {c}_op(a.{c}, b.{c});")}
    return r;
}}
static void chf_begin(state_t *s) {{ {each("{c}_begin(&s->{c});")} }}
static void chf_step(state_t *s, value_t v, ulong i) {{ {each("{c}_step(&s->{c}, v, i);")} }}
static acc_t chf_end(const state_t *s)
{{
    acc_t r;
    {made("r.{c} = {c}_end(s->{h});")}
    return r;
}}
static void chf_begins(states_t *s)
{{
    {each("{c}_begins(&s->{c});")}
#if CHF_GRID
    s->grid.most = s->grid.least = s->grid.count = 0; /* nothing is on it */
#endif
#if CHF_FIRSTS
    s->begun = 0;
#endif
}}
#if CHF_FIRSTS
static void chf_firsts(states_t *s, const values_t *v, ulong i, ulong di)
{{
    {" ".join(f"{c}_firsts(&s->{c}, v, i, di);" for c in firsts)}
    s->begun = 1;
}}
#endif
static void chf_steps(states_t *s, const values_t *v, ulong i, ulong di)
{{
    {each("{c}_steps(&s->{c}, v, i, di);")}
}}
{_batches(kinds) if gridded else "#define CHF_TRIES 0"}
#define CHF_CARRY_AFTER {CARRY_AFTER if carried else 0}
#if CHF_CARRY_AFTER
static void chf_carries(states_t *s) {{ {" ".join(f"{c}_carries(&s->{c});" for c in carried)} }}
#endif
static void chf_ends(const states_t *states, acc_t *out)
{{
#if CHF_GRID
    states_t whole = *states, *s = &whole;
    if (s->grid.count)
        chf_leave_grid(s);
#else
    const states_t *s = states;
#endif
    {" ".join(f"{c}_t {c}[CHF_LANES]; {c}_ends(&s->{h}, {c});" for c, h in held)}
    #pragma unroll
    for (int j = 0; j < CHF_LANES; j++) {{
        {" ".join(f"out[j].{c} = {c}[j];" for c, _ in held) or "out[j].none = 0;"}
    }}
}}
{grid_joined(kinds) if gridded else ""}
{turns(kinds)}
{_keeping(kinds)}"""


def _keeping(kinds: Sequence[Kind]) -> str:
    """Move to tables what accumulators hold that belongs there, if any does."""
    keeps = " ".join(f"{kind.name}_keep(&a->{kind.name});" for kind in kinds if kind.has_keep)
    return f"static void chf_keep(acc_t *a) {{ {keeps} }}" if keeps else ""


def _batches(kinds: Sequence[Kind]) -> str:
    """Return how exact sums take in elements without a look at each: on trial, or on a grid."""
    tries = [
        f"left |= {c}_try(&s->{c}, v, i, di);"
        if kind.is_exact
        else f"{c}_steps(&s->{c}, v, i, di);"
        for kind in kinds
        for c in [kind.name]
        if kind.is_holder
    ]
    return f"""\
#define CHF_TRIES (!CHF_GRID)
#if CHF_TRIES
static CHF_VEC(ulong) chf_try(states_t *s, const values_t *v, ulong i, ulong di)
{{
    CHF_VEC(ulong) left = 0;
    {" ".join(tries)}
    return left;
}}
#else
{grid_steps(kinds)}
#endif"""


def _attaching(accumulator: Accumulator) -> str:
    """Tell states where the counters of their tables are, one table behind the other."""
    one, lanes, settles, offset = [], [], [], 0
    for slot in accumulator.tables:
        c, limbs = f"c{slot.component}", slot.field.limbs
        one.append(f"s->{c}.table = table + {offset};")
        lanes.append(f"    {c}_attach(&s->{c}, table + {offset}, stride);")
        if limbs:
            settles.append(f"chf_settle_limbs(table + {offset}, {limbs.count});")
        offset += slot.entries
    if not offset:
        return "#define CHF_ENTRIES 0"
    return f"""\
#define CHF_ENTRIES {offset}
static void chf_attach(state_t *s, CHF_TABLE table) {{ {" ".join(one)} }}
static void chf_attach_lanes(states_t *s, CHF_TABLE table, ulong stride)
{{
{joined(lanes)}
}}
static void chf_settle(CHF_TABLE table) {{ {" ".join(settles)} }}"""


def _collectives(accumulator: Accumulator, kinds: Sequence[Kind]) -> str:
    if not accumulator.collective:
        return ""

    def function(scope: str) -> str:
        body = joined(kind.collective(scope) for kind in kinds if kind.in_accumulator)
        return f"static acc_t chf_{scope}_reduce(acc_t a)\n{{\n{body}\n    return a;\n}}"

    return f"""\
#if CHF_STAGE == 1
{function("work_group")}
#elif CHF_STAGE == 2
{function("sub_group")}
#endif
"""
