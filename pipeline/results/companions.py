"""Arrays that come along with results: coordinates, their bounds, grid mappings, quality flags.

CF conventions 1.11 name them by attributes; an attribute that names one which does not come along
goes, or what it says of that one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from chunkfold.results.coordinates import (
    Auxiliary,
    Kept,
    auxiliary,
    opened_neighbour,
    read_or_left_out,
)
from chunkfold.sources.neighbours import group_attributes

COORDINATES = "coordinates"
"""The attribute that names coordinates of several axes, or of none."""
_HORIZONTAL = re.compile(
    r"x|y|r?lat|r?lon|(grid_)?(latitude|longitude)|projection_[xy](_angular)?_coordinate"
)
"""Names, standard or not, of axes that a grid mapping is of."""
_ENTRY = re.compile(r"(\S+?)\s*:\s*((?:[^\s:]+(?!\S*:)\s*)*)")
"""A name with a colon, and those behind it without."""


class Companions:
    """Finds what comes along with results, by the names that attributes have for it."""

    def __init__(self, kept: Kept, *, read: bool = True) -> None:
        self._kept, self._read = kept, read
        self._found: dict[str, Auxiliary | None] = {}
        for name in kept.along:
            self._comes(name, averages=True)
        self.attributes = self._those_of(kept.source.attributes, _OF_RESULTS)
        """The attributes of results that name what comes along."""
        named = str(self.attributes.pop(COORDINATES, "")).split()
        others = " ".join(name for name in named if name not in kept.along)
        self.attributes |= {COORDINATES: others} if others else {}

        listed = str(group_attributes(kept.source).get(COORDINATES, "")).split()
        self.declared = [name for name in listed if self._found.get(name) and name not in named]
        """Coordinates that the source's group calls so, for no array does: bounds, with xarray."""

    @property
    def all(self) -> list[Auxiliary]:
        """Everything that comes along."""
        return [one for one in self._found.values() if one is not None]

    def _comes(self, name: str, *, more: bool = False, averages: bool = False) -> bool:
        """Add an array and those that its attributes name; return True if the array exists."""
        if name not in self._found:
            one = auxiliary(self._kept, name, more=more, averages=averages)
            if one is not None and self._read:
                one = read_or_left_out(self._kept, one)
            self._found[name] = one
            if one is not None:  # found before its attributes are read: they may name each other
                others = self._those_of(one.attributes, _OF_COMPANIONS)
                left = {key: said for key, said in one.attributes.items() if key not in _NAMING}
                one.attributes.clear()
                one.attributes.update(left | others)
        return self._found[name] is not None

    def _those_of(self, attributes: Mapping[str, Any], naming: Mapping[str, Any]) -> dict[str, Any]:
        """Return the attributes that name others, as far as these come along."""
        return {
            key: said
            for key, means in naming.items()
            if isinstance(given := attributes.get(key), str) and (said := means(self, given))
        }

    def _listed(self, given: str) -> str:
        return " ".join(name for name in given.split() if self._comes(name))

    def _coordinates(self, given: str) -> str:
        return " ".join(name for name in given.split() if self._comes(name, averages=True))

    def _bounds(self, given: str) -> str:
        name = given.strip()
        return name if self._comes(name, more=True) else ""

    def _by_role(self, given: str) -> str:
        """Keep those of `area: cell_area volume: cell_volume` that come along."""
        entries = ((role, names) for role, names in _entries(given) if all(map(self._comes, names)))
        return " ".join(f"{role}: {' '.join(names)}" for role, names in entries)

    def _all_terms(self, given: str) -> str:
        """Keep a formula if all of its terms come along."""
        names = [name for _, names in _entries(given) for name in names]
        there = all(auxiliary(self._kept, name, more=True) for name in names)
        return given if there and all(self._comes(name, more=True) for name in names) else ""

    def _mappings(self, given: str) -> str:
        """Keep `crs`, or those of `crs: x y other: lat lon` whose coordinates are there."""
        if ":" not in given:
            horizontal = [name for name in self._kept.names if name and self._is_horizontal(name)]
            gone = horizontal and not set(horizontal) & set(self._kept.along)
            return "" if gone else self._bounds(given)
        entries = (
            f"{name}: {' '.join(along)}"
            for name, along in _entries(given)
            if all(map(self._comes, along)) and self._comes(name, more=True)
        )
        return " ".join(entries)

    def _is_horizontal(self, axis: str) -> bool:
        if _HORIZONTAL.fullmatch(axis):
            return True
        found = opened_neighbour(self._kept, axis)
        said = "" if found is None else str(found.attributes.get("standard_name"))
        return bool(_HORIZONTAL.fullmatch(said))


def _entries(given: str) -> Iterator[tuple[str, list[str]]]:
    """Yield names with a colon, and those behind each.

    >>> list(_entries("crs: x y other: lat lon"))
    [('crs', ['x', 'y']), ('other', ['lat', 'lon'])]
    """
    for role, names in _ENTRY.findall(given):
        yield role, names.split()


_Means = Callable[[Companions, str], str]
_OF_RESULTS: Mapping[str, _Means] = MappingProxyType(
    {
        COORDINATES: Companions._coordinates,
        "ancillary_variables": Companions._listed,
        "cell_measures": Companions._by_role,
        "grid_mapping": Companions._mappings,
    }
)
"""Attributes of results that name other arrays; bounds of the elements do not hold for results."""
_OF_COMPANIONS: Mapping[str, _Means] = MappingProxyType(
    {
        **_OF_RESULTS,
        "bounds": Companions._bounds,
        "climatology": Companions._bounds,
        "formula_terms": Companions._all_terms,
    }
)
_NAMING = (*_OF_COMPANIONS, "geometry", "nodes", "node_coordinates", "node_count", "mesh")
