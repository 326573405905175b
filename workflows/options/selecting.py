"""Parses selections: positions as in NumPy's brackets, and values of coordinates."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from chunkfold.errors import PlanError
from chunkfold.selections import Selection
from chunkfold.units import integer
from chunkfold.workflows.options.parsing import Located

_COMMA = re.compile(r",(?![^\[]*\])")
"""One that stands in no list."""
_BOOLS = {"true": True, "false": False}
_DATE = r"[+-]?\d{4,}(?:-\d\d(?:-\d\d(?:[T ]\d\d(?::\d\d(?::\d\d(?:\.\d+)?)?)?Z?)?)?)?"
"""ISO 8601: a year, a month, a day or a time, whose colons do not belong to a slice."""
_DATES = re.compile(f"({_DATE})?:({_DATE})?")
_EXAMPLE = "'0:31, ..., [0, 3, 5]'"


def parse_selection(text: str | None) -> Selection:
    """Read a selection as it stands between NumPy's brackets; lists may be in .npy files.

    Raises
    ------
    PlanError
        If an entry is neither an integer, a slice, a list, a file nor an ellipsis.

    >>> parse_selection("0:10:2, ..., -1"), parse_selection("[0, -1], [true, false]")
    ((slice(0, 10, 2), Ellipsis, -1), ([0, -1], [True, False]))
    """
    return None if text is None else tuple(_entry(word, text) for word in _words(text))


def with_paths(text: str, absolute: Callable[[str], str]) -> str:
    """Return a selection with other paths of its files.

    >>> with_paths("0:3, days.npy", lambda path: f"/data/{path}")
    '0:3, /data/days.npy'
    """
    words = (absolute(word) if _is_file(word) else word for word in _words(text))
    return ", ".join(words)


def _words(text: str) -> list[str]:
    words = [word.strip() for word in _COMMA.split(text)]
    if len(words) > 1 and not words[-1]:  # a comma may end it, as between brackets
        words.pop()
    return words


def _is_file(word: str) -> bool:
    return word.endswith(".npy")


def _entry(word: str, text: str) -> Any:
    try:
        if word == "...":
            return Ellipsis
        if _is_file(word):
            return Located(word)
        if word.startswith("[") and word.endswith("]"):
            return _list(word[1:-1])
        if ":" in word:
            return slice(*(integer(n) if n.strip() else None for n in word.split(":")))
        return integer(word)
    except (ValueError, TypeError):
        raise PlanError(
            f"selection {text!r}: {word!r} is not an integer, start:stop:step, a list such as [0, "
            "3] or [true, false], a file such as days.npy, or '...': select each axis in turn by "
            f"positions, as in {_EXAMPLE}"
        ) from None


def _list(inner: str) -> list[int] | list[bool]:
    words = [word.strip() for word in inner.split(",")] if inner.strip() else []
    if words and all(word.lower() in _BOOLS for word in words):
        return [_BOOLS[word.lower()] for word in words]
    return [integer(word) for word in words]


def parse_sel(given: Sequence[str]) -> dict[str, Any] | None:
    """Read what is selected by coordinates: AXIS=VALUE of each axis, or of parts of its dates.

    Raises
    ------
    PlanError
        If one has another form, or an axis is named twice.

    >>> parse_sel(["time=2001-01:2010-12", "lat=30", "lon=[0, 90]"])
    {'time': slice('2001-01', '2010-12', None), 'lat': '30', 'lon': ['0', '90']}
    >>> parse_sel(["time.season=JJA", "time.year=2001:2010"])
    {'time.season': 'JJA', 'time.year': slice('2001', '2010', None)}
    """
    found: dict[str, Any] = {}
    for one in given:
        dim, _, text = (part.strip() for part in one.partition("="))
        if not dim or not text:
            raise PlanError(f"sel {one!r} is not AXIS=VALUE, as in 'time=2001-01:2010-12'")
        if dim in found:
            raise PlanError(f"sel names axis {dim!r} twice: name several values as {dim}=[1, 2]")
        found[dim] = parse_label(text)
    return found or None


def parse_label(text: str) -> Any:
    """Read a value of a coordinate, a list of them, or a slice, whose ends are both in it.

    Values stay texts: their coordinate says whether they are numbers or dates.

    Raises
    ------
    PlanError
        If a slice has more than three parts, or a step that is no integer.

    >>> parse_label("2001-01-01T06:00:2001-02"), parse_label("2001-01-01T06:00")
    (slice('2001-01-01T06:00', '2001-02', None), '2001-01-01T06:00')
    >>> parse_label("60:30"), parse_label(":30:2"), parse_label("[a, b]")
    (slice('60', '30', None), slice(None, '30', 2), ['a', 'b'])
    """
    if text.startswith("[") and text.endswith("]"):
        return [word.strip() for word in text[1:-1].split(",") if word.strip()]
    if ":" not in text or re.fullmatch(_DATE, text):
        return text
    dates = _DATES.fullmatch(text)
    start, *rest = dates.groups() if dates else text.split(":")
    stop, *steps = rest
    try:
        (step,) = steps or [""]
        return slice(start or None, stop or None, integer(step) if step else None)
    except ValueError:
        raise PlanError(
            f"sel {text!r} is not a slice: write START:STOP, or START:STOP:STEP"
        ) from None


def parse_distance(text: str | None) -> float | str | None:
    """Read how far away a value may be: a number, or a text of dates'.

    >>> parse_distance("0.5"), parse_distance("12h")
    (0.5, '12h')
    """
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def labels_of(given: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return what a job file selects by coordinates."""
    if not given:
        return None
    return {
        dim: parse_label(value) if isinstance(value, str) else value for dim, value in given.items()
    }
