"""Numbers are the dates that xarray makes of them; of other calendars too."""

from __future__ import annotations

import numpy as np
import pytest
from xarray.coding.times import decode_cf_datetime

from chunkfold.sources.dates import dates


@pytest.mark.parametrize(
    "units",
    [
        "days since 2000-01-01",
        "hours since 1900-01-01 00:00:0.0",
        "seconds since 1970-01-01T00:00:00Z",
        "minutes since 1999-12-31 23:30:00 +01:00",
        "hours since 1800-1-1 6:30",
        "milliseconds since 1970-01-01",
    ],
)
@pytest.mark.parametrize(
    "numbers",
    [np.arange(-50, 5000, 7), np.arange(0, 4000, 9) / 8, np.arange(90, dtype="u2")],
    ids=["i8", "f8", "u2"],
)
def test_dates_are_xarrays(units: str, numbers: np.ndarray):
    got = dates(numbers, units, "proleptic_gregorian")
    assert got is not None
    assert got.dtype.kind == "M"
    np.testing.assert_array_equal(got, decode_cf_datetime(numbers, units, "proleptic_gregorian"))


@pytest.mark.parametrize(
    ("calendar", "day", "date"),
    [
        ("noleap", 59, "2000-03-01"),
        ("365_day", -1, "1999-12-31"),
        ("all_leap", 59, "2000-02-29"),
        ("360_day", 59, "2000-02-30"),
        ("julian", 59, "2000-02-29"),
        ("julian", 366, "2001-01-01"),
    ],
)
def test_dates_of_other_calendars_are_texts(calendar: str, day: int, date: str):
    got = dates(np.array([day, np.nan]), "days since 2000-01-01", calendar)
    assert got is not None
    assert got.tolist() == [f"{date}T00:00:00", None]


def test_the_standard_calendar_leaves_days_out():
    """4 October 1582 was followed by the 15th: dates before are Julian."""
    got = dates(np.array([-1, 0]), "days since 1582-10-15")
    assert got is not None
    assert got.tolist() == ["1582-10-04T00:00:00", "1582-10-15T00:00:00"]
    # Year 1 began two days before that of today's calendar.
    got = dates(np.array([730_121 + 2]), "days since 0001-01-01")
    np.testing.assert_array_equal(got, np.datetime64("2000-01-01") + np.array([2]))


def test_floats_are_as_exact_as_their_digits():
    got = dates(np.array([44_000.1, 1 / 3]), "days since 1900-01-01")
    want = np.array(["2020-06-20T02:24:00", "1900-01-01T08:00:00"], "M8[ns]")
    np.testing.assert_array_equal(got, want)


def test_no_number_overflows():
    large = np.array([np.iinfo(np.int64).min, 10**13 - 1, 2**62])
    got = dates(large, "days since 2000-01-01")
    assert got is not None
    assert np.isnat(got).tolist() == [True, False, True]
    got = dates(large[1:], "nanoseconds since 1970-01-01")
    assert got is not None
    assert got.astype(int).tolist() == large[1:].tolist()
    got = dates(large[:1], "nanoseconds since 1970-01-01")
    assert got is not None
    assert str(got[0])[:19] == "1677-09-21T00:12:43"


@pytest.mark.parametrize(
    ("units", "calendar"),
    [
        ("days", "standard"),
        ("months since 2000-01-01", "standard"),
        ("days since 2000-13-01", "standard"),
        ("days since yesterday", "standard"),
        ("days since 2000-01-01", "martian"),
    ],
)
def test_what_is_not_understood_is_none(units: str, calendar: str):
    assert dates(np.arange(3), units, calendar) is None
