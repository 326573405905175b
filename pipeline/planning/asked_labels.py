"""Labels as options ask for them: one, or several at once, each with its axes and its groups."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Number
from typing import Any

import numpy as np

from chunkfold.errors import PlanError
from chunkfold.planning.options import Options
from chunkfold.sources.axis_names import AxisOption, Named
from chunkfold.sources.named_labels import is_coordinate, may_name
from chunkfold.sources.resampling import resamplings


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
    by = several(options.by, partial(stands_beside, data))
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


def stands_beside(data: Named, text: str) -> bool:
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
            f"{what} is {given!r}, but there are {count} labels: give one for each, or None, as "
            f"{what}=({', '.join(['None'] * (count - 1))}, ...)"
        )
    return list(given)
