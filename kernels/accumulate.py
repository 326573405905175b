"""A monoid's own way to take in elements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Number = int | float
CARRY_AFTER = 1 << 15
"""Elements after which a stream's narrow state is emptied at the latest."""


@dataclass(frozen=True)
class Accumulate:
    """A monoid's own way to take in elements, with state that lives inside a kernel.

    `step` is OpenCL C that updates `s.<state field>` from `x` (`x0`, `x1`, ... of several
    inputs) and the index `i`: statements, or an expression per state field but those of `first`,
    assigned in the order given. `end` gives each field of the monoid as an expression of `s`.

    `first` gives state fields that the first element of a stream sets, before its step; no step
    changes them. What a step would do once in a fold, it need not look for at each element.

    `carry` lets a state have a narrow part, which fills vectors with more lanes than a wide one:
    it is assigned to the state fields that it names, in the order given, before `end` and at least
    once every 32,768 elements.

    `join` gives each state field of one state that stands for the elements of two, `a` and `b`.
    Where it is less work than to `end` both and `op` them, short rows are faster with it.
    `join_alike` does it for parts of one stream, which the same first element began: it gives the
    fields that `first` leaves out.
    """

    state: Mapping[str, str]
    """Dtype (or rule) of each state field."""
    start: Mapping[str, Number | str]
    """Initial value of each state field."""
    step: str | Mapping[str, str]
    """Run once per element."""
    end: Mapping[str, str]
    """Accumulator fields as expressions of the state; those with named ops may be left out, and
    are folded from `lift` by themselves."""
    first: Mapping[str, str] = field(default_factory=dict)
    """State fields that the first element sets, as expressions of it; `step` leaves them out."""
    carry: Mapping[str, str] = field(default_factory=dict)
    """Empties narrow fields into wide ones."""
    join: Mapping[str, str] = field(default_factory=dict)
    """Each state field of two states' elements."""
    join_alike: Mapping[str, str] = field(default_factory=dict)
    """Each but those of `first`, which are the same in both."""
