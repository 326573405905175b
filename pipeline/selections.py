"""Selections of an array's axes: entries, as NumPy has them, each of one axis alone."""

from __future__ import annotations

import operator
import reprlib
from collections.abc import Sequence
from types import EllipsisType
from typing import Any

import numpy as np

from chunkfold.axis_cuts import Cells
from chunkfold.errors import PlanError
from chunkfold.grid import Axis
from chunkfold.plural import counted
from chunkfold.positions import as_range

Index = Any
"""An integer, a slice, or a list or an array of one axis: of integers or, one for each element, of
bools."""
Selection = Index | EllipsisType | tuple[Index | EllipsisType, ...] | None
_KINDS = "an integer, a slice, a list of integers or of bools, or Ellipsis"


def select(cells: Sequence[Cells], selection: Selection = None) -> tuple[Axis, ...]:
    """Apply a selection to every axis, as NumPy indexing does, but each list to its axis alone.

    Axes have their elements in the requested order.

    Parameters
    ----------
    cells
        The cells of each axis.
    selection
        Integers, slices, Ellipsis; lists and arrays of integers or bools, each of one axis.

    Raises
    ------
    PlanError
        If it has too many entries, an integer out of range, or anything else.
    """
    entries = expanded(selection, len(cells))
    return tuple(
        _axis(number, cut, entry)
        for number, (cut, entry) in enumerate(zip(cells, entries, strict=True))
    )


def expanded(selection: Selection, ndim: int) -> list[Index]:
    """Return an entry for each axis.

    Raises
    ------
    PlanError
        If a selection has more entries than axes, or more than one Ellipsis.
    """
    given = list(selection) if isinstance(selection, tuple) else [selection]
    if selection is None:
        given = []
    dots = [n for n, entry in enumerate(given) if entry is Ellipsis]
    if len(dots) > 1:
        raise PlanError(f"selection {selection_text(selection)!r} has more than one Ellipsis")
    missing = ndim - (len(given) - len(dots))
    if missing < 0:
        raise PlanError(
            f"selection {selection_text(selection)!r} has {len(given) - len(dots)} entries "
            f"for {ndim} axes"
        )
    at = dots[0] if dots else len(given)
    return [*given[:at], *[slice(None)] * missing, *given[at + len(dots) :]]


def selection_text(selection: Selection) -> str:
    """Return a selection as NumPy writes it in brackets; long lists are shortened.

    >>> selection_text((slice(None, None, -1), ..., [1, 2], 5))
    '::-1, ..., [1, 2], 5'
    """
    each = selection if isinstance(selection, tuple) else (selection,)
    return ", ".join(map(_entry_text, each))


def _entry_text(entry: Any) -> str:
    if isinstance(entry, slice):
        return slice_text(entry)
    if entry is Ellipsis:
        return "..."
    if isinstance(entry, (list, np.ndarray)):
        return reprlib.repr(entry if isinstance(entry, list) else entry.tolist())
    return str(entry) if isinstance(entry, (int, np.integer)) else reprlib.repr(entry)


def slice_text(entry: slice) -> str:
    """Return a slice as NumPy writes it in brackets.

    >>> slice_text(slice("2001-01", None)), slice_text(slice(2, 5, 2))
    ('2001-01:', '2:5:2')
    """
    parts = [entry.start, entry.stop, *([] if entry.step is None else [entry.step])]
    return ":".join("" if part is None else str(part) for part in parts)


def _axis(number: int, cells: Cells, entry: Index) -> Axis:
    if isinstance(entry, slice):
        return Axis.at(cells, _range(number, cells.size, entry))
    places = _array(number, entry)
    if places.dtype.kind == "b" and places.ndim == 1:
        _refuse_length(number, cells.size, places)
        return Axis.at(cells, as_range(np.flatnonzero(places)))
    if places.dtype.kind not in "iu" or places.ndim > 1:
        raise _none(number, entry)
    wide = _inside(number, cells.size, places)
    if places.ndim == 0:
        return Axis(cells, int(wide), int(wide) + 1, 1, dropped=True)
    return Axis.at(cells, as_range(wide))


def _range(number: int, size: int, entry: slice) -> range:
    try:
        return range(size)[entry]
    except (TypeError, ValueError) as error:
        raise PlanError(f"selection {selection_text(entry)!r} on axis {number}: {error}") from None


def _array(number: int, entry: Index) -> np.ndarray:
    """Return integers or bools as an array; an integer has no axes."""
    if isinstance(entry, (str, bytes, bool, np.bool_)) or entry is None:
        raise _none(number, entry)
    try:
        made = np.asarray(operator.index(entry))
    except TypeError:
        try:
            made = np.asarray(entry)
        except (TypeError, ValueError):  # as of lists of unlike lengths
            raise _none(number, entry) from None
    if made.shape == (0,) and isinstance(entry, (list, range)):
        return made.astype(np.int64)  # NumPy makes floats of an empty list
    return made


def _none(number: int, entry: Index) -> PlanError:
    said = f"selection {_entry_text(entry)!r} on axis {number} is not {_KINDS}"
    ndim = np.ndim(entry) if isinstance(entry, np.ndarray) else 0
    if ndim > 1:
        said += f": it has {ndim} axes; each axis needs its own entry, and where= takes a mask"
    return PlanError(said)


def _refuse_length(number: int, size: int, bools: np.ndarray) -> None:
    if len(bools) != size:
        raise PlanError(
            f"selection on axis {number} has {counted(len(bools), 'bool')}, but the axis has "
            f"{counted(size, 'element')}: give one for each"
        )


def _inside(number: int, size: int, places: np.ndarray) -> np.ndarray:
    """Return places counted from the first element, int64."""
    out = (places < -size) | (places >= size)
    if out.any():
        first = int(places[out][0] if places.ndim else places)
        raise PlanError(f"index {first} is out of range for axis {number} of size {size}")
    wide = places.astype(np.int64)
    return np.where(wide < 0, wide + size, wide)
