"""Labels that options ask for: one or several, each with its axes and groups."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Number
from typing import TYPE_CHECKING, Any

import numpy as np

from chunkfold.errors import PlanError
from chunkfold.planning.options import Options
from chunkfold.sources.axis_names import AxisOption, Named, instead
from chunkfold.sources.bins import Bins
from chunkfold.sources.data_arrays import is_of_xarray
from chunkfold.sources.named_labels import is_coordinate, may_name
from chunkfold.sources.resampling import resamplings

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True, eq=False)
class Asked:
    """One label."""

    by: Any
    """Source of the label: an array, or a text that names one."""
    by_axis: AxisOption = None
    groups: Any = None


def asked_labels(options: Options, data: Named) -> list[Asked]:
    """Return the labels that are asked for, in the order of the results' axes; nothing if none are.

    Labels of `resample` come first.

    Raises
    ------
    PlanError
        If axes or groups are not given one for each.
    """
    by = several(options.by, partial(names_coordinate, data))
    axes = each_of("by_axis", options.by_axis, len(by))
    groups = each_of("groups", options.groups, len(by))
    first = [Asked(one) for one in resamplings(options.resample)]
    return [*first, *map(Asked, by, axes, groups)]


def several(by: Any, names: Callable[[str], bool]) -> list[Any]:
    """Return each of several labels: of a tuple or a list, unless it is the labels of one.

    Plain numbers and dates are those of one, so are lists of numbers in a list, and texts in a list
    of which neither the first nor the last `names` something.

    >>> several(("time.month", [0, 1]), bool), several(["n", "s", "n"], lambda text: text == "time")
    (['time.month', [0, 1]], [['n', 's', 'n']])
    >>> several([[0, 1], [1, 0]], bool), several([np.arange(2), np.arange(3)], bool)
    ([[[0, 1], [1, 0]]], [array([0, 1]), array([0, 1, 2])])
    """
    if by is None:
        return []
    if isinstance(by, tuple):
        return list(by) if not all(map(_is_plain, by)) else [by]
    return list(by) if isinstance(by, list) and _are_several(by, names) else [by]


def _are_several(by: list[Any], names: Callable[[str], bool]) -> bool:
    texts = [one for one in by if isinstance(one, str)]
    if by and len(texts) == len(by):
        return any(map(names, dict.fromkeys((texts[0], texts[-1]))))
    listed = all(isinstance(one, (list, tuple)) for one in by)
    return not listed and not all(_is_plain(one) or isinstance(one, (str, bytes)) for one in by)


def names_coordinate(data: Named, text: str) -> bool:
    """Tell if a text names a coordinate, a part of times, or an array elsewhere."""
    if not may_name(text):
        return True
    head = text.rpartition(".")[0]
    return any(name and is_coordinate(name, data) for name in (text, head))


def _is_plain(one: Any) -> bool:
    if isinstance(one, (str, bytes, os.PathLike)):
        return False
    return one is None or isinstance(one, (Number, np.generic, dt.date, dt.time, dt.timedelta))


def each_of(what: str, given: Any, count: int) -> list[Any]:
    """Return what was given of each of several labels.

    Raises
    ------
    PlanError
        If it was not given of each.
    """
    if count < 2 or given is None:
        return [given] * count
    listed = isinstance(given, Sequence) and not isinstance(given, str)
    if not listed or isinstance(given, Mapping) or len(given) != count:
        raise PlanError(
            f"{what} is {given!r}, but {count} labels are given: give one for each, or None, as "
            f"{what}=({', '.join(['None'] * (count - 1))}, ...)"
        )
    return list(given)


@dataclass(frozen=True, eq=False)
class DatasetLabels:
    """Labels that are asked for of a Dataset."""

    each: Sequence[tuple[Any, frozenset[Hashable], Any, Any]]
    """For each label its source, its axes, and its `by_axis` and `groups`."""
    resample: Mapping[str, Any]

    def along(self, dims: Sequence[Hashable]) -> dict[str, Any]:
        """Return the options of labels of an array: those whose axes it has."""
        own = [one for one in self.each if one[1] <= {*dims}]
        resample = {dim: span for dim, span in self.resample.items() if dim in dims}
        options: dict[str, Any] = {"resample": resample or None}
        if len(own) == 1:
            (by, _, by_axis, groups), *_ = own
            return {**options, "by": by, "by_axis": by_axis, "groups": groups}
        if own:
            by, _, by_axis, groups = zip(*own, strict=True)
            return {**options, "by": by, "by_axis": by_axis, "groups": groups}
        return options


def labels_of(dataset: xarray.Dataset, given: dict[str, Any]) -> DatasetLabels:
    """Take the options of labels out of those that were given.

    Raises
    ------
    PlanError
        If a label names nothing in the Dataset, or has axes without names.
    """
    by = several(given.pop("by", None), lambda text: text.partition(".")[0] in dataset.variables)
    axes = each_of("by_axis", given.pop("by_axis", None), len(by))
    groups = each_of("groups", given.pop("groups", None), len(by))
    if not by and [one for one in (*axes, *groups) if one is not None]:
        raise PlanError("by_axis or groups is given, but no labels are given: give them with by=")
    resample = given.pop("resample", None) or {}
    for dim in resample:
        if dim not in dataset.dims:
            known = instead(str(dim), list(map(str, dataset.dims)))
            raise PlanError(f"resample: the Dataset has no axis {dim!r}; {known}")
    each = [_held(dataset, one) for one in by]
    return DatasetLabels(
        [(*one, axis, named) for one, axis, named in zip(each, axes, groups, strict=True)], resample
    )


def _held(dataset: xarray.Dataset, by: Any) -> tuple[Any, frozenset[Hashable]]:
    """Return a label as arrays of the Dataset take it, and its axes."""
    if isinstance(by, Bins) and by.of is None:  # of each array its own
        return by, frozenset()
    if isinstance(by, Bins):
        made, dims = _held(dataset, by.of)
        return replace(by, of=made), dims
    if is_of_xarray(by):
        return by, frozenset(by.dims)
    if not isinstance(by, str):
        raise PlanError(
            "by: labels of a Dataset are DataArrays, whose axes have names, or the names of its "
            "coordinates"
        )
    if by in dataset.data_vars:
        return dataset[by], frozenset(dataset[by].dims)
    head, dot, _ = by.rpartition(".")
    name = by if by in dataset.coords else head if dot else ""
    if name not in dataset.coords:
        known = ", ".join(map(str, dataset.variables))
        raise PlanError(f"by {by!r} names nothing in the Dataset, which has {known}")
    return by, frozenset(dataset[name].dims)
