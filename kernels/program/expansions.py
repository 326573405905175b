"""What exact sums share in kernels, with limbs behind them or not: additions to expansions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.accumulator.component import Component
from chunkfold.kernels.exact.limbs import Limbs
from chunkfold.kernels.expressions.nodes import Node
from chunkfold.kernels.expressions.operations import cast
from chunkfold.kernels.expressions.style import LANES, ONE
from chunkfold.kernels.program.components import head
from chunkfold.kernels.program.texts import assigned, joined
from chunkfold.kernels.program.vectors import mask, named_lanes

VECTOR = "CHF_VEC(double)"


def terms_of(count: int) -> list[str]:
    """Name the terms of an expansion, the largest first."""
    return [f"a{n}" for n in range(count)]


def power(value: str, limbs: Limbs) -> str:
    """Return what of a value is summed, as an expression."""
    return value if limbs.power == 1 else f"{value} * {value}"


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
{assigned([("y", field.lift)], ONE)}
    {c}_take(state, y);
}}
static {c}_t {c}_end({c}_state s) {{ return s; }}"""


def each_lane(c: str, function: str, states: str, terms: Sequence[str], *, table: bool) -> str:
    """Return how a function of one accumulator and a double takes in the lanes of `y` in turn."""
    loads = " ".join(f"one.{term} = {term}_[j];" for term in terms)
    stores = " ".join(f"{term}_[j] = one.{term};" for term in terms)
    gathers = " ".join(f"{states}->{term} = CHF_GATHER(0, {term}_);" for term in terms)
    attach = f"one.table = {states}->table + j * {states}->stride;" if table else ""
    return f"""\
    {spread(["y"], "{}")}
    {spread(terms, states + "->{}")}
    for (int j = 0; j < CHF_LANES; j++) {{
        {c}_t one;
        {loads} {attach}
        {function}(&one, y_[j]);
        {stores}
    }}
    {gathers}"""


def adds(c: str, terms: Sequence[str], first: Sequence[str], *, table: bool) -> str:
    """Return how lanes of doubles are added, which are no elements: what they are sums of was seen.

    `first` are the terms that each goes through; only what that leaves over is seen lane by lane.
    """
    return f"""\
#if CHF_STRIP
static CHF_RARE void {c}_add_each({c}_states *s, {VECTOR} y)
{{
{each_lane(c, f"{c}_add", "s", terms, table=table)}
}}
static void {c}_adds({c}_states *s, {VECTOR} y)
{{
    {c}_states now = *s;
    {VECTOR} left = y;
{indented(cascade("left", first, "s->{}", "now.{}", VECTOR))}
    if (chf_any_left(CHF_AS(ulong, left)))
        {c}_add_each(s, y);
    else
        *s = now;
}}
#endif"""


@dataclass(frozen=True)
class Taken:
    """Texts of how lanes of elements `y` are taken in."""

    added: str
    """Makes `now` of the state."""
    left: str
    """Bits that are 0 where nothing is left over."""
    found: str
    """Doubles that are 0 where nothing is left over, nor anything else to be seen to."""
    keep: str
    """Puts `now` in the state's place."""
    mend: str
    """Makes `kept`, the state, and `next`, a copy of `now`, what they should be: seldom."""


TINY = "CHF_TO(ulong, (CHF_AS(ulong, {0}) << 1) - 1 < (CHF_LEAST_BITS << 1) - 1)"
"""Not 0 where a double is too small for its square's error to be one, but not 0 itself."""


def elements(part: Component, accumulator: Accumulator) -> str:
    """Return how lanes of elements are made doubles, `y`; of absent ones 0."""
    field = part.fields[0]
    absent = (
        f"y = select(y, ({VECTOR})(0), CHF_TO(long, absent));" if part.absent is not None else ""
    )
    return f"""\
    {named_lanes(accumulator)}
    {mask(part)}
    {VECTOR} y;
{assigned([("y", _as_double(field.lift))], LANES)}
    {absent}"""


def _as_double(tree: Node) -> Node:
    return cast(tree, np.dtype(np.float64))


def vector_step(c: str, part: Component, accumulator: Accumulator, taken: Taken) -> str:
    """Return how lanes of elements `y` are taken in, on trial and for good.

    On trial, the state is worthless where something was left over; for good, it is mended there.
    """
    takes = f"({c}_states *state, const values_t *v, ulong i0, ulong di)"
    adds = f"""\
{elements(part, accumulator)}
    {c}_states now = *state;
{taken.added}"""
    return f"""\
static CHF_VEC(ulong) {c}_try{takes}
{{
{adds}
    {taken.keep}
    return {taken.left};
}}
static void {c}_steps{takes}
{{
{adds}
    const {VECTOR} found = {taken.found};
    if (!chf_any_left(CHF_AS(ulong, found))) {{
        {taken.keep}
        return;
    }}
    /* Copies: what has an address is kept in memory. */
    {c}_states kept = *state, next = now;
    {taken.mend}
    *state = kept;
}}"""
