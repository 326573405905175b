"""Labels of a Dataset: which of them each of its arrays has."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from chunkfold.errors import PlanError
from chunkfold.planning.asked_labels import each_of, several
from chunkfold.sources.axis_names import instead
from chunkfold.sources.bins import Bins
from chunkfold.sources.data_arrays import is_of_xarray

if TYPE_CHECKING:
    import xarray


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
        raise PlanError("by_axis or groups is given, but there are no labels: give them with by=")
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
