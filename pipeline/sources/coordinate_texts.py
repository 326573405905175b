"""Coordinates, and what is selected by them, as messages write them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from chunkfold.selections import slice_text
from chunkfold.sources.longitudes import TURN, is_longitude

if TYPE_CHECKING:
    import xarray

_SHOWN = 3
"""Values that messages tell."""
_SEARCHED = 10_000
"""Texts among which like ones are looked for."""


def some_text(coordinate: xarray.DataArray) -> str:
    """Write a few values of a coordinate."""
    held = _held(coordinate)
    told = [value_text(one) for one in (held if held.size <= _SHOWN else held[: _SHOWN - 1])]
    return ", ".join([*told, *(["...", value_text(held[-1])] if held.size > _SHOWN else [])])


def _held(coordinate: xarray.DataArray) -> Any:
    """Return the values of a coordinate: those of a time zone with it, as NumPy has none."""
    index = coordinate.to_index()
    return coordinate.values if getattr(index, "tz", None) is None else index


def range_text(coordinate: xarray.DataArray, *, longitudes: bool = False) -> str:
    """Say from where to where a coordinate runs, in the order of its axis."""
    ends = [value_text(one, short=True) for one in _held(coordinate)[[0, -1]]]
    what = "longitudes run" if longitudes else f"{coordinate.dims[0]} runs"
    return f"{what} from {ends[0]} to {ends[1]}"


def value_text(one: Any, *, short: bool = False) -> str:
    """Write a value: of dates as much as they say, and of `short` numbers no more than they say.

    >>> value_text(np.float64(90)), value_text(np.float64(90), short=True)
    ('90.0', '90')
    """
    if isinstance(one, np.datetime64):
        return str(np.datetime_as_string(one, unit="auto"))
    if isinstance(one, np.timedelta64):
        import pandas as pd

        return str(pd.Timedelta(one))
    return str(one).removesuffix(".0") if short else str(one)


def kind_text(coordinate: xarray.DataArray) -> str:
    """Say of what kind the values of a coordinate are."""
    kind, first = coordinate.dtype.kind, coordinate.to_index().dropna()[:1]
    dates = kind == "M" or (kind == "O" and any(hasattr(one, "year") for one in first))
    known = {"m": "spans of time", "U": "texts", "S": "texts", "O": "texts", "T": "texts"}
    return "dates" if dates else known.get(kind, str(coordinate.dtype))


def label_text(label: Any) -> str:
    """Write what selects of a coordinate.

    >>> label_text(slice("2001-01", None)), label_text([1, 2])
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
    return ", ".join(f"{dim}={label_text(label)}" for dim, label in sel.items())


def near_texts(coordinate: xarray.DataArray, label: Any) -> list[str]:
    """Write the values nearest to one, at most two; none if that means nothing."""
    held = coordinate.values
    if held.dtype.kind in "UO":
        texts = [str(one) for one in held[:_SEARCHED]]
        return difflib.get_close_matches(str(label), texts, n=2)
    try:
        wanted = np.asarray(label, held.dtype if held.dtype.kind in "mM" else np.float64)
        apart = np.abs(held - wanted)
        if is_longitude(coordinate):
            apart = np.minimum(apart % TURN, -apart % TURN)
    except (TypeError, ValueError):
        return []
    return [value_text(one) for one in held[np.sort(np.argsort(apart, kind="stable")[:2])]]
