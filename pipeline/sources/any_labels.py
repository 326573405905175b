"""Labels in whatever form they are asked for, read, and then numbered of what is selected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from chunkfold.errors import PlanError, SourceError
from chunkfold.settings import StorageOptions
from chunkfold.sources.axis_names import Named
from chunkfold.sources.bins import Bins, Intervals
from chunkfold.sources.flags import flags_of, without_flags
from chunkfold.sources.label_numbers import numbered
from chunkfold.sources.labels import GivenLabels, read_labels
from chunkfold.sources.named_labels import may_name, named_labels, nothing_named
from chunkfold.sources.resampling import Resampling


@dataclass(frozen=True, eq=False)
class GroupsOfLabel:
    """The groups of one label."""

    groups: np.ndarray
    """Labels in the order of the results; texts of intervals if the values are binned."""
    name: str
    """The name that messages use."""
    axis: str
    """The name of the axis of these groups in results."""
    attrs: Mapping[str, Any] = field(default_factory=dict)
    """Attributes of the groups, as of a coordinate."""
    intervals: Intervals | None = None
    """The intervals that groups stand for, if the values are binned."""


def any_labels(
    by: Any, data: Named, options: StorageOptions | None = None, *, mask_and_scale: bool = False
) -> GivenLabels:
    """Read labels: times that are resampled, what is in bins, a name beside the data, an array.

    Raises
    ------
    ChunkfoldError
        If there is anything wrong with them.
    """
    if isinstance(by, Resampling):
        return by.times(data)
    if isinstance(by, Bins):
        found = _read(by.of, data, options, mask_and_scale=mask_and_scale, fractions=True)
        return replace(found, axis=f"{found.axis}_bins")
    return _read(by, data, options, mask_and_scale=mask_and_scale, fractions=False)


def _read(
    by: Any, data: Named, options: StorageOptions | None, *, mask_and_scale: bool, fractions: bool
) -> GivenLabels:
    """Read an array of labels: what a text names beside the data, before it is an address."""
    named = may_name(by)
    if named and (found := named_labels(by, data)) is not None:
        return found
    try:
        return read_labels(
            by, options, data=data, mask_and_scale=mask_and_scale, fractions=fractions
        )
    except SourceError as error:
        if not named:
            raise
        parts = " (also parts of dates, as 'time.month')"
        raise nothing_named("by", by, data, error, parts) from error


def numbers_of(
    by: Any, given: GivenLabels, values: np.ndarray, missing: np.ndarray, groups: Any
) -> tuple[np.ndarray, GroupsOfLabel]:
    """Number labels of what is selected: int64 from 0 on, -1 of what is in no group.

    Raises
    ------
    PlanError
        If there is no group, or `groups` are none of theirs.
    """
    label = GroupsOfLabel(np.array([]), given.name, given.axis, given.attrs)
    if isinstance(by, (Bins, Resampling)) and groups is not None:
        raise PlanError(
            f"{given.name}: groups is {groups!r}, but its spans are the groups: omit groups"
        )
    if isinstance(by, Bins):
        codes, intervals = by.numbered(given.name, values, missing)
        return codes, replace(label, groups=intervals.texts, intervals=intervals)
    if isinstance(by, Resampling):
        codes, starts = by.numbered(values)
        return codes, replace(label, groups=starts)
    flags = flags_of(given.attrs) if values.dtype.kind in "iu" else None
    if flags is None:
        codes, found = numbered(given, values, missing, groups)
        return codes, replace(label, groups=found)
    unnamed = missing | ~flags.known(values)
    if groups is None and unnamed.all():
        raise PlanError(
            f"{given.name}: found no group: all {unnamed.size:,} selected labels are missing or "
            f"have no name; the names are {flags}"
        )
    wanted = flags.codes(groups, given.name)
    codes, found = numbered(replace(given, negative=True), values, unnamed, wanted)
    return codes, replace(label, groups=flags.called(found), attrs=without_flags(given.attrs))
