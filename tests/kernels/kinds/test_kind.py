"""Every kind of component: its source has what it says, and nothing is defined that it denies."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from chunkfold.kernels import Accumulator, as_monoid, bind, histogram
from chunkfold.kernels.kinds import kinds_of
from chunkfold.kernels.kinds.kind import Kind
from chunkfold.kernels.kinds.position import only_positions
from chunkfold.kernels.listing.preprocessed import preprocessed
from chunkfold.kernels.program.header import header

LOOKS = {"look", "farthest", "nearer"}
"""Of positions, where nothing else is folded."""
OPTIONS = {"LANES": 8, "WIDTH": 8, "UNROLL": 1, "STRIP": 1, "CPU": 1, "STAGE": 0}


def accumulator(*ops: str, dtype: str = "f4", **options: Any) -> Accumulator:
    monoids = [histogram([0, 1, 2]) if op == "histogram" else as_monoid(op) for op in ops]
    dtypes = [np.dtype(dtype)] * monoids[0].inputs
    return bind(monoids, dtypes, **options).accumulator


CASES = {
    "plain": accumulator("sum", "min", "count"),
    "stream": accumulator("sum", dtype="i2"),
    "stream with a first element": accumulator("var"),
    "stream whose elements may be absent": accumulator("nanvar"),
    "streams that share a state": accumulator("minmax"),
    "position": accumulator("argmin"),
    "positions whose elements may be absent": accumulator("nanargmin", "argmax"),
    "position beside a sum": accumulator("argmin", "sum"),
    "counters": accumulator("histogram", "sum"),
    "limbs": accumulator("sum", "std", dtype="f8", exact=True),
    "limbs of polynomials": accumulator("dot", exact=True),
    "compact": accumulator("nansum", "nanstd", exact=True).for_outputs(2),
    "not in vectors": accumulator("sum", dtype="c8", exact=True),
    "without float64": accumulator("sum", exact=True, fp64=False),
}


def defined(made: Accumulator) -> dict[str, set[str]]:
    """Functions that the header of an accumulator defines, by component."""
    given = [f"-DCHF_{name}={value}" for name, value in OPTIONS.items()]
    pasted = "#define CHF_PASTE_(a, b) a##b\n#define CHF_PASTE(a, b) CHF_PASTE_(a, b)\n"
    names = "#define CHF_OF(name) CHF_PASTE(CHF_C, _##name)\n"
    text = preprocessed(pasted + names + header(made), given)
    found: dict[str, set[str]] = {}
    for line in text.splitlines():
        if line.startswith("static "):
            for name, function in re.findall(r"\b(c\d+)_(\w+)\(", line.partition("{")[0]):
                found.setdefault(name, set()).add(function)
    return found


def promised(kind: Kind) -> set[str]:
    names = {"zero", "op", "end", "ends"} if kind.in_accumulator else set()
    if kind.is_holder:
        names |= {"begin", "step", "begins", "steps"}
    if kind.is_exact and kind.on_vectors:
        assert kind.component.limbs
        names |= {"adds", "elements", "try"} if kind.component.limbs.power else {"adds"}
    if only_positions(kinds_of(kind.accumulator)):
        names |= LOOKS
    says = {
        "firsts": kind.has_firsts,
        "carries": kind.has_carries,
        "keep": kind.has_keep,
        "settle": kind.has_settle,
        "ended": kind.has_ended and not kind.is_exact,
    }
    return names | {name for name, there in says.items() if there}


@pytest.mark.parametrize("case", CASES)
def test_a_kind_defines_what_it_says_and_no_more(case: str):
    found = defined(CASES[case])
    optional = {"firsts", "carries", "keep", "settle", "ended", *LOOKS}
    for kind in kinds_of(CASES[case]):
        names = found[kind.name]
        assert promised(kind) <= names
        denied = optional - promised(kind)
        assert not denied & names
        assert ("attach" in names) == (kind.component.table is not None)
