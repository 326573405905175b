"""Positions of coordinate values along their axis: with xarray's meaning, by its own indexes."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from chunkfold.errors import PlanError
from chunkfold.positions import as_range, index_of
from chunkfold.sources.coordinate_texts import label_text, range_text, some_text, value_text
from chunkfold.sources.longitudes import circle_of
from chunkfold.sources.unfit_labels import not_selected, refuse_unfit_method, refuse_unfit_slice

if TYPE_CHECKING:
    import pandas as pd
    import xarray

_BOOLS = {"true": True, "false": False}


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
    coordinate has such. Longitudes are a circle.

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
    if not sliced and (isinstance(label, dict) or _axes(label) > 1):
        raise PlanError(
            f"{name}: sel of {dim!r} is {label_text(label)}; give a value, a list of values of one "
            "axis, or a slice"
        )
    wanted = _typed(label, coordinate, name, exact=method is not None)
    circle, held = circle_of(coordinate), coordinate
    if circle is not None and sliced and (arc := circle.arc(wanted)) is not None:
        return index_of(as_range(arc))
    if circle is not None and not (sliced and (circle.values == coordinate.values).all()):
        held = xr.DataArray(circle.values, {dim: (dim, circle.values)}, [dim])
    placed = wanted if circle is None or sliced else circle.placed(wanted, method)
    numbers = xr.DataArray(np.arange(coordinate.size), {dim: held}, [dim])
    index = numbers.indexes[dim]
    chosen = not sliced and method is not None
    if not index.is_unique and (chosen or np.ndim(wanted)):
        raise PlanError(
            f"{name}: {dim!r} has {value_text(coordinate.values[index.duplicated()][0])} more than "
            f"once, so that {label_text(label)} does not say which: select by a value or a slice, "
            "which take all, or by positions"
        )
    if sliced:
        refuse_unfit_slice(held, wanted, name)
    by = {}
    if chosen:
        distance = refuse_unfit_method(held, placed, name, str(method), tolerance)
        by = {"method": method, "tolerance": distance}
    taken, turned = placed, sliced and index.dtype.kind == "M" and _descends(index, wanted.step)
    if turned:  # pandas takes months and open ends of ascending dates alone
        numbers, every = numbers[::-1], slice(None, None, wanted.step)
        taken = slice(wanted.stop, wanted.start)
    try:
        found = numbers.sel({dim: taken}, **by).values
    except Exception as error:  # noqa: BLE001 # pandas has many for what it cannot compare
        within = "" if tolerance is None else f" within {tolerance!r}"
        how = f"method {method!r}{within}" if by else ""
        raise not_selected(coordinate, held, wanted, placed, name, how, error) from None
    found = found[::-1][every] if turned else found
    return int(found) if found.ndim == 0 else index_of(as_range(found))


def nothing_selected(coordinate: xarray.DataArray, label: Any, name: str) -> PlanError:
    """Return what to raise where a label is understood, but no place has such a value."""
    dim, hint, around = coordinate.dims[0], "", circle_of(coordinate) is not None
    if isinstance(label, slice) and not around:  # the other way around is the rest of the circle
        both = label.start is not None and label.stop is not None
        turned = slice(label.stop, label.start, label.step) if both else label
        places = positions_of(coordinate, turned, name)
        hint = (
            f": write {label_text(turned)}" if np.size(np.arange(coordinate.size)[places]) else ""
        )
    runs = range_text(coordinate, longitudes=around)
    return PlanError(
        f"{name}: {label_text(label)} selects nothing of {dim!r}; {runs}{hint}; "
        "allow_empty=True allows an empty selection"
    )


def _axes(label: Any) -> int:
    try:
        return np.ndim(label)
    except ValueError:  # as of lists of unlike lengths
        return 2


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
    if isinstance(label, date) and not isinstance(label, datetime):
        label = label.isoformat()
    if not isinstance(label, str):
        return label
    if coordinate.dtype.kind in "iuf":
        return _number(label, coordinate, name)
    if coordinate.dtype.kind == "S":
        return label.encode()
    if coordinate.dtype.kind == "b":
        return _BOOLS.get(label.lower(), label)
    calendar = getattr(coordinate.to_index(), "calendar", None)
    return _date(label, calendar, coordinate, name) if exact and calendar else label


def _number(label: str, coordinate: xarray.DataArray, name: str) -> float:
    try:
        return float(label)
    except ValueError:
        raise PlanError(
            f"{name}: {label!r} is not a number, but {coordinate.dims[0]!r} has numbers, "
            f"{some_text(coordinate)}"
        ) from None


def _date(label: str, calendar: str, coordinate: xarray.DataArray, name: str) -> Any:
    import xarray as xr

    try:
        return xr.date_range(label, periods=1, calendar=calendar, use_cftime=True)[0]
    except ValueError:
        raise PlanError(
            f"{name}: {label!r} is not a date of calendar {calendar}, but {coordinate.dims[0]!r} "
            f"has only these, {some_text(coordinate)}"
        ) from None
