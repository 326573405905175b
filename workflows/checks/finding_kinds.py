"""Kinds of findings in an archive, what each means, and whether a sound archive may have it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType

from chunkfold.errors import PlanError

ALL = "all"
"""Names every kind of finding."""


class FindingKind(StrEnum):
    """A kind of finding; those of chunks from the mildest to the worst."""

    CHANGED = "changed"
    MISSING = "missing"
    CONSTANT = "constant"
    FILL = "fill"
    NAN = "nan"
    INFINITE = "infinite"
    OUTSIDE = "outside"
    DAMAGED = "damaged"
    UNREADABLE = "unreadable"
    UNOPENED = "unopened"
    GONE = "gone"
    CONSOLIDATED = "consolidated"
    ATTRIBUTES = "attributes"
    SHAPE = "shape"
    COORDINATE = "coordinate"
    ORDER = "order"
    DOUBLE = "double"
    GAP = "gap"
    UNCHECKED = "unchecked"


MEANINGS: Mapping[FindingKind, str] = MappingProxyType(
    {
        FindingKind.UNREADABLE: "a chunk cannot be read or decoded",
        FindingKind.DAMAGED: "a block has other values than in a ledger, but no later time",
        FindingKind.UNOPENED: "an array cannot be opened",
        FindingKind.GONE: "an array is gone, but consolidated metadata name it",
        FindingKind.CONSOLIDATED: "consolidated metadata differ from an array's own",
        FindingKind.ATTRIBUTES: "an attribute that says what numbers mean cannot be understood",
        FindingKind.OUTSIDE: "values are outside valid_range, or given limits",
        FindingKind.SHAPE: "an axis is not as long as its coordinate, or as others of its name",
        FindingKind.COORDINATE: "a coordinate has no value somewhere",
        FindingKind.ORDER: "times are not in order",
        FindingKind.DOUBLE: "a coordinate has a value twice",
        FindingKind.GAP: "times are missing between others that follow each other evenly",
        FindingKind.MISSING: "a chunk is not stored",
        FindingKind.NAN: "all elements of a chunk are NaN",
        FindingKind.FILL: "all elements of a chunk are the fill value, or marked as missing",
        FindingKind.CONSTANT: "all elements of a chunk are the same",
        FindingKind.INFINITE: "a chunk has infinite values",
        FindingKind.CHANGED: "a chunk was written since a ledger had the block that it is in",
        FindingKind.UNCHECKED: "something cannot be checked: texts, missing chunks, or by a ledger",
    }
)
"""Kinds in the order that they are told in."""
REMARKS = frozenset(
    {
        FindingKind.MISSING,
        FindingKind.NAN,
        FindingKind.FILL,
        FindingKind.CONSTANT,
        FindingKind.INFINITE,
        FindingKind.CHANGED,
        FindingKind.UNCHECKED,
    }
)
"""Kinds that sound archives may have: they are told, and fail nothing unless that is asked."""
UNREAD = frozenset({FindingKind.UNREADABLE, FindingKind.UNOPENED})
"""Kinds of what could not be read."""


def named_kinds(option: str, given: Iterable[str]) -> frozenset[FindingKind]:
    """Return the kinds of findings that an option names.

    Raises
    ------
    PlanError
        If there is no such kind.
    """
    found: set[FindingKind] = set()
    for one in given:
        if one != ALL and one not in set(FindingKind):
            raise PlanError(f"{option} is {one!r}; use {ALL!r} or one of {', '.join(MEANINGS)}")
        found |= set(FindingKind) if one == ALL else {FindingKind(one)}
    return frozenset(found)
