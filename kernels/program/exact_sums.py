"""Emit an exact sum: expansions in registers, limbs for what is left over."""

from __future__ import annotations

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.accumulator.component import Component
from chunkfold.kernels.exact.limbs import Limbs
from chunkfold.kernels.expressions.style import ONE
from chunkfold.kernels.program.components import head
from chunkfold.kernels.program.expansions import (
    TINY,
    VECTOR,
    Taken,
    adds,
    cascade,
    each_lane,
    indented,
    power,
    spread,
    step,
    terms_of,
    vector_step,
)
from chunkfold.kernels.program.polynomials import integer_step, polynomial_lanes, polynomial_step
from chunkfold.kernels.program.states import array_lanes
from chunkfold.kernels.program.texts import assigned, joined
from chunkfold.kernels.program.vectors import on_vectors

_LIFT = """
static {c}_t {c}_lift(value_t v, ulong i) {{ return {c}_zero(); }}"""
"""There is no table yet that a single element could be deposited in."""
_BEYOND = (
    "const chf_number parts[] = {{ {parts} }}; chf_deposit_product(s->table, LOW, parts, {count});"
)
"""What is done about a monomial that is not some doubles, where limbs begin at 2**LOW."""


def exact_component(number: int, part: Component, accumulator: Accumulator) -> str:
    """Return the source of component `number`, an exact sum.

    A stream of elements is folded into an expansion of a few doubles, whose sum it is: each
    addition's error, which is a double too (TwoSum: Knuth, *The Art of Computer Programming* 2,
    4.2.2, theorem B), enters the next term (Shewchuk, "Adaptive precision floating-point
    arithmetic", 1997, GROW-EXPANSION). What is left behind the last one is deposited in limbs;
    for ordinary data nothing is. What overflows, or is no number, is deposited itself.
    """
    c, limbs = f"c{number}", part.limbs
    assert limbs is not None
    if not limbs.terms:
        return _integers(c, part, accumulator, limbs)
    if not limbs.power:
        beyond = _BEYOND.replace("LOW", str(limbs.low))
        text = polynomial_step(c, part, accumulator, beyond)
        terms = terms_of(limbs.terms)
        lanes_text = (
            polynomial_lanes(c, part, accumulator, terms, terms)
            if on_vectors(part, accumulator)
            else array_lanes(c, part, accumulator)
        )
        return joined([_expansion(c, limbs), text + _LIFT.format(c=c), lanes_text])
    take = _take_square_pair if limbs.paired else _take
    lanes = _vector_lanes if on_vectors(part, accumulator) else array_lanes
    return joined(
        [
            _expansion(c, limbs),
            take(c, limbs),
            step(c, part, accumulator) + _LIFT.format(c=c),
            lanes(c, part, accumulator),
        ]
    )


def _expansion(c: str, limbs: Limbs) -> str:
    """Return what a work-item holds: its terms, and where its limbs are."""
    terms = terms_of(limbs.terms)
    took = " ".join(f"{c}_add(&a, b.{term});" for term in terms)
    added_up = indented(cascade("left", terms, "s->{}", "now.{}", "double"))
    kept = " ".join(
        f"chf_deposit(s->table, {limbs.count}, {limbs.low}, s->{term}); s->{term} = 0;"
        for term in terms
    )
    return f"""\
typedef struct {{ {" ".join(f"double {term};" for term in terms)} CHF_TABLE table; }} {c}_t;
static {c}_t {c}_zero(void)
{{
    {c}_t z;
    {" ".join(f"z.{term} = 0;" for term in terms)} z.table = 0;
    return z;
}}
static void {c}_add({c}_t *s, double y)
{{
    {c}_t now = *s;
    double left = y;
{added_up}
    if (left == 0) {{
        *s = now;
    }} else if (isfinite(left)) {{
        *s = now;
        chf_deposit(s->table, {limbs.count}, {limbs.low}, left);
    }} else {{
        chf_deposit(s->table, {limbs.count}, {limbs.low}, y);
    }}
}}
static {c}_t {c}_op({c}_t a, {c}_t b)
{{
    a.table = a.table ? a.table : b.table;
    {took}
    return a;
}}
static void {c}_keep({c}_t *s) {{ {kept} }}"""


def _take(c: str, limbs: Limbs) -> str:
    """Take in a value, or its square where that is a double."""
    return f"static void {c}_take({c}_t *s, double y) {{ {c}_add(s, {power('y', limbs)}); }}"


def _take_square_pair(c: str, limbs: Limbs) -> str:
    """Take in the square of a double as two doubles, or by integers where they are none."""
    return f"""\
static void {c}_take({c}_t *s, double y)
{{
    const double size = fabs(y);
    if (size == 0)
        return;
    if (size > CHF_LEAST_SQUARED && size < CHF_MOST_SQUARED) {{
        const double square = y * y;
        {c}_add(s, square);
        {c}_add(s, fma(y, y, -square));
    }} else {{
        chf_deposit_square(s->table, {limbs.count}, {limbs.low}, y);
    }}
}}"""


def _vector_lanes(c: str, part: Component, accumulator: Accumulator) -> str:
    """Return lanes as vectors of terms; only what is left over is looked at lane by lane."""
    limbs = part.limbs
    assert limbs is not None
    terms = terms_of(limbs.terms)
    vector = VECTOR
    added_up = indented(cascade("left", terms, "now.{}", "now.{}", vector))
    if limbs.paired:
        odd = "!(size < CHF_MOST_SQUARED) | ((size <= CHF_LEAST_SQUARED) & (size != 0))"
        errors = ["left", "behind"]
        added = f"""\
    {vector} left = y * y, behind = fma(y, y, -left);
    const {vector} size = fabs(y);
{added_up}
{indented(cascade("behind", terms[1:], "now.{}", "now.{}", vector))}"""
        left = f"CHF_AS(ulong, left) | CHF_AS(ulong, behind) | {TINY.format('y')}"
        found = f"select(left, ({vector})(1), CHF_TO(long, ({odd}) | (behind != 0)))"
    else:
        odd, errors = "!isfinite(left)", ["left"]
        added = f"""\
    {vector} left = {power("y", limbs)};
{added_up}"""
        left, found = "CHF_AS(ulong, left)", "left"
    size = f"const {vector} size = fabs(y);" if limbs.paired else ""
    passed = "".join(f", {error}" for error in errors)
    taken = "".join(f", {vector} {error}" for error in errors)
    deposits = " ".join(
        f"chf_deposit(table, {limbs.count}, {limbs.low}, {error}_[j]);" for error in errors
    )
    members = " ".join(f"{vector} {term};" for term in terms)
    ends = " ".join(f"out[j].{term} = {term}_[j];" for term in terms)
    mend = f"{c}_mend(&kept, &next, y{passed});"
    steps = vector_step(c, part, accumulator, Taken(added, left, found, "*state = now;", mend))
    return f"""\
typedef struct {{ {members} CHF_TABLE table; ulong stride; }} {c}_states;
static void {c}_begins({c}_states *s)
{{
    {" ".join(f"s->{term} = ({vector})(0);" for term in terms)} s->table = 0; s->stride = 0;
}}
static void {c}_attach({c}_states *s, CHF_TABLE table, ulong stride)
{{
    s->table = table;
    s->stride = stride;
}}
/* Out of line: it is rare, and large. */
static CHF_RARE void {c}_mend({c}_states *state, const {c}_states *now, {vector} y{taken})
{{
    {size}
    const CHF_VEC(long) odd = CHF_TO(long, {odd});
    if (!CHF_ANY(odd)) {{
        {spread(errors, "{}")}
        for (int j = 0; j < CHF_LANES; j++) {{
            CHF_TABLE table = state->table + j * state->stride;
            {deposits}
        }}
        *state = *now;
        return;
    }}
{each_lane(c, f"{c}_take", "state", terms, table=True)}
}}
{steps}
{adds(c, terms, terms, table=True)}
static void {c}_ends(const {c}_states *s, {c}_state *out)
{{
    {spread(terms, "s->{}")}
    for (int j = 0; j < CHF_LANES; j++) {{
        {ends}
        out[j].table = s->table + j * s->stride;
    }}
}}"""


def _integers(c: str, part: Component, accumulator: Accumulator, limbs: Limbs) -> str:
    """Return the form for devices without float64: every element is deposited from its bits."""
    field = part.fields[0]
    if limbs.power:
        deposit = (
            f"chf_deposit_float(state->table, {limbs.count}, {limbs.low}, y, {limbs.power - 1});"
        )
        step_text = f"""\
static void {c}_begin({c}_state *state) {{ *state = {c}_zero(); }}
{head(c, part, accumulator)}
    float y;
{assigned([("y", field.lift)], ONE)}
    {deposit}
}}"""
    else:
        step_text = integer_step(c, part, accumulator)
    return f"""\
typedef struct {{ CHF_TABLE table; }} {c}_t;
typedef {c}_t {c}_state;
static {c}_t {c}_zero(void) {{ {c}_t z; z.table = 0; return z; }}
static {c}_t {c}_op({c}_t a, {c}_t b) {{ return a; }}
static void {c}_keep({c}_t *s) {{}}
{step_text}
static {c}_t {c}_end({c}_state s) {{ return s; }}
static {c}_t {c}_lift(value_t v, ulong i) {{ return {c}_zero(); }}
{array_lanes(c, part, accumulator)}"""
