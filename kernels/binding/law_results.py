"""Results that a law says are the same: whether they differ, and how a counter-example is told."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from chunkfold.kernels.accumulator.component import Component
from chunkfold.kernels.binding.law_folds import PLACES

_SHOWN = 6
"""Elements of a sequence that a counter-example shows."""


def rounding_of(values: np.ndarray) -> float:
    """Return what one rounding may change, relative; 0 of integers."""
    return float(np.finfo(values.dtype).eps) if values.dtype.kind == "f" else 0.0


def largest_of(values: np.ndarray) -> np.ndarray:
    """Return the largest magnitude met on the way, as float64; NaN where one is NaN."""
    largest: np.ndarray = np.abs(values.astype(np.float64)).max(axis=0)
    return largest


def where_apart(u: np.ndarray, v: np.ndarray, most: np.ndarray) -> np.ndarray:
    """Return where two differ by more than that; NaN equals NaN."""
    differ = np.asarray((u != v) & ~((u != u) & (v != v)))
    if u.dtype.kind == "f":
        with np.errstate(invalid="ignore", over="ignore"):
            differ &= ~(np.abs(u.astype(np.float64) - v.astype(np.float64)) <= most)
    return differ


def where_oddly_apart(one: np.ndarray, other: np.ndarray, of: float) -> np.ndarray:
    """Return where one result is NaN and the other not; or both are 0, of unlike signs."""
    if one.dtype.kind != "f":
        return one != other if of != of else np.zeros(one.shape, bool)
    if of != of:
        return np.asarray(np.isnan(one) != np.isnan(other))
    return np.asarray((one == 0) & (other == 0) & (np.signbit(one) != np.signbit(other)))


def counter_example(
    part: Component,
    fields: Mapping[str, np.ndarray],
    law: str,
    left: str,
    right: str,
    triple: int,
) -> str:
    """Tell a triple of accumulators that breaks a law."""

    def shown(place: str) -> str:
        row = PLACES.index(place)
        return ", ".join(f"{name}={array[row, triple].item()!r}" for name, array in fields.items())

    used = sorted(set(re.findall(r"\b[abc]\b", f"{left} {right}")))
    known = "; ".join(f"{name} is ({shown(name)})" for name in used)
    return (
        f"monoid {part.origin!r}: {law}: where {known}, {left} is ({shown(left)}), but {right} is "
        f"({shown(right)})"
    )


def other_result(
    part: Component, fields: Mapping[str, np.ndarray], plain: int, way: int, length: int
) -> int | None:
    """Return an order whose result, by one way, is not that of the first order, by op.

    Orders in which anything overflows are passed over.
    """
    largest = {name: largest_of(array) for name, array in fields.items()}
    usable = np.logical_and.reduce([np.isfinite(one) for one in largest.values()])
    differ = np.zeros(usable.shape, bool)
    for name, array in fields.items():
        rtol = max(part.rtol or 0.0, length * rounding_of(array))
        most = rtol * np.maximum(largest[name], largest[name][0])
        differ |= where_apart(array[plain, 0], array[way], most)
    found = np.flatnonzero(differ & usable & usable[0])
    return int(found[0]) if found.size else None


def disagreement(
    part: Component,
    elements: np.ndarray,
    results: Mapping[str, tuple[np.generic, np.generic]],
    how: str,
) -> str:
    """Tell elements that give two results, each in an order of their own."""
    shown = ", ".join(map(str, elements[:_SHOWN]))
    one, other = (
        ", ".join(f"{name}={pair[side].item()!r}" for name, pair in results.items())
        for side in (0, 1)
    )
    return (
        f"monoid {part.origin!r}: its result depends on the order of elements: {len(elements):,} "
        f"of them (x is {shown}, ...) give ({one}) one after another, but ({other}) {how}in "
        "another order and in parts; mend them, or give rtol if rounding is all the difference"
    )
