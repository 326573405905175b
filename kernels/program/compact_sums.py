"""Emit an exact sum that has no limbs: an expansion alone, which says if it lost anything."""

from __future__ import annotations

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.accumulator.component import Component
from chunkfold.kernels.exact.limbs import Limbs
from chunkfold.kernels.program.expansions import (
    TINY,
    VECTOR,
    Taken,
    adds,
    cascade,
    indented,
    power,
    spread,
    step,
    terms_of,
    vector_step,
)
from chunkfold.kernels.program.polynomials import polynomial_lanes, polynomial_step
from chunkfold.kernels.program.states import array_lanes
from chunkfold.kernels.program.texts import joined
from chunkfold.kernels.program.vectors import on_vectors

_LIFT = """
static {c}_t {c}_lift(value_t v, ulong i)
{{
    {c}_t z = {c}_zero();
    {c}_step(&z, v, i);
    return z;
}}"""


def compact_component(number: int, part: Component, accumulator: Accumulator) -> str:
    """Return the source of component `number`, an exact sum kept as a few doubles.

    Elements go through the first terms, as in `exact_component`; the rest, which few elements
    reach, takes what is left over. Where something is left behind the last term, that is NaN from
    then on: the sum is lost. What is no number stands in the first term and stays there.
    """
    c, limbs = f"c{number}", part.limbs
    assert limbs is not None
    vectors = on_vectors(part, accumulator)
    if not limbs.power:
        lost = f"s->{terms_of(limbs.kept)[-1]} = NAN;"
        taken = polynomial_step(c, part, accumulator, lost)
        terms = terms_of(limbs.kept)
        lanes = (
            polynomial_lanes(c, part, accumulator, terms, terms[: limbs.terms])
            if vectors
            else array_lanes(c, part, accumulator)
        )
    else:
        taken = _take(c, limbs) + "\n" + step(c, part, accumulator)
        lanes = (
            _vector_lanes(c, part, accumulator) if vectors else array_lanes(c, part, accumulator)
        )
    return joined(
        [
            _accumulator(c, limbs),
            _mend(f"{c}_t", limbs, "double", "chf_"),
            _scalar(c, limbs),
            taken + _LIFT.format(c=c),
            lanes,
        ]
    )


def _errors(limbs: Limbs) -> list[str]:
    """Name what may be left of an element behind the first terms."""
    return ["left", "behind"] if limbs.paired else ["left"]


def _accumulator(c: str, limbs: Limbs) -> str:
    terms = terms_of(limbs.kept)
    loads = " ".join(f"a[{n}] = s->{term};" for n, term in enumerate(terms))
    stores = " ".join(f"s->{term} = a[{n}];" for n, term in enumerate(terms))
    rest = " && ".join(f"s->{term} == 0" for term in terms[1:])
    return f"""\
typedef struct {{ {" ".join(f"double {term};" for term in terms)} }} {c}_t;
static {c}_t {c}_zero(void) {{ {c}_t z; {" ".join(f"z.{t} = 0;" for t in terms)} return z; }}
static void {c}_settle({c}_t *s)
{{
    if (isfinite(s->a0) && {rest}) {{
        s->a0 += 0.0; /* no -0.0 */
        {" ".join(f"s->{term} = 0;" for term in terms[1:])}
        return;
    }}
    double a[{limbs.kept}];
    {loads}
    chf_settle_terms(a, {limbs.kept});
    {stores}
}}"""


def _mend(state: str, limbs: Limbs, ctype: str, prefix: str) -> str:
    """Return how `y` is added where the first terms leave something over: seldom.

    `now` has the first terms with y added, and `left` what that left over; `bad` says where y is
    not what was meant. The same text serves doubles and vectors of them.
    """
    terms, errors = terms_of(limbs.kept), _errors(limbs)
    when, last = f"{prefix}when", terms[-1]
    first, cold = terms[: limbs.terms], terms[limbs.terms :]
    one, none = f"({ctype})(1)", f"({ctype})(0)"
    lines = [
        f"{ctype} odd = {when}(isfinite(left), {none}, {one});",
        f"{ctype} over = {when}(isfinite(y) & isfinite(s->a0), odd, {none});",
    ]
    if limbs.paired:
        lines += [f"{name} = {when}(bad, {one}, {name});" for name in ("odd", "over")]
    lines += [f"s->a0 = {when}(over, s->a0, {when}(odd, s->a0 + y, now->a0));"]
    lines += [f"s->{term} = {when}(odd, s->{term}, now->{term});" for term in first[1:]]
    for error in errors:
        lines += [f"{error} = {when}(odd, {none}, {error});"]
        lines += cascade(error, cold, "s->{}", "s->{}", ctype)
    leftover = " | ".join(f"({name} != 0)" for name in ["over", *errors])
    lines += [f"s->{last} = {when}({leftover}, ({ctype})(NAN), s->{last});"]
    takes = "".join(f", {ctype} {name}" for name in ["y", *errors, *_bad(limbs)])
    return f"""\
static CHF_RARE void {state.replace("_t", "")}_mend({state} *s, const {state} *now{takes})
{{
{indented(lines)}
}}"""


def _bad(limbs: Limbs) -> list[str]:
    return ["bad"] if limbs.paired else []


def _scalar(c: str, limbs: Limbs) -> str:
    """Return how one double is added, and two expansions.

    What stands behind an expansion's first term is added out of line, as what is rare is.
    """
    terms, last = terms_of(limbs.kept), terms_of(limbs.kept)[-1]
    first = terms[: limbs.terms]
    added = indented(cascade("left", first, "s->{}", "now.{}", "double"))
    unpaired = ", 0.0, 0.0" if limbs.paired else ""
    took = " ".join(f"if (b.{t} != 0) {c}_add_more(&a, b.{t});" for t in terms[1:-1])
    return f"""\
static void {c}_add({c}_t *s, double y)
{{
    {c}_t now = *s;
    double left = y;
{added}
    if (left == 0) {{
        *s = now;
        return;
    }}
    {c}_t kept = *s, next = now; /* copies: what has an address is kept in memory */
    {c}_mend(&kept, &next, y, left{unpaired});
    *s = kept;
}}
static CHF_RARE void {c}_add_more({c}_t *s, double y) {{ {c}_add(s, y); }}
static {c}_t {c}_op({c}_t a, {c}_t b)
{{
    {c}_add(&a, b.a0);
    {took}
    if (isnan(b.{last}))
        a.{last} = NAN;
    else if (b.{last} != 0)
        {c}_add_more(&a, b.{last});
    return a;
}}"""


def _take(c: str, limbs: Limbs) -> str:
    """Return how an element, or its square, is added."""
    last = terms_of(limbs.kept)[-1]
    if limbs.paired:
        taken = f"""\
    const double size = fabs(y);
    if (size == 0)
        return;
    const double square = y * y;
    if (!isfinite(size) || (size > CHF_LEAST_SQUARED && size < CHF_MOST_SQUARED)) {{
        {c}_add(s, square);
        if (isfinite(size))
            {c}_add(s, fma(y, y, -square));
    }} else {{
        s->{last} = NAN;
    }}"""
    else:
        taken = f"    {c}_add(s, {power('y', limbs)});"
    return f"""\
static void {c}_take({c}_t *s, double y)
{{
{taken}
}}"""


def _vector_lanes(c: str, part: Component, accumulator: Accumulator) -> str:
    """Return lanes as vectors of terms."""
    limbs = part.limbs
    assert limbs is not None
    terms, errors = terms_of(limbs.kept), _errors(limbs)
    first = terms[: limbs.terms]
    vector = VECTOR
    cascades = cascade("left", first, "state->{}", "now.{}", vector)
    if limbs.paired:
        outside = "(size >= CHF_MOST_SQUARED) | ((size <= CHF_LEAST_SQUARED) & (size != 0))"
        added = [
            f"const {vector} size = fabs(y);",
            "y = y * y;",
            f"{vector} left = y, behind = fma(size, size, -y);",
            *cascades,
            *cascade("behind", first[1:], "now.{}", "now.{}", vector),
            f"const {vector} one = 1, none = 0;",
            f"const {vector} bad = chfv_when(isfinite(size) & ({outside}), one, none);",
        ]
        left = f"CHF_AS(ulong, left) | CHF_AS(ulong, behind) | {TINY.format('size')}"
        found = "chfv_when((behind != 0) | (bad != 0), one, left)"
    else:
        added = [f"y = {power('y', limbs)};", f"{vector} left = y;", *cascades]
        left, found = "CHF_AS(ulong, left)", "left"
    keeps = " ".join(f"state->{term} = now.{term};" for term in first)
    passed = "".join(f", {name}" for name in ["y", *errors, *_bad(limbs)])
    mend = f"{c}_states_mend(&kept, &next{passed});"
    taken = Taken(indented(added), left, found, keeps, mend)
    steps = vector_step(c, part, accumulator, taken)
    return f"""\
typedef struct {{ {" ".join(f"{vector} {term};" for term in terms)} }} {c}_states;
static void {c}_begins({c}_states *s)
{{
    {" ".join(f"s->{term} = ({vector})(0);" for term in terms)}
}}
{_mend(f"{c}_states", limbs, vector, "chfv_")}
{steps}
{adds(c, terms, first, table=False)}
static void {c}_ends(const {c}_states *s, {c}_state *out)
{{
    {spread(terms, "s->{}")}
    #pragma unroll
    for (int j = 0; j < CHF_LANES; j++) {{
        {" ".join(f"out[j].{term} = {term}_[j];" for term in terms)}
    }}
}}"""
