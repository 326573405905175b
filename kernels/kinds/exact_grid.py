"""Emit how exact sums are added up on a grid: without an error, and so without a look at each.

Where all elements of a batch are multiples of one power of two, the grid, and none is much larger,
the sums of so many are doubles (Rump, Ogita, Oishi, "Accurate floating-point summation I", 2008,
section 3). What is too long for that is cut in two: added to 1.5 * 2**k it is rounded to a multiple
of that one's last place, and what is cut off is a double too (ibid., ExtractVector).

Elements are below 2**(top + 1), and are 0 or at least 2**least, top - least being the span. Of so
many as 2**L, L = LOG_COUNT:

- values of 24 bits, multiples of 2**(least - 23): L + top + 1 - (least - 23) <= 53.
- values of 53 bits, cut at k = top + 3 + L: what is cut off is at most 2**(k - 53), multiples of
  2**(least - 52): L + k - 53 - (least - 52) <= 53.
- squares of 24 bits, which fma cuts at k = 2 top + 4 + L, multiples of 2**(2 least - 46):
  L + k - 53 - (2 least - 46) <= 53.
- squares of 53 bits, as a double and its error. The double is cut at that k too, multiples of
  2**(2 least - 52): L + k - 53 - (2 least - 52) <= 53. Its error is at most 2**(2 top - 52), cut at
  k = 2 top - 50 + L, multiples of 2**(2 least - 104): L + k - 53 - (2 least - 104) <= 53.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chunkfold.kernels.dtypes import STORED
from chunkfold.kernels.exact.limbs import Limbs
from chunkfold.kernels.expressions.nodes import Node
from chunkfold.kernels.kinds.exact_sum import ExactSum
from chunkfold.kernels.kinds.kind import Kind
from chunkfold.kernels.opencl.element_code import mask, named_lanes
from chunkfold.kernels.opencl.opencl_code import generated, instance, joined, library

LOG_COUNT = 8
"""A lane adds up to 2**LOG_COUNT elements on one grid. More would leave less span, fewer would have
sums put into expansions more often."""


def has_grid(kinds: Sequence[Kind]) -> bool:
    """Return whether all exact sums add the first input's elements as vectors, without counters."""
    sums = _sums(kinds)
    return bool(sums) and all(
        kind.in_accumulator
        and (not kind.is_exact or (kind.on_vectors and _is_element(kind.component.fields[0].lift)))
        for kind in kinds
    )


def _is_element(tree: Node) -> bool:
    """Return whether a tree is a float of the first input or its magnitude (`chf_bound`)."""
    inner = tree.sources[0] if tree.op == "absolute" else tree
    return inner.op == "input" and inner.arg == (0, "") and inner.dtype.kind == "f"


def cuts_of(limbs: Limbs, *, short: bool) -> list[str]:
    """Return the k of each sum that is cut in two, of top; none where nothing is cut.

    `short` elements have 24 bits at most.
    """
    if limbs.power == 1:
        return [] if short else [f"top + {3 + LOG_COUNT}"]
    first = f"2 * top + {4 + LOG_COUNT}"
    return [first] if short else [first, f"2 * top - {50 - LOG_COUNT}"]


def span_of(limbs: Limbs, *, short: bool) -> int:
    """Return how many powers of two the smallest element may be below the largest."""
    if limbs.power == 1:
        return 29 - LOG_COUNT if short else 51 - 2 * LOG_COUNT
    return (28 if short else 25) - LOG_COUNT


def grid_sums(kinds: Sequence[Kind]) -> str:
    """Return the part of the states that sums on the grid are in, and how elements are bounded."""
    short, sums = _short(kinds), _sums(kinds)
    limbs = [kind.limbs for kind in sums.values()]
    bits, signed, mantissa, bias = (
        ("uint", "int", 23, 127) if short else ("ulong", "long", 52, 1023)
    )
    # Below: subnormals may be flushed. Above: what a sum begins with must be a double.
    paired = any(one.paired for one in limbs)
    floor, ceiling = (-126, 127) if short else (-480, 480) if paired else (-900, 900)
    ignored = zeroed = ""
    masks = {kind.component.ignored for kind in sums.values()}
    if len(masks) == 1 and None not in masks:
        ignored = mask(next(iter(sums.values())).component)
        zeroed = (
            "size = select(size, (CHF_VEC(CHF_BITS))(0), "
            "CHF_AS(CHF_BITS, CHF_TO(CHF_MASK, ignored)));"
        )
    return f"""\
#define CHF_GRID CHF_STRIP
#if CHF_GRID
#define CHF_GRID_COUNT {1 << LOG_COUNT}
#define CHF_GRID_SPAN {min(span_of(one, short=short) for one in limbs)}
#define CHF_GRID_FLOOR ({floor})
#define CHF_GRID_CEILING {ceiling}
#define CHF_BIAS {bias}
#define CHF_MANTISSA {mantissa}
#define CHF_BITS {bits}
#define CHF_MASK {signed}
{joined(_grid(kind, short=short) for kind in sums.values())}
{generated("all components together")}
typedef struct {{
    {" ".join(f"{c}_grid {c};" for c in sums)}
    CHF_BITS most, least; /* what bits of elements must be below, and one less than them not */
    int top;
    uint count; /* elements of a lane that were added */
}} chf_grid_t;
static void chf_bound(const values_t *v, CHF_VEC(CHF_BITS) *most, CHF_VEC(CHF_BITS) *least)
{{
    {named_lanes(kinds[0].accumulator)}
    {ignored}
    CHF_VEC(CHF_BITS) size = CHF_AS(CHF_BITS, x0) & ((CHF_BITS)-1 >> 1);
    {zeroed}
    *most = max(*most, size);
    *least = min(*least, size - 1); /* of 0 the largest there is */
}}
#define CHF_GRID_MEMBER chf_grid_t grid;
#else
#define CHF_GRID_MEMBER
#endif"""


def grid_steps(kinds: Sequence[Kind]) -> str:
    """Return how elements that are on the grid are taken in, and what is folded beside their sums.

    `chf_grid_joins` adds what lanes have on the grid to one state, and says whether it did: not
    where they have more than that. Short runs mostly do not.
    """
    sums = {c: _count(kind, short=_short(kinds)) for c, kind in _sums(kinds).items()}
    steps = [
        f"{c}_grid_step(&s->grid.{c}, v);" if c in sums else f"{c}_steps(&s->{c}, v, i, di);"
        for kind in kinds
        for c in [kind.name]
        if kind.is_holder
    ]
    joins = [f"{c}_grid_joins(&s->grid.{c}, s->grid.top, &s->{c}, {c}_sums)" for c in sums]
    adds = [
        f"for (int n = 0; n < {count}; n++) {c}_add(&one->{c}, {c}_sums[n]);"
        for c, count in sums.items()
    ]
    return f"""\
static void chf_grid_begins(chf_grid_t *g, int top)
{{
    {" ".join(f"{c}_grid_begins(&g->{c}, top);" for c in sums)}
}}
static void chf_grid_steps(states_t *s, const values_t *v, ulong i, ulong di)
{{
    {" ".join(steps)}
    s->grid.count++;
}}
static CHF_RARE void chf_leave_grid(states_t *s)
{{
    {" ".join(f"{c}_grid_ends(&s->grid.{c}, s->grid.top, &s->{c});" for c in sums)}
    s->grid.count = 0;
}}
static int chf_grid_joins(states_t *s, state_t *one)
{{
    if (!s->grid.count)
        return 0;
    {" ".join(f"double {c}_sums[{count}];" for c, count in sums.items())}
    const ulong left = {" | ".join(joins)};
    if (left)
        return 0;
    {" ".join(adds)}
    s->grid.count = 0;
    return 1;
}}"""


def grid_joined(kinds: Sequence[Kind]) -> str:
    """Return how lanes and a rest become one accumulator, where exact sums are in the rest."""
    return f"""\
#if CHF_GRID
static acc_t chf_joined(const states_t *lanes, const state_t *rest)
{{
    acc_t r;
{joined(map(_joined, kinds))}
    return r;
}}
#endif"""


def _joined(kind: Kind) -> str:
    """Return how a component is made of lanes and of a rest."""
    c, h = kind.name, kind.holder
    if kind.is_exact:
        return f"    r.{c} = {c}_end(rest->{c});"
    return f"""\
    {{
        {c}_t out[CHF_LANES];
        {c}_ends(&lanes->{h}, out);
        r.{c} = {c}_end(rest->{h});
        #pragma unroll
        for (int j = 0; j < CHF_LANES; j++)
            r.{c} = {c}_op(r.{c}, out[j]);
    }}"""


def _sums(kinds: Sequence[Kind]) -> Mapping[str, ExactSum]:
    return {kind.name: kind for kind in kinds if isinstance(kind, ExactSum)}


def _short(kinds: Sequence[Kind]) -> bool:
    """Return whether elements have at most 24 bits."""
    return STORED[kinds[0].accumulator.value[0]].value == "float"


def _grid(kind: ExactSum, *, short: bool) -> str:
    """Return a component's sums on the grid, and how elements are added to them."""
    cuts = cuts_of(kind.limbs, short=short)
    first, second, *_ = [*cuts, "0", "0"]
    return instance(
        kind.name,
        library("grid_sums.clh"),
        KEPT=kind.n_terms,
        POWER=kind.limbs.power,
        SUMS=_count(kind, short=short),
        CUTS=len(cuts),
        CUT0=f"({first})",
        CUT1=f"({second})",
    )


def _count(kind: ExactSum, *, short: bool) -> int:
    """Return how many sums there are on the grid."""
    return max(1, 2 * len(cuts_of(kind.limbs, short=short)))
