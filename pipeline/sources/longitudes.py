"""Longitudes are a circle: slices and values are looked up around it, whatever turn they name."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray

TURN = 360.0
"""Degrees after which longitudes are the same."""
_UNITS = ("degrees_east", "degree_east", "degrees_e", "degree_e", "degreese", "degreee")
"""CF conventions 1.11, section 4.2, in lower case."""
_NAMES = ("longitude", "grid_longitude")


@dataclass(frozen=True, eq=False)
class Circle:
    """The longitudes along an axis."""

    values: np.ndarray
    """float64, monotonic: of stored values that pass the seam, turns are added to those behind."""
    near: float
    """Values that are no further apart are the same: they differ by rounding."""

    @property
    def ascends(self) -> bool:
        """Return True if positions follow each other to the east."""
        return bool(self.values[-1] >= self.values[0])

    def arc(self, wanted: slice) -> np.ndarray | None:
        """Return the places from one longitude to another, in this order, each place once.

        It goes the way that the coordinate goes, or by a negative step the other way. Ends that
        are a turn or more apart are the whole circle. None if the slice is one of values as they
        are stored, as of any coordinate: ends that are in their order, or an open one.
        """
        step = 1 if wanted.step is None else wanted.step
        ends = [end for end in (wanted.start, wanted.stop) if end is not None]
        if not isinstance(step, int) or step == 0 or not all(map(_is_finite, ends)):
            return None
        backwards = step < 0
        sign = 1.0 if self.ascends != backwards else -1.0
        along = sign * (self.values[::-1] if backwards else self.values)
        first, last = (
            None if end is None else sign * float(end) for end in (wanted.start, wanted.stop)
        )
        if first is None or last is None:
            found = self._to_an_end(along, first, last)
        elif along[0] <= first <= last <= along[-1]:
            found = None
        elif abs(last - first) >= TURN - 2 * self.near:
            found = self._whole(along, first)
        else:
            found = self._part(along, first, (last - first) % TURN)
        if found is None:
            return None
        return (len(along) - 1 - found if backwards else found)[:: abs(step)]

    def _to_an_end(
        self, along: np.ndarray, first: float | None, last: float | None
    ) -> np.ndarray | None:
        """Return the places to or from an end of the axis.

        None if there are some by the values as they are stored, or none in any turn.
        """
        given = first if last is None else last
        if (
            given is None
            or (last is None and given <= along[-1])
            or (first is None and given >= along[0])
        ):
            return None
        given += TURN * math.ceil((along[0] - given) / TURN)
        if given > along[-1]:
            return None
        if first is None:
            return np.arange(np.searchsorted(along, given + self.near, side="right"))
        return np.arange(np.searchsorted(along, given - self.near), len(along))

    def _whole(self, along: np.ndarray, first: float) -> np.ndarray:
        """Return all places, from that which comes first behind a longitude."""
        behind = (along - first + self.near) % TURN
        return np.roll(np.arange(len(along)), -int(np.argmin(behind)))

    def _part(self, along: np.ndarray, first: float, width: float) -> np.ndarray:
        """Return the places of an arc: those of every turn that it meets."""
        if width > TURN - 2 * self.near:
            width = 0.0
        begin, end = first - self.near, first + width + self.near
        turns = range(
            math.floor((along[-1] - begin) / TURN), math.ceil((along[0] - end) / TURN) - 1, -1
        )
        parts = [
            np.arange(
                np.searchsorted(along, begin + TURN * turn),
                np.searchsorted(along, end + TURN * turn, side="right"),
            )
            for turn in turns
        ]
        return np.concatenate([np.zeros(0, np.int64), *parts])

    def placed(self, label: Any, method: str | None) -> Any:
        """Return longitudes in the turn in which `values` have them, or are nearest to them.

        What is no finite number stays as it is.
        """
        given = np.asarray(label)
        if given.dtype.kind not in "iuf" or not np.isfinite(given).all():
            return label
        found = [self._placed(float(one), method) for one in given.reshape(-1)]
        return np.array(found, np.float64).reshape(given.shape)[()]

    def _placed(self, longitude: float, method: str | None) -> float:
        apart = np.abs((self.values - longitude + TURN / 2) % TURN - TURN / 2)
        same = self.values[apart <= self.near]
        if same.size:
            return float(same[np.argmin(np.abs(same - longitude))])
        low, high = float(self.values.min()), float(self.values.max())
        if low <= longitude <= high:
            return longitude
        above = longitude + TURN * math.ceil((low - longitude) / TURN)
        if above <= high:
            return above
        below = above - TURN
        if self._closes and method in ("pad", "ffill", "backfill", "bfill"):
            return above if (method in ("pad", "ffill")) == self.ascends else below
        return above if above - high < low - below else below

    @property
    def _closes(self) -> bool:
        """Return True if the first position follows the last, as in arrays of the whole globe."""
        widths = np.abs(np.diff(self.values))
        gap = TURN - abs(float(self.values[-1] - self.values[0]))
        return bool(widths.size) and gap <= 1.5 * float(widths.max())


def _is_finite(end: Any) -> bool:
    return isinstance(end, (int, float, np.number)) and bool(np.isfinite(end))


def is_longitude(coordinate: xarray.DataArray) -> bool:
    """Return whether the attributes of a coordinate say that it has longitudes, in degrees."""
    units = str(coordinate.attrs.get("units", "")).lower()
    name = str(coordinate.attrs.get("standard_name", "")).lower()
    return units in _UNITS or (name in _NAMES and not units.startswith("rad"))


def circle_of(coordinate: xarray.DataArray) -> Circle | None:
    """Return the circle that a coordinate is; None if it has no longitudes, or in no order."""
    if coordinate.dtype.kind not in "iuf" or not coordinate.size or not is_longitude(coordinate):
        return None
    values = coordinate.values.astype(np.float64)
    kind = coordinate.dtype if coordinate.dtype.kind == "f" else np.dtype(np.float64)
    near = 2 * float(np.spacing(kind.type(TURN)))
    if not np.isfinite(values).all():
        return None
    steps = np.diff(values)
    if (steps >= 0).all() or (steps <= 0).all():
        return Circle(values, near)
    for sign in (1, -1):
        turned = values.copy()
        turned[1:] += sign * TURN * np.cumsum(sign * steps < 0)
        if abs(turned[-1] - turned[0]) <= TURN + near:
            return Circle(turned, near)
    return None
