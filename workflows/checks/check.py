"""Check an archive before it is published, or after it was copied: chunks, values, coordinates."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from distributed import Client

from chunkfold.errors import (
    MonoidError,
    PackedWarning,
    PlanError,
    RangeError,
    RemarkWarning,
    SourceError,
)
from chunkfold.events import OnEvent
from chunkfold.ledger.ledger import Ledger
from chunkfold.planning.options import Options
from chunkfold.running.ready import check_terms
from chunkfold.sources.cf_packing import packing_of
from chunkfold.sources.consolidated_metadata import consolidated_differences
from chunkfold.sources.opening import Unopened, open_each, open_source
from chunkfold.sources.source import Source
from chunkfold.sources.zarr_source import ZarrSource
from chunkfold.tracebacks import traceback_cut
from chunkfold.workflows.checks.archive_names import archive_name, is_called, path_within
from chunkfold.workflows.checks.chunk_findings import chunk_findings, worst
from chunkfold.workflows.checks.chunk_statistics import chunk_statistics
from chunkfold.workflows.checks.coordinate_findings import (
    StoredCoordinate,
    length_findings,
    place_text,
    read_coordinates,
    value_findings,
)
from chunkfold.workflows.checks.finding_kinds import REMARKS, FindingKind, named_kinds
from chunkfold.workflows.checks.findings import CheckedArray, Finding, Soundness, sorted_findings
from chunkfold.workflows.checks.ledger_findings import KnownArray
from chunkfold.workflows.checks.value_limits import ValueEnds


@traceback_cut
def check(
    source: Any,
    *,
    arrays: Iterable[str] = (),
    limits: Mapping[str, ValueEnds] | None = None,
    fail_on: Iterable[str] = (),
    ignore: Iterable[str] = (),
    ledger: str | os.PathLike[str] | None = None,
    trust_ledger: bool = False,
    memory: int | str | None = Options.memory,
    client: Client | None = None,
    on_event: OnEvent | None = None,
) -> Soundness:
    """Check an array, or every array of a group, in one read of each.

    Parameters
    ----------
    source
        A path or URL of a Zarr array or group or of an HDF5 file, or zarr's array or group.
    arrays
        Patterns of names of arrays, such as "air*"; none: all. Their coordinates are looked at,
        too.
    limits
        The least and the greatest value that there may be, by patterns of names of arrays, of the
        values that packed numbers stand for; None: any.
    fail_on
        Kinds of findings that are errors beside those that always are, or "all".
    ignore
        Kinds of findings that are not told.
    ledger, trust_ledger
        As `chunkfold.reduce` has them: what is read is compared with the statistics of blocks that
        the ledger has (`ledger_statistics`).
    memory, client, on_event
        As `chunkfold.reduce` has them.

    Raises
    ------
    ChunkfoldError
        If there is nothing there, no array has such a name, the only one cannot be opened, or a
        worker or cluster fails.
    """
    archive = archive_at(source, arrays=arrays, limits=limits, fail_on=fail_on, ignore=ignore,
                         ledger=ledger, trust_ledger=trust_ledger)  # fmt: skip
    given: Any = {"memory": memory, "client": client, "on_event": on_event}
    return archive.soundness([archive.look_at(one, **given) for one in archive.members])


@dataclass(frozen=True)
class Archive:
    """The arrays of a group, or one array, that are to be checked."""

    name: str
    members: tuple[Source | Unopened, ...]
    """The arrays that were asked for."""
    beside: tuple[Source, ...]
    """These, if they can be opened, and their coordinates."""
    consolidated: tuple[tuple[str, str], ...]
    """Names of members, and what consolidated metadata have otherwise."""
    coordinates: Mapping[tuple[str, str], StoredCoordinate]
    """By group and name."""
    limits: Mapping[str, ValueEnds]
    """By patterns of names."""
    failing: frozenset[FindingKind]
    """Kinds of findings by which it is not sound."""
    kept: frozenset[FindingKind]
    """Kinds of findings that are told."""
    ledger: str | None = None
    """Place of the ledger that knew the arrays before."""
    trust_ledger: bool = False

    def look_at(
        self,
        member: Source | Unopened,
        *,
        memory: int | str | None = None,
        client: Client | None = None,
        on_event: OnEvent | None = None,
    ) -> CheckedArray:
        """Read a member once, and say what was found.

        Raises
        ------
        ChunkfoldError
            If anything is wrong that would be with every array.
        """
        if isinstance(member, Unopened):
            kind = FindingKind.GONE if member.gone else FindingKind.UNOPENED
            return CheckedArray(member.name, findings=(_of_error(member.name, kind, member.error),))
        Options(memory=memory)
        check_terms(client)
        found: list[Finding] = []
        source, packing, read, states = member, None, None, None
        try:
            source = member.reopened()  # the last one is read long after all were opened
            packing = packing_of(open_source(source))
        except SourceError as error:
            told = str(error).removeprefix(f"{source.name}: ").partition(";")[0]
            found.append(Finding(source.name, FindingKind.UNCHECKED, f"not read: {told}"))
            return _looked_at(source, findings=tuple(found))
        except PlanError as error:
            found.append(_of_error(source.name, FindingKind.ATTRIBUTES, error))
        if not source.nbytes:
            return _looked_at(source, findings=tuple(found))
        try:
            with warnings.catch_warnings():
                for category in (PackedWarning, RemarkWarning):  # findings say it
                    warnings.simplefilter("ignore", category)
                known = KnownArray.of(source, self.ledger, packed=packing is not None,
                                      trusted=self.trust_ledger, client=client)  # fmt: skip
                read = chunk_statistics(
                    source,
                    packing,
                    kept=() if known is None else known.statistics,
                    unpacked=known is not None and known.unpacked,
                    memory=memory,
                    client=client,
                    on_event=on_event,
                )
        except (SourceError, PlanError, MonoidError, RangeError) as error:
            found.append(_of_error(source.name, FindingKind.UNREADABLE, error))
            return _looked_at(source, findings=tuple(found))
        given = next(
            (self.limits[one] for one in self.limits if self._called(source.name, one)), None
        )
        beside = None if known is None else known.compared_with(read)
        if beside is not None and beside.lacking:
            found.append(Finding(source.name, FindingKind.UNCHECKED, beside.lacking))
        more, masks = chunk_findings(
            source, read, packing, given, lambda cut: self._place(source, cut), beside
        )
        states = worst(masks, tuple(self.kept))
        return _looked_at(
            source,
            nbytes=source.nbytes,
            states=states,
            compared=None if beside is None else int(beside.compared.sum()),
            lists_chunks=read.stored is not None,
            findings=(*found, *more),
        )

    def soundness(self, looked_at: Sequence[CheckedArray]) -> Soundness:
        """Return all findings: those in arrays that were looked at, and those of the group."""
        found = [finding for one in looked_at for finding in one.findings]
        for name, said in self.consolidated:
            found.append(Finding(name, FindingKind.CONSOLIDATED, said))
        for told in (length_findings(self.beside), *map(value_findings, self.coordinates.values())):
            found += [Finding(*one) for one in told]
        weighed = [
            replace(one, error=one.kind in self.failing) for one in found if one.kind in self.kept
        ]
        return Soundness(self.name, tuple(looked_at), sorted_findings(weighed))

    def _called(self, name: str, pattern: str) -> bool:
        return is_called(name, pattern, self.name)

    def _place(self, source: Source, region: Sequence[slice]) -> str:
        """Say which elements a region has, and where they are in coordinates."""
        said = ", ".join(f"{cut.start}:{cut.stop}" for cut in region)
        group = source.name.rpartition("/")[0]
        at = []
        for dim, cut, size in zip(source.dims or (), region, source.shape, strict=False):
            along = self.coordinates.get((group, str(dim)))
            part = cut.stop - cut.start < size  # all of an axis says nothing
            if part and along is not None and len(along.values) == size:
                at.append(f"{dim} {place_text(along, cut)}")
        return " ".join([f"[{said}]", ", ".join(at)]).strip()


def archive_at(
    source: Any,
    *,
    arrays: Iterable[str] = (),
    limits: Mapping[str, ValueEnds] | None = None,
    fail_on: Iterable[str] = (),
    ignore: Iterable[str] = (),
    ledger: str | os.PathLike[str] | None = None,
    trust_ledger: bool = False,
) -> Archive:
    """Open what is to be checked, and read its coordinates; parameters as `check`.

    Raises
    ------
    ChunkfoldError
        As `check`.
    """
    failing, ignored = named_kinds("fail_on", fail_on), named_kinds("ignore", ignore)
    place = None if ledger is None else os.fspath(ledger)
    if place is not None:
        Ledger.at(place, trusted=trust_ledger, create=False)
    every = open_each(source)
    alone = len(every) == 1 and isinstance(every[0], Source)
    name = archive_name(source, every)
    patterns = list(arrays)
    members = tuple(one for one in every if _chosen(one.name, patterns, name))
    for pattern in patterns if not members else [*patterns, *(limits or {})]:
        if not any(is_called(one.name, pattern, name) for one in every):
            known = ", ".join(path_within(one.name, name) for one in every[:5])
            raise PlanError(f"{name}: has no array called {pattern!r}; it has {known}")
    sources = [one for one in every if isinstance(one, Source)]
    beside = tuple(one for one in sources if one in members or _is_coordinate_of(one, members))
    consolidated = (
        () if alone and every[0].name == name else tuple(_consolidated(source, name, every))
    )
    told = {path_within(one.name, name) for one in (*members, *beside)}
    return Archive(
        name,
        members,
        beside,
        tuple(
            (at, said) for at, said in consolidated if not patterns or path_within(at, name) in told
        ),
        read_coordinates(beside),
        dict(limits or {}),
        (frozenset(FindingKind) - REMARKS) | failing,
        frozenset(FindingKind) - ignored,
        place,
        trust_ledger,
    )


def _chosen(name: str, patterns: Sequence[str], root: str) -> bool:
    return not patterns or any(is_called(name, one, root) for one in patterns)


def _is_coordinate_of(source: Source, members: Iterable[Source | Unopened]) -> bool:
    group, _, own = source.name.rpartition("/")
    return source.of_axis and any(
        own in (one.dims or ()) and one.name.rpartition("/")[0] == group
        for one in members
        if isinstance(one, Source)
    )


def _consolidated(
    source: Any, name: str, every: Sequence[Source | Unopened]
) -> Iterator[tuple[str, str]]:
    """Yield what consolidated metadata have otherwise than members themselves."""
    if not all(isinstance(one, (ZarrSource, Unopened)) for one in every):
        return
    there = [path_within(one.name, name) for one in every if isinstance(one, Source)]
    for path, said in consolidated_differences(source, there):
        yield f"{name}/{path}".rstrip("/"), said


def _of_error(name: str, kind: FindingKind, error: Exception) -> Finding:
    return Finding(name, kind, str(error).removeprefix(f"{name}: "))


def _looked_at(source: Source, **found: Any) -> CheckedArray:
    return CheckedArray(source.name, source.dtype, source.shape, source.chunks, **found)
