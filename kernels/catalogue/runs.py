"""Runs of elements that meet a condition, one behind another along an axis."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from chunkfold.kernels.errors import MonoidError
from chunkfold.kernels.expressions.library import where
from chunkfold.kernels.expressions.parsed import parsed, reads_map
from chunkfold.kernels.expressions.symbols import Symbol
from chunkfold.kernels.monoid.monoid import Monoid

_NAMED = re.compile(r"longest_run\((.*)\)", re.DOTALL)
_FIELDS = ("first", "last", "longest", "length")
"""Elements of the run that a piece begins with, of the one that it ends with, of its longest one,
and of all of it."""


def longest_run(condition: str | Callable[[Any], Any]) -> Monoid:
    """Return the reduction that gives how many elements, one behind another, meet a condition.

    It reduces one axis, in the order of what is selected along it: `cf.longest_run("x < 1")` of
    daily rain along time is the longest dry spell, in days.

    Parameters
    ----------
    condition
        A text, such as "x < 1", or a function of the element, as `lambda x: x < 1`.

    Returns
    -------
    A monoid, called `longest_run`, whose results are int64: 0 where no element meets the condition.
    NaN is an element as any other, of which most conditions do not hold: it ends a run.

    Raises
    ------
    MonoidError
        If it is no condition.
    """
    if isinstance(condition, str) and reads_map(condition):
        raise MonoidError(
            f"the condition {condition!r} of longest_run takes no map: write it with x only"
        )
    holds = parsed(condition) if isinstance(condition, str) else condition
    if not callable(holds):
        raise MonoidError(
            f"longest_run takes a condition, such as 'x < 1', or a function of x, not {condition!r}"
        )

    def lift(x: Symbol) -> dict[str, Any]:
        meets = where(holds(x), np.int64(1), np.int64(0))
        return dict.fromkeys(_FIELDS[:3], meets) | {"length": 1}

    return Monoid(
        "longest_run",
        fields=dict.fromkeys(_FIELDS, "int64"),
        zero=dict.fromkeys(_FIELDS, 0),
        lift=lift,
        op=join_runs,
        finish=lambda fields, _: fields["longest"],
        casts=False,
        in_order=True,
    )


def join_runs(a: Any, b: Any) -> dict[str, Any]:
    """Join two pieces that follow each other."""
    across = a.last + b.first
    return {
        "first": where(a.first == a.length, a.length + b.first, a.first),
        "last": where(b.last == b.length, b.length + a.last, b.last),
        "longest": np.maximum(np.maximum(a.longest, b.longest), across),
        "length": a.length + b.length,
    }


def named_run(op: str) -> Monoid | None:
    """Return the reduction that a text names, such as `longest_run(x < 1)`; None if it names none.

    Raises
    ------
    MonoidError
        If there is no condition in the brackets.
    """
    if op.strip() == "longest_run":
        raise MonoidError("longest_run takes a condition, as in 'longest_run(x < 1)'")
    found = _NAMED.fullmatch(op.strip())
    return None if found is None else longest_run(found[1])
