"""The labels of groups as a coordinate of results in a Zarr, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import zarr
from zarr.dtype import VariableLengthUTF8

from chunkfold.errors import PlanError
from chunkfold.planning.grouping import Grouping
from chunkfold.sources.any_labels import GroupsOfLabel
from chunkfold.workflows.as_json import jsonable

_UNITS = {
    "s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds",
}  # fmt: skip
"""CF's names of NumPy's units."""
_COARSE = ("Y", "M", "W", "D", "h", "m")
"""Units of dates that are so many seconds; of spans only those from weeks on."""


def refuse_unwritable(grouping: Grouping, axes: Sequence[str]) -> None:
    """Find out whether the labels of groups can be a coordinate, before any work.

    `axes` are the names of the other axes of results.

    Raises
    ------
    PlanError
        If they are times that CF has no unit for, or are called as one of the axes.
    """
    for one in grouping.labels:
        if one.axis in axes:
            raise PlanError(
                f"{one.name}: the labels of groups and an axis that results keep are both called "
                f"{one.axis!r}: rename the labels"
            )
        if one.groups.dtype.kind in "mM":
            _unit_of(one.name, one.groups.dtype)


def _unit_of(name: str, dtype: np.dtype) -> str:
    """Return the unit that holds times that label groups, without loss."""
    unit, dated = np.datetime_data(dtype)[0], dtype.kind == "M"
    if unit in _COARSE and (dated or unit not in "YM"):
        unit = "s"
    if unit not in _UNITS:
        raise PlanError(
            f"{name}: labels of {dtype} have no unit in a Zarr; cast them to "
            f"{'datetime64' if dated else 'timedelta64'}[ns] or a coarser one"
        )
    return unit


def write_groups(group: zarr.Group, label: GroupsOfLabel) -> None:
    """Write the labels of groups beside results: times as CF conventions have them."""
    labels, attributes = label.groups, dict(label.attrs)
    if labels.dtype.kind in "mM":
        unit = _unit_of(label.name, labels.dtype)
        since = " since 1970-01-01" if labels.dtype.kind == "M" else ""
        attributes |= {"units": f"{_UNITS[unit]}{since}"}
        labels = labels.astype(f"{labels.dtype.kind}8[{unit}]").astype(np.int64)
    elif labels.dtype.kind == "O":
        labels, said = _of_calendar(labels)
        attributes |= said
    text: Any = VariableLengthUTF8() if labels.dtype.kind == "U" else labels.dtype
    made = group.create_array(
        label.axis,
        shape=labels.shape,
        dtype=text,
        attributes={name: jsonable(said) for name, said in attributes.items()},
        dimension_names=[label.axis],
    )
    made[...] = labels.astype(object) if labels.dtype.kind == "U" else labels


def _of_calendar(dates: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
    """Return dates of cftime's as numbers, and the attributes that say so."""
    import cftime

    attributes = {"units": f"microseconds since {dates[0]}", "calendar": dates[0].calendar}
    numbers = cftime.date2num(dates, attributes["units"], attributes["calendar"])
    return np.asarray(numbers, np.int64), attributes
