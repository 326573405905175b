"""Names of what pictures show: of values, of axes, and of places along them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from chunkfold.printable import printable

if TYPE_CHECKING:
    import xarray

_MOST_LABELS = 31
"""The most small integers that are labels: the days of a month."""
_COUNTED = ("count", "weight", "density")
_MOST_TICKS, _LONG = 24, 50
"""Labels along an axis, and letters of all of them that stand beside each other."""


def title_of(one: xarray.DataArray) -> str:
    """Return the name of a reduction, and of what was reduced if that is known."""
    if edges_of(one) is not None:
        return printable(str(one.name).rpartition("_")[0] or str(one.name))
    of = one.attrs.get("long_name") or one.attrs.get("standard_name")
    return printable(f"{one.name} of {of}" if of else str(one.name))


def value_label(one: xarray.DataArray) -> str:
    """Return what values are, and what they are measured in."""
    return unit_label(str(one.name), one.attrs)


def label_of(one: xarray.DataArray, dim: str, n: int) -> str:
    """Return what one place along an axis is called."""
    if dim not in one.coords:
        return f"{dim} {n}"
    text = _texts(one[dim])[n]
    return text if one[dim].dtype.kind in "OUST" else f"{dim} {text}"


def edges_of(one: xarray.DataArray) -> tuple[xarray.DataArray, xarray.DataArray] | None:
    """Return where the bins of a histogram begin and end; None of all else."""
    name = str(one.name)
    op, _, field = name.rpartition("_")
    if field not in _COUNTED:
        return None
    for prefix in (f"{op}_" if op else "", ""):
        if {f"{prefix}left", f"{prefix}right"} <= {*map(str, one.coords)}:
            return one[f"{prefix}left"], one[f"{prefix}right"]
    return None


def are_labels(one: xarray.DataArray, dim: Any) -> bool:
    """Return True if the places along an axis are groups, rather than places along a scale."""
    if dim not in one.coords:
        return False
    coord = one.coords[dim]
    if is_interval(coord) or coord.dtype.kind in "OUSTb":
        return not is_calendar(coord)
    whole = coord.dtype.kind in "iu" and "units" not in coord.attrs
    return bool(whole and coord.size <= _MOST_LABELS)


def is_interval(coord: xarray.DataArray) -> bool:
    """Return True if a coordinate is of pandas' intervals."""
    return coord.dtype.kind == "O" and coord.size > 0 and hasattr(coord.values[0], "closed")


def is_calendar(coord: xarray.DataArray) -> bool:
    """Return True if a coordinate is of dates that NumPy does not have."""
    return coord.dtype.kind == "O" and coord.size > 0 and hasattr(coord.values[0], "calendar")


def is_scale(one: xarray.DataArray, dim: str) -> bool:
    """Return True if an axis has numbers, dates or intervals; or nothing, which are positions."""
    if dim not in one.coords:
        return True
    coord = one[dim]
    return is_interval(coord) or not are_labels(one, dim)


def dated(axis: Any, values: xarray.DataArray) -> None:
    """Write dates along an axis, if values are some."""
    if values.dtype.kind == "M":
        from matplotlib import dates

        of: Any = dates  # which has no types
        locator = of.AutoDateLocator(minticks=3, maxticks=6)
        axis.set_major_locator(locator)
        axis.set_major_formatter(of.ConciseDateFormatter(locator))


def years(coord: xarray.DataArray) -> np.ndarray:
    """Return dates of any calendar as years with a fraction."""
    return np.array([date.year + (date.dayofyr - 1) / 365.25 for date in coord.values])


def unit(coord: xarray.DataArray) -> str:
    """Return what a coordinate is measured in; degrees are such of either kind."""
    units = str(coord.attrs.get("units", ""))
    return "degrees" if units.startswith("degrees_") else units


def axis_label(one: xarray.DataArray, dim: str) -> str:
    """Return what an axis is called, and what it is measured in."""
    if dim not in one.coords:
        return printable(f"{dim} (positions)")
    coord = one[dim]
    named = str(coord.attrs.get("long_name") or dim)
    if is_calendar(coord):
        return f"{named} (years)"
    return unit_label(named, coord.attrs if coord.dtype.kind != "M" else {})


def unit_label(name: str, attrs: Mapping[Any, Any]) -> str:
    """Return a name with its units."""
    units = attrs.get("units")
    return printable(f"{name} [{units}]" if units not in (None, "") else name)


def _texts(coord: xarray.DataArray) -> list[str]:
    if coord.dtype.kind == "M":
        return [str(day).removesuffix("T00:00:00") for day in coord.values.astype("M8[s]")]
    return [printable(str(value)) for value in coord.values]


def named_ticks(axis: Any, coord: xarray.DataArray) -> None:
    """Write labels at 0, 1 and so on; some of them where they are many, aslant where long."""
    texts = _texts(coord)
    every = -(-len(texts) // _MOST_TICKS)
    steep = axis.axis_name == "x" and sum(map(len, texts[::every])) > _LONG
    axis.set_ticks(np.arange(len(texts))[::every])
    aslant = {"rotation": 40, "ha": "right"} if steep else {}
    axis.set_ticklabels(texts[::every], **aslant)


def interval_ends(coord: xarray.DataArray) -> tuple[np.ndarray, np.ndarray]:
    """Return where intervals begin and end."""
    held = coord.values
    return np.array([one.left for one in held]), np.array([one.right for one in held])
