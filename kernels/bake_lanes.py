"""Bake how a component folds CHF_LANES elements at once: as vectors, or each by itself."""

from __future__ import annotations

from chunkfold.kernels.accumulator import Accumulator, BoundField, Component
from chunkfold.kernels.bake_inputs import lanes_readable
from chunkfold.kernels.bake_texts import absent, joined, op_text
from chunkfold.kernels.dtypes import FIELD, NARROW, STORED, literal
from chunkfold.kernels.texts import fits_lanes, for_lanes, is_number

_MASKS = {"int32": "int", "uint32": "int", "float32": "int"}
"""Type of a mask that selects among values of a field's dtype; long where not named."""


def lanes(c: str, part: Component, accumulator: Accumulator) -> str:
    """Return the source of component `c`'s lanes."""
    if on_vectors(part, accumulator):
        return _vector_lanes(c, part, accumulator)
    return array_lanes(c, part, accumulator)


def on_vectors(part: Component, accumulator: Accumulator) -> bool:
    """Whether a component's texts and inputs let kernels fold whole vectors."""
    if not lanes_readable(accumulator) or (part.table and not part.limbs):
        return False
    if part.state is not None:
        # Statements may do anything; the end runs once, element by element.
        return not isinstance(part.state.step, str) and all(map(fits_lanes, part.state.texts))
    return all(fits_lanes(text) for f in part.fields for text in (f.lift, op_text(f)))


def assign_lanes(part: Component, target: str, dtype: str, what: str, text: str) -> str:
    """Assign a monoid's text to lanes, with line numbers that are the text's own."""
    if is_number(text):
        return f"    {target} = (CHF_VEC({FIELD[dtype]}))({text});"
    return f"""\
    {target} = CHF_TO({FIELD[dtype]},
#line 1 "{part.origin}: {what}"
{for_lanes(text)}
#line 1 "generated"
    );"""


def array_lanes(c: str, part: Component, accumulator: Accumulator) -> str:
    """Return lanes as so many states, each stepped by itself."""
    attach = f"""
static void {c}_attach({c}_states *s, CHF_TABLE table, ulong stride)
{{
    for (int j = 0; j < CHF_LANES; j++)
        s->l[j].table = table + j * stride;
}}"""
    attach = attach if part.table else ""
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
}}{attach}"""


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
    # Unrolled, or PoCL's compiler scatters vectors to them.
    spreads = joined(
        f"""\
    {{
        {FIELD[dtype]} e[CHF_LANES];
        CHF_SPREAD(s->{name}, e);
        #pragma unroll
        for (int j = 0; j < CHF_LANES; j++)
            out[j].{name} = e[j];
    }}"""
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
    {promoted(accumulator)}
    {index}
    {mask(part, accumulator)}
{body}
}}
{_vector_carries(c, part)}
static void {c}_ends(const {c}_states *s, {c}_state *out)
{{
{spreads}
}}"""


def promoted(accumulator: Accumulator) -> str:
    """Widen narrow integers as C does for one element, so that a text means the same on lanes."""
    lines = []
    for n, name in enumerate(accumulator.value):
        ctype = STORED[name].value
        narrow = ctype in NARROW
        wide = "int" if narrow else ctype
        read = f"CHF_TO(int, v->x{n})" if narrow else f"v->x{n}"
        lines.append(f"const CHF_VEC({wide}) x{n} = {read};")
        if n == 0:
            lines.append(f"const CHF_VEC({wide}) x = x0;")
    return " ".join(lines)


def mask(part: Component, accumulator: Accumulator) -> str:
    """Name the lanes whose elements are absent, if any may be."""
    if not part.skipna:
        return ""
    wide = accumulator.value[0] in ("float64", "time")
    lane = "long" if wide else "int"
    return f"const CHF_VEC({lane}) absent = {absent(accumulator)};"


def kept(part: Component, dtype: str, target: str, otherwise: str) -> str:
    """Keep a lane as it was where its element is absent."""
    if not part.skipna:
        return ""
    mask = f"CHF_TO({_MASKS.get(dtype, 'long')}, absent)"
    return f"    {target} = select({target}, {otherwise}, {mask});"


def zero_lanes(field: BoundField) -> str:
    """Return a field's zero in each lane."""
    return f"(CHF_VEC({FIELD[field.dtype]}))({literal(field.zero, field.dtype)})"


def _vector_op_step(c: str, part: Component) -> str:
    lines = [f"    const {c}_states a = *state;", f"    {c}_states b, r;"]
    for f in part.fields:
        lines.append(assign_lanes(part, f"b.{f.name}", f.dtype, f"lift of {f.name}", f.lift))
        lines.append(kept(part, f.dtype, f"b.{f.name}", zero_lanes(f)))
    lines += [
        assign_lanes(part, f"r.{f.name}", f.dtype, f"op of {f.name}", op_text(f))
        for f in part.fields
    ]
    return joined([*lines, "    *state = r;"])


def carries(part: Component, accumulator: Accumulator) -> bool:
    """Whether lanes of a component have something to empty now and then."""
    return part.state is not None and bool(part.state.carry) and on_vectors(part, accumulator)


def _vector_carries(c: str, part: Component) -> str:
    """Return what empties the narrow fields of lanes."""
    if part.state is None or not part.state.carry:
        return ""
    dtypes = {name: dtype for name, dtype, _ in part.state.fields}
    lines = [
        assign_lanes(part, f"s.{name}", dtypes[name], f"accumulate.carry of {name}", text)
        for name, text in part.state.carry
    ]
    return f"""\
static void {c}_carries({c}_states *state)
{{
    {c}_states s = *state;
{joined(lines)}
    *state = s;
}}"""


def _vector_state_step(c: str, part: Component) -> str:
    state = part.state
    assert state is not None
    assert not isinstance(state.step, str)
    dtypes = {name: dtype for name, dtype, _ in state.fields}
    lines = [f"    {c}_states s = *state;"]
    for name, text in state.step:
        what = f"accumulate.step of {name}"
        lines.append(assign_lanes(part, f"s.{name}", dtypes[name], what, text))
        lines.append(kept(part, dtypes[name], f"s.{name}", f"state->{name}"))
    return joined([*lines, "    *state = s;"])
