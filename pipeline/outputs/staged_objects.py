"""Outputs at URLs in the making, beside their place: a run goes on with what another left there.

Each run has a note and objects of its own, below `.NAME.staged/ID/`. A run that resumes another's
output takes over its note, and then copies its objects; what that one writes later is ignored. The
note is written before the objects, and deleted before them. A run reads it again after each step
that relies on it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from zarr.storage import ObjectStore, StorePath

from chunkfold.errors import BusyError, ChunkfoldError, PlanError
from chunkfold.outputs.uploads import (
    MADE,
    PLACING,
    ROOT,
    half_placed,
    objects_below,
    opened_folder,
    staging_of,
    unwritable,
)
from chunkfold.redaction import shown_address
from chunkfold.stores.obstore_clients import open_store
from chunkfold.stores.remote import said_shortly

_AT_ONCE, _PAGE = 32, 1000
_NOTE, _READY = "note", "ready"
"""Objects of a run beside what it makes: who writes there; and that it has copied all that it
resumes from."""


@dataclass(frozen=True)
class _Note:
    question: str
    name: str
    owner: str
    """The run that writes there, or copies what is there."""

    def __str__(self) -> str:
        return f"{self.question or '-'} {self.name} {self.owner}"


@dataclass
class StagedObjects:
    """An output on its way to a URL, as `StagedOutput` is one in a folder."""

    out: str
    name: str
    """The unique name by which a ledger knows it."""
    _store: Any
    _own: str
    _note: _Note
    kept: bool = False
    """True if another run may go on with it."""
    placing: bool = False
    """True once objects are copied to its place."""

    @cached_property
    def made(self) -> StorePath:
        """Its place until it is complete."""
        return StorePath(ObjectStore(open_store(f"{self._url}/{self._own}/{MADE}")))

    @property
    def label(self) -> str:
        """The name by which lists have it."""
        return self.out.rstrip("/").rpartition("/")[2]

    @property
    def where(self) -> str:
        """The URL below which this run writes, without secrets."""
        return f"{shown_address(self._url)}/{self._own}"

    @property
    def _url(self) -> str:
        return self.out.rstrip("/").rpartition("/")[0]

    def keep(self) -> None:
        """Keep it for another run: objects that are written stay.

        Raises
        ------
        BusyError
            If another run has taken it.
        OSError
            If the store does not answer.
        """
        with said_shortly():
            found = _note_in(self._store, self._own)
        if found != self._note:
            raise _taken(self.out)
        self.kept = True

    def put(self, *, overwrite: bool) -> None:
        """Copy it to its place, where it is a Zarr once all of it is there.

        Raises
        ------
        PlanError
            If something came there meanwhile that is not to go.
        BusyError
            If another run has taken it.
        """
        import obstore

        self.keep()
        name = self.label
        if (there := objects_below(self._store, name)) and not overwrite:
            told = shown_address(self.out)
            raise PlanError(f"output {told} was created meanwhile: it is not overwritten")
        obstore.put(self._store, f"{self._own}/{PLACING}", b"")
        self.placing = True
        _delete(self._store, there, first=f"{name}/{ROOT}")
        last = _copied(self._store, f"{self._own}/{MADE}", name, _is_metadata)
        for key in sorted(last, key=lambda key: (key == ROOT, -key.count("/"))):
            if key == ROOT:
                self.keep()  # so nothing was removed before it was copied
            obstore.copy(self._store, f"{self._own}/{MADE}/{key}", f"{name}/{key}")


@contextmanager
def staged_objects(out: str, question: str, *, overwrite: bool) -> Iterator[StagedObjects]:
    """Yield an output at a URL, which takes its place once all of it is there.

    With a question it is gone on with where a run with the same question left it, and left where
    this one ends early. Whatever else such runs left is removed.

    Raises
    ------
    PlanError
        If the store refuses it.
    BusyError
        If another run has taken it.
    """
    with _said(out):
        made = _begun(out, question)
    done = False
    try:
        yield made
        with _said(out):
            made.put(overwrite=overwrite)
        done = True
    finally:
        with suppress(Exception):
            # A run that takes it over copies it as long as it has a note. A part of it that is at
            # its place is known by what is left here.
            left = made.placing or (question and made.kept)
            if done or not left or not _note_in(made._store, made._own).name:
                _remove(made._store, made._own)


@contextmanager
def _said(out: str) -> Iterator[None]:
    """Name the output that a store refuses."""
    try:
        yield
    except ChunkfoldError:
        raise
    except Exception as error:
        if isinstance(error, OSError) or type(error).__module__.startswith("obstore"):
            raise unwritable(out, error) from error
        raise


def _taken(out: str) -> BusyError:
    return BusyError(
        f"output {shown_address(out)}: another run writes it now, and used or removed what this "
        "run wrote: wait for that run"
    )


def _begun(out: str, question: str) -> StagedObjects:
    """Make the place of an output, with all that a run with the same question left."""
    import obstore

    store, name = opened_folder(out)
    ground, number = staging_of(name), uuid.uuid4().hex
    others = _others(store, ground)
    old = _left(store, others, question) if question else ""
    known = others[old].name if old else uuid.uuid4().hex
    note = _Note(question, known, number)
    made = StagedObjects(out, known, store, f"{ground}/{number}", note, kept=bool(old))
    obstore.put(store, f"{made._own}/{_NOTE}", str(note).encode())
    there = objects_below(store, name)
    if half_placed(store, name, there):
        _delete(store, there)
    if old:
        obstore.put(store, f"{old}/{_NOTE}", str(note).encode())
        _copied(store, f"{old}/{MADE}", f"{made._own}/{MADE}")
        if _note_in(store, old) != note:
            raise _taken(out)
    obstore.put(store, f"{made._own}/{_READY}", b"")
    for one in others:
        _remove(store, one)
    twins = [one for one in _others(store, ground).values() if one.name == known and one != note]
    if twins:  # both may have copied what one of them goes on with: neither may write
        obstore.delete(store, f"{made._own}/{_NOTE}")
        raise _taken(out)
    return made


def _others(store: Any, ground: str) -> dict[str, _Note]:
    """Return the places of runs, and their notes."""
    import obstore

    there = obstore.list_with_delimiter(store, ground)["common_prefixes"]
    return {one.rstrip("/"): _note_in(store, one.rstrip("/")) for one in there}


def _note_in(store: Any, own: str) -> _Note:
    """Return the note of a run; an empty one if it is gone."""
    import obstore

    try:
        found = bytes(obstore.get(store, f"{own}/{_NOTE}").bytes()).decode(errors="replace")
    except FileNotFoundError:
        return _Note("", "", "")
    question, name, owner = (*found.split(" "), "", "", "")[:3]
    return _Note("" if question == "-" else question, name, owner)


def _left(store: Any, others: Mapping[str, _Note], question: str) -> str:
    """Return the place that has all that was written for a question; "" if there is none.

    A run that was killed when it had copied another's objects leaves both: it has more by then.
    """
    import obstore

    found = []
    for own, note in others.items():
        with suppress(FileNotFoundError):
            if note.question == question:
                obstore.head(store, f"{own}/{_READY}")
                found.append((not own.endswith(f"/{note.owner}"), own))
    return min(found, default=(False, ""))[1]


def _copied(
    store: Any, source: str, target: str, later: Callable[[str], bool] = lambda _: False
) -> list[str]:
    """Copy objects within a store; return the keys of those that are to be copied later."""
    import obstore

    left: list[str] = []

    def copy(key: str) -> None:
        obstore.copy(store, f"{source}/{key}", f"{target}/{key}")

    with ThreadPoolExecutor(_AT_ONCE, "chunkfold-copy") as threads:
        for page in obstore.list(store, source, chunk_size=_PAGE):
            keys = [one["path"].removeprefix(f"{source}/") for one in page]
            left += [key for key in keys if later(key)]
            list(threads.map(copy, [key for key in keys if not later(key)]))
    return left


def _is_metadata(key: str) -> bool:
    return key.rpartition("/")[2] == ROOT


def _remove(store: Any, own: str) -> None:
    """Remove what is of a run."""
    _delete(store, objects_below(store, own), first=f"{own}/{_NOTE}")


def _delete(store: Any, keys: Iterable[str], first: str = "") -> None:
    """Remove objects, one of them before the others."""
    import obstore

    keys = [*keys]
    if first in keys:
        obstore.delete(store, first)
    if rest := [key for key in keys if key != first]:
        obstore.delete(store, rest)
