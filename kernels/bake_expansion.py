"""What exact sums share in kernels, with limbs behind them or not: additions to expansions."""

from __future__ import annotations

from collections.abc import Sequence

from chunkfold.kernels.accumulator import Accumulator, Component
from chunkfold.kernels.bake_components import assign, head
from chunkfold.kernels.bake_lanes import assign_lanes, mask, promoted
from chunkfold.kernels.bake_texts import joined
from chunkfold.kernels.limbs import Limbs

VECTOR = "CHF_VEC(double)"


def terms_of(count: int) -> list[str]:
    """Name the terms of an expansion, the largest first."""
    return [f"a{n}" for n in range(count)]


def power(value: str, limbs: Limbs) -> str:
    """Return what of a value is summed, as an expression."""
    return value if limbs.degree == 1 else f"{value} * {value}"


def cascade(error: str, terms: Sequence[str], old: str, new: str, ctype: str) -> list[str]:
    """Add `error` to terms one by one; what is left of it stays there."""
    lines = []
    for term in terms:
        was, now = old.format(term), new.format(term)
        lines += [
            f"{{ const {ctype} t = {was} + {error}, z = t - {was};",
            f"  {error} = ({was} - (t - z)) + ({error} - z); {now} = t; }}",
        ]
    return lines


def indented(lines: Sequence[str]) -> str:
    """Put lines below each other, as the body of a function."""
    return joined("    " + line for line in lines)


def spread(names: Sequence[str], source: str) -> str:
    """Store the lanes of vectors in arrays `<name>_`."""
    return " ".join(
        f"double {name}_[CHF_LANES]; CHF_SPREAD({source.format(name)}, {name}_);" for name in names
    )


def step(c: str, part: Component, accumulator: Accumulator) -> str:
    """Return how one element is taken in: its own state is an accumulator."""
    field = part.fields[0]
    return f"""\
typedef {c}_t {c}_state;
static void {c}_begin({c}_state *state) {{ *state = {c}_zero(); }}
{head(c, part, accumulator)}
    double y;
{assign(part, "y", "float64", f"lift of {field.name}", field.lift)}
    {c}_take(state, y);
}}
static {c}_t {c}_end({c}_state s) {{ return s; }}"""


def vector_step(
    c: str, part: Component, accumulator: Accumulator, added: str, keep: str, mend: str
) -> str:
    """Return how lanes of elements `y` are taken in.

    `added` makes `now` of the state and `found`, which is not 0 where something was left over;
    `keep` puts `now` in the state's place if nothing was, else `mend` is called.
    """
    field = part.fields[0]
    absent = f"y = select(y, ({VECTOR})(0), CHF_TO(long, absent));" if part.skipna else ""
    return f"""\
static void {c}_steps({c}_states *state, const values_t *v, ulong i0, ulong di)
{{
    {promoted(accumulator)}
    {mask(part, accumulator)}
    {VECTOR} y;
{assign_lanes(part, "y", "float64", f"lift of {field.name}", field.lift)}
    {absent}
    {c}_states now = *state;
{added}
    if (!chf_any_left(found)) {{
        {keep}
        return;
    }}
    /* Copies: what has an address is kept in memory. */
    {c}_states kept = *state, next = now;
    {mend}
    *state = kept;
}}"""
