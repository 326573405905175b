"""Emit how a component folds CHF_LANES elements at once: as vectors, or each by itself."""

from __future__ import annotations

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.accumulator.component import Component
from chunkfold.kernels.dtypes import FIELD, STORED, literal
from chunkfold.kernels.expressions.style import LANES, ONE
from chunkfold.kernels.program.ends import ended_lanes, held, late_fields
from chunkfold.kernels.program.inputs import lanes_readable
from chunkfold.kernels.program.texts import assigned, joined
from chunkfold.kernels.program.vectors import (
    in_common,
    kept,
    mask,
    mask_of,
    named_lanes,
    on_vectors,
    zero_lanes,
)


def lanes(c: str, part: Component, accumulator: Accumulator) -> str:
    """Return the source of component `c`'s lanes."""
    if on_vectors(part, accumulator):
        return _vector_lanes(c, part, accumulator)
    return array_lanes(c, part, accumulator)


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
    """Return lanes as vectors, one per field of the state; what they have in common as a scalar."""
    state = part.state
    fields = state.fields if state else [(f.name, f.dtype, f.zero) for f in part.fields]
    common = in_common(part)
    types = {
        name: FIELD[dtype] if name in common else f"CHF_VEC({FIELD[dtype]})"
        for name, dtype, _ in fields
    }
    members = " ".join(f"{types[name]} {name};" for name, _, _ in fields)
    late = late_fields(part)
    begins = " ".join(
        f"s->{name} = ({types[name]})({'NAN' if name in late else literal(start, dtype)});"
        for name, dtype, start in fields
    )

    # Unrolled, or PoCL's compiler scatters vectors to them.
    spreads = joined(
        f"""\
    {{
        {FIELD[dtype]} e[CHF_LANES];
        CHF_SPREAD({held(part, name, dtype, start)}, e);
        #pragma unroll
        for (int j = 0; j < CHF_LANES; j++)
            out[j].{name} = e[j];
    }}"""
        for name, dtype, start in fields
    )
    if state and state.first:
        spreads += """
    for (int j = 0; j < CHF_LANES; j++)
        out[j]._begun = 1;"""
    body = _vector_state_step(c, part) if state else _vector_op_step(c, part)
    index = (
        "const CHF_VEC(ulong) i = (CHF_VEC(ulong))(i0) + chfv_iota * di;"
        if accumulator.uses_index
        else ""
    )
    return f"""\
typedef struct {{ {members} }} {c}_states;
static void {c}_begins({c}_states *s) {{ {begins} }}
{_vector_firsts(c, part, accumulator, index)}
static void {c}_steps({c}_states *state, const values_t *v, ulong i0, ulong di)
{{
    {named_lanes(accumulator)}
    {index}
    {mask(part)}
{body}
}}
{_vector_carries(c, part)}
static void {c}_ends(const {c}_states *l, {c}_state *out)
{{
{spreads}
}}
{ended_lanes(c, part, accumulator)}"""


def _vector_op_step(c: str, part: Component) -> str:
    lines = [
        f"    const {c}_states a = *state;",
        f"    {c}_states b, r;",
        assigned([(f"b.{f.name}", f.lift) for f in part.fields], LANES),
        *(kept(part, f.dtype, f"b.{f.name}", zero_lanes(f)) for f in part.fields),
        assigned([(f"r.{f.name}", f.op_tree) for f in part.fields], LANES),
    ]
    return joined([*lines, "    *state = r;"])


def carries(part: Component, accumulator: Accumulator) -> bool:
    """Whether lanes of a component have something to empty now and then."""
    return part.state is not None and bool(part.state.carry) and on_vectors(part, accumulator)


def _vector_carries(c: str, part: Component) -> str:
    """Return what empties the narrow fields of lanes."""
    if part.state is None or not part.state.carry:
        return ""
    sets = assigned([(f"s.{name}", tree) for name, tree in part.state.carry], LANES)
    return f"""\
static void {c}_carries({c}_states *state)
{{
    {c}_states s = *state;
{sets}
    *state = s;
}}"""


def has_firsts(part: Component, accumulator: Accumulator) -> bool:
    """Whether the first elements of lanes are looked at once, before any step."""
    return bool(part.state and part.state.first) and (
        on_vectors(part, accumulator) and part.absent is None
    )


def _vector_firsts(c: str, part: Component, accumulator: Accumulator, index: str) -> str:
    """Return what the first elements of lanes set, where none is absent."""
    if not has_firsts(part, accumulator):
        return ""
    assert part.state is not None
    sets = assigned([(f"s->{name}", tree) for name, tree in part.state.first], LANES)
    return f"""\
static void {c}_firsts({c}_states *s, const values_t *v, ulong i0, ulong di)
{{
    {named_lanes(accumulator)}
    {index}
{sets}
}}"""


def _vector_state_step(c: str, part: Component) -> str:
    state = part.state
    assert state is not None
    dtypes, common = state.dtypes, in_common(part)
    lines = [f"    {c}_states s = *state, r = s;"]
    if part.absent is not None:
        lines += [*_firsts_where_present(part), "    r = s;"]
    shared = [(f"r.{name}", tree) for name, tree in state.step if name in common]
    own = [(f"r.{name}", tree) for name, tree in state.step if name not in common]
    lines += [assigned(shared, ONE), assigned(own, LANES, common=common)]
    lines += [
        kept(part, dtypes[name], f"r.{name}", f"state->{name}")
        for name, _ in state.step
        if name not in common
    ]
    return joined([*lines, "    *state = r;"])


def _firsts_where_present(part: Component) -> list[str]:
    """Return how lanes, some of which have begun, look for the first element of the others.

    What is not set is NaN, and so is what an absent one would set (`begins_as_nan`).
    """
    state = part.state
    assert state is not None
    lines = []
    for name, tree in state.first:
        dtype, first = state.dtypes[name], f"first_{name}"
        begun = mask_of(dtype, f"s.{name} == s.{name}")
        lines.append(f"    CHF_VEC({FIELD[dtype]}) {first};")
        lines.append(assigned([(first, tree)], LANES))
        lines.append(f"    s.{name} = select({first}, s.{name}, {begun});")
    return lines
