"""Bake one component of an accumulator: its zero, op and state, for one element and for lanes."""

from __future__ import annotations

from collections.abc import Iterable

from chunkfold.kernels.bake_inputs import lanes_readable
from chunkfold.kernels.bind import Accumulator, BoundField, Component
from chunkfold.kernels.dtypes import FIELD, STORED, literal
from chunkfold.kernels.monoid import COLLECTIVES
from chunkfold.kernels.texts import fits_lanes, for_lanes, for_one, is_number

_WRITTEN = {"add": "a.{0} + b.{0}", "min": "min(a.{0}, b.{0})", "max": "max(a.{0}, b.{0})"}
_FLOAT_WRITTEN = _WRITTEN | {"min": "fmin(a.{0}, b.{0})", "max": "fmax(a.{0}, b.{0})"}
_MASKS = {"int32": "int", "uint32": "int", "float32": "int"}
"""Type of a mask that selects among values of a field's dtype; long where not named."""


def component(number: int, part: Component, accumulator: Accumulator) -> str:
    """Return the source of component `number`."""
    c = f"c{number}"
    members = " ".join(f"{FIELD[f.dtype]} {f.name};" for f in part.fields)
    wide = FIELD[part.state.fields[0][1] if part.state else part.fields[0].dtype]
    vectors = on_vectors(part, accumulator)
    lanes = _vector_lanes(c, part, accumulator) if vectors else _array_lanes(c, accumulator)
    return f"""\
typedef struct {{ {members} }} {c}_t;
#undef chf_wide
#undef chfv_wide
#define chf_wide(e) (({wide})(e))
#define chfv_wide(e) CHF_TO({wide}, e)
static {c}_t {c}_zero(void)
{{
    {c}_t z;
    {" ".join(f"z.{f.name} = {literal(f.zero, f.dtype)};" for f in part.fields)}
    return z;
}}
static {c}_t {c}_op({c}_t a, {c}_t b)
{{
    {c}_t r;
{_join(_assign(part, f"r.{f.name}", f.dtype, f"op of {f.name}", op_text(f)) for f in part.fields)}
    return r;
}}
{_one(c, part, accumulator)}
{lanes}"""


def on_vectors(part: Component, accumulator: Accumulator) -> bool:
    """Whether a component's texts and inputs let kernels fold whole vectors."""
    if not lanes_readable(accumulator):
        return False
    if part.state is not None:
        # Statements may do anything; the end runs once, element by element.
        return not isinstance(part.state.step, str) and all(map(fits_lanes, part.state.texts))
    return all(fits_lanes(text) for f in part.fields for text in (f.lift, op_text(f)))


def op_text(field: BoundField) -> str:
    """Return a field's op as an expression of a and b."""
    written = _FLOAT_WRITTEN if field.dtype.startswith("float") else _WRITTEN
    return written[field.op].format(field.name) if field.op in COLLECTIVES else field.op


def _assign(part: Component, target: str, dtype: str, what: str, text: str) -> str:
    """Assign a monoid's text to one value, with line numbers that are the text's own."""
    return f"""\
    {target} = ({FIELD[dtype]})(
#line 1 "{part.origin}: {what}"
{for_one(text)}
#line 1 "generated"
    );"""


def _assign_lanes(part: Component, target: str, dtype: str, what: str, text: str) -> str:
    if is_number(text):
        return f"    {target} = (CHF_VEC({FIELD[dtype]}))({text});"
    return f"""\
    {target} = CHF_TO({FIELD[dtype]},
#line 1 "{part.origin}: {what}"
{for_lanes(text)}
#line 1 "generated"
    );"""


def _absent(accumulator: Accumulator) -> str:
    """Return the condition under which an element is NaN or NaT, for one or for lanes."""
    tests = []
    for n, name in enumerate(accumulator.value):
        if name == "time":
            tests.append(f"(x{n} == LONG_MIN)")
        elif name.startswith("complex"):
            tests.append(f"(x{n}.x != x{n}.x) | (x{n}.y != x{n}.y)")
        else:
            tests.append(f"(x{n} != x{n})")
    return " | ".join(tests)


def _one(c: str, part: Component, accumulator: Accumulator) -> str:
    """Return the state of one element's stream: start, step, end."""
    value = [STORED[name].value for name in accumulator.value]
    xs = " ".join(f"const {value[n]} x{n} = v.x{n};" for n in range(len(value)))
    skip = f"    if ({_absent(accumulator)})\n        return;\n" if part.skipna else ""
    names = f"{xs} const {value[0]} x = x0;"
    head = f"""\
static void {c}_step({c}_state *state, value_t v, ulong i)
{{
    {names}
{skip}"""
    if part.state is None:
        lifts = _join(
            _assign(part, f"l.{f.name}", f.dtype, f"lift of {f.name}", f.lift) for f in part.fields
        )
        return f"""\
typedef {c}_t {c}_state;
static void {c}_begin({c}_state *state) {{ *state = {c}_zero(); }}
static {c}_t {c}_lift(value_t v, ulong i)
{{
    {names}
    {c}_t l;
{lifts}
    return l;
}}
{head}    *state = {c}_op(*state, {c}_lift(v, i));
}}
static {c}_t {c}_end({c}_state s) {{ return s; }}"""
    state = part.state
    dtypes = {f.name: f.dtype for f in part.fields}
    state_dtypes = {name: dtype for name, dtype, _ in state.fields}
    if isinstance(state.step, str):
        step = f"""\
    {{
#line 1 "{part.origin}: accumulate.step"
{for_one(state.step)}
#line 1 "generated"
    }}"""
    else:
        step = _join(
            _assign(part, f"s.{name}", state_dtypes[name], f"accumulate.step of {name}", text)
            for name, text in state.step
        )
    ends = _join(
        _assign(part, f"r.{name}", dtypes[name], f"accumulate.end of {name}", text)
        for name, text in state.end
    )
    starts = " ".join(f"state->{name} = {literal(v, d)};" for name, d, v in state.fields)
    return f"""\
typedef struct {{ {" ".join(f"{FIELD[d]} {name};" for name, d, _ in state.fields)} }} {c}_state;
static void {c}_begin({c}_state *state) {{ {starts} }}
{head}    {c}_state s = *state;
{step}
    *state = s;
}}
static {c}_t {c}_end({c}_state s)
{{
    {c}_t r;
{ends}
    return r;
}}
static {c}_t {c}_lift(value_t v, ulong i)
{{
    {c}_state s;
    {c}_begin(&s);
    {c}_step(&s, v, i);
    return {c}_end(s);
}}"""


def _array_lanes(c: str, accumulator: Accumulator) -> str:
    """Return lanes as so many states, each stepped by itself."""
    numbers = range(len(accumulator.value))
    if lanes_readable(accumulator):
        value = [STORED[name].value for name in accumulator.value]
        spread = " ".join(
            f"{value[n]} e{n}[CHF_LANES]; CHF_SPREAD(v->x{n}, e{n});" for n in numbers
        )
        element = "e{n}[j]"
    else:
        spread, element = "", "v->x{n}[j]"
    takes = " ".join(f"one.x{n} = {element.format(n=n)};" for n in numbers)
    return f"""\
typedef struct {{ {c}_state l[CHF_LANES]; }} {c}_states;
static void {c}_begins({c}_states *s)
{{
    for (int j = 0; j < CHF_LANES; j++)
        {c}_begin(&s->l[j]);
}}
static void {c}_steps({c}_states *s, const values_t *v, ulong i, ulong di)
{{
    {spread}
    #pragma unroll
    for (int j = 0; j < CHF_LANES; j++) {{
        value_t one;
        {takes}
        {c}_step(&s->l[j], one, i + j * di);
    }}
}}
static void {c}_ends(const {c}_states *s, {c}_state *out)
{{
    #pragma unroll
    for (int j = 0; j < CHF_LANES; j++)
        out[j] = s->l[j];
}}"""


def _vector_lanes(c: str, part: Component, accumulator: Accumulator) -> str:
    """Return lanes as vectors, one per field of the state."""
    state = part.state
    fields = (
        [(name, dtype, start) for name, dtype, start in state.fields]
        if state
        else [(f.name, f.dtype, f.zero) for f in part.fields]
    )
    members = " ".join(f"CHF_VEC({FIELD[dtype]}) {name};" for name, dtype, _ in fields)
    begins = " ".join(
        f"s->{name} = (CHF_VEC({FIELD[dtype]}))({literal(start, dtype)});"
        for name, dtype, start in fields
    )
    spreads = " ".join(
        f"{{ {FIELD[dtype]} e[CHF_LANES]; CHF_SPREAD(s->{name}, e); "
        f"for (int j = 0; j < CHF_LANES; j++) out[j].{name} = e[j]; }}"
        for name, dtype, _ in fields
    )
    body = _vector_state_step(c, part) if state else _vector_op_step(c, part)
    index = (
        "const CHF_VEC(ulong) i = (CHF_VEC(ulong))(i0) + chfv_iota * di;"
        if accumulator.uses_index
        else ""
    )
    return f"""\
typedef struct {{ {members} }} {c}_states;
static void {c}_begins({c}_states *s) {{ {begins} }}
static void {c}_steps({c}_states *state, const values_t *v, ulong i0, ulong di)
{{
    {_promoted(accumulator)}
    {index}
    {_mask(part, accumulator)}
{body}
}}
static void {c}_ends(const {c}_states *s, {c}_state *out)
{{
    {spreads}
}}"""


def _promoted(accumulator: Accumulator) -> str:
    """Widen narrow integers as C does for one element, so that a text means the same on lanes."""
    lines = []
    for n, name in enumerate(accumulator.value):
        ctype = STORED[name].value
        narrow = ctype in ("char", "uchar", "short", "ushort")
        wide = "int" if narrow else ctype
        read = f"CHF_TO(int, v->x{n})" if narrow else f"v->x{n}"
        lines.append(f"const CHF_VEC({wide}) x{n} = {read};")
        if n == 0:
            lines.append(f"const CHF_VEC({wide}) x = x0;")
    return " ".join(lines)


def _mask(part: Component, accumulator: Accumulator) -> str:
    if not part.skipna:
        return ""
    wide = accumulator.value[0] in ("float64", "time")
    mask = "long" if wide else "int"
    return f"const CHF_VEC({mask}) absent = {_absent(accumulator)};"


def _kept(part: Component, dtype: str, target: str, otherwise: str) -> str:
    """Keep a lane as it was where its element is absent."""
    if not part.skipna:
        return ""
    mask = f"CHF_TO({_MASKS.get(dtype, 'long')}, absent)"
    return f"    {target} = select({target}, {otherwise}, {mask});"


def _vector_op_step(c: str, part: Component) -> str:
    lines = [f"    const {c}_states a = *state;", f"    {c}_states b, r;"]
    for f in part.fields:
        lines.append(_assign_lanes(part, f"b.{f.name}", f.dtype, f"lift of {f.name}", f.lift))
        zero = f"(CHF_VEC({FIELD[f.dtype]}))({literal(f.zero, f.dtype)})"
        lines.append(_kept(part, f.dtype, f"b.{f.name}", zero))
    lines += [
        _assign_lanes(part, f"r.{f.name}", f.dtype, f"op of {f.name}", op_text(f))
        for f in part.fields
    ]
    return _join([*lines, "    *state = r;"])


def _vector_state_step(c: str, part: Component) -> str:
    state = part.state
    assert state is not None
    assert not isinstance(state.step, str)
    dtypes = {name: dtype for name, dtype, _ in state.fields}
    lines = [f"    {c}_states s = *state;"]
    for name, text in state.step:
        what = f"accumulate.step of {name}"
        lines.append(_assign_lanes(part, f"s.{name}", dtypes[name], what, text))
        lines.append(_kept(part, dtypes[name], f"s.{name}", f"state->{name}"))
    return _join([*lines, "    *state = s;"])


def _join(lines: Iterable[str]) -> str:
    return "\n".join(line for line in lines if line)
