"""Where values of a coordinate are along its axis: with xarray's meaning, by its own indexes."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from chunkfold.errors import PlanError
from chunkfold.positions import as_range, index_of
from chunkfold.selections import slice_text

if TYPE_CHECKING:
    import pandas as pd
    import xarray

METHODS = ("nearest", "pad", "ffill", "backfill", "bfill")
"""Which place is taken of a value that is none of a coordinate's, as xarray has them."""
_SHOWN = 3
"""Values that messages tell."""
_SEARCHED = 10_000
"""Texts among which like ones are looked for."""


def positions_of(
    coordinate: xarray.DataArray,
    label: Any,
    name: str,
    method: str | None = None,
    tolerance: Any = None,
) -> int | slice | np.ndarray:
    """Return what selects of an axis as `sel` of xarray's does by a label, a list, or a slice.

    Slices take both of their ends, of whatever direction the coordinate has; `method` and
    `tolerance` are for single values, and for each of a list. Texts are numbers where the
    coordinate has such.

    Parameters
    ----------
    coordinate
        Of one axis, by its name.
    label
        A value, a list or an array of one axis of values, or a slice.
    name
        How messages call the data.

    Raises
    ------
    PlanError
        If there is no such value, or the coordinate is in no order that a slice is of.
    """
    import xarray as xr

    dim, sliced = coordinate.dims[0], isinstance(label, slice)
    numbers = xr.DataArray(np.arange(coordinate.size), {dim: coordinate}, [dim])
    index = numbers.indexes[dim]
    if sliced and not (index.is_monotonic_increasing or index.is_monotonic_decreasing):
        raise PlanError(
            f"{name}: {dim!r} neither ascends nor descends ({_some(coordinate)}), so that "
            f"{_text(label)} is no part of it: name values in a list, or select by positions"
        )
    wanted = _typed(label, coordinate, name, exact=method is not None)
    by = {} if sliced or method is None else {"method": method, "tolerance": tolerance}
    if not index.is_unique and (by or np.ndim(wanted)):
        raise PlanError(
            f"{name}: {dim!r} has {_value(coordinate.values[index.duplicated()][0])} more than "
            f"once, so that {_text(label)} does not say which: select by a value or a slice, which "
            "take all, or by positions"
        )
    turned = sliced and index.dtype.kind == "M" and _descends(index, wanted.step)
    if turned:  # pandas takes months and open ends of ascending dates alone
        numbers, every = numbers[::-1], slice(None, None, wanted.step)
        wanted = slice(wanted.stop, wanted.start)
    try:
        found = numbers.sel({dim: wanted}, **by).values
        found = found[::-1][every] if turned else found
    except KeyError:
        raise _not_there(coordinate, wanted, name, method, tolerance) from None
    except Exception:  # noqa: BLE001 # pandas has many for what it cannot compare
        raise PlanError(
            f"{name}: {_text(label)} selects nothing of {dim!r}, whose values are "
            f"{_kind(coordinate)}, {_some(coordinate)}: give values of their kind"
        ) from None
    if found.ndim > 1:
        raise PlanError(f"{name}: sel of {dim!r} has {found.ndim} axes; give a list of values")
    return int(found) if found.ndim == 0 else index_of(as_range(found))


def _descends(index: pd.Index, step: Any) -> bool:
    """Tell whether a slice that goes forwards has its later end first."""
    return not index.is_monotonic_increasing and (
        step is None or (isinstance(step, int) and step > 0)
    )


def _typed(label: Any, coordinate: xarray.DataArray, name: str, *, exact: bool) -> Any:
    """Return a label of the coordinate's kind where it is a text: a number, or a date.

    `exact` tells that a text is a date and no span. Of today's calendar pandas makes them.
    """
    if isinstance(label, slice):
        first, last = (_typed(n, coordinate, name, exact=False) for n in (label.start, label.stop))
        return slice(first, last, label.step)
    if isinstance(label, (list, tuple)):
        return [_typed(one, coordinate, name, exact=True) for one in label]
    if not isinstance(label, str):
        return label
    if coordinate.dtype.kind in "iuf":
        return _number(label, coordinate, name)
    calendar = getattr(coordinate.to_index(), "calendar", None)
    return _date(label, calendar, coordinate, name) if exact and calendar else label


def _number(label: str, coordinate: xarray.DataArray, name: str) -> float:
    try:
        return float(label)
    except ValueError:
        raise PlanError(
            f"{name}: {label!r} is no number, but {coordinate.dims[0]!r} has numbers, "
            f"{_some(coordinate)}"
        ) from None


def _date(label: str, calendar: str, coordinate: xarray.DataArray, name: str) -> Any:
    import xarray as xr

    try:
        return xr.date_range(label, periods=1, calendar=calendar, use_cftime=True)[0]
    except ValueError:
        raise PlanError(
            f"{name}: {label!r} is no date of calendar {calendar}, but {coordinate.dims[0]!r} has "
            f"such, {_some(coordinate)}"
        ) from None


def _not_there(
    coordinate: xarray.DataArray, label: Any, name: str, method: str | None, tolerance: Any
) -> PlanError:
    """Say which value is none of a coordinate's, and which are near it."""
    dim, held = coordinate.dims[0], coordinate.values
    ends = [label.start, label.stop] if isinstance(label, slice) else np.atleast_1d(label).tolist()
    lacking = next((one for one in ends if one is not None and not _has(coordinate, one)), label)
    said = f"{name}: {dim!r} has no {lacking!r}"
    if method is not None:
        within = "" if tolerance is None else f" within {tolerance!r}"
        by = f"and none by method {method!r}{within}"
        return PlanError(f"{said}, {by}; it is {_some(coordinate)}")
    if isinstance(label, slice):
        return PlanError(
            f"{name}: {dim!r} has no {_text(label)}; it is {_some(coordinate)}: give ends that it "
            "has, or select by positions"
        )
    near = ", ".join(map(_value, _nearest(held, lacking)))
    there = f"nearest are {near}" if near else f"it is {_some(coordinate)}"
    return PlanError(f"{said}; {there}: give values that it has, or sel_method='nearest'")


def _has(coordinate: xarray.DataArray, label: Any) -> bool:
    try:
        coordinate.sel({coordinate.dims[0]: label})
    except Exception:  # noqa: BLE001 # whatever it is: it selects nothing
        return False
    return True


def _nearest(held: np.ndarray, label: Any) -> list[Any]:
    """Return the values that are nearest to one, at most two; none if that means nothing."""
    if held.dtype.kind in "UO":
        texts = [str(one) for one in held[:_SEARCHED]]
        return difflib.get_close_matches(str(label), texts, n=2)
    try:
        wanted = np.asarray(label, held.dtype if held.dtype.kind in "mM" else np.float64)
        apart = np.abs(held - wanted)
    except (TypeError, ValueError):
        return []
    return list(held[np.sort(np.argsort(apart, kind="stable")[:2])])


def _some(coordinate: xarray.DataArray) -> str:
    """Tell a few values of a coordinate."""
    held = coordinate.values
    told = [_value(one) for one in (held if held.size <= _SHOWN else held[: _SHOWN - 1])]
    return ", ".join([*told, *(["...", _value(held[-1])] if held.size > _SHOWN else [])])


def _value(one: Any) -> str:
    """Write a value; of dates as much as they say."""
    if not isinstance(one, np.datetime64):
        return str(one)
    return str(np.datetime_as_string(one, unit="auto"))


def _kind(coordinate: xarray.DataArray) -> str:
    kind = coordinate.dtype.kind
    dates = kind == "M" or hasattr(coordinate.to_index(), "calendar")
    return "dates" if dates else "texts" if kind in "USO" else str(coordinate.dtype)


def _text(label: Any) -> str:
    """Write a label as messages do.

    >>> _text(slice("2001-01", None)), _text([1, 2])
    ('2001-01:', '[1, 2]')
    """
    if isinstance(label, slice):
        return slice_text(label)
    return str(label) if isinstance(label, str) else repr(label)


def sel_text(sel: Mapping[str, Any]) -> str:
    """Write what is selected by coordinates.

    >>> sel_text({"time": slice("2001-01", "2010-12"), "lat": 30})
    'time=2001-01:2010-12, lat=30'
    """
    return ", ".join(f"{dim}={_text(label)}" for dim, label in sel.items())
