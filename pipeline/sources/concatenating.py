"""Join sources along an axis: what goes together, and what is refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import Any

from chunkfold.errors import PlanError
from chunkfold.settings import StorageOptions, with_targets
from chunkfold.sources.aligning import coordinates_of, find_alignment
from chunkfold.sources.axis_names import axis_numbers, normalized_axes
from chunkfold.sources.cf_packing import MISSING, SCALING
from chunkfold.sources.concatenation import concatenated
from chunkfold.sources.joined_values import Stored
from chunkfold.sources.opening import open_source
from chunkfold.sources.reordered_source import reordered
from chunkfold.sources.source import Source
from chunkfold.tracebacks import traceback_cut

_PACKED = (*SCALING, *MISSING, "_Unsigned")
"""Attributes by which numbers are others than what is stored: where there is none, they are not."""
_UNITS = ("units", "calendar")
"""Attributes that say what numbers count: where there is none, nothing is known."""
_AT_ONCE = 16
"""Sources that are opened at the same time: most of it is waiting for stores."""


@traceback_cut
def concatenate(
    sources: Iterable[Any],
    axis: int | str = 0,
    *,
    storage_options: StorageOptions | None = None,
    allow_targets: str | Sequence[str] | None = None,
) -> Source:
    """Return sources as one, along an axis that all of them have: as `numpy.concatenate`, unread.

    What it returns is a source as a path is, of `chunkfold.reduce` and all that takes one. Elements
    have the same bits as those of an array that holds all of them; each source is read chunk by
    chunk, whatever its own chunks are.

    Where coordinates of another axis have the same values in another order, the source is read in
    the order of the first one.

    Parameters
    ----------
    sources
        Paths, URLs and arrays, as `chunkfold.reduce` takes them, in their order; the kinds may
        differ.
    axis
        Where they follow each other: a number, or the name that they give it.
    storage_options, allow_targets
        As `chunkfold.reduce` has them.

    Raises
    ------
    PlanError
        If there are none, their dtypes differ, or their extents along other axes, or names of axes,
        or what their attributes say that numbers mean (`scale_factor`, `units`, ...), or the values
        of coordinates along other axes.
    SourceError
        If one cannot be opened.
    """
    if isinstance(sources, (str, bytes)) or not isinstance(sources, Iterable):
        raise PlanError(f"sources is {sources!r}; give several, as a list")
    with ThreadPoolExecutor(_AT_ONCE, "chunkfold-open") as pool:
        options = with_targets(storage_options, allow_targets)
        parts = list(pool.map(open_source, sources, repeat(options)))
        if not parts:
            raise PlanError("no sources were given: give those to join, in their order")
        number = _axis(parts[0], axis)
        for part in parts[1:]:
            for told in _apart(parts[0], part, number):
                raise PlanError(told)
        names = next((part.dims for part in parts if part.dims), None) or ()
        left_out = names[number : number + 1]
        each = pool.map(lambda part: coordinates_of(part, left_out, names), parts)
        known: dict[str, Stored] = {}
        for n, own in enumerate(each):
            parts[n] = _in_order(known, own, parts[n], names, number)
            known = {**own, **known}
    return parts[0] if len(parts) == 1 else concatenated(parts, number)


def _axis(first: Source, axis: int | str) -> int:
    """Return the number of an axis.

    Raises
    ------
    PlanError
        If it is none, or a source has no axes.
    """
    if not first.shape:
        raise PlanError(f"{first.name}: has no axes, so nothing can follow it along one")
    if axis is None or not isinstance(axis, (int, str)):
        raise PlanError(f"axis is {axis!r}; give the one along which sources follow each other")
    found = axis_numbers(first, axis)
    numbers = normalized_axes(found, len(first.shape))
    return numbers[0]


def _apart(one: Source, other: Source, axis: int) -> Iterator[str]:
    """Say what keeps two sources from following each other."""
    both = f"{one.name} and {other.name} cannot be one along axis {axis}"
    if len(one.shape) != len(other.shape) or _across(one, axis) != _across(other, axis):
        yield (
            f"{both}: their shapes are {one.shape} and {other.shape}, which differ along other "
            "axes, too"
        )
    if one.dtype.newbyteorder("=") != other.dtype.newbyteorder("="):
        yield (
            f"{both}: their dtypes are {one.dtype} and {other.dtype}, which chunkfold does not "
            "cast to each other; give sources of one dtype"
        )
    if one.dims and other.dims and one.dims != other.dims:
        yield f"{both}: their axes are {_listed(one.dims)} and {_listed(other.dims)}"
    for name in (*_PACKED, *_UNITS):
        here, there = one.attributes.get(name), other.attributes.get(name)
        unknown = name in _UNITS and None in (here, there)
        if str(here) != str(there) and not unknown:
            yield f"{both}: {name} is {here!r} of one and {there!r} of the other"
    if str(list(one.missing_fill)) != str(list(other.missing_fill)):
        yield (
            f"{both}: their fill values, which mark missing elements, are "
            f"{_listed(one.missing_fill)} and {_listed(other.missing_fill)}"
        )


def _in_order(
    known: Mapping[str, Stored],
    own: Mapping[str, Stored],
    part: Source,
    names: Sequence[str | None],
    axis: int,
) -> Source:
    """Return a source in the order that the coordinates of those before it have.

    Raises
    ------
    PlanError
        If it has other coordinates.
    """
    found = find_alignment(known, own, names)
    for dim, told in found.differences.items():
        raise PlanError(
            f"{known[dim].part} and {part.name} cannot be one along axis {axis}: {told}; select "
            "the same places of both, or give them coordinates that agree"
        )
    return reordered(part, found.orders)


def _across(source: Source, axis: int) -> tuple[int, ...]:
    """Return the extents along all axes but one."""
    return (*source.shape[:axis], *source.shape[axis + 1 :])


def _listed(values: Sequence[Any]) -> str:
    return ", ".join(map(str, values)) or "none"
