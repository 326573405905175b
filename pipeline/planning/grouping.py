"""Groups of elements that have the same label: which axes labels are along, and how many."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from chunkfold.errors import PlanError
from chunkfold.grid import Axis as Along
from chunkfold.grid import normalized_axes
from chunkfold.planning.group_keys import Keys
from chunkfold.planning.options import Options
from chunkfold.positions import crossed
from chunkfold.sources.axis_names import Named, axis_names, axis_numbers
from chunkfold.sources.labels import Given, narrow, numbered, read_labels, transposed


@dataclass(frozen=True, eq=False)
class Grouping:
    """The groups of a reduction."""

    keys: Keys
    """Which group each element is in."""
    groups: np.ndarray
    """Their labels, in the order of the results."""
    name: str
    """How messages call the labels."""
    axis: str
    """What results call the axis of groups."""

    @property
    def count(self) -> int:
        """Number of groups."""
        return len(self.groups)

    def along(self, axes: Sequence[int]) -> Grouping:
        """Return it with axes that are numbered otherwise: by their places in `axes`, so far."""
        return replace(self, keys=replace(self.keys, axes=tuple(axes[n] for n in self.keys.axes)))


def grouping_of(
    options: Options, source: Named, chosen: Sequence[Along], reduced: Sequence[int]
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
    if options.by is None:
        return None
    given = read_labels(
        options.by, options.storage_options, mask_and_scale=bool(options.mask_and_scale)
    )
    along = _axes(given, options, source, chosen, set(reduced))
    _refuse_kept(given, along, source, set(reduced))
    order = sorted(range(len(along)), key=lambda n: along[n])
    given, along = transposed(given, order), sorted(along)
    cut = [chosen[n].index for n in along]
    values, missing = crossed(given.values, cut), crossed(given.missing, cut)
    codes, labels = numbered(given, values, missing, options.groups)
    keys = Keys(tuple(along), narrow(codes, len(labels)), len(labels))
    return Grouping(keys, labels, given.name, given.axis)


def _axes(
    given: Given,
    options: Options,
    source: Named,
    chosen: Sequence[Along],
    reduced: set[int],
) -> list[int]:
    """Return which of the source's axes each axis of labels is."""
    if options.by_axis is not None:
        return _named(given, options, source, chosen)
    names = axis_names(source, range(len(source.shape))) or []
    dims = given.dims or ()
    known = [dim for dim in dims if dim is not None and dim in names]
    if known and len(known) < len(dims):
        raise PlanError(
            f"{given.name}: labels have axes {', '.join(map(str, dims))}, of which {source.name} "
            f"has {', '.join(known)} alone: say with by_axis= which axes they are along"
        )
    if dims and all(dim is not None and names.count(dim) == 1 for dim in dims):
        return _fitting(given, [names.index(dim) for dim in dims], source)
    return _by_extents(given, source, reduced)


def _named(given: Given, options: Options, source: Named, chosen: Sequence[Along]) -> list[int]:
    by_axis = options.by_axis
    one = int(by_axis) if isinstance(by_axis, np.integer) else by_axis
    if not isinstance(one, (int, str)) and not len(one or ()):
        raise PlanError(f"by_axis is {by_axis!r}; give the axes that labels are along")
    numbers = axis_numbers(source, one, options.selection)
    each: list[int] = [numbers] if isinstance(numbers, int) else list(numbers or ())
    alive = [n for n, one in enumerate(chosen) if not one.dropped]
    normalized_axes(each, len(alive))  # sees that they are axes
    return _fitting(given, [alive[n] for n in each], source)


def _fitting(given: Given, along: list[int], source: Named) -> list[int]:
    """See that labels have the extents of the axes that they are along."""
    extents = tuple(source.shape[n] for n in along)
    if extents != given.shape:
        raise PlanError(
            f"{given.name}: labels have shape {given.shape}, but {_axes_text(source, along)} of "
            f"{source.name} has {extents}: give a label for each place, before any selection"
        )
    return along


def _by_extents(given: Given, source: Named, reduced: set[int]) -> list[int]:
    """Find the axes that have the extents of labels: the only ones, or the last ones.

    Of several those that are reduced: groups are made of no others.
    """
    ndim, each = len(given.shape), range(len(source.shape))
    fits = [
        list(axes)
        for axes in itertools.combinations(each, ndim)
        if tuple(source.shape[n] for n in axes) == given.shape
    ]
    usable = [axes for axes in fits if reduced.issuperset(axes)] or fits
    last = list(each)[-ndim:]
    if len(usable) == 1:
        return usable[0]
    if last in usable:
        return last
    found = "none of its axes have" if not usable else "several of its axes have"
    raise PlanError(
        f"{given.name}: labels have shape {given.shape}, and {source.name} has {source.shape}: "
        f"{found} these extents; name those that are meant with by_axis="
    )


def _refuse_kept(given: Given, along: Sequence[int], source: Named, reduced: set[int]) -> None:
    kept = [n for n in along if n not in reduced]
    if kept:
        raise PlanError(
            f"{given.name}: labels are along {_axes_text(source, along)} of {source.name}, but "
            f"{_axes_text(source, kept)} is not reduced: groups are made of what is reduced, so "
            "name it in axis= too"
        )


def _axes_text(source: Named, along: Sequence[int]) -> str:
    names = axis_names(source, along) or [None] * len(along)
    told = (str(n) if name is None else repr(name) for n, name in zip(along, names, strict=True))
    return ("axis " if len(along) == 1 else "axes ") + ", ".join(told)
