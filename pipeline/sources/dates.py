"""Dates that numbers stand for, by units such as "days since 2000-01-01" and a calendar.

CF conventions 1.11, section 4.4. Day numbers of the Julian and the Gregorian calendar: Richards,
Explanatory Supplement to the Astronomical Almanac, 3rd edition, section 15.11.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np

_DAY_NS = 86_400 * 10**9
_UNITS_NS = {
    ("d", "day", "days"): _DAY_NS,
    ("h", "hr", "hrs", "hour", "hours"): 3_600 * 10**9,
    ("min", "mins", "minute", "minutes"): 60 * 10**9,
    ("s", "sec", "secs", "second", "seconds"): 10**9,
    ("ms", "msec", "msecs", "millisec", "millisecs", "millisecond", "milliseconds"): 10**6,
    ("us", "microsec", "microsecs", "microsecond", "microseconds"): 10**3,
    ("ns", "nanosec", "nanosecs", "nanosecond", "nanoseconds"): 1,
}
_NS = {name: ns for names, ns in _UNITS_NS.items() for name in names}
_SINCE = re.compile(
    r"\s*(?P<unit>[a-z]+)\s+since\s+(?P<y>\d{1,4})-(?P<m>\d{1,2})-(?P<d>\d{1,2})"
    r"(?:[T\s]\s*(?P<H>\d{1,2})(?::(?P<M>\d{1,2})(?::(?P<S>\d{1,2}(?:\.\d*)?))?)?)?"
    r"\s*(?:Z|UTC|GMT|(?P<sign>[+-])(?P<oh>\d{1,2}):?(?P<om>\d{2})?)?\s*",
    re.IGNORECASE,
)
_EPOCH = 2_440_588
"""The Julian day number of 1970-01-01."""
_REFORM = 2_299_161
"""The Julian day number of 1582-10-15, the first day of the Gregorian calendar."""
_MONTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_MOST_DAYS = 1e13
"""The most days from a reference date: seconds of later dates exceed 64 bits."""
_FAR_DAYS = 4e6
"""The years that four digits write are not so many."""
_UNITS = (("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1))
_COUNTED = tuple((names[-1], ns) for names, ns in _UNITS_NS.items())
"""Units of dates that are counted anew, the coarsest first."""


@dataclass(frozen=True)
class Instants:
    """Points in time that numbers with units and a calendar stand for."""

    days: np.ndarray
    """The number of each day in its calendar, int64."""
    rest: np.ndarray
    """Nanoseconds from the day's beginning, int64."""
    valid: np.ndarray
    """True for each number that is a date: not NaN, infinite or too far away."""
    origin: str
    """The day from which the numbers count, as year, month and day."""
    origin_day: int
    """Its number."""
    calendar: _Calendar

    @property
    def microseconds(self) -> np.ndarray:
        """Microseconds from day 0 of the calendar, int64; the least number where there is none."""
        counted = self.days * (_DAY_NS // 1000) + self.rest // 1000
        return np.where(self.valid, counted, np.iinfo(np.int64).min)


def instants(numbers: np.ndarray, units: str, calendar: str = "standard") -> Instants | None:
    """Return the points in time of numbers; None if units or calendar are not understood.

    >>> found = instants(np.array([0.5, np.nan]), "days since 2023-01-01")
    >>> found.rest.tolist(), found.valid.tolist(), found.origin
    ([43200000000000, 0], [True, False], '2023-01-01')
    """
    found, known = _SINCE.fullmatch(units), _CALENDARS.get(calendar.lower())
    step = _NS.get(found["unit"].lower()) if found else None
    if found is None or known is None or step is None or numbers.dtype.kind not in "iuf":
        return None
    year, month, day = (int(found[name]) for name in "ymd")
    if not 1 <= month <= 12 or not 1 <= day <= 31:
        return None
    valid = np.isfinite(numbers) & (np.abs(numbers.astype(float)) * step < _MOST_DAYS * _DAY_NS)
    days, rest = _split(np.where(valid, numbers, 0), step)
    first = known.number(year, month, day)
    days, rest = days + first, rest + _clock(found)
    days, rest = days + rest // _DAY_NS, rest % _DAY_NS
    return Instants(days, rest, valid, f"{year:04}-{month:02}-{day:02}", first, known)


def have_one_calendar(each: Sequence[Instants]) -> bool:
    """Tell whether points in time have one calendar, as far as they reach.

    The standard and the proleptic Gregorian calendar are one since 1582-10-15.
    """
    return len({one.calendar for one in each}) == 1 or all(map(are_gregorian, each))


def are_gregorian(one: Instants) -> bool:
    """Tell whether points in time are the same in the standard and the proleptic calendar."""
    return one.calendar.is_ours and one.days.min(initial=_REFORM, where=one.valid) >= _REFORM


def recounted(each: Sequence[Instants], family: Sequence[Instants]) -> tuple[list[np.ndarray], str]:
    """Return numbers that stand for points in time of one calendar, and their units.

    int64, in the coarsest unit in which all of a family are whole; the least number where there is
    no date. Raises OverflowError where that unit does not reach as far.

    >>> one = instants(np.array([1, 2]), "days since 2001-01-01")
    >>> more = instants(np.array([12]), "hours since 2001-02-01")
    >>> [numbers.tolist() for numbers in recounted([one, more], [one, more])[0]]
    [[24, 48], [756]]
    """
    origin = family[0]
    whole = [
        (name, ns) for name, ns in _COUNTED if not any((one.rest % ns).any() for one in family)
    ]
    unit, ns = whole[0]
    furthest = max(int(np.abs(one.days - origin.origin_day).max(initial=0)) for one in family)
    if (furthest + 1) * (_DAY_NS // ns) >= 2**63:
        raise OverflowError(f"dates {furthest:,} days apart cannot be counted in {unit}")
    counts = [(one.days - origin.origin_day) * (_DAY_NS // ns) + one.rest // ns for one in each]
    least = np.iinfo(np.int64).min
    numbers = [np.where(one.valid, n, least) for one, n in zip(each, counts, strict=True)]
    return numbers, f"{unit} since {origin.origin}"


def dates(numbers: np.ndarray, units: str, calendar: str = "standard") -> np.ndarray | None:
    """Return the dates that numbers stand for; None if units or calendar are not understood.

    datetime64, in seconds if all of them are whole, where the calendar is today's at these dates;
    else texts as ISO 8601 writes them, as objects. Of what is not finite NaT, or None.

    >>> print(dates(np.array([0, 59]), "days since 2023-01-01"))
    ['2023-01-01T00:00:00' '2023-03-01T00:00:00']
    >>> dates(np.array([59.5]), "days since 2023-01-01", "360_day").tolist()
    ['2023-02-30T12:00:00']
    """
    found = instants(numbers, units, calendar)
    if found is None:
        return None
    days, rest, known = found.days, found.rest, found.calendar
    if not known.is_ours or days.min(initial=_REFORM) < _REFORM <= known.from_day:
        return _texts(known, days, rest, found.valid)
    unit, whole = _unit(int(np.abs(days - _EPOCH).max(initial=0)), rest[found.valid])
    since = (days - _EPOCH) * (_DAY_NS // whole) + rest // whole
    return np.where(found.valid, since, np.iinfo(np.int64).min).view(f"M8[{unit}]")


def duration_ns(units: object) -> int | None:
    """Return the nanoseconds of a unit of time; None if it is none.

    >>> duration_ns("hours"), duration_ns("K")
    (3600000000000, None)
    """
    return _NS.get(units.strip().lower()) if isinstance(units, str) else None


def are_beyond(numbers: np.ndarray, units: Any) -> bool:
    """Return True if units are those of dates, but some number is further away than any date.

    Such are made of numbers that stand for no date: with them nobody reads the others either.

    >>> are_beyond(np.array([1e17, 2]), "days since 2000-01-01"), are_beyond(np.array([1e17]), "m")
    (True, False)
    """
    found = _SINCE.fullmatch(units) if isinstance(units, str) else None
    step = _NS.get(found["unit"].lower()) if found else None
    if step is None or numbers.dtype.kind not in "iuf":
        return False
    there = np.isfinite(numbers) & (numbers != np.iinfo(np.int64).min)  # which is NaT itself
    return bool((np.abs(numbers[there].astype(float)) * step > _FAR_DAYS * _DAY_NS).any())


def _unit(most_days: int, rest: np.ndarray) -> tuple[str, int]:
    """Return the coarsest unit in which nothing is lost of what fits, and its nanoseconds."""
    fit = [one for one in _UNITS if (most_days + 1) * (_DAY_NS // one[1]) < 2**63]
    return next((one for one in fit if not (rest % one[1]).any()), fit[-1])


def _split(numbers: np.ndarray, step: int) -> tuple[np.ndarray, np.ndarray]:
    """Return days and nanoseconds of numbers of steps of so many nanoseconds: int64.

    Of floats no more than their digits say.
    """
    if numbers.dtype.kind in "iu":
        whole, a_day = numbers.astype(np.int64), _DAY_NS // step
        return whole // a_day, whole % a_day * step
    wide = numbers.astype(np.float64)
    days = np.floor(wide * step / _DAY_NS)
    rest = (wide - days * (_DAY_NS / step)) * step
    coarse = float(np.spacing(np.abs(numbers).max(initial=0))) * step * 4
    grain = 10 ** max(0, math.ceil(math.log10(coarse))) if coarse > 1 else 1
    return days.astype(np.int64), np.round(rest / grain).astype(np.int64) * grain


def _clock(found: re.Match[str]) -> int:
    """Return the nanoseconds from midnight of a reference date, in UTC."""
    hours, minutes = int(found["H"] or 0), int(found["M"] or 0)
    away = 60 * int(found["oh"] or 0) + int(found["om"] or 0)
    minutes += 60 * hours + (away if found["sign"] == "-" else -away)
    return minutes * 60 * 10**9 + int(Fraction(found["S"] or 0) * 10**9)


@dataclass(frozen=True)
class _Calendar:
    number: Callable[[int, int, int], int]
    """The number of a date's day."""
    date: Callable[[int], tuple[int, int, int]]
    """A function from such a number to year, month and day."""
    is_ours: bool = False
    """True if days have Julian day numbers, and dates are Gregorian."""
    from_day: int = 0
    """The first day of which that is true."""


def _julian_day(year: int, month: int, day: int, *, gregorian: bool) -> int:
    years, months = year + 4800 - (14 - month) // 12, month + 12 * ((14 - month) // 12) - 3
    number = day + (153 * months + 2) // 5 + 365 * years + years // 4
    return number - (years // 100 - years // 400 + 32045 if gregorian else 32083)


def _date(number: int, *, gregorian: bool) -> tuple[int, int, int]:
    centuries = (4 * (number + 32044) + 3) // 146097 if gregorian else 0
    rest = number + 32044 - 146097 * centuries // 4 if gregorian else number + 32082
    years = (4 * rest + 3) // 1461
    rest -= 1461 * years // 4
    months = (5 * rest + 2) // 153
    day = rest - (153 * months + 2) // 5 + 1
    return 100 * centuries + years - 4800 + months // 10, months + 3 - 12 * (months // 10), day


def _mixed_number(year: int, month: int, day: int) -> int:
    return _julian_day(year, month, day, gregorian=(year, month, day) >= (1582, 10, 15))


def _mixed_date(number: int) -> tuple[int, int, int]:
    return _date(number, gregorian=number >= _REFORM)


def _of_months(*months: int) -> _Calendar:
    """Return the calendar whose years all have months of so many days."""
    year_days, begins = sum(months), np.cumsum([0, *months])

    def date(number: int) -> tuple[int, int, int]:
        year, rest = divmod(number, year_days)
        month = int(np.searchsorted(begins, rest, side="right"))
        return year, month, rest - int(begins[month - 1]) + 1

    return _Calendar(lambda y, m, d: y * year_days + int(begins[m - 1]) + d - 1, date)


_STANDARD = _Calendar(_mixed_number, _mixed_date, is_ours=True, from_day=_REFORM)
_PROLEPTIC = _Calendar(
    lambda y, m, d: _julian_day(y, m, d, gregorian=True),
    lambda number: _date(number, gregorian=True),
    is_ours=True,
)
_JULIAN = _Calendar(
    lambda y, m, d: _julian_day(y, m, d, gregorian=False),
    lambda number: _date(number, gregorian=False),
)
_NO_LEAP, _ALL_LEAP = _of_months(*_MONTHS), _of_months(31, 29, *_MONTHS[2:])
_CALENDARS: Mapping[str, _Calendar] = MappingProxyType(
    {
        **dict.fromkeys(("standard", "gregorian"), _STANDARD),
        "proleptic_gregorian": _PROLEPTIC,
        "julian": _JULIAN,
        **dict.fromkeys(("noleap", "365_day"), _NO_LEAP),
        **dict.fromkeys(("all_leap", "366_day"), _ALL_LEAP),
        "360_day": _of_months(*[30] * 12),
    }
)


def _texts(known: _Calendar, days: np.ndarray, rest: np.ndarray, there: np.ndarray) -> np.ndarray:
    made = np.full(days.shape, None, object)
    for n in np.flatnonzero(there):
        seconds, ns = divmod(int(rest.flat[n]), 10**9)
        year, month, day = known.date(int(days.flat[n]))
        clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        part = f".{ns:09}".rstrip("0") if ns else ""
        made.flat[n] = f"{year:04}-{month:02}-{day:02}T{clock}{part}"
    return made
