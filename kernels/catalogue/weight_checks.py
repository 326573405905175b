"""Checks of weights that say how often an element counts: none is below zero, but by rounding.

Each result has its weights looked at in the read that it is made of. As no weight is known to be
the largest before all are seen, those below zero are left out of sums, which is right if they are
only below it by rounding, and else the result is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from chunkfold.kernels.errors import MonoidError
from chunkfold.kernels.expressions.library import real, where
from chunkfold.kernels.monoid.finish_context import Context, Fields
from chunkfold.kernels.monoid.monoid import Monoid

ROUNDING = 1e-6
"""Weights below zero by less than this share of the largest are zero."""
WHY = "weights say how often an element counts"
FIELDS = MappingProxyType({"least": "real", "most": "real", "negative": "int64"})
ZERO = MappingProxyType({"least": "highest", "most": "lowest", "negative": "highest"})
OP = MappingProxyType({"least": "min", "most": "max", "negative": "min"})
_NOWHERE = int(np.iinfo(np.int64).max)


def clipped_weight(w: Any) -> Any:
    """Return a weight, or zero if it is below zero."""
    w = w.real
    return where(w < 0, 0, w) if w.dtype.kind in "if" else w


def seen(w: Any, i: Any) -> dict[str, Any]:
    """Return the fields of a weight, given its index."""
    w = w.real
    return {"least": real(w), "most": real(w), "negative": where(w < 0, i, _NOWHERE)}


def are_negative(least: np.ndarray, most: np.ndarray) -> np.ndarray:
    """Return True where the least weight is below zero by more than rounding, given the largest."""
    return least < -ROUNDING * np.where(most > 0, most, 1)


def refuse_negative(fields: Fields, context: Context) -> None:
    """Refuse weights below zero, by what was seen of them.

    Raises
    ------
    MonoidError
        If a result has some, with the place of the first in what is selected.
    """
    bad = are_negative(fields["least"], fields["most"])
    if not bad.any():
        return
    first = np.unravel_index(fields["negative"][bad].min(), context.shape)
    place = ", ".join(map(str, first))
    raise MonoidError(
        f"{context.told} has weights below zero: the first stands at [{place}] of what is "
        f"selected, and the least is {fields['least'].min():g}; {WHY}: give zero or more, or "
        "leave the others out by a mask"
    )


def checked(monoid: Monoid) -> Monoid:
    """Return the form of a reduction that refuses weights below zero, its last input."""
    lift: Any = monoid.lift
    if isinstance(lift, Mapping):
        parts = {name: partial(_clipped, part) for name, part in lift.items()}
        sums: Callable[..., dict[str, Any]] = partial(_each, parts)
    else:
        sums = partial(_clipped, lift)
    known = monoid.op
    assert known == "add"
    return replace(
        monoid,
        fields={**monoid.fields, **FIELDS},
        zero={**monoid.zero, **ZERO},  # type: ignore[dict-item]
        lift=_of_two(sums) if monoid.inputs == 2 else _of_three(sums),
        op={**dict.fromkeys(monoid.fields, known), **OP},
        finish=partial(_finished, monoid.finish),
        exact=None if monoid.exact is None else checked(monoid.exact),
        instead={kinds: checked(one) for kinds, one in monoid.instead.items()},
    )


def _clipped(part: Callable[..., Any], *inputs: Any) -> Any:
    *elements, weight = inputs
    return part(*elements, clipped_weight(weight))


def _each(parts: Mapping[str, Callable[..., Any]], *inputs: Any) -> dict[str, Any]:
    return {name: part(*inputs) for name, part in parts.items()}


def _of_two(sums: Callable[..., dict[str, Any]]) -> Callable[..., Any]:
    return lambda x, w, i: {**sums(x, w), **seen(w, i)}


def _of_three(sums: Callable[..., dict[str, Any]]) -> Callable[..., Any]:
    return lambda x, y, w, i: {**sums(x, y, w), **seen(w, i)}


def _finished(finish: Callable[..., Any], fields: Any, context: Context) -> Any:
    refuse_negative(fields, context)
    return finish({name: one for name, one in fields.items() if name not in FIELDS}, context)
