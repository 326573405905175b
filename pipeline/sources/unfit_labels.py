"""Errors for values, slices and methods that select nothing of a coordinate: one per cause."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from chunkfold.errors import PlanError
from chunkfold.sources.coordinate_texts import (
    kind_text,
    label_text,
    near_texts,
    some_text,
    value_text,
)
from chunkfold.sources.labels import is_missing

if TYPE_CHECKING:
    import pandas as pd
    import xarray


def refuse_unfit_slice(coordinate: xarray.DataArray, wanted: slice, name: str) -> None:
    """Refuse a step that is none, and a coordinate in no order that a slice is of."""
    dim, index = coordinate.dims[0], coordinate.to_index()
    step = 1 if wanted.step is None else wanted.step
    if not isinstance(step, (int, np.integer)) or isinstance(step, bool) or step == 0:
        raise PlanError(
            f"{name}: {label_text(wanted)} of {dim!r} has step {step!r}; give a whole number "
            "that is not 0"
        )
    if not _is_ordered(index):
        raise PlanError(
            f"{name}: {dim!r} {_disorder(coordinate, index)}, so that {label_text(wanted)} does "
            "not select a part of it: name values in a list, or select by positions"
        )


def refuse_unfit_method(
    coordinate: xarray.DataArray, wanted: Any, name: str, method: str, tolerance: Any
) -> Any:
    """Refuse a method that means nothing of a coordinate, or of values; return the tolerance."""
    dim, index = coordinate.dims[0], coordinate.to_index()
    if method == "nearest" and not _has_distances(coordinate):
        raise PlanError(
            f"{name}: sel_method='nearest' takes numbers and dates, which have distances, but "
            f"{dim!r} has {kind_text(coordinate)}, {some_text(coordinate)}: name values that it "
            "has"
        )
    if not _is_ordered(index):
        raise PlanError(
            f"{name}: {dim!r} {_disorder(coordinate, index)}, so that sel_method={method!r} finds "
            "nothing in it: name values that it has, or select by positions"
        )
    if any(map(is_missing, _values(wanted))):
        raise PlanError(
            f"{name}: {label_text(wanted)} of {dim!r} has no nearest value: omit "
            f"sel_method={method!r}, or give values"
        )
    return None if tolerance is None else _distance(coordinate, name, tolerance)


def _is_ordered(index: pd.Index) -> bool:
    return bool(index.is_monotonic_increasing or index.is_monotonic_decreasing)


def _has_distances(coordinate: xarray.DataArray) -> bool:
    return kind_text(coordinate) != "texts" and coordinate.dtype.kind != "b"


def _disorder(coordinate: xarray.DataArray, index: pd.Index) -> str:
    """Say why a coordinate is in no order."""
    missing = np.flatnonzero(index.isna())
    if missing.size:
        one = value_text(coordinate.values[missing[0]])
        return f"has {one} at position {missing[0]}, and is in no order"
    return f"does not ascend or descend ({some_text(coordinate)})"


def _distance(coordinate: xarray.DataArray, name: str, tolerance: Any) -> Any:
    """Return a tolerance as the index of a coordinate takes it."""
    import pandas as pd

    dim, said = coordinate.dims[0], f"{name}: sel_tolerance is {tolerance!r}"
    plain = isinstance(tolerance, (Real, np.number)) and not isinstance(tolerance, bool)
    if coordinate.dtype.kind in "iuf":
        if not plain or not float(tolerance) >= 0:
            raise PlanError(f"{said}, but {dim!r} has numbers: give a number, 0 or more")
        return tolerance
    calendar = getattr(coordinate.to_index(), "calendar", None)
    if coordinate.dtype.kind not in "mM" and calendar is None:
        return tolerance
    try:
        span = None if plain else pd.Timedelta(tolerance)
    except (ValueError, TypeError):
        span = None
    if span is None or not span >= pd.Timedelta(0):
        raise PlanError(f"{said}, but {dim!r} has times: give a span of time, such as '12h'")
    return span if calendar is None else span.to_pytimedelta()


def not_selected(
    coordinate: xarray.DataArray,
    index: xarray.DataArray,
    wanted: Any,
    placed: Any,
    name: str,
    by: str,
    error: Exception,
) -> PlanError:
    """Return what to raise where a label selects nothing: which value, and why.

    Parameters
    ----------
    index
        The coordinate as it is looked up: of longitudes, those of its own turn.
    placed
        What is wanted, as it is looked up there.
    by
        The method and the tolerance, as messages have them; "" if there is none.
    """
    dim = coordinate.dims[0]
    for one in _values(wanted):
        if why := _why_unlike(coordinate, one):
            return PlanError(
                f"{name}: {label_text(wanted)} selects nothing of {dim!r}, whose values are "
                f"{kind_text(coordinate)}, {some_text(coordinate)}: {why}"
            )
    if not isinstance(error, KeyError):
        why = str(error).strip().partition("\n")[0]
        return PlanError(
            f"{name}: {label_text(wanted)} cannot be looked up in {dim!r}, whose values are "
            f"{kind_text(coordinate)}, {some_text(coordinate)}: {why}"
        )
    pairs = list(zip(_values(wanted), _values(placed), strict=True))
    lacking, near = next(((a, b) for a, b in pairs if not _has(index, b)), (wanted, placed))
    plain = isinstance(lacking, (str, bytes, Real))
    said = f"{name}: {dim!r} has no {repr(lacking) if plain else value_text(lacking)}"
    if by:
        return PlanError(f"{said}, and no nearest one by {by}; it is {some_text(coordinate)}")
    if isinstance(wanted, slice):
        return PlanError(
            f"{name}: {dim!r} has no {label_text(wanted)}; it is {some_text(coordinate)}: give "
            "ends that it has, or select by positions"
        )
    found = ", ".join(near_texts(coordinate, near))
    there = f"nearest are {found}" if found else f"it is {some_text(coordinate)}"
    may_be_near = _has_distances(coordinate) and _is_ordered(index.to_index())
    nearest = ", or sel_method='nearest'" if may_be_near else ""
    return PlanError(f"{said}; {there}: give values that it has{nearest}")


def _values(wanted: Any) -> Iterator[Any]:
    """Yield the values that a label names."""
    if isinstance(wanted, slice):
        yield from (end for end in (wanted.start, wanted.stop) if end is not None)
    elif isinstance(wanted, (list, tuple)) or np.ndim(wanted):
        for one in wanted:
            yield from _values(one)
    else:
        yield wanted


def _why_unlike(coordinate: xarray.DataArray, one: Any) -> str:
    """Say why a value is not of a coordinate's kind; "" if it is."""
    index, kind = coordinate.to_index(), kind_text(coordinate)
    shown = repr(one) if isinstance(one, str) else str(one)
    a_number = isinstance(one, (Real, np.number)) and not isinstance(one, np.timedelta64)
    if coordinate.dtype.kind in "iuf":
        return "" if a_number else f"{shown} is not a number"
    if coordinate.dtype.kind == "O" and kind == "dates" and index.isna().any():
        first = int(np.flatnonzero(index.isna())[0])
        return f"it has {coordinate.values[first]} at position {first}: select by positions"
    if kind == "texts":
        return "" if isinstance(one, (str, bytes)) else f"{shown} is not a text"
    if kind == "spans of time":
        return f"{shown} is not a span of time, such as '6h'" if a_number or one is None else ""
    if kind != "dates":
        return ""
    if a_number or one is None:
        return f"{shown} is not a date"
    if calendar := getattr(index, "calendar", None):
        if isinstance(one, (np.datetime64, datetime)):
            return f"{shown} is a date of today's calendar, not of {calendar}: give it as a text"
        return "" if not isinstance(one, str) else _no_text_of(coordinate, one, calendar)
    return _other_zone(getattr(index, "tz", None), one, shown)


def _no_text_of(coordinate: xarray.DataArray, text: str, calendar: str) -> str:
    try:
        coordinate.sel({coordinate.dims[0]: slice(text, None)})
    except Exception:  # noqa: BLE001 # cftime and xarray have many for texts that are no dates
        return f"{text!r} is not a date of calendar {calendar}"
    return ""


def _other_zone(zone: Any, one: Any, shown: str) -> str:
    import pandas as pd

    try:
        own = pd.Timestamp(one).tzinfo
    except (ValueError, TypeError):
        return f"{shown} is not a date"
    if zone is None and own is not None:
        return f"{shown} has a time zone, and they have none: omit it"
    if zone is not None and own is None and not isinstance(one, str):
        return f"{shown} has no time zone, and theirs is {zone}: give it as a text, or with a zone"
    return ""


def _has(coordinate: xarray.DataArray, label: Any) -> bool:
    try:
        coordinate.sel({coordinate.dims[0]: label})
    except Exception:  # noqa: BLE001 # whatever it is: it selects nothing
        return False
    return True
