"""A monoid's own way to take in elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Number = int | float
CARRY_AFTER = 1 << 15
"""Elements after which a stream's narrow state is emptied at the latest."""
Expressions = Mapping[str, Any]
"""An expression for each field: a symbol, or a number."""
SymbolFunction = Callable[..., Any]
"""A function of symbols that returns expressions."""


@dataclass(frozen=True)
class Accumulate:
    """A monoid's own fold of elements, with a state inside a kernel.

    Each part is a function of symbols that returns a mapping of fields and expressions. Its
    parameters are states, whose fields are read as `s.name`; the element of each input; and, if it
    has one more, the element's index. All fields are read before any is set.

    `step(s, x)` gives each state field after one more element, but those of `first`; `end(s)` gives
    fields of the monoid.

    `first(x)` gives state fields that the first element of a stream sets, before its step; no step
    changes them. So a step need not test for the first element.

    `carry(s)` lets a state have a narrow part, which fills vectors with more lanes than a wide one:
    it sets the state fields that it names before `end`, and at least once every 32,768 elements.
    """

    state: Mapping[str, str]
    """Dtype (or rule) of each state field."""
    start: Mapping[str, Number | str]
    """Initial value of each state field."""
    step: SymbolFunction
    """Each state field after one more element."""
    end: SymbolFunction | Mapping[str, SymbolFunction]
    """Accumulator fields of a state; those with named ops may be left out, and are folded from
    `lift` by themselves."""
    first: SymbolFunction | None = None
    """State fields that the first element sets; `step` leaves them out."""
    carry: SymbolFunction | None = None
    """Empties narrow fields into wide ones."""
