"""Emit how the lanes of eight runs are joined and turned: a lane for each run comes of them.

Pairs of runs are joined half by half, then pairs of those quarter by quarter, then lane by lane:
seven joins, where to join the lanes of every run by themselves takes three for each.
"""

from __future__ import annotations

from collections.abc import Mapping

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.accumulator.component import Component
from chunkfold.kernels.dtypes import FIELD
from chunkfold.kernels.geometry import SHORT_RUN
from chunkfold.kernels.program.joins import joins
from chunkfold.kernels.program.states import has_firsts
from chunkfold.kernels.program.texts import joined, named
from chunkfold.kernels.program.vectors import in_common, of_two, on_vectors

_LEVELS = (("halves", 4), ("quarters", 2), ("lanes", 1))
"""What pairs are joined by, and how far apart the runs of a pair are."""
_FIRSTS_BYTES = 4
"""Element up to which states are turned that first elements set something of, and that take more to
do."""
_LEAST_RUN, _ELEMENTS_A_FIELD = 32, 8
"""Elements of a run from which on states are turned, by the fields that are."""


def long_run(accumulator: Accumulator) -> int | None:
    """Return the elements of a run from which on states are turned; None if they never are."""
    holders = _holders(accumulator)
    if not all(_turns(part, accumulator) for _, part in holders):
        return None
    fields = sum(len(_turned_fields(part)) for _, part in holders)
    run = max(_LEAST_RUN, fields * _ELEMENTS_A_FIELD)
    return run if run <= SHORT_RUN else None


def _holders(accumulator: Accumulator) -> list[tuple[str, Component]]:
    return [(c, part) for c, h, part in named(accumulator) if c == h]


def turns(accumulator: Accumulator) -> str:
    """Return `chf_turn`, if vectors join every state in little work, and what runs begin with."""
    if long_run(accumulator) is None:
        return "#define CHF_TURNS 0"
    holders = _holders(accumulator)
    # Unrolled, or PoCL's compiler leaves them in memory.
    steps = [
        f"""\
    #pragma unroll
    for (int r = 0; r < {apart}; r++)
        runs[r].{c} = {c}_by_{level}(runs[r].{c}, runs[r + {apart}].{c});"""
        for c, _ in holders
        for level, apart in _LEVELS
    ]
    firsts = [
        (f"{c}_{name}", f"{c}.{name}", FIELD[part.state.dtypes[name]])
        for c, part in holders
        if part.state
        for name, _ in part.state.first
    ]
    members = " ".join(f"{ctype} {member}[CHF_LANES];" for member, _, ctype in firsts)
    spreads = " ".join(f"CHF_SPREAD(lanes->{at}, f->{member});" for member, at, _ in firsts)
    begins = " ".join(
        f"s->{at} = (CHF_VEC({ctype}))(f->{member}[r]);" for member, at, ctype in firsts
    )
    return f"""\
#ifdef CHF_BLOCKS
#define CHF_TURNS 1
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
    {" ".join(f"lanes->{c} = {c}_both(lanes->{c}, runs[0].{c});" for c, _ in holders)}
}}
#endif"""


def _turns(part: Component, accumulator: Accumulator) -> bool:
    """Whether vectors join a component's states in little work."""
    if part.table or part.limbs or not on_vectors(part, accumulator):
        return False
    state = part.state
    if state is None:
        return True
    if state.first and not has_firsts(part, accumulator):
        return False
    return bool(joins(state)) and not (state.first and max(accumulator.itemsizes) > _FIRSTS_BYTES)


def pairs(c: str, part: Component, accumulator: Accumulator) -> str:
    """Return how two of component `c`'s lanes are joined: as they are, and as pairs of runs."""
    if not _turns(part, accumulator):
        return ""
    both = f"#define {c}_both {c}_merged"
    if part.state:
        both = of_two(f"{c}_both", f"{c}_states", joins(part.state).items(), in_common(part))
    levels = (_pair(c, level, _turned_fields(part)) for level, _ in _LEVELS)
    return joined(["#ifdef CHF_BLOCKS", both, *levels, "#endif"])


def _turned_fields(part: Component) -> dict[str, str]:
    """Return the dtypes of fields of which lanes have a value each, and that are joined."""
    if part.state is None:
        return {f.name: f.dtype for f in part.fields}
    names = joins(part.state).keys() - in_common(part)
    return {name: dtype for name, dtype in part.state.dtypes.items() if name in names}


def _pair(c: str, level: str, fields: Mapping[str, str]) -> str:
    """Return how a pair of runs becomes one: what is low of both, and what is high."""
    sides = [
        f"{side}.{name} = (CHF_VEC({FIELD[dtype]}))({macro}(a.{name}, b.{name}));"
        for name, dtype in fields.items()
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
