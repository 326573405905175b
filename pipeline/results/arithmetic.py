"""Arithmetic of results keeps what they have in common: axes, coordinates, units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from chunkfold.errors import PlanError
from chunkfold.results.coordinate import Coordinate
from chunkfold.results.result import Result
from chunkfold.sources.data_arrays import is_of_xarray

_SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "true_divide": "/"}
_ALIKE = ("add", "subtract", "maximum", "minimum", "fmax", "fmin")
"""Functions of two, whose result is measured as both are."""
_SCALED = ("multiply", "divide", "true_divide")
"""Functions by which a plain number leaves units as they are."""
_SAME = ("negative", "positive", "absolute", "fabs", "rint", "floor", "ceil", "trunc")
"""Functions of one, whose result is measured as that is."""


def applied(ufunc: np.ufunc, inputs: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return a function of results, and of plain numbers or arrays, with the results' labels.

    Truths, and what is not of the shape of the results, are NumPy's; with arrays of xarray's it is
    xarray's, which aligns them.

    Raises
    ------
    PlanError
        If two results have other axes or coordinates.
    """
    if any(is_of_xarray(one, kind) for one in inputs for kind in ("DataArray", "Dataset")):
        return ufunc(
            *(one.to_xarray() if isinstance(one, Result) else one for one in inputs), **kwargs
        )
    results = [one for one in inputs if isinstance(one, Result)]
    first = max(results, key=lambda one: one.ndim)
    for other in results:
        _compare(first, other)
    plain = [_laid(one, first) if isinstance(one, Result) else one for one in inputs]
    values = ufunc(*plain, **kwargs)
    plain_values = isinstance(values, (np.ndarray, np.generic))
    if not plain_values or np.shape(values) != first.shape or values.dtype == bool:
        return values
    units = _units(ufunc.__name__, inputs)
    attrs = {} if units is None else {"units": units}
    name, read = _name(ufunc.__name__, inputs), lambda: first.coordinates
    origins = tuple(dict.fromkeys(origin for one in results for origin in one.origins))
    return Result(name, values, first.dims, attrs, first.labels, read=read, origins=origins)


def _compare(one: Result, other: Result) -> None:
    """Raise unless a result has labels that another has, too."""
    more = [dim for dim in other.dims if dim not in one.dims]
    sizes, others = (dict(zip(each.dims, each.shape, strict=True)) for each in (one, other))
    if more or any(sizes[dim] != size for dim, size in others.items()):
        raise PlanError(
            f"{one.name!r} has axes ({_axes(sizes)}), and {other.name!r} has ({_axes(others)}): "
            "only results with equal axes can be computed with each other; np.asarray(result) "
            "has no labels"
        )
    for name, held in other.coordinates.items():
        own = one.coordinates.get(name)
        if own is not None and own.dims == held.dims and not _equal(own, held):
            raise PlanError(
                f"{one.name!r} and {other.name!r} have different values of coordinate {name!r}: "
                f"{_ends(own)}, and {_ends(held)}; select the same of both, or compute with "
                "np.asarray(result), which has no labels"
            )


def _axes(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{dim}: {size}" for dim, size in sizes.items())


def _equal(one: Coordinate, other: Coordinate) -> bool:
    numbers = one.values.dtype.kind in "fcmM" and other.values.dtype.kind in "fcmM"
    return np.array_equal(one.values, other.values, equal_nan=numbers)


def _ends(one: Coordinate) -> str:
    held = one.values.reshape(-1)
    return f"{held[0]} to {held[-1]}" if held.size else "none"


def _laid(one: Result, first: Result) -> Any:
    """Return values along the axes of another result, in its order."""
    order = [one.dims.index(dim) for dim in first.dims if dim in one.dims]
    missing = [n for n, dim in enumerate(first.dims) if dim not in one.dims]
    return np.expand_dims(np.transpose(one.values, order), missing) if first.ndim else one.values


def _units(function: str, inputs: Sequence[Any]) -> Any:
    """Return the units of what is computed, as far as they are known."""
    units = [one.units if isinstance(one, Result) else None for one in inputs]
    labelled = [isinstance(one, Result) for one in inputs]
    if function in _ALIKE and all(labelled) and units[0] == units[1]:
        return units[0]
    scaled = function == "multiply" or (function in _SCALED and labelled[0])
    if scaled and labelled.count(True) == 1:
        return next(one for one, has in zip(units, labelled, strict=True) if has)
    return units[0] if function in _SAME else None


def _name(function: str, inputs: Sequence[Any]) -> str:
    """Say what was computed of which results."""
    names = [one.name for one in inputs if isinstance(one, Result)]
    sign = _SIGNS.get(function)
    if sign is None:
        return f"{function}({', '.join(names)})"
    if len(names) < len(inputs) or len({*names}) == 1:
        return names[0]
    return f" {sign} ".join(f"({name})" if " " in name else name for name in names)
