"""Groups of elements that have the same labels: their number, and the group of each element."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from chunkfold.boxes import Slices
from chunkfold.errors import PlanError
from chunkfold.grid import Axis, Piece
from chunkfold.kernels import Accumulator, Packing, bind
from chunkfold.kernels.catalogue.histograms import bin_number
from chunkfold.planning.asked_labels import Asked, asked_labels
from chunkfold.planning.group_keys import Keys, LabelCodes
from chunkfold.planning.label_axes import laid
from chunkfold.planning.options import Options
from chunkfold.positions import crossed
from chunkfold.sources.any_labels import GroupsOfLabel, any_labels, numbers_of
from chunkfold.sources.axis_names import Named
from chunkfold.sources.bins import Bins, Intervals, edges_for
from chunkfold.sources.label_numbers import narrow
from chunkfold.sources.labels import GivenLabels

_DEVICE_COPIES = 3
"""Numbers that a device has of each of a leaf's elements: folded, and copied, of two sizes."""


@dataclass(frozen=True, eq=False)
class OwnKeys:
    """The number of the interval that each element is in: devices compute it of the element."""

    axes: tuple[int, ...]
    """The axes of the source that are reduced."""
    intervals: Intervals
    numbering: Accumulator | None = None
    """Accumulator that numbers single elements on a device; None: dtypes are not known yet."""

    nbytes = 0

    @property
    def count(self) -> int:
        """Number of groups."""
        return len(self.intervals.edges) - 1

    def along(self, axes: Sequence[int]) -> OwnKeys:
        """Return them with axes that are numbered otherwise: by their places in `axes`, so far."""
        return replace(self, axes=tuple(axes[n] for n in self.axes))

    def reordered(self, along: Callable[..., Any]) -> OwnKeys:
        """Return them in another order along axes: elements bring theirs."""
        del along
        return self

    def box_axes(self, ndim: int) -> tuple[int, ...]:
        """Return the axes that keys have in a box of so many: each element has its own."""
        return tuple(range(ndim))

    def device_bytes(self, leaf_elements: int) -> int:
        """Return what a block has of them on its device, at most."""
        return _DEVICE_COPIES * np.dtype(np.int32).itemsize * leaf_elements

    def place(self, pieces: Sequence[Piece], within: Sequence[slice]) -> Slices:
        """Return where the keys are of a part of a leaf: nowhere."""
        del pieces, within
        return ()

    def packed(self) -> OwnKeys:
        """Return them as they travel."""
        return self

    def unpacked(self) -> OwnKeys:
        """Return them as they were."""
        return self

    def numbered(self, dtype: np.dtype, packing: Packing | None, name: str) -> OwnKeys:
        """Return them with their `numbering`, for elements of a dtype.

        Raises
        ------
        PlanError
            If elements are of another kind than the edges.
        MonoidError
            If their unit does not hold the edges.
        """
        edges = self.intervals.edges
        value = packing.value_dtype(dtype) if packing else dtype
        given, wanted = (
            one.dtype.kind if one.dtype.kind in "mMc" else "number"
            for one in (np.empty(0, value), edges)
        )
        if given != wanted:
            raise PlanError(
                f"{name}: bins have edges of {edges.dtype}, but the elements are {value}: "
                f"{edges_for(value)}"
            )
        monoid = bin_number(edges, right=self.intervals.right)
        numbering = bind([monoid], [dtype], packings=[packing]).accumulator
        return replace(self, numbering=numbering)


AnyKeys = Keys | OwnKeys
"""Keys that workers have, or that devices compute of the elements."""


@dataclass(frozen=True, eq=False)
class Grouping:
    """The groups of a reduction: of several labels, all combinations of these."""

    keys: AnyKeys
    """The group of each element."""
    labels: tuple[GroupsOfLabel, ...]
    """Labels and their groups, in the order of the results' axes."""

    @property
    def count(self) -> int:
        """Number of groups."""
        return self.keys.count

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the axes of groups."""
        return tuple(len(one.groups) for one in self.labels)

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of these axes in results."""
        return tuple(one.axis for one in self.labels)

    @property
    def first(self) -> int:
        """The source's axis in whose place they stand."""
        return self.keys.axes[0]

    @property
    def name(self) -> str:
        """The name of the labels in messages."""
        return ", ".join(one.name for one in self.labels)

    @property
    def groups(self) -> np.ndarray | dict[str, np.ndarray]:
        """Labels in the order of the results; of several those of each, by the name of its axis."""
        each = {one.axis: one.groups for one in self.labels}
        return each if len(each) > 1 else self.labels[0].groups

    def along(self, axes: Sequence[int]) -> Grouping:
        """Return it with axes that are numbered otherwise: by their places in `axes`, so far."""
        return replace(self, keys=self.keys.along(axes))


def grouping_of(
    options: Options, source: Named, chosen: Sequence[Axis], reduced: Sequence[int]
) -> Grouping | None:
    """Read labels and lay them along a source's axes; None if elements have none.

    Parameters
    ----------
    chosen
        What is selected along each axis.
    reduced
        The axes that are reduced.

    Raises
    ------
    ChunkfoldError
        If there is anything wrong with the labels.
    """
    asked = asked_labels(options, source)
    if not asked:
        return None
    if any(_of_elements(one.by) for one in asked):
        return _own(asked, source, chosen, reduced)
    each = [_factor(one, options, source, chosen, set(reduced)) for one in asked]
    return Grouping(Keys.of([factor for factor, _ in each]), _apart([label for _, label in each]))


def _of_elements(by: Any) -> bool:
    return isinstance(by, Bins) and by.of is None


def _own(
    asked: Sequence[Asked], source: Named, chosen: Sequence[Axis], reduced: Sequence[int]
) -> Grouping:
    """Return groups that are bins of the elements themselves."""
    (one, *others) = asked
    if others:
        raise PlanError(
            f"{source.name}: bins of its own elements must be the only label, but {len(asked)} "
            "are given: give the other labels separately, or give the bins an array (of=)"
        )
    for name, value in (("by_axis", one.by_axis), ("groups", one.groups)):
        if value is not None:
            raise PlanError(
                f"{name} is {value!r}, but bins of the elements themselves have all of their "
                "axes, and their spans are the groups: omit it"
            )
    if not reduced:
        raise PlanError(
            f"{source.name}: groups are made along reduced axes, but no axis is reduced: name one "
            "in axis="
        )
    alive = tuple(n for n in reduced if not chosen[n].dropped)
    intervals = Intervals(one.by.edges, one.by.right)
    label = GroupsOfLabel(intervals.texts, source.name, _axis_of(source), intervals=intervals)
    return Grouping(OwnKeys(alive or tuple(reduced[:1]), intervals), (label,))


def _axis_of(source: Named) -> str:
    """Return what xarray calls the axis: by the name of the array, if it has one."""
    arrays = getattr(source, "arrays", None)
    called = arrays[0].name if arrays else PurePosixPath(source.name).name
    plain = isinstance(called, str) and re.fullmatch(r"[^\W\d]\w*", called)
    return f"{called if plain else GivenLabels.axis}_bins"


def _factor(
    asked: Asked, options: Options, source: Named, chosen: Sequence[Axis], reduced: set[int]
) -> tuple[LabelCodes, GroupsOfLabel]:
    given = any_labels(
        asked.by, source, options.opening, mask_and_scale=bool(options.mask_and_scale)
    )
    given, along = laid(given, asked.by_axis, options, source, chosen, reduced)
    cut = [chosen[n].index for n in along]
    values, missing = crossed(given.values, cut), crossed(given.missing, cut)
    codes, label = numbers_of(asked.by, given, values, missing, asked.groups)
    count = len(label.groups)
    return LabelCodes(tuple(along), narrow(codes, count), count), label


def _apart(labels: Sequence[GroupsOfLabel]) -> tuple[GroupsOfLabel, ...]:
    """Number the axes of labels without a name; others have names of their own.

    Raises
    ------
    PlanError
        If two have one name.
    """
    made = list(labels)
    for unnamed in (GivenLabels.axis, f"{GivenLabels.axis}_bins"):
        same = [n for n, one in enumerate(labels) if one.axis == unnamed]
        for number, n in enumerate(same if len(same) > 1 else ()):
            made[n] = replace(labels[n], axis=f"{unnamed}_{number}")
    axes = [one.axis for one in made]
    twice = next((one for one in axes if axes.count(one) > 1), None)
    if twice is not None:
        both = " and ".join(one.name for one in made if one.axis == twice)
        raise PlanError(
            f"the labels {both} are both called {twice!r}, but two axes of results cannot have "
            "the same name: rename one of them, as with DataArray.rename"
        )
    return tuple(made)
