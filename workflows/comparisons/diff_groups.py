"""Compare all arrays of two groups, such as an archive and its copy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from distributed import Client

from chunkfold.errors import ChunkfoldError, MonoidError, PlanError, RangeError, SourceError
from chunkfold.events import OnEvent
from chunkfold.planning.options import Options
from chunkfold.plural import counted
from chunkfold.running.ready import check_terms
from chunkfold.sources.opening import Unopened, check_dtype, open_each
from chunkfold.sources.source import Source
from chunkfold.tracebacks import traceback_cut
from chunkfold.workflows.checks.archive_names import archive_name, path_within
from chunkfold.workflows.comparisons.diff import Difference, compared, comparison
from chunkfold.workflows.comparisons.tolerances import EXACTLY, Tolerance

_NAMED = 5
"""Arrays of a group that a message names."""


@dataclass(frozen=True)
class ComparedArray:
    """An array of a group, compared with that of the same path in another."""

    path: str
    found: Difference | None = None
    """None if elements were not compared."""
    reason: str = ""
    """The reason why they were not."""
    unread: bool = False
    """True if that is because one side cannot be opened or read."""
    differs: bool = False
    """True if they differ, in elements or so that elements cannot be compared."""

    @property
    def line(self) -> str:
        """Say it in a line."""
        told = [self.reason] if self.found is None else self.found.lines()
        return f"{self.path}: {'; '.join(told)}"


@dataclass(frozen=True)
class GroupDifference:
    """The differences of two groups, by the paths of arrays."""

    names: tuple[str, str]
    only: tuple[tuple[str, ...], tuple[str, ...]]
    """Paths of arrays that the first alone has, and those that the second alone has."""
    arrays: tuple[ComparedArray, ...] = ()

    @property
    def equal(self) -> bool:
        """Return True if both have the same arrays, and all that can be compared are equal."""
        return not any(self.only) and not any(one.differs or one.unread for one in self.arrays)

    @property
    def unread(self) -> bool:
        """Return True if some arrays could not be opened or read."""
        return any(one.unread for one in self.arrays)

    def lines(self) -> list[str]:
        """Say it to people: a line for each array that is not equal, and one at the end."""
        told = [
            f"{path}: only in {name}"
            for name, paths in zip(self.names, self.only, strict=True)
            for path in paths
        ]
        odd = [one for one in self.arrays if one.found is None or one.differs]
        counts = {
            "equal": sum(one.found is not None and not one.differs for one in self.arrays),
            "different": sum(one.differs for one in self.arrays),
            "on one side only": sum(map(len, self.only)),
            "not compared": sum(one.found is None and not one.differs for one in self.arrays),
        }
        said = [f"{count:,} {what}" for what, count in counts.items() if count]
        both = " and ".join(self.names)
        total = counted(len(self.arrays) + sum(map(len, self.only)), "array")
        return [*told, *(one.line for one in odd), f"{both}: {total}, {', '.join(said)}"]


@dataclass(frozen=True)
class GroupPair:
    """Two groups whose arrays are to be compared."""

    names: tuple[str, str]
    pairs: Mapping[str, tuple[Source | Unopened, Source | Unopened]]
    """Arrays of both by their paths."""
    only: tuple[tuple[str, ...], tuple[str, ...]]
    """Paths of arrays that one alone has."""
    within: Tolerance = EXACTLY
    options: Mapping[str, Any] = field(default_factory=dict)

    def compared(
        self, path: str, *, client: Client | None = None, on_event: OnEvent | None = None
    ) -> ComparedArray:
        """Compare the arrays of a path.

        Raises
        ------
        ChunkfoldError
            If anything is wrong that would be with every array.
        """
        for one in self.pairs[path]:
            if isinstance(one, Unopened):
                return ComparedArray(path, reason=str(one.error), unread=True)
        check_terms(client)
        try:
            one, other = (one.reopened() for one in self.pairs[path] if isinstance(one, Source))
            if one.shape != other.shape:
                shapes = f"shapes differ: {one.shape} and {other.shape}"
                return ComparedArray(path, reason=shapes, differs=True)
            if why := _why_not(one):
                same = one.dtype == other.dtype
                told = f"not compared: {why}" if same else f"{one.dtype} and {other.dtype}"
                return ComparedArray(path, reason=told, differs=not same)
            request = comparison(one, other, self.within, **self.options)
        except (PlanError, MonoidError) as error:
            return ComparedArray(path, reason=str(error), differs=True)
        except SourceError as error:
            return ComparedArray(path, reason=str(error), unread=True)
        try:
            found = compared(request, self.within, client=client, on_event=on_event)
        except (SourceError, RangeError) as error:
            return ComparedArray(path, reason=str(error), unread=True)
        return ComparedArray(path, found, differs=not found.equal)

    def difference(self, arrays: list[ComparedArray]) -> GroupDifference:
        """Return what was found in all of them."""
        return GroupDifference(self.names, self.only, tuple(arrays))


@traceback_cut
def diff_groups(
    a: Any,
    b: Any,
    *,
    rtol: float = 0.0,
    atol: float = 0.0,
    ulp: int = 0,
    mask_and_scale: bool = False,
    memory: int | str | None = None,
    client: Client | None = None,
    on_event: OnEvent | None = None,
) -> GroupDifference:
    """Compare the arrays of two groups by their paths; parameters as `diff`.

    An array that is on one side only, or of other shape, is a difference; one that cannot be read
    has a reason, and the others are compared.

    Raises
    ------
    ChunkfoldError
        If one is no group, or a worker or cluster fails.
    """
    found = paired_groups(
        a, b, Tolerance(rtol, atol, ulp), mask_and_scale=mask_and_scale, memory=memory
    )
    if found is None:
        raise PlanError(
            "these are two arrays, not groups: chunkfold.workflows.comparisons.diff compares them"
        )
    return found.difference(
        [found.compared(path, client=client, on_event=on_event) for path in found.pairs]
    )


def paired_groups(a: Any, b: Any, within: Tolerance, **options: Any) -> GroupPair | None:
    """Pair the arrays of two groups by their paths; None if both are arrays.

    Raises
    ------
    ChunkfoldError
        If one is a group and the other is none, or an option is wrong.
    """
    Options(**options)
    opened = [_by_path(source) for source in (a, b)]
    (one, first), (other, second) = opened
    alone = [list(members) == [name] for name, members in opened]
    if all(alone):
        return None
    if any(alone):
        array, (group, there) = (one, opened[1]) if alone[0] else (other, opened[0])
        named = f"{', '.join(list(there)[:_NAMED])}{', ...' if len(there) > _NAMED else ''}"
        raise PlanError(
            f"{array} is an array, but {group} is a group: name one of its arrays ({named}), or "
            "two groups"
        )
    return GroupPair(
        (one, other),
        {path: (first[path], second[path]) for path in first if path in second},
        (tuple(path for path in first if path not in second),
         tuple(path for path in second if path not in first)),
        within,
        options,
    )  # fmt: skip


def _by_path(source: Any) -> tuple[str, dict[str, Source | Unopened]]:
    """Return the name of a group, and its arrays by their paths; one that is gone is not there."""
    members = open_each(source)
    name = archive_name(source, members)
    there = [one for one in members if not (isinstance(one, Unopened) and one.gone)]
    return name, {path_within(one.name, name): one for one in there}


def _why_not(source: Source) -> str:
    """Say why elements cannot be compared; "" if they can."""
    try:
        check_dtype(source)
    except ChunkfoldError as error:
        return str(error).removeprefix(f"{source.name}: ")
    return ""
