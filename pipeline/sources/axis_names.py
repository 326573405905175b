"""Axes by the names that stores give them."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from chunkfold.axis_cuts import Cells
from chunkfold.errors import PlanError
from chunkfold.plural import counted
from chunkfold.selections import Selection, select

AxisOption = int | str | Sequence[int | str] | None
"""Axes by number or name; None: all of them."""


class Named(Protocol):
    """An array that has axes, and names for them if it knows any."""

    @property
    def name(self) -> str:
        """Return the name that messages use."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""

    @property
    def dims(self) -> Sequence[str | None] | None:
        """Names of the axes, if they have names."""

    @property
    def grid(self) -> tuple[Cells, ...]:
        """Return the boundaries of chunks along each axis."""


def axis_names(source: Named, axes: Sequence[int]) -> list[str | None] | None:
    """Return the names of some axes, if axes have names."""
    names = source.dims
    return None if names is None else [names[n] for n in axes]


def axis_numbers(
    source: Named, axis: AxisOption, selection: Selection = None
) -> int | list[int] | None:
    """Return axes by number, whether they are given by number or by name.

    Numbers count the axes of the selection: of its integers nothing is left of an axis.

    Raises
    ------
    PlanError
        If none of the source's axes has such a name, or the selection leaves several that have, or
        none; or if the selection is none.
    """
    if axis is None or not isinstance(axis, (str, Sequence)):
        return axis
    axes = [axis] if isinstance(axis, str) else list(axis)
    names = axis_names(source, range(len(source.shape))) or []
    taken = select(source.grid, selection)
    left = [name for name, along in zip(names, taken, strict=False) if not along.dropped]
    numbers: list[int] = []
    for one in axes:
        if isinstance(one, str) and one not in names:
            raise PlanError(f"{source.name} has no axis {one!r}; {instead(one, names)}")
        if isinstance(one, str) and left.count(one) > 1:
            raise PlanError(f"{source.name} has {_several(one, left)}")
        if isinstance(one, str) and one not in left:
            raise PlanError(
                f"{source.name}: axis {one!r} cannot be reduced, because the selection "
                f"{selection!r} takes one position of it by an integer; take a slice, or do not "
                "name the axis"
            )
        numbers.append(left.index(one) if isinstance(one, str) else one)
    return numbers


def _several(given: str, names: Sequence[str | None]) -> str:
    """Say which axes have a name.

    >>> _several("x", ["x", "y", "x"])
    "2 axes that are called 'x': name the right one by its number, 0 or 2"
    """
    numbers = [str(number) for number, name in enumerate(names) if name == given]
    meant = f"{', '.join(numbers[:-1])} or {numbers[-1]}"
    called = f"{len(numbers)} axes that are called {given!r}"
    return f"{called}: name the right one by its number, {meant}"


def instead(given: str, names: Sequence[str | None]) -> str:
    """Say which axes there are.

    >>> instead("latitude", ["time", "lat"])
    "did you mean 'lat'? Its axes are 'time', 'lat'"
    """
    known = [name for name in names if name]
    if not known:
        return "its axes have no names: use numbers"
    near = difflib.get_close_matches(str(given), known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? Its" if near else "its"
    return f"{hint} axes are {', '.join(map(repr, known))}"


def normalized_axes(axis: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """Return the axes to reduce, ascending, as NumPy reads `axis`.

    Raises
    ------
    PlanError
        If one is out of range or named twice.
    """
    if axis is None:
        return tuple(range(ndim))
    given = list(axis) if isinstance(axis, Sequence) else [axis]
    out = []
    for entry in given:
        if not isinstance(entry, (int, np.integer)) or isinstance(entry, bool):
            raise PlanError(f"axis {entry!r} is not an integer")
        if not -ndim <= entry < ndim:
            raise PlanError(
                f"axis {int(entry)} is out of range for an array of {counted(ndim, 'dimension')}: "
                + (f"use {-ndim} to {ndim - 1}" if ndim else "it has no axis to reduce")
            )
        out.append(int(entry) % ndim)
    if len(set(out)) != len(out):
        twice = next(n for n in out if out.count(n) > 1)
        raise PlanError(f"axis {axis!r} names axis {twice} twice: name it once")
    return tuple(sorted(out))
