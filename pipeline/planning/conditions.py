"""Conditions of elements, by which `where` leaves some out."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

Where = Any
"""A condition of elements: a function of symbols, or its text; or a mask, an array of bools; or a
tuple of these."""


def is_condition(where: Any) -> bool:
    """Tell if it is a condition, rather than a mask."""
    return isinstance(where, str) or callable(where)


def all_of(conditions: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    """Return a condition that holds where all of these do."""
    if len(conditions) == 1:
        return conditions[0]
    return lambda *elements: functools.reduce(operator.and_, (one(*elements) for one in conditions))
