"""Axes that are reduced window by window: as xarray's `coarsen` has it."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np

from chunkfold.errors import PlanError
from chunkfold.grid import Axis
from chunkfold.selections import Selection
from chunkfold.sources.axis_names import (
    AxisOption,
    Named,
    axis_names,
    axis_numbers,
    normalized_axes,
)

_MOST_WINDOW = 1 << 40
"""Elements of a window, at most: no axis has as many."""
_End = Literal["exact", "trim", "pad"]
BOUNDARIES = get_args(_End)
Boundary = _End | Mapping[int | str, _End]


def check_windows(coarsen: Any, boundary: Any) -> None:
    """See that windows are such, and what becomes of the last ones is known.

    Raises
    ------
    PlanError
        If not.
    """
    if not isinstance(boundary, (str, Mapping)):
        known = ", ".join(map(repr, BOUNDARIES))
        raise PlanError(
            f"boundary is {reprlib.repr(boundary)}; use one of: {known}, or one by each axis's name"
        )
    if coarsen is None:
        if boundary != BOUNDARIES[0]:
            raise PlanError(
                f"boundary is {boundary!r}, but no windows are given: give them with coarsen="
            )
        return
    if not isinstance(coarsen, Mapping) or not coarsen:
        raise PlanError(
            f"coarsen is {reprlib.repr(coarsen)}; give the size of a window for each axis, as in "
            "coarsen={'y': 2, 'x': 2}"
        )
    for axis, window in coarsen.items():
        whole = isinstance(window, (int, np.integer)) and not isinstance(window, (bool, np.bool_))
        if not whole or not 1 <= window <= _MOST_WINDOW:
            raise PlanError(
                f"coarsen has a window of {window!r} for axis {axis!r}; give 1 to {_MOST_WINDOW:,}"
            )
    each = boundary.items() if isinstance(boundary, Mapping) else [("", boundary)]
    for axis, one in each:
        if isinstance(boundary, Mapping) and axis not in coarsen:
            raise PlanError(f"boundary names axis {axis!r}, for which coarsen has no window")
        if not isinstance(one, str) or one not in BOUNDARIES:
            raise PlanError(f"boundary is {one!r}; use one of: {', '.join(map(repr, BOUNDARIES))}")


def coarsened(
    chosen: Sequence[Axis],
    source: Named,
    selection: Selection,
    coarsen: Mapping[int | str, int],
    boundary: Boundary,
    axis: AxisOption,
) -> tuple[Axis, ...]:
    """Return what is selected along each axis, with windows along those that have some.

    Parameters
    ----------
    axis
        Axes that are reduced whole beside these; None: no others.

    Raises
    ------
    PlanError
        If there is no such axis, or it is named twice, or its elements fill no windows.
    """
    alive = [n for n, entry in enumerate(chosen) if not entry.dropped]
    named = [(_number(one, source, selection, alive), one) for one in coarsen]
    also = axis_numbers(source, axis if axis is not None else [], selection)
    whole = [alive[n] for n in normalized_axes(also, len(alive))]
    made = list(chosen)
    for number, one in named:
        if number in whole or made[number].window:
            twice = "reduced whole by axis=, too" if number in whole else "named twice"
            raise PlanError(f"coarsen: axis {one!r} is {twice}: name it once")
        bound = boundary.get(one, BOUNDARIES[0]) if isinstance(boundary, Mapping) else boundary
        made[number] = _windowed(
            made[number], int(coarsen[one]), bound, f"{source.name}: {_told(source, number)}"
        )
    return tuple(made)


def _number(one: int | str, source: Named, selection: Selection, alive: Sequence[int]) -> int:
    found = axis_numbers(source, [one], selection)
    return alive[normalized_axes(found, len(alive))[0]]


def _told(source: Named, number: int) -> str:
    names = axis_names(source, range(len(source.shape))) or []
    return f"axis {names[number]!r}" if names and names[number] else f"axis {number}"


def _windowed(axis: Axis, window: int, boundary: str, told: str) -> Axis:
    left = axis.length % window
    if left and boundary == "exact":
        raise PlanError(
            f"{told} has {axis.length:,} elements selected, which is not a multiple of its "
            f"windows of {window:,}: boundary='trim' omits the last {left:,}, boundary='pad' "
            "makes a shorter window of them"
        )
    length = axis.length - left if boundary == "trim" else axis.length
    if length < axis.length:
        axis = Axis.at(axis.cells, axis.places[:length])
    return replace(axis, window=window)
