"""Emit one component of an accumulator: its zero, op and state, for one element."""

from __future__ import annotations

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.accumulator.component import BoundField, Component, Trees
from chunkfold.kernels.dtypes import FIELD, STORED, literal
from chunkfold.kernels.expressions.style import ONE
from chunkfold.kernels.program.ends import ended_lanes
from chunkfold.kernels.program.states import lanes
from chunkfold.kernels.program.texts import assigned, declared, joined
from chunkfold.kernels.program.transpose import pairs


def component(number: int, part: Component, accumulator: Accumulator) -> str:
    """Return the source of component `number`."""
    c = f"c{number}"
    if part.table is not None:
        table = _table(c, part, accumulator)
        return joined([table, lanes(c, part, accumulator)])
    members = " ".join(f"{FIELD[f.dtype]} {f.name};" for f in part.fields)
    return f"""\
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
{assigned([(f"r.{f.name}", f.op_tree) for f in part.fields], ONE)}
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


def _table(c: str, part: Component, accumulator: Accumulator) -> str:
    """Return a table's state, which is where it stands, and the step that counts in it."""
    field = part.fields[0]
    return f"""\
typedef struct {{ CHF_TABLE table; }} {c}_state;
static void {c}_begin({c}_state *state) {{ state->table = 0; }}
{head(c, part, accumulator)}
{_counted(field)}
}}"""


def _counted(field: BoundField) -> str:
    """Count an element, or add to the counters that it names."""
    if not field.adds:
        return f"""\
    long counter;
{assigned([("counter", field.lift)], ONE)}
    if (counter >= 0 && counter < {field.entries})
        chf_count(state->table + counter);"""
    numbers = range(len(field.adds))
    pairs = [
        (f"{what}{n}", tree)
        for n, pair in enumerate(field.adds)
        for what, tree in zip(("counter", "amount"), pair, strict=True)
    ]
    adds = "\n".join(
        f"    if (counter{n} >= 0 && counter{n} < {field.entries})\n"
        f"        chf_add_to(state->table + counter{n}, amount{n});"
        for n in numbers
    )
    return f"""\
    long {", ".join(name for name, _ in pairs)};
{assigned(pairs, ONE)}
{adds}"""


def names(accumulator: Accumulator) -> str:
    """Name the elements."""
    value = [STORED[name].value for name in accumulator.value]
    return " ".join(["   ", *(f"const {t} x{n} = v.x{n};" for n, t in enumerate(value))])


def head(c: str, part: Component, accumulator: Accumulator) -> str:
    """Begin a step: pass over an element that is absent."""
    skip = ""
    if part.absent is not None:
        skip = f"\n{declared('absent', part.absent, ONE)}\n    if (absent)\n        return;"
    return f"""\
static void {c}_step({c}_state *state, value_t v, ulong i)
{{
{names(accumulator)}{skip}"""


def _one(c: str, part: Component, accumulator: Accumulator) -> str:
    """Return the state of one element's stream: start, step, end."""
    begun = head(c, part, accumulator)
    if part.state is None:
        lifts = assigned([(f"l.{f.name}", f.lift) for f in part.fields], ONE)
        return f"""\
typedef {c}_t {c}_state;
static void {c}_begin({c}_state *state) {{ *state = {c}_zero(); }}
static {c}_t {c}_lift(value_t v, ulong i)
{{
{names(accumulator)}
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
{_set("s", state.first)}
    }}"""
    step = _set("s", state.step)
    # One element at a time nothing is gained by waiting.
    carry = _set("s", state.carry)
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
{_join(c, "join", state.join)}
{_join(c, "join_alike", state.join_alike)}
{_end(c, c, part)}"""


def _join(c: str, phase: str, trees: Trees) -> str:
    """Return how two states become one, if that is told."""
    if not trees:
        return ""
    return f"""\
static {c}_state {c}_{phase}({c}_state a, {c}_state b)
{{
    {c}_state j = a;
{_set("j", trees)}
    return j;
}}"""


def _end(c: str, h: str, part: Component) -> str:
    """Return what a stream's state ends as, and one element's, where `h` holds the state."""
    assert part.state is not None
    return f"""\
static {c}_t {c}_end({c}_state s)
{{
    {c}_t r;
{_set("r", part.state.end)}
    return r;
}}
static {c}_t {c}_lift(value_t v, ulong i)
{{
    {c}_state s;
    {h}_begin(&s);
    {h}_step(&s, v, i);
    return {c}_end(s);
}}"""


def _set(holder: str, trees: Trees) -> str:
    """Set fields of what `holder` names to the values of trees."""
    return assigned([(f"{holder}.{name}", tree) for name, tree in trees], ONE)
