"""Labels as options ask for them: one, or several at once, each with its axes and its groups."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Number
from typing import Any

import numpy as np

from chunkfold.errors import PlanError
from chunkfold.planning.options import Options
from chunkfold.sources.axis_names import AxisOption
from chunkfold.sources.resampling import resamplings


@dataclass(frozen=True, eq=False)
class Asked:
    """One label."""

    by: Any
    """What it is made of."""
    by_axis: AxisOption = None
    groups: Any = None


def asked_labels(options: Options) -> list[Asked]:
    """Return the labels that are asked for, in the order of the results' axes; nothing if none are.

    What is resampled comes first.

    Raises
    ------
    PlanError
        If axes or groups are not given one for each.
    """
    by = several(options.by)
    axes = each_of("by_axis", options.by_axis, len(by))
    groups = each_of("groups", options.groups, len(by))
    first = [Asked(one) for one in resamplings(options.resample)]
    return [*first, *map(Asked, by, axes, groups)]


def several(by: Any) -> list[Any]:
    """Return each of several labels; a tuple of them is that, but one of plain numbers or dates.

    >>> several(("time.month", [0, 1])), several((0, 1, 0)), several(None)
    (['time.month', [0, 1]], [(0, 1, 0)], [])
    """
    if by is None:
        return []
    return list(by) if isinstance(by, tuple) and not all(map(_is_plain, by)) else [by]


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
