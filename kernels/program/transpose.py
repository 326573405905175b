"""Emit how the lanes of eight runs are joined and turned: a lane for each run comes of them.

Pairs of runs are joined half by half, then pairs of those quarter by quarter, then lane by lane:
seven joins, where to join the lanes of every run by themselves takes three for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.dtypes import FIELD
from chunkfold.kernels.geometry import SHORT_RUN
from chunkfold.kernels.kinds import kinds_of
from chunkfold.kernels.kinds.kind import Kind
from chunkfold.kernels.opencl.element_code import of_two
from chunkfold.kernels.opencl.opencl_code import joined

_LEVELS = (("halves", 4), ("quarters", 2), ("lanes", 1))
"""What pairs are joined by, and how far apart the runs of a pair are."""
_LEAST_RUN, _ELEMENTS_A_FIELD = 32, 8
"""Elements of a run from which on states are turned, by the fields that are."""


def long_run(accumulator: Accumulator) -> int | None:
    """Return the elements of a run from which on states are turned; None if they never are."""
    return _long_run([kind for kind in kinds_of(accumulator) if kind.is_holder])


def _long_run(holders: Sequence[Kind]) -> int | None:
    if not all(kind.joins for kind in holders):
        return None
    fields = sum(len(kind.joins.keys() - kind.common) for kind in holders)
    run = max(_LEAST_RUN, fields * _ELEMENTS_A_FIELD)
    return run if run <= SHORT_RUN else None


def turns(kinds: Sequence[Kind]) -> str:
    """Return `chf_turn`, if vectors join every state in little work, and what runs begin with."""
    holders = [kind for kind in kinds if kind.is_holder]
    if _long_run(holders) is None:
        return "#define CHF_TURNS 0"
    names = [kind.name for kind in holders]
    # Unrolled, or PoCL's compiler leaves them in memory.
    steps = [
        f"""\
    #pragma unroll
    for (int r = 0; r < {apart}; r++)
        runs[r].{c} = {c}_by_{level}(runs[r].{c}, runs[r + {apart}].{c});"""
        for c in names
        for level, apart in _LEVELS
    ]
    firsts = [
        (f"{kind.name}_{name}", f"{kind.name}.{name}", FIELD[kind.component.state.dtypes[name]])
        for kind in holders
        if kind.component.state
        for name, _ in kind.component.state.first
    ]
    members = " ".join(f"{ctype} {member}[CHF_LANES];" for member, _, ctype in firsts)
    spreads = " ".join(f"CHF_SPREAD(lanes->{at}, f->{member});" for member, at, _ in firsts)
    begins = " ".join(
        f"s->{at} = (CHF_VEC({ctype}))(f->{member}[r]);" for member, at, ctype in firsts
    )
    both = " ".join(f"lanes->{c} = {c}_both(lanes->{c}, runs[0].{c});" for c in names)
    return f"""\
#ifdef CHF_BLOCKS
#define CHF_TURNS 1
{joined(map(_pairs, holders))}
typedef struct {{ {members or "int none;"} }} firsts_t;
static void chf_first_of(const states_t *lanes, firsts_t *f) {{ {spreads} }}
static void chf_begin_run(states_t *s, const firsts_t *f, int r)
{{
    chf_begins(s);
    {begins}
}}
static void chf_turn(states_t *runs, states_t *lanes)
{{
{joined(steps)}
    {both}
}}
#endif"""


def _pairs(kind: Kind) -> str:
    """Return how two of a component's lanes are joined: as they are, and as pairs of runs."""
    c = kind.name
    both = of_two(f"{c}_both", f"{c}_states", kind.joins.items(), kind.common)
    own = {
        name: FIELD[tree.dtype.name] for name, tree in kind.joins.items() if name not in kind.common
    }
    return joined([both, *(_pair(c, level, own) for level, _ in _LEVELS)])


def _pair(c: str, level: str, fields: Mapping[str, str]) -> str:
    """Return how a pair of runs becomes one: what is low of both, and what is high."""
    sides = [
        f"{side}.{name} = (CHF_VEC({ctype}))({macro}(a.{name}, b.{name}));"
        for name, ctype in fields.items()
        for side in ("low", "high")
        for macro in [f"CHF_{side}_{level}".upper()]
    ]
    return f"""\
static {c}_states {c}_by_{level}({c}_states a, {c}_states b)
{{
    {c}_states low = a, high = b;
    {" ".join(sides)}
    return {c}_both(low, high);
}}"""
