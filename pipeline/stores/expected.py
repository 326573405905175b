"""Compares stored objects with the listing that was made when the run was planned.

An object that was removed, resized or written since then does not belong to the planned array:
the result would mix two of its states.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from chunkfold.errors import ChangedError, MissingError

_SECOND = 1_000_000_000
UNTOLD = -1
"""A time that no server told."""
ObjectIndex = Sequence[int]
"""The indices of an object in the grid of objects."""


class ObjectState(NamedTuple):
    """The state of an object in its store."""

    size: int
    """Bytes."""
    modified: int
    """The time of its last write: nanoseconds since 1970, by the store's clock."""
    tag: str = ""
    """The server's name for this version of it (ETag), if it gives one."""

    def refuse_later(self, planned: int) -> None:
        """See that it was not written after a time: when the run was planned, by the same clock.

        Servers tell both in whole seconds.

        Raises
        ------
        ChangedError
            If it was.
        """
        if planned != UNTOLD and self.modified // _SECOND > planned // _SECOND:
            raise ChangedError(
                f"it was written at {_written(self.modified)}, after the run was planned: that "
                f"was at {_written(planned)} by the server's clock"
            )

    def refuse_other(self, now: ObjectState) -> None:
        """See that a later answer is of the same version.

        Raises
        ------
        ChangedError
            If it is not.
        """
        if now.size != self.size:
            raise ChangedError(f"it had {self.size:,} bytes at first, and has {now.size:,}")
        if self.tag and now.tag:
            if now.tag != self.tag:
                raise ChangedError(f"its ETag was {self.tag} at first, and is {now.tag}")
        elif now.modified != self.modified:
            raise ChangedError(
                f"it was written at {_written(self.modified)} by the first answer, and at "
                f"{_written(now.modified)} by a later one"
            )


class Expected(Protocol):
    """The known states of the objects of a leaf."""

    @property
    def listed(self) -> bool:
        """Return True if a listing has the objects, so that there are states to compare."""

    @property
    def needed(self) -> bool:
        """Return True if each must be stored: a missing one ends the run."""

    def size_of(self, place: ObjectIndex) -> int:
        """Return the bytes of an object, 0 if they are not known or it is not stored."""

    def sizes_in(self, box: Sequence[range]) -> np.ndarray:
        """Return `size_of` of all objects of a box, in C order, int64."""

    def lacks(self, place: ObjectIndex) -> bool:
        """Return True if an object is known to be missing: then it is not requested."""

    @property
    def newest_written(self) -> tuple[int, int]:
        """The latest time at which an object may have been written, in nanoseconds since 1970.

        -1 if any will do. Behind it the nanoseconds by which the store tells times.
        """

    def check(self, place: ObjectIndex, found: ObjectState | None) -> None:
        """Compare an object that was asked for with what is known; None: it is not there.

        Raises
        ------
        ChangedError
            If it is not the one that was listed.
        """


@dataclass(frozen=True, eq=False)
class Listed:
    """The listed states of a box of objects, from when the run was planned."""

    first: tuple[int, ...]
    """The box's first object."""
    sizes: np.ndarray
    """Bytes of each, of the box's shape; 0 where nothing is stored."""
    size: int
    """The size of every object of the box if all are stored and of one size; else 0."""
    newest: int
    """The time of the last write to any object of the array, in nanoseconds since 1970."""
    by_seconds: bool
    """True if the store gives times of single objects in whole seconds, as HTTP does."""
    needed: bool = False
    """True if the chunks in them must be stored, too: all of them are."""
    listed: ClassVar[bool] = True

    @cached_property
    def stored(self) -> np.ndarray:
        """Return True where an object is stored: bool, of the box's shape."""
        return self.sizes > 0

    def size_of(self, place: ObjectIndex) -> int:
        """Return the bytes of an object, 0 if it is not stored."""
        if self.size:
            return self.size
        return int(self.sizes[tuple(n - m for n, m in zip(place, self.first, strict=True))])

    def sizes_in(self, box: Sequence[range]) -> np.ndarray:
        """Return the bytes of all objects of a box, in C order, int64."""
        if self.size:
            return np.full(math.prod(map(len, box)), self.size, np.int64)
        cuts = zip(box, self.first, strict=True)
        within = tuple(slice(one.start - first, one.stop - first) for one, first in cuts)
        return self.sizes[within].reshape(-1).astype(np.int64)

    def lacks(self, place: ObjectIndex) -> bool:
        """Return True if an object is known to be missing."""
        return not self.size_of(place)

    @property
    def newest_written(self) -> tuple[int, int]:
        """Return the time of the newest write, and the resolution of times, in nanoseconds."""
        return self.newest, _SECOND if self.by_seconds else 1

    def check(self, place: ObjectIndex, found: ObjectState | None) -> None:
        """Compare an object with its entry of the listing."""
        if found is None:
            raise ChangedError("it was stored when the run was planned, and is gone")
        size = self.size_of(place)
        if max(found.size, 1) != size:  # the listing marks empty objects by a 1
            raise ChangedError(
                f"it had {size:,} bytes when the run was planned, and has {found.size:,}"
            )
        _, unit = self.newest_written
        if found.modified // unit > self.newest // unit:
            raise ChangedError(
                f"it was written at {_written(found.modified)}, after the run was planned: the "
                f"newest object was of {_written(self.newest)} then"
            )


@dataclass(frozen=True, eq=False)
class Unlisted:
    """Objects of a store that cannot be listed; notes those that are found missing."""

    missed: set[tuple[int, ...]]
    """Indices of the objects that were requested and are missing."""
    needed: bool = False
    """True if each must be stored."""
    listed: ClassVar[bool] = False

    def size_of(self, place: ObjectIndex) -> int:  # noqa: ARG002
        """Nothing is known."""
        return 0

    def sizes_in(self, box: Sequence[range]) -> np.ndarray:
        """Nothing is known."""
        return np.zeros(math.prod(map(len, box)), np.int64)

    def lacks(self, place: ObjectIndex) -> bool:  # noqa: ARG002 # nothing is known
        """Nothing is known: every object is asked for."""
        return False

    @property
    def newest_written(self) -> tuple[int, int]:
        """Any time will do."""
        return -1, 1

    def check(self, place: ObjectIndex, found: ObjectState | None) -> None:
        """Note an object that is not there.

        Raises
        ------
        MissingError
            If it is needed.
        """
        if found is None and self.needed:
            raise MissingError("is not stored")
        if found is None:
            self.missed.add(tuple(place))


@dataclass(frozen=True)
class Shifted:
    """The expected objects of a part, by their indices in the part: it is offset in the whole."""

    of: Expected
    """The expected objects of the whole."""
    axis: int
    before: int
    """Objects of others along the axis."""

    @property
    def listed(self) -> bool:
        """Return True if a listing has the objects."""
        return self.of.listed

    @property
    def needed(self) -> bool:
        """Return True if each must be stored."""
        return self.of.needed

    def size_of(self, place: ObjectIndex) -> int:
        """Return the bytes of an object, 0 if they are not known or it is not stored."""
        return self.of.size_of(self._whole(place))

    def sizes_in(self, box: Sequence[range]) -> np.ndarray:
        """Return the bytes of all objects of a box, in C order, int64."""
        moved = list(box)
        own = moved[self.axis]
        moved[self.axis] = range(own.start + self.before, own.stop + self.before)
        return self.of.sizes_in(moved)

    def lacks(self, place: ObjectIndex) -> bool:
        """Return True if an object is known to be missing."""
        return self.of.lacks(self._whole(place))

    @property
    def newest_written(self) -> tuple[int, int]:
        """Return those of the whole."""
        return self.of.newest_written

    def check(self, place: ObjectIndex, found: ObjectState | None) -> None:
        """Compare an object with what is known."""
        self.of.check(self._whole(place), found)

    def _whole(self, place: ObjectIndex) -> tuple[int, ...]:
        axis = self.axis
        return (*place[:axis], place[axis] + self.before, *place[axis + 1 :])


def _written(nanoseconds: int) -> str:
    """Write a time in UTC, to the millisecond.

    >>> _written(1_700_000_000_123_456_789)
    '2023-11-14T22:13:20.123Z'
    """
    when = datetime.fromtimestamp(nanoseconds // 1_000_000 / 1000, UTC)
    return f"{when:%Y-%m-%dT%H:%M:%S}.{when.microsecond // 1000:03}Z"
