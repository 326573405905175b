"""Findings in the coordinates of a group: their lengths, missing values, times out of order."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from chunkfold.errors import ChunkfoldError
from chunkfold.plural import counted
from chunkfold.sources.cf_packing import packing_of
from chunkfold.sources.dates import dates, instants
from chunkfold.sources.source import Source
from chunkfold.workflows.checks.finding_kinds import FindingKind

_MOST = 1 << 24
"""Values of a coordinate beyond which it is not read as one."""
_ALIKE = 0.15
"""Steps that differ by less from their median are alike: those of months are."""
_GAP = 1.5
"""Steps are gaps that are longer than the median by this factor."""

CoordinateFinding = tuple[str, FindingKind, str]
"""The name of the array, the kind of finding, and what was found."""


@dataclass(frozen=True)
class StoredCoordinate:
    """The coordinate of an axis, with the values that its numbers stand for."""

    source: Source
    stored: np.ndarray
    """Its elements."""
    values: np.ndarray
    """Numbers, texts, or dates as `dates` returns them."""
    order: np.ndarray
    """The same as numbers that sort as they do; of times microseconds, or their own unit."""
    there: np.ndarray
    """False where it has no value."""
    are_times: bool


def _last(name: str) -> str:
    return name.rpartition("/")[2]


def _group(name: str) -> str:
    return name.rpartition("/")[0]


def read_coordinates(sources: Sequence[Source]) -> Mapping[tuple[str, str], StoredCoordinate]:
    """Read all coordinates, by group and name; those that cannot be read are left out."""
    found = {}
    for source in sources:
        if source.of_axis and 0 < source.shape[0] <= _MOST:
            try:
                made = _read(source)
            except ChunkfoldError:  # the read of its chunks says so
                continue
            if made is not None:
                found[_group(source.name), _last(source.name)] = made
    return found


def _read(source: Source) -> StoredCoordinate | None:
    if source.dtype.kind not in "iufM":
        return None
    stored, packing = source.whole(), packing_of(source)
    stored = stored.astype(stored.dtype.newbyteorder("="), copy=False)
    if stored.dtype.kind == "M":
        there = ~np.isnat(stored)
        return StoredCoordinate(source, stored, stored, stored.view("i8"), there, are_times=True)
    values = packing.values(stored) if packing else stored
    there = ~np.isnan(values)
    said = source.attributes
    units, calendar = said.get("units"), said.get("calendar", "standard")
    if isinstance(units, str) and isinstance(calendar, str):
        found = instants(values, units, calendar)
        if found is not None:
            shown = dates(values, units, calendar)
            assert shown is not None
            there &= found.valid
            order = found.microseconds
            return StoredCoordinate(source, stored, shown, order, there, are_times=True)
    return StoredCoordinate(source, stored, values, values, there, are_times=False)


def value_findings(coordinate: StoredCoordinate) -> Iterator[CoordinateFinding]:
    """Yield what is wrong with the values of a coordinate."""
    name, values, there = coordinate.source.name, coordinate.values, coordinate.there
    if not there.all():
        lacking = np.flatnonzero(~there)
        stored = coordinate.stored[lacking[0]]
        called = f" ({stored}, which is called missing)" if stored == stored else ""
        count = f"{counted(lacking.size, 'element')} of {there.size:,} without a value"
        yield name, FindingKind.COORDINATE, f"{count}, the first at [{lacking[0]}]{called}"
    places = np.flatnonzero(there)
    order = coordinate.order[places]
    back = np.flatnonzero(order[1:] < order[:-1]) if coordinate.are_times else places[:0]
    if back.size:
        one, other = places[back[0]], places[back[0] + 1]
        count = f"{counted(back.size, 'time')} after which an earlier one comes"
        pair = f"{_said(values[other])} after {_said(values[one])}"
        yield name, FindingKind.ORDER, f"{count}, the first at [{one}]: {pair}"
    by_value = np.argsort(order, kind="stable")
    again = np.flatnonzero(order[by_value][1:] == order[by_value][:-1])
    if again.size:
        first = again[np.argmin(by_value[again + 1])]
        one, other = places[by_value[first]], places[by_value[first + 1]]
        count = f"{counted(again.size, 'element')} with a value that another has"
        pair = f"{_said(values[other])}, as at [{one}]"
        yield name, FindingKind.DOUBLE, f"{count}, the first at [{other}]: {pair}"
    if coordinate.are_times and (told := _gaps(coordinate, places[by_value], order[by_value])):
        yield name, FindingKind.GAP, told


def _gaps(coordinate: StoredCoordinate, places: np.ndarray, order: np.ndarray) -> str:
    """Say where times are missing, if most of the others follow each other evenly."""
    steps = order[1:] - order[:-1]
    forward = steps[steps > 0]
    usual = np.median(forward) if forward.size else 0
    if not usual or np.mean(np.abs(forward / usual - 1) <= _ALIKE) < 0.5:
        return ""
    gaps = np.flatnonzero(steps > _GAP * usual)
    if not gaps.size:
        return ""
    one, other = (coordinate.values[places[gaps[0] + n]] for n in (0, 1))
    lost = int(np.round(steps[gaps] / usual - 1).sum())
    count = f"{counted(gaps.size, 'gap')}, about {counted(lost, 'time')} missing"
    return f"{count}, the first between {_said(one)} and {_said(other)}"


def length_findings(sources: Sequence[Source]) -> Iterator[CoordinateFinding]:
    """Yield the axes that are not as long as their coordinate, or as others of the same name.

    And the coordinates that are too long to be read as one. Levels of an image have axes of one
    name and several lengths.
    """
    axes: defaultdict[tuple[str, str], list[tuple[Source, int]]] = defaultdict(list)
    for source in sources:
        if source.of_axis and source.shape[0] > _MOST:
            said = f"order and duplicates are not checked among more than {_MOST:,} values"
            yield source.name, FindingKind.UNCHECKED, said
        if getattr(source, "level", None) is None:
            for dim, size in zip(source.dims or (), source.shape, strict=False):
                if dim is not None:
                    axes[_group(source.name), dim].append((source, size))
    for (_, dim), found in axes.items():
        if len({size for _, size in found}) == 1:
            continue
        own = [one for one in found if one[0].of_axis and _last(one[0].name) == dim]
        usual = Counter(size for _, size in found).most_common(1)[0][0]
        source, size = own[0] if own else next(one for one in found if one[1] != usual)
        others = [f"{n:,} in {_last(one.name)}" for one, n in found if n != size]
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        what = "it has" if own else f"its axis {dim!r} has"
        axis = f"axis {dim!r} has " if own else ""
        yield (
            source.name,
            FindingKind.SHAPE,
            f"{what} {counted(size, 'element')}, but {axis}{', '.join(others[:3])}{more}",
        )


def place_text(coordinate: StoredCoordinate, cut: slice) -> str:
    """Say what a coordinate says of some positions: from where to where."""
    held: Any = coordinate.values[cut]
    one, other = held[0], held[-1]
    return _said(one) if len(held) == 1 else f"{_said(one)} to {_said(other)}"


def _said(value: Any) -> str:
    """Write a value, of midnights the date alone."""
    return str(value).removesuffix("T00:00:00")
