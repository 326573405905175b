"""Bake how lanes become accumulators as vectors, where their ends mean the same on vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from chunkfold.kernels.accumulator import Accumulator
from chunkfold.kernels.bake_texts import joined
from chunkfold.kernels.bake_vectors import assign_lanes, in_common, on_vectors
from chunkfold.kernels.component import Component
from chunkfold.kernels.dtypes import FIELD
from chunkfold.kernels.texts import fits_lanes


def ends_on_vectors(part: Component, accumulator: Accumulator) -> bool:
    """Whether lanes become accumulators as vectors: `<component>_ended`, unless they are some."""
    ends = part.state.end if part.state else ()
    return on_vectors(part, accumulator) and all(fits_lanes(text) for _, text in ends)


def are_accumulators(part: Component) -> bool:
    """Whether lanes are accumulators as they are: field by field the same, from their zero on."""
    state = part.state
    if state is None:
        return True
    zeros = tuple((f.name, f.dtype, f.zero) for f in part.fields)
    ends = tuple((f.name, f"s.{f.name}") for f in part.fields)
    return (state.fields, state.end, state.first) == (zeros, ends, ()) and not in_common(part)


def vector_accumulators(c: str, part: Component, held: Callable[[str, str, str], str]) -> str:
    """Return what makes vectors of accumulators of lanes; `held` is what they have of a field."""
    state = part.state
    assert state is not None
    dtypes = {f.name: f.dtype for f in part.fields}
    lanes = [f"    s.{name} = {held(name, dtype, start)};" for name, dtype, start in state.fields]
    ends = [
        assign_lanes(part, f"r.{name}", dtypes[name], f"accumulate.end of {name}", text)
        for name, text in state.end
    ]
    return f"""\
typedef struct {{ {_members(dtypes)} }} {c}_accs;
static {c}_accs {c}_ended(const {c}_states *l)
{{
    struct {{ {_members(state.dtypes)} }} s;
{joined(lanes)}
    {c}_accs r;
{joined(ends)}
    return r;
}}"""


def _members(dtypes: Mapping[str, str]) -> str:
    return " ".join(f"CHF_VEC({FIELD[dtype]}) {name};" for name, dtype in dtypes.items())
