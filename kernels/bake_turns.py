"""Bake how the lanes of eight runs are joined and turned: a lane for each run comes of them.

Pairs of runs are joined half by half, then pairs of those quarter by quarter, then lane by lane:
seven joins, where to join the lanes of every run by themselves took three for each.
"""

from __future__ import annotations

from collections.abc import Mapping

from chunkfold.kernels.accumulator import Accumulator
from chunkfold.kernels.bake_texts import joined, named
from chunkfold.kernels.bake_vectors import in_common, of_two, on_vectors
from chunkfold.kernels.component import Component
from chunkfold.kernels.dtypes import FIELD
from chunkfold.kernels.texts import OPERAND_FIELD, fits_lanes

_LEVELS = (("halves", 4), ("quarters", 2), ("lanes", 1))
"""What pairs are joined by, and how far apart the runs of a pair are."""


def turns(accumulator: Accumulator) -> str:
    """Return `chf_turn`, if vectors join every state in little work."""
    holders = [(c, part) for c, h, part in named(accumulator) if c == h]
    if not all(_turns(part, accumulator) for _, part in holders):
        return "#define CHF_TURNS 0"
    # Unrolled, or PoCL's compiler leaves them in memory.
    steps = [
        f"""\
    #pragma unroll
    for (int r = 0; r < {apart}; r++)
        runs[r].{c} = {c}_by_{level}(runs[r].{c}, runs[r + {apart}].{c});"""
        for c, _ in holders
        for level, apart in _LEVELS
    ]
    return f"""\
#ifdef CHF_BLOCKS
#define CHF_TURNS 1
static void chf_turn(states_t *runs, states_t *lanes)
{{
{joined(steps)}
    {" ".join(f"lanes->{c} = {c}_both(lanes->{c}, runs[0].{c});" for c, _ in holders)}
}}
#endif"""


def _turns(part: Component, accumulator: Accumulator) -> bool:
    """Whether vectors join a component's states in little work.

    What first elements set takes more: variances of float32 were a tenth slower. A user's join may
    mix fields of several dtypes, which vectors cannot.
    """
    if part.table or part.limbs or not on_vectors(part, accumulator):
        return False
    state = part.state
    if state is None:
        return True
    if not state.join or state.first or in_common(part):
        return False
    dtypes = state.dtypes
    return all(
        fits_lanes(text)
        and {dtypes[read] for read in OPERAND_FIELD.findall(text)} <= {dtypes[name]}
        for name, text in state.join
    )


def pairs(c: str, part: Component, accumulator: Accumulator) -> str:
    """Return how two of component `c`'s lanes are joined: as they are, and as pairs of runs."""
    if not _turns(part, accumulator):
        return ""
    if part.state:
        fields = part.state.dtypes
        texts = {name: (fields[name], text) for name, text in part.state.join}
        both = of_two(part, f"{c}_both", f"{c}_states", "accumulate.join", texts)
    else:
        fields = {f.name: f.dtype for f in part.fields}
        both = f"#define {c}_both {c}_merged"
    levels = (_pair(c, level, fields) for level, _ in _LEVELS)
    return joined(["#ifdef CHF_BLOCKS", both, *levels, "#endif"])


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
    {c}_states low, high;
    {" ".join(sides)}
    return {c}_both(low, high);
}}"""
