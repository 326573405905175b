"""Parts of dates beside data, such as seasons: as labels, and as what selects places."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from chunkfold.errors import PlanError
from chunkfold.sources.coordinate_texts import label_text, value_text
from chunkfold.sources.labels import is_missing, plain_labels

WITHOUT_ZONE = "remove the zone first, with tz_localize(None) of its index"
"""The remedy for times that have a time zone."""
_AROUND = frozenset(
    {
        "month", "quarter", "day", "dayofyear", "day_of_year", "dayofweek", "day_of_week",
        "weekday", "week", "weekofyear", "hour", "minute", "second",
    }
)  # fmt: skip
"""Parts that begin anew: a slice of them goes on behind the last."""
_BOOLS = {"true": True, "false": False}
_SHOWN = 12
"""Values that a message lists."""


@dataclass(frozen=True, eq=False)
class DecodedArray:
    """An array beside data, as xarray decodes it."""

    name: str
    dims: tuple[str | None, ...]
    values: np.ndarray
    """Dates are datetime64, or objects of cftime's."""
    attrs: Mapping[str, Any]
    zone: Any = None
    """The time zone that its times had; None if they had none."""

    @property
    def of_axis(self) -> bool:
        """Return True if it gives the coordinate of each position along an axis."""
        return self.dims == (self.name,)

    @property
    def are_dates(self) -> bool:
        """Return True if its values are dates, of any calendar."""
        if self.values.dtype.kind != "O":
            return self.values.dtype.kind == "M"
        held = (one for one in self.values.reshape(-1) if not is_missing(one))
        return hasattr(next(held, None), "calendar")


def date_part(times: DecodedArray, part: str, said: str) -> DecodedArray:
    """Return such a part of times as xarray's accessor `dt` has.

    Raises
    ------
    PlanError
        If times have no such part, or a time zone; `said` begins its message.
    """
    import pandas as pd

    values = times.values
    if times.zone:
        raise PlanError(f"{said} has times of time zone {times.zone}: {WITHOUT_ZONE}")
    if not times.are_dates and values.dtype.kind != "m":
        raise PlanError(f"{said} is {values.dtype}, not times, which have parts")
    there = ~pd.isna(values.reshape(-1))
    if values.dtype.kind != "O" or there.all():
        found = _parts(values, part)
    else:  # cftime has no dates that are missing
        found, held = np.full(values.shape, None), _parts(values.reshape(-1)[there], part)
        found.reshape(-1)[there] = held
        found = None if held is None else found
    if found is None:
        known = [
            one
            for one in _names_of_parts()
            if _parts(values.reshape(-1)[there][:1], one) is not None
        ]
        near = difflib.get_close_matches(part, known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}? The parts" if near else "the parts"
        raise PlanError(f"{said} has no {part!r}; {hint} are {', '.join(known)}")
    return DecodedArray(times.name, times.dims, found, {})


def _parts(times: np.ndarray, part: str) -> np.ndarray | None:
    """Return a part of each time, by xarray's name; None if such times have none."""
    import xarray as xr

    array = xr.DataArray(times, dims=[f"dim_{n}" for n in range(times.ndim)])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of names that will go
            found = getattr(array.dt, part) if part in _names_of_parts() else None
    except (AttributeError, TypeError):  # that cftime does not have
        return None
    is_one = isinstance(found, xr.DataArray) and found.shape == array.shape
    return np.asarray(found) if is_one else None


def _names_of_parts() -> list[str]:
    """Return what parts of times have labels, by xarray's names."""
    import xarray as xr

    accessor: Any = xr.DataArray.dt
    found = (name for name in dir(accessor) if not name.startswith("_") and name != "calendar")
    return [name for name in found if isinstance(getattr(accessor, name), property)]


def places_of_part(
    found: DecodedArray, part: str, label: Any, said: str, *, may_lack: bool
) -> np.ndarray:
    """Return where a part of dates is a value, one of a list, or in a slice with both ends: bools.

    Parameters
    ----------
    found
        The part of each date.
    said
        How messages begin.
    may_lack
        Accept values that no date has.

    Raises
    ------
    PlanError
        If a value is not of the part's kind, or no date has it; or if a slice is not of numbers.
    """
    values, missing = plain_labels(found.values, said, fractions=True)
    there = values[~missing]
    if isinstance(label, slice):
        chosen = _between(values, part, label, said, there)
        if there.size and not (chosen & ~missing).any() and not may_lack:
            raise PlanError(f"{said} selects nothing; the values are {_some(there)}")
        return np.asarray(chosen & ~missing)
    given = np.asarray(label).tolist() if hasattr(label, "__array__") else label
    several = isinstance(given, Iterable) and not isinstance(given, str)
    each = [_typed(one, values, said, there) for one in (given if several else [given])]
    lacking = next((one for one in each if not (there == one).any()), None)
    if lacking is not None and not may_lack:
        raise PlanError(
            f"{said}: no date has {value_text(lacking, short=True)}; the values are "
            f"{_some(there)}; allow_empty=True allows values that no date has"
        )
    wanted = np.asarray(each, None if each else values.dtype)
    return np.asarray(np.isin(values, wanted) & ~missing)


def _between(
    values: np.ndarray, part: str, label: slice, said: str, there: np.ndarray
) -> np.ndarray:
    if label.step is not None:
        raise PlanError(f"{said} has step {label.step}; name the values: {part}=[1, 3, 5]")
    if values.dtype.kind not in "iuf":
        instead = (
            "select spans of dates by their axis itself, as time=2001-06:2001-08"
            if values.dtype.kind == "M"
            else f"name values of {_some(there)}"
        )
        raise PlanError(f"{said}: slices are of numbers; {instead}")
    first, last = (
        None if one is None else _typed(one, values, said, there)
        for one in (label.start, label.stop)
    )
    above = True if first is None else values >= first
    below = True if last is None else values <= last
    if part in _AROUND and first is not None and last is not None and first > last:
        return np.asarray(above | below)
    return np.broadcast_to(above & below, values.shape)


def _typed(one: Any, values: np.ndarray, said: str, there: np.ndarray) -> Any:
    """Return a value of the part's kind."""
    kind = values.dtype.kind
    if kind == "b" and str(one).lower() in _BOOLS:
        return _BOOLS[str(one).lower()]
    if kind == "U" and isinstance(one, str):
        return one
    try:
        if kind in "iuf" and not isinstance(one, bool):
            return float(one)
        if kind == "M":
            return np.datetime64(one).astype(values.dtype)
    except (TypeError, ValueError):
        pass
    raise PlanError(
        f"{said}: {label_text(one)!r} is not one of its values, which are {_some(there)}"
    )


def _some(there: np.ndarray) -> str:
    """Write the values that there are, in their order, or the first and the last of many."""
    held = [value_text(one, short=True) for one in np.unique(there)]
    return ", ".join(held if len(held) <= _SHOWN else [held[0], held[1], "...", held[-1]])
