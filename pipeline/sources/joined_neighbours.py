"""The arrays of one name in the groups of several sources, as one array.

Along the axis on which the sources follow each other they follow each other, too. Elsewhere they
are one if they are equal; else each holds for its own source, so that the joined array gets the
axis. Each is decoded with its own units and calendar where these differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from chunkfold.errors import SourceError
from chunkfold.sources.concatenation import ConcatenatedSource, each_part
from chunkfold.sources.joined_values import (
    UNITS,
    Stored,
    are_equal,
    common_attributes,
    joined_values,
)
from chunkfold.sources.neighbour_array import Neighbour, array_in_memory
from chunkfold.sources.source import Source
from chunkfold.units import size_text

Find = Callable[[Source, str], Neighbour | None]
"""Finds an array in the group of one source."""
_MOST_BYTES = 256 << 20
"""A joined array is held in memory; labels and weights may have so many bytes."""
_BOUNDS = ("bounds", "climatology")
"""Attributes that name an array which has the units of the one that has them."""
_known: WeakKeyDictionary[ConcatenatedSource, dict[str, Neighbour | None]] = WeakKeyDictionary()


def joined_neighbour(source: ConcatenatedSource, name: str, find: Find) -> Neighbour | None:
    """Return the arrays of a name in the groups of all parts as one; None if no part has one.

    Raises
    ------
    SourceError
        If one part lacks it, or they do not go together; the parts are named.
    """
    known = _known.setdefault(source, {})
    if name not in known:
        known[name] = _Joining(source, name, find).joined()
    return known[name]


@dataclass(frozen=True)
class _Joining:
    """Arrays of one name in the groups of all parts of a source."""

    source: ConcatenatedSource
    name: str
    find: Find

    def joined(self) -> Neighbour | None:
        names = self.source.dims or (None,) * len(self.source.shape)
        axis = names[self.source.axis]
        found = self._first()
        if found is None:
            return None
        part, first = found
        if part is not self._parts[0]:
            self._raise_if_required(self._parts[0], names)
        dims = first.axes_among(names)
        if axis is not None and axis in dims:
            return self._in_turn(axis, dims)
        stored = Stored.of(part.name, first)

        def other(part: Source) -> str | None:
            """Return the name of a part whose array differs from the first one's."""
            one = self.find(part, self.name)
            if one is None:
                self._raise_if_required(part, names)
                return None
            same = one.axes_among(names) == dims and are_equal(stored, Stored.of(part.name, one))
            return None if same else part.name

        unlike = next((one for one in each_part(self._parts, other) if one is not None), None)
        if unlike is None:
            return first
        nbytes = first.nbytes * self.source.starts[-1]
        if axis is None or nbytes > _MOST_BYTES:
            why = "their axis has no name" if axis is None else f"all have {size_text(nbytes)}"
            raise SourceError(
                f"the {self.name!r} of {part.name} and of {unlike} differ, and {why}: give one "
                "array for all parts"
            )
        return self._in_turn(axis, dims)

    def _raise_if_required(self, part: Source, names: Sequence[str | None]) -> None:
        """Raise that a part lacks the array, unless it is the coordinate of an axis.

        Nothing tells then that its places are others.
        """
        if self.name not in names:
            raise SourceError(f"{part.name}: its group has no {self.name!r}, but others have one")

    @property
    def _parts(self) -> list[Source]:
        """The parts that have elements."""
        return [one for one in self.source.parts.values() if one.shape[self.source.axis]]

    def _first(self) -> tuple[Source, Neighbour] | None:
        """Return the first array that there is, and its part."""
        for part in self._parts:
            if (found := self.find(part, self.name)) is not None:
                return part, found
        return None

    def _in_turn(self, axis: str, dims: tuple[str | None, ...]) -> Neighbour:
        """Return arrays that follow each other along an axis: one of theirs, or a new first one."""
        lengths = [part.shape[self.source.axis] for part in self._parts]
        units_of = self._axis_it_bounds(axis)
        own = self._stored(self.name, units_of)
        if axis not in dims:
            dims = (axis, *dims)
            own = [one.repeated(length) for one, length in zip(own, lengths, strict=True)]
        n = dims.index(axis)
        self._check(own, lengths, n)
        if units_of is not None:
            family = [*self._stored(units_of), *own]
        else:
            bounds = (own[0].attributes.get(key) for key in _BOUNDS)
            named = [one for one in bounds if isinstance(one, str)]
            family = [
                *own,
                *(s for one in named for s in self._stored(one, self.name, allow_missing=True)),
            ]
        values, changed = joined_values(self.name, own, family, n)
        attributes = common_attributes([one.attributes for one in own]) | changed
        left_out = UNITS if units_of is not None else ()
        kept = {
            key: said
            for key, said in attributes.items()
            if said is not None and key not in left_out
        }
        return Neighbour(self.name, array_in_memory(values, kept, dims))

    def _axis_it_bounds(self, axis: str) -> str | None:
        """Return the axis if this array has the bounds of its coordinate."""
        found = None if axis == self.name else self.find(self._parts[0], axis)
        named = () if found is None else (found.attributes.get(key) for key in _BOUNDS)
        return axis if self.name in named else None

    def _stored(
        self, name: str, units_of: str | None = None, *, allow_missing: bool = False
    ) -> list[Stored]:
        """Read the arrays of a name of all parts; `allow_missing` allows that parts lack it.

        `units_of` names the array that has the units of those without.
        """

        def read(part: Source) -> Stored | None:
            one = self.find(part, name)
            if one is None and not allow_missing:
                self._raise_if_required(part, ())
            owner = None if units_of is None else self.find(part, units_of)
            said = {} if owner is None else owner.attributes
            units = {key: said[key] for key in UNITS if key in said}
            return None if one is None else Stored.of(part.name, one, units)

        return [one for one in each_part(self._parts, read) if one is not None]

    def _check(self, own: Sequence[Stored], lengths: Sequence[int], n: int) -> None:
        """Raise if arrays do not have the extents of their parts, or unlike ones elsewhere."""
        first = own[0].values.shape
        for one, length in zip(own, lengths, strict=True):
            shape, wanted = one.values.shape, (*first[:n], length, *first[n + 1 :])
            if shape != wanted:
                raise SourceError(
                    f"{one.part}: its {self.name!r} has shape {shape}, but its data and the first "
                    f"part's {self.name!r} require {wanted}"
                )
