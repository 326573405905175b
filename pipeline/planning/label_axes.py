"""Find the axes of a source that labels are along."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from chunkfold.errors import PlanError
from chunkfold.grid import Axis
from chunkfold.planning.options import Options
from chunkfold.sources.axis_names import (
    AxisOption,
    Named,
    axis_names,
    axis_numbers,
    normalized_axes,
)
from chunkfold.sources.label_numbers import transposed, without_axes
from chunkfold.sources.labels import GivenLabels


def laid(
    given: GivenLabels,
    by_axis: AxisOption,
    options: Options,
    source: Named,
    chosen: Sequence[Axis],
    reduced: set[int],
) -> tuple[GivenLabels, list[int]]:
    """Return labels, and which of the source's axes, ascending, each of theirs is.

    An axis of one element goes where the source lacks it, or has more elements: labels are then
    the same for all of these, as NumPy broadcasts.

    Raises
    ------
    PlanError
        If they fit no axes, or those that are not reduced.
    """
    if by_axis is None:
        along = _by_names(given, source) or _by_extents(given, source, reduced)
    else:
        along = _named(by_axis, options, source, chosen)
    lacking = [
        n
        for n, (size, axis) in enumerate(zip(given.shape, along, strict=False))
        if size == 1 and (axis is None or source.shape[axis] != 1)
    ]
    if len(along) == len(given.shape) > len(lacking):
        given = without_axes(given, lacking)
        along = [axis for n, axis in enumerate(along) if n not in lacking]
    left = [axis for axis in along if axis is not None]
    _refuse_other_extents(given, left, source)
    _refuse_kept(given, left, source, reduced)
    order = sorted(range(len(left)), key=lambda n: left[n])
    return transposed(given, order), sorted(left)


def _by_names(given: GivenLabels, source: Named) -> Sequence[int | None]:
    """Return the axes that are called as those of labels; None of one that may be left out.

    Nothing if names do not tell.
    """
    names, dims = axis_names(source, range(len(source.shape))) or [], given.dims or ()
    known = [dim for dim in dims if dim is not None and dim in names]
    foreign = [n for n, dim in enumerate(dims) if dim not in known]
    if known and any(given.shape[n] != 1 for n in foreign):
        raise PlanError(
            f"{given.name}: labels have axes {', '.join(map(str, dims))}, of which {source.name} "
            f"has only {', '.join(known)}: say with by_axis= which axes they are along"
        )
    if not known or any(names.count(dim) > 1 for dim in known):
        return []
    return [None if n in foreign else names.index(dim) for n, dim in enumerate(dims)]


def _named(
    by_axis: AxisOption, options: Options, source: Named, chosen: Sequence[Axis]
) -> Sequence[int | None]:
    one = int(by_axis) if isinstance(by_axis, np.integer) else by_axis
    if not isinstance(one, (int, str)) and not len(one or ()):
        raise PlanError(f"by_axis is {by_axis!r}; give the axes that labels are along")
    numbers = axis_numbers(source, one, options.selection)
    each: list[int] = [numbers] if isinstance(numbers, int) else list(numbers or ())
    alive = [n for n, one in enumerate(chosen) if not one.dropped]
    normalized_axes(each, len(alive))  # sees that they are axes
    return [alive[n] for n in each]


def _by_extents(given: GivenLabels, source: Named, reduced: set[int]) -> Sequence[int | None]:
    """Find the axes that have the extents of labels: the only ones, or the last ones.

    If several axes fit, those that are reduced are taken: groups are made of no others. Axes of one
    element are left out where no axes fit otherwise.
    """
    each = range(len(source.shape))
    wide = [n for n, size in enumerate(given.shape) if size != 1]
    for own in ([*range(len(given.shape))], wide):
        extents = tuple(given.shape[n] for n in own)
        fits = [
            axes
            for axes in itertools.combinations(each, len(own))
            if own and tuple(source.shape[n] for n in axes) == extents
        ]
        usable = [axes for axes in fits if reduced.issuperset(axes)] or fits
        last = tuple(each)[len(each) - len(own) :]
        if len(usable) == 1 or last in usable:
            places = dict(zip(own, usable[0] if len(usable) == 1 else last, strict=True))
            return [places.get(n) for n in range(len(given.shape))]
        if usable:
            break
    found = "several of its axes have" if usable else "none of its axes have"
    raise PlanError(
        f"{given.name}: labels have shape {given.shape}, and {source.name} has {source.shape}: "
        f"{found} this shape; name the right ones with by_axis="
    )


def _refuse_other_extents(given: GivenLabels, along: Sequence[int], source: Named) -> None:
    extents = tuple(source.shape[n] for n in along)
    if extents != given.shape:
        raise PlanError(
            f"{given.name}: labels have shape {given.shape}, but {_axes_text(source, along)} of "
            f"{source.name} has {extents}: give a label for each place, before any selection"
        )


def _refuse_kept(
    given: GivenLabels, along: Sequence[int], source: Named, reduced: set[int]
) -> None:
    kept = [n for n in along if n not in reduced]
    if kept:
        verb = "is" if len(kept) == 1 else "are"
        raise PlanError(
            f"{given.name}: labels are along {_axes_text(source, along)} of {source.name}, but "
            f"{_axes_text(source, kept)} {verb} not reduced: groups are made along reduced axes, "
            f"so name {'it' if len(kept) == 1 else 'them'} in axis= too"
        )


def _axes_text(source: Named, along: Sequence[int]) -> str:
    names = axis_names(source, along) or [None] * len(along)
    told = (str(n) if name is None else repr(name) for n, name in zip(along, names, strict=True))
    return ("axis " if len(along) == 1 else "axes ") + ", ".join(told)
