"""Bake one component of an accumulator: its zero, op and state, for one element."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from chunkfold.kernels.accumulator import Accumulator
from chunkfold.kernels.bake_ends import ended_lanes
from chunkfold.kernels.bake_lanes import lanes
from chunkfold.kernels.bake_texts import absent, assign, joined, op_text
from chunkfold.kernels.bake_turns import pairs
from chunkfold.kernels.component import Component
from chunkfold.kernels.dtypes import FIELD, STORED, literal
from chunkfold.kernels.texts import for_one


def component(number: int, part: Component, accumulator: Accumulator) -> str:
    """Return the source of component `number`."""
    c = f"c{number}"
    if part.table is not None:
        table = _table(c, part, accumulator)
        return joined([_constants(c, part), _wide("long"), table, lanes(c, part, accumulator)])
    members = " ".join(f"{FIELD[f.dtype]} {f.name};" for f in part.fields)
    wide = FIELD[part.state.fields[0][1] if part.state else part.fields[0].dtype]
    return f"""\
{_constants(c, part)}{_wide(wide)}
typedef struct {{ {members} }} {c}_t;
static {c}_t {c}_zero(void)
{{
    {c}_t z;
    {" ".join(f"z.{f.name} = {literal(f.zero, f.dtype)};" for f in part.fields)}
    return z;
}}
static {c}_t {c}_op({c}_t a, {c}_t b)
{{
    {c}_t r;
{joined(assign(part, f"r.{f.name}", f.dtype, f"op of {f.name}", op_text(f)) for f in part.fields)}
    return r;
}}
{_streams(c, f"c{accumulator.holders[number]}", part, accumulator)}"""


def _streams(c: str, h: str, part: Component, accumulator: Accumulator) -> str:
    """Return how component `c`, whose state `h` holds, takes in elements, one by one and lanes."""
    if c == h:
        texts = (_one, lanes, pairs)
        return joined(text(c, part, accumulator) for text in texts)
    types = [f"typedef {h}_{kind} {c}_{kind};" for kind in ("state", "states")]
    return joined([*types, _end(c, h, part), ended_lanes(c, part, accumulator)])


def _wide(ctype: str) -> str:
    """Say what the helper `wide` makes of values, in the texts of the component that follows."""
    return f"""\
#undef chf_wide
#undef chfv_wide
#define chf_wide(e) (({ctype})(e))
#define chfv_wide(e) CHF_TO({ctype}, e)"""


def _constants(c: str, part: Component) -> str:
    """Return the arrays that a component's texts read, under names of their own."""

    def numbers(raw: bytes, dtype: str) -> str:
        return ", ".join(literal(value, dtype) for value in np.frombuffer(raw, dtype).tolist())

    return "".join(
        f"__constant const {FIELD[dtype]} {c}_constant_{name}[] = {{ {numbers(raw, dtype)} }};\n"
        for name, dtype, raw in part.constants
    )


def _table(c: str, part: Component, accumulator: Accumulator) -> str:
    """Return a table's state, which is where it stands, and the step that counts in it."""
    field = part.fields[0]
    return f"""\
typedef struct {{ CHF_TABLE table; }} {c}_state;
static void {c}_begin({c}_state *state) {{ state->table = 0; }}
{head(c, part, accumulator)}
    long counter;
{assign(part, "counter", "int64", f"lift of {field.name}", field.lift)}
    if (counter >= 0 && counter < {field.entries})
        chf_count(state->table + counter);
}}"""


def names(c: str, part: Component, accumulator: Accumulator) -> str:
    """Name what texts may read."""
    value = [STORED[name].value for name in accumulator.value]
    xs = [f"const {value[n]} x{n} = v.x{n};" for n in range(len(value))]
    constants = [
        f"__constant const {FIELD[dtype]} *{name} = {c}_constant_{name};"
        for name, dtype, _ in part.constants
    ]
    return " ".join(["   ", *xs, f"const {value[0]} x = x0;", *constants])


def head(c: str, part: Component, accumulator: Accumulator) -> str:
    """Begin a step: pass over an element that is absent."""
    skip = f"\n    if ({absent(accumulator)})\n        return;" if part.skipna else ""
    return f"""\
static void {c}_step({c}_state *state, value_t v, ulong i)
{{
{names(c, part, accumulator)}{skip}"""


def _one(c: str, part: Component, accumulator: Accumulator) -> str:
    """Return the state of one element's stream: start, step, end."""
    begun = head(c, part, accumulator)
    if part.state is None:
        lifts = joined(
            assign(part, f"l.{f.name}", f.dtype, f"lift of {f.name}", f.lift) for f in part.fields
        )
        return f"""\
typedef {c}_t {c}_state;
static void {c}_begin({c}_state *state) {{ *state = {c}_zero(); }}
static {c}_t {c}_lift(value_t v, ulong i)
{{
{names(c, part, accumulator)}
    {c}_t l;
{lifts}
    return l;
}}
{begun}
    *state = {c}_op(*state, {c}_lift(v, i));
}}
static {c}_t {c}_end({c}_state s) {{ return s; }}"""
    state = part.state
    first = ""
    if state.first:
        first = f"""\
    if (!s._begun) {{
        s._begun = 1;
{_assigned(part, "s", "first", state.first)}
    }}"""
    if isinstance(state.step, str):
        step = f"""\
    {{
#line 1 "{part.origin}: accumulate.step"
{for_one(state.step)}
#line 1 "generated"
    }}"""
    else:
        step = _assigned(part, "s", "step", state.step)
    # One element at a time nothing is gained by waiting.
    carry = _assigned(part, "s", "carry", state.carry)
    members = " ".join(f"{FIELD[d]} {name};" for name, d, _ in state.fields)
    starts = " ".join(f"state->{name} = {literal(v, d)};" for name, d, v in state.fields)
    if state.first:
        members, starts = f"{members} int _begun;", f"{starts} state->_begun = 0;"
    return f"""\
typedef struct {{ {members} }} {c}_state;
static void {c}_begin({c}_state *state) {{ {starts} }}
{begun}
    {c}_state s = *state;
{joined([first, step, carry])}
    *state = s;
}}
{_join(c, "join", part, state.join)}
{_join(c, "join_alike", part, state.join_alike)}
{_end(c, c, part)}"""


def _join(c: str, phase: str, part: Component, texts: Sequence[tuple[str, str]]) -> str:
    """Return how two states become one, if that is told."""
    if not texts:
        return ""
    return f"""\
static {c}_state {c}_{phase}({c}_state a, {c}_state b)
{{
    {c}_state j = a;
{_assigned(part, "j", phase, texts)}
    return j;
}}"""


def _end(c: str, h: str, part: Component) -> str:
    """Return what a stream's state ends as, and one element's, where `h` holds the state."""
    assert part.state is not None
    return f"""\
static {c}_t {c}_end({c}_state s)
{{
    {c}_t r;
{_assigned(part, "r", "end", part.state.end)}
    return r;
}}
static {c}_t {c}_lift(value_t v, ulong i)
{{
    {c}_state s;
    {h}_begin(&s);
    {h}_step(&s, v, i);
    return {c}_end(s);
}}"""


def _assigned(part: Component, to: str, phase: str, texts: Iterable[tuple[str, str]]) -> str:
    """Assign what `accumulate` says in one phase: fields where it ends, else the state's."""
    assert part.state is not None
    dtypes = {f.name: f.dtype for f in part.fields} if phase == "end" else part.state.dtypes
    return joined(
        assign(part, f"{to}.{name}", dtypes[name], f"accumulate.{phase} of {name}", text)
        for name, text in texts
    )
