"""Results in words: of a manifest, in the digits that their dtypes have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from chunkfold.plural import counted

_MOST_LISTED = 12
"""The most values of a result that are listed."""


def result_words(name: str, value: Any, labels: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what is said of a result: of what, and how much; one pair, or one for each group.

    Parameters
    ----------
    value, labels
        Entries of a manifest: values, or what a large result is; dtypes, axes and coordinates.
    """
    told = labels.get("results", {}).get(name, {})
    dims, coordinates = told.get("dims", []), labels.get("coordinates", {})
    units = told.get("attrs", {}).get("units")
    behind = f" {units}" if units is not None else ""
    dtype = told.get("dtype", "")
    if isinstance(value, Mapping) and "sha256" in value:
        yield "", f"{_axes(value['shape'], dims, coordinates)}: {_span(value, behind)}"
    elif isinstance(value, list) and value and _are_bins(value):
        yield "", _bins(value, told)
    elif not isinstance(value, list):
        yield "", f"{number(value, dtype)}{behind}"
    elif len(dims) == 1 and len(value) <= _MOST_LISTED and not isinstance(value[0], (list, dict)):
        names = coordinates.get(dims[0], {}).get("values", range(len(value)))
        for place, one in zip(names, value, strict=True):
            what = _place(place) if isinstance(place, str) else f"{dims[0]} {place}"
            yield what, f"{number(one, dtype)}{behind}"
    else:
        shape = np.shape(np.array(value, object))[: len(dims) or None]
        flat = [one for one in np.ravel(np.array(value, object)) if isinstance(one, (int, float))]
        ends = {"low": min(flat), "high": max(flat)} if flat else {}
        yield "", f"{_axes(shape, dims, coordinates)}: {_span({'dtype': dtype, **ends}, behind)}"


def number(value: Any, dtype: str) -> str:
    """Write a number in the digits that its dtype has.

    >>> number(278.60821533203125, "float32"), number(3, "int64"), number("NaN", "float32")
    ('278.60822', '3', 'NaN')
    """
    if isinstance(value, float) and dtype in ("float16", "float32"):
        return str(np.dtype(dtype).type(value))
    return str(value)


def _span(value: Mapping[str, Any], behind: str) -> str:
    if "low" not in value:
        return str(value.get("dtype", ""))
    low, high = (number(value[end], value["dtype"]) for end in ("low", "high"))
    return f"from {low} to {high}{behind}"


def _axes(shape: Any, dims: Any, coordinates: Mapping[str, Any]) -> str:
    """Say what axes results have, and from where to where.

    >>> _axes([12, 2], ["month", "y"], {"month": {"values": list(range(1, 13))}})
    '12 of month (1 to 12), 2 of y'
    """
    told = []
    for size, dim in zip(shape, dims or [f"axis {n}" for n in range(len(shape))], strict=True):
        held = coordinates.get(dim, {}).get("values", [])
        flat = len(held) == size and held and not isinstance(held[0], list)
        told.append(
            f"{size:,} of {dim}" + (f" ({_place(held[0])} to {_place(held[-1])})" if flat else "")
        )
    return ", ".join(told)


def _place(value: Any) -> str:
    """Write a value of a coordinate; a date without its hour, if that is midnight."""
    return str(value).removesuffix("T00:00:00")


def _are_bins(value: Any) -> bool:
    return isinstance(value[0], Mapping) and {"left", "right"} <= value[0].keys()


def _bins(value: Any, told: Mapping[str, Any]) -> str:
    field = next(name for name in value[0] if name not in ("left", "right"))
    units = told.get("fields", {}).get("left", {}).get("units")
    behind = f" {units}" if units is not None else ""
    most = max(value, key=lambda one: one[field])
    total = sum(one[field] for one in value)
    return (
        f"{total:,} in {counted(len(value), 'bin')} from {value[0]['left']:g} to "
        f"{value[-1]['right']:g}{behind}, most from {most['left']:g} to {most['right']:g}"
    )
