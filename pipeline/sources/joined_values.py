"""Values of coordinates of several sources: whether they are equal, and how they become one array.

Values are compared and joined by what they stand for: numbers, dates of a calendar, durations,
texts or bools. Units and packing of each source are its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from chunkfold.errors import SourceError
from chunkfold.sources.cf_packing import MISSING, SCALING
from chunkfold.sources.dates import (
    Instants,
    are_gregorian,
    duration_ns,
    have_one_calendar,
    instants,
    recounted,
)
from chunkfold.sources.neighbour_array import Neighbour

UNITS = ("units", "calendar")
_STORAGE = (*SCALING, *MISSING, "_Unsigned")
_NO_DATE = np.iinfo(np.int64).min
"""The number of a missing date among dates that were converted to other units."""
_TOLERANCE = 0.01
"""Numbers of a coordinate are equal if they differ by less than this part of its least step."""
_ROUNDING = 1e-5
"""And by less than this part of the largest: parts may have it as float32 and float64."""


@dataclass(frozen=True, eq=False)
class Stored:
    """The values of an array as one source has them."""

    part: str
    """The name of the source in messages."""
    values: np.ndarray
    attributes: Mapping[str, Any]
    decoded: np.ndarray
    """The decoded values, before units: NaN where one is missing."""

    @classmethod
    def of(cls, part: str, found: Neighbour, units: Mapping[str, Any] | None = None) -> Stored:
        """Read an array; `units` are those of the array whose bounds it has.

        Raises
        ------
        SourceError
            If it cannot be read.
        """
        try:
            values = found.whole()
        except Exception as error:
            raise SourceError(f"{part}: its {found.name!r} cannot be read: {error}") from error
        return cls(part, values, {**(units or {}), **found.attributes}, found.values(values))

    def repeated(self, length: int) -> Stored:
        """Return it with a new first axis along which it is the same."""
        values, decoded = (
            np.broadcast_to(one, (length, *one.shape)) for one in (self.values, self.decoded)
        )
        return replace(self, values=values, decoded=decoded)

    @cached_property
    def dates(self) -> Instants | None:
        """Points in time; None if it has none."""
        units, calendar = self.units
        if not isinstance(units, str) or self.values.dtype.kind not in "iuf":
            return None
        return instants(self.decoded, units, calendar if isinstance(calendar, str) else "standard")

    @property
    def meaning(self) -> str:
        """Return the name of the kind of values, for messages."""
        kind, (units, calendar) = self.values.dtype.kind, self.units
        if kind in "iuf":
            if " since " in str(units):
                same = self.dates is not None and are_gregorian(self.dates)
                return f"dates ({'standard' if same else calendar or 'standard'})"
            return "numbers" if duration_ns(units) is None else "durations"
        return {"b": "bools", "M": "dates", "m": "durations"}.get(kind, "texts")

    @property
    def comparable(self) -> np.ndarray:
        """Values that are equal where they stand for the same."""
        if (dates := self.dates) is not None:
            return dates.microseconds
        if self.meaning == "durations" and self.values.dtype.kind != "m":
            return self.decoded * np.float64(duration_ns(self.units[0]) or 1)
        return self.decoded

    @property
    def units(self) -> tuple[Any, ...]:
        """Units and calendar; None where nothing says so."""
        return tuple(self.attributes.get(name) for name in UNITS)

    @property
    def encoding(self) -> tuple[str, ...]:
        """The dtype, and what attributes say of how values are stored."""
        said = (str(self.attributes.get(name)) for name in _STORAGE)
        return (str(self.values.dtype), *said)


def are_equal(one: Stored, other: Stored) -> bool:
    """Tell whether two arrays stand for the same values, in the same places."""
    if one.meaning != other.meaning or one.values.shape != other.values.shape:
        return False
    if one.meaning == "numbers" and units_differ(one, other):
        return False
    return bool(np.all(near(one.comparable, other.comparable)))


def order_onto(one: Stored, other: Stored) -> np.ndarray | None:
    """Return where the values of one coordinate are in another; None if not each is there once."""
    here, there = one.comparable, other.comparable
    if one.meaning != other.meaning or here.shape != there.shape or units_differ(one, other):
        return None
    first, second = np.argsort(here, kind="stable"), np.argsort(there, kind="stable")
    ascending = here[first]
    if not np.all(near(ascending, there[second])) or np.any(ascending[1:] == ascending[:-1]):
        return None
    order = np.empty(len(here), np.int64)
    order[first] = second
    return order


def units_differ(one: Stored, other: Stored) -> bool:
    """Tell whether both name units, and not the same; dates and durations compare by time."""
    named = {str(stored.units[0]) for stored in (one, other)} - {"None"}
    return one.meaning == "numbers" and len(named) > 1


def near(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Tell of each place whether two arrays have the same value there, but for rounding."""
    if "f" not in (one.dtype.kind, other.dtype.kind):
        return np.asarray(one == other)
    values = np.asarray(one, np.float64)
    steps = np.abs(np.diff(values.reshape(-1)))
    step = float(np.min(steps, initial=np.inf, where=steps > 0))
    most = float(np.max(np.abs(values), initial=0, where=np.isfinite(values)))
    within = min(_TOLERANCE * step, _ROUNDING * most)
    return np.asarray(np.isclose(values, other, 0, within, equal_nan=True))


def joined_values(
    name: str, own: Sequence[Stored], family: Sequence[Stored], axis: int
) -> tuple[np.ndarray, dict[str, Any]]:
    """Return arrays as one along an axis, and what its attributes are other than all have alike.

    Parameters
    ----------
    family
        Those, and others that must have the same units, as the bounds of a coordinate must.

    Raises
    ------
    SourceError
        If they stand for different things; two parts are named.
    """
    first = family[0]
    _check(name, family)
    if len({one.units for one in family}) > 1 and first.meaning != "numbers":
        values, changed = _in_one_unit(name, own, family)
    elif len({one.encoding for one in own}) == 1:
        values, changed = [one.values for one in own], {}
    else:
        values, changed = [one.decoded for one in own], dict.fromkeys(_STORAGE)
    joined = np.concatenate(
        [one.astype(object) for one in values] if first.meaning == "texts" else values, axis
    )
    for one, held in zip(own, values, strict=True):
        if held.dtype.kind in "iu" and (held.astype(joined.dtype).astype(held.dtype) != held).any():
            floats = next(n for n, other in enumerate(values) if other.dtype.kind == "f")
            raise _unlike(name, one, own[floats], str(held.dtype), str(values[floats].dtype))
    if "_FillValue" in changed and (joined == _NO_DATE).any() and first.dates is not None:
        changed |= {"_FillValue": _NO_DATE}
    return joined, changed


def _check(name: str, family: Sequence[Stored]) -> None:
    """Raise if values stand for different things."""
    first = family[0]
    for one in family:
        if one.meaning.partition(" ")[0] != first.meaning.partition(" ")[0]:
            raise _unlike(name, first, one, first.meaning, one.meaning)
        if units_differ(first, one):
            raise _unlike(name, first, one, repr(first.units[0]), repr(one.units[0]))


def _in_one_unit(
    name: str, own: Sequence[Stored], family: Sequence[Stored]
) -> tuple[list[np.ndarray], dict[str, Any]]:
    """Return dates or durations in the same units, and what their attributes are then."""
    first, unpacked = family[0], dict.fromkeys(_STORAGE)
    if first.meaning == "durations":
        return [_in_units_of(first, one) for one in own], unpacked | {"units": first.units[0]}
    for one in family:
        if one.dates is None:
            raise SourceError(
                f"{one.part}: the dates of its {name!r}, {one.units[0]!r}, are not understood"
            )
    known = [one.dates for one in family if one.dates is not None]
    for one, dates in zip(family, known, strict=True):
        if not have_one_calendar([known[0], dates]):
            raise _unlike(name, first, one, first.meaning, one.meaning)
    try:
        values, units = recounted([one.dates for one in own if one.dates is not None], known)
    except OverflowError as error:
        raise SourceError(f"{own[0].part}: its {name!r} and that of others: {error}") from error
    return values, unpacked | {"units": units, "calendar": first.units[1] or "standard"}


def _in_units_of(first: Stored, one: Stored) -> np.ndarray:
    """Return durations in the units of others: integers where they are whole."""
    if one.values.dtype.kind == "m":
        return one.decoded
    here, there = (duration_ns(stored.units[0]) or 1 for stored in (one, first))
    exact = one.decoded.astype(object) * here if one.decoded.dtype.kind in "iu" else None
    if exact is not None and not (exact % there).any():
        return np.asarray((exact // there).astype(np.int64))
    return np.asarray(one.decoded * (here / there))


def _unlike(name: str, one: Stored, other: Stored, here: str, there: str) -> SourceError:
    return SourceError(
        f"the {name!r} of {one.part} has {here}, that of {other.part} {there}: they cannot be one "
        "array; write both alike, or reduce the sources one by one"
    )


def common_attributes(each: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the attributes that all have alike.

    >>> common_attributes([{"units": "K", "file": "a"}, {"units": "K", "file": "b"}])
    {'units': 'K'}
    """
    first, *others = each
    return {
        key: value
        for key, value in first.items()
        if all(key in other and str(other[key]) == str(value) for other in others)
    }
