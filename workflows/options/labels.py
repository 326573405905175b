"""Labels of groups as people write them, on the command line and in job files."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from chunkfold.errors import PlanError
from chunkfold.plural import counted
from chunkfold.sources.bins import bins as bins_of
from chunkfold.workflows.options.parsing import number_of, parse_edges, words


def labels_asked(
    by: Sequence[Any],
    bins: Sequence[Any] = (),
    groups: Sequence[Any] = (),
    by_axis: Sequence[Any] = (),
) -> dict[str, Any]:
    """Return the options of labels as the library has them: each was given for each label, or not.

    Raises
    ------
    PlanError
        If bins, groups or axes are not given as often as labels are.
    """
    if len(by) < 2 and len(by_axis) > 1:  # those of one label may be written one by one
        by_axis = [[one for several in by_axis for one in several]]
    return {
        "by": with_bins(by, bins),
        "by_axis": of_each("by_axis", by_axis, len(by)),
        "groups": of_each("groups", groups, len(by)),
    }


def with_bins(by: Sequence[Any], bins: Sequence[Any]) -> Any:
    """Return labels as the library takes them: names or addresses, or bins of these; None of none.

    `bins` are edges of each label, in numbers or as `parse_edges` reads them, or nothing. Without
    labels they are of the elements themselves.

    Raises
    ------
    PlanError
        If there are edges, but not for each label.
    """
    if len(bins) == 1 and not by and len(bins[0]):
        return bins_of(_edges(bins[0]))
    if bins and len(bins) != len(by):
        raise PlanError(
            f"bins are given {counted(len(bins), 'time')}, but labels {len(by)}: give edges for "
            "each label, in the same order, and '' for a label without bins"
        )
    each = bins or [""] * len(by)
    made = [
        bins_of(_edges(cuts), of=name) if len(cuts) else name
        for cuts, name in zip(each, by, strict=True)
    ]
    return (tuple(made) if len(made) > 1 else made[0]) if made else None


def _edges(given: Any) -> Any:
    if not isinstance(given, str):
        return given
    try:
        return parse_edges(given)
    except PlanError:
        if "-" in given:
            with suppress(ValueError):
                return np.array(words((given,)), "M8")
        raise


def of_each(what: str, given: Sequence[Any], labels: int) -> Any:
    """Return what was given of one label, or of each of several: None is of one that has none.

    Raises
    ------
    PlanError
        If it was given more often than there are labels.

    >>> of_each("by_axis", [["lat", "lon"]], 1), of_each("by_axis", [["time"], []], 2)
    (['lat', 'lon'], [['time'], None])
    """
    if len(given) > max(1, labels):
        raise PlanError(
            f"{what} is given {len(given)} times, but labels {labels}: give it once for each"
        )
    if labels > 1:
        return [one or None for one in given] or None
    return given[0] if given else None


def parse_groups(text: str) -> list[Any]:
    """Read labels of groups: numbers if all are, else texts.

    >>> parse_groups("1,2"), parse_groups("DJF, MAM"), parse_groups("")
    ([1, 2], ['DJF', 'MAM'], [])
    """
    named = [word for word in words((text,)) if word]
    try:
        return [number_of(word) for word in named]
    except ValueError:
        return named


def parse_resample(given: Sequence[str]) -> dict[str, str] | None:
    """Read which axes of times are resampled: AXIS=SPAN.

    Raises
    ------
    PlanError
        If one is not written so, or an axis is named twice.

    >>> parse_resample(["time=1MS"])
    {'time': '1MS'}
    """
    found = {}
    for one in given:
        name, _, span = (part.strip() for part in one.partition("="))
        if not (name and span):
            raise PlanError(f"resample {one!r}: name an axis and a span, as in 'time=1MS'")
        if name in found:
            raise PlanError(f"resample names axis {name!r} twice: give it one span")
        found[name] = span
    return found or None
