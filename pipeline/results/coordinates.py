"""Arrays that stand beside another and go along it: the coordinates of its axes, and others."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from chunkfold.errors import SourceError
from chunkfold.grid import Axis
from chunkfold.planning.request import Request
from chunkfold.positions import crossed, index_of
from chunkfold.results.attributes import of_a_part
from chunkfold.results.averages import NUMBERS, averaged
from chunkfold.sources.axis_names import axis_names
from chunkfold.sources.cf_packing import MISSING
from chunkfold.sources.neighbour_array import Neighbour
from chunkfold.sources.neighbours import neighbour
from chunkfold.sources.source import Source
from chunkfold.stores.remote import message_of

_OF_INTEGERS = (*MISSING, "_Unsigned", "valid_range", "valid_min", "valid_max")
"""Attributes of stored numbers that say nothing of their means."""
_PLAIN = re.compile(r"(?!\.)(?:(?!::)[^/?#])+")
"""Names of what stands beside an array: others would lead elsewhere."""


@dataclass(frozen=True)
class Kept:
    """The axes of an array that remain after a selection and a reduction."""

    source: Source
    axes: Sequence[Axis]
    """All of the source's, as far as they are selected."""
    kept: Sequence[int]
    """Numbers of the axes that results have, element by element."""

    @classmethod
    def of(cls, request: Request) -> Kept:
        """Return what a reduction leaves, planned or not."""
        axes = range(len(request.chosen))
        left = [n for n in axes if n not in request.reduced]
        return cls(request.sources[0], request.chosen, left)

    @cached_property
    def names(self) -> list[str | None]:
        """The names of all axes; None for those without."""
        return axis_names(self.source, range(len(self.axes))) or [None] * len(self.axes)

    @cached_property
    def along(self) -> dict[str, int]:
        """The axes that are left, by their names, as far as these are theirs alone."""
        return {
            name: n for n in self.kept if (name := self.names[n]) and self.names.count(name) == 1
        }


@dataclass(frozen=True)
class Auxiliary:
    """An array beside another, as far as it goes along what is left of its axes."""

    name: str
    axes: tuple[str, ...]
    found: Neighbour
    cuts: tuple[slice | np.ndarray, ...]
    """The selection along each of its axes."""
    attributes: dict[str, Any]
    """The attributes that hold for the selection."""
    values: np.ndarray | None = None
    """The stored values; None until they are read."""
    windows: tuple[int, ...] = ()
    """Values along each of its axes whose mean stands for them; 0: each stands for itself."""

    def read(self) -> Auxiliary:
        """Return it with its values.

        Raises
        ------
        Exception
            Whatever keeps them from being read.
        """
        # What zarr has no slices for is taken of all that is stored.
        apart = [(cut, slice(None)) if _is_stored(cut) else (slice(None), cut) for cut in self.cuts]
        stored = self.found.read([cut for cut, _ in apart])
        return replace(self, values=crossed(stored, [cut for _, cut in apart]))

    def averaged(self) -> Auxiliary:
        """Return it with the means of what is stored, of that which is not missing."""
        attributes = {key: told for key, told in self.attributes.items() if key not in _OF_INTEGERS}
        means = averaged(_numbers(self), self.windows)
        return replace(self, values=means, attributes=attributes)


def _is_stored(cut: slice | np.ndarray) -> bool:
    """Return True if the selected elements keep the order of the store."""
    return isinstance(cut, slice) and cut.step > 0


def auxiliary(
    kept: Kept, name: str, *, more: bool = False, averages: bool = False
) -> Auxiliary | None:
    """Find an array beside a source that has no axes but some of those that are left.

    None if there is none. The name of an axis is that of its coordinate. `more` allows axes that
    the source has not, such as that of the two bounds of a cell; `averages` windows, of which the
    array's means are true.
    """
    found = opened_neighbour(kept, name)
    if found is None:
        return None
    axes = found.axes_among(kept.names)
    if len(set(axes)) != len(axes) or None in axes:
        return None
    cuts, windows, whole = [], list[int](), True
    for axis, length in zip(axes, found.shape, strict=True):
        n = kept.along.get(str(axis))
        if n is None and (not more or axis is None or axis in kept.names):
            return None
        if n is not None and length != kept.source.shape[n]:
            return None
        shown = range(length) if n is None else kept.axes[n].shown
        whole &= isinstance(shown, range) and shown == range(length)
        windows.append(0 if n is None else kept.axes[n].window)
        cuts.append(index_of(shown))
    if any(windows) and not (averages and found.dtype.kind in NUMBERS):
        return None
    attributes = of_a_part(found.attributes, whole=whole and not any(windows))
    along = tuple(map(str, axes))
    return Auxiliary(name, along, found, tuple(cuts), attributes, windows=tuple(windows))


def opened_neighbour(kept: Kept, name: str) -> Neighbour | None:
    """Open an array beside a source; None, with a warning if one is there, if it is not to be read.

    Results are worth more.
    """
    if not _PLAIN.fullmatch(name):
        return None
    try:
        return neighbour(kept.source, name)
    except SourceError as error:
        _leave_out(kept, name, error)
        return None


def read_or_left_out(kept: Kept, one: Auxiliary) -> Auxiliary | None:
    """Return it with its values; None, with a warning, if they cannot be read.

    Results are worth more.
    """
    try:
        return one.read()
    except Exception as error:  # noqa: BLE001 # whatever keeps it from being read
        _leave_out(kept, one.name, error)
        return None


def _leave_out(kept: Kept, name: str, error: Exception) -> None:
    reason = str(error) if isinstance(error, SourceError) else message_of(error)
    what = "coordinate" if name in kept.along else "companion"
    left_out = f"its {what} {name!r} is omitted, because it cannot be read: {reason}"
    warnings.warn(f"{kept.source.name}: {left_out}", RuntimeWarning, stacklevel=2)


def _numbers(one: Auxiliary) -> np.ndarray:
    """Return stored numbers that may be averaged: floats that are NaN where one is missing."""
    values = np.asarray(one.values)
    packing = one.found.packing if values.dtype.kind in "iuf" else None
    if packing is None:
        return values
    held = values.view(packing.stored_dtype(values.dtype))
    missing = np.isin(held, np.array(packing.missing, held.dtype))
    return np.where(missing, np.nan, held) if missing.any() else held
