"""A ledger: which partials it has, read and written by key. Safe for several runs at once.

Segments are written once and whole, under names of their own, so that writers never meet.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from chunkfold.errors import LedgerError
from chunkfold.ledger.ledger_folders import SUFFIX, Folder, folder_at
from chunkfold.ledger.segments import (
    DamagedError,
    EntryNote,
    Header,
    NewEntry,
    OtherFormatError,
    StoredEntry,
    header_bytes,
    header_of,
    segment_of,
)

_HEAD = 64 << 10
"""Bytes that are read of a segment first."""


@dataclass(frozen=True)
class Damage:
    """A segment, or an entry of one, that cannot be used."""

    name: str
    """The segment."""
    reason: str
    key: str = ""
    """The entry's; empty if it is all of the segment."""
    stays: bool = False
    """True if others, or another time, may read it: it could not be read, or is of another version.
    """


@dataclass(frozen=True)
class _At:
    segment: str
    number: int


class Ledger:
    """Partials by key, as of when it was opened or `refresh` was called, and its own since."""

    def __init__(self, folder: Folder, place: str, *, trusted: bool) -> None:
        self._folder, self._place, self._trusted = folder, place, trusted
        self._headers: dict[str, Header] = {}
        self._entries: dict[str, list[_At]] = {}
        self._sizes: dict[str, int] = {}
        self._lock = threading.Lock()
        self.damaged: list[Damage] = []
        """Segments and entries that could not be used."""
        self.refresh()

    @classmethod
    def at(cls, place: str, *, trusted: bool = False, create: bool = True) -> Ledger:
        """Open the ledger of a path or a URL; see `folder_at`.

        Raises
        ------
        LedgerError
            If it can be none, or cannot be read.
        """
        return cls(folder_at(place, trusted=trusted, create=create), place, trusted=trusted)

    def __reduce__(self) -> tuple[Any, ...]:
        """Open it again where it is unpickled."""
        return partial(Ledger.at, self._place, trusted=self._trusted), ()

    @property
    def name(self) -> str:
        """Its path or URL, without secrets."""
        return self._folder.name

    def refresh(self) -> None:
        """Look for segments that others wrote or removed.

        Raises
        ------
        LedgerError
            If the folder cannot be listed.
        """
        try:
            found = self._folder.names()
        except OSError as error:
            raise LedgerError(f"the ledger {self.name} cannot be listed: {error}") from None
        with self._lock:
            for name in self._headers.keys() - found.keys():
                self._forget(name)
            for name, size in found.items():
                if name not in self._headers and not any(one.name == name for one in self.damaged):
                    self._learn(name, size)

    def _learn(self, name: str, size: int) -> None:
        try:
            self._add(name, self._header(name, size), size)
        except FileNotFoundError:  # removed meanwhile
            return
        except DamagedError as error:
            self.damaged.append(Damage(name, str(error)))
        except (OtherFormatError, OSError) as error:
            self.damaged.append(Damage(name, str(error), stays=True))

    def _header(self, name: str, size: int) -> Header:
        head = self._folder.read(name, 0, min(size, _HEAD))
        nbytes = header_bytes(head, size)
        if nbytes > len(head):
            head += self._folder.read(name, len(head), nbytes - len(head))
        return header_of(head[:nbytes], size)

    def _add(self, name: str, header: Header, size: int) -> None:
        self._headers[name], self._sizes[name] = header, size
        for number, note in enumerate(header.index.entries):
            self._entries.setdefault(note.key, []).append(_At(name, number))

    def _forget(self, name: str) -> None:
        for note in self._headers.pop(name).index.entries:
            there = self._entries.pop(note.key, [])
            if left := [one for one in there if one.segment != name]:
                self._entries[note.key] = left
        self._sizes.pop(name, None)

    def __len__(self) -> int:
        """Return the number of entries."""
        return sum(len(header.index.entries) for header in self._headers.values())

    @property
    def spans(self) -> set[tuple[int, ...]]:
        """The elements along each axis of what entries stand for."""
        with self._lock:
            headers = list(self._headers.values())
        return {note.span for header in headers for note in header.index.entries}

    def has(self, key: str, components: Iterable[str]) -> bool:
        """Return True if entries of a key have all of some components."""
        found: set[str] = set()
        with self._lock:
            for at in self._entries.get(key, ()):
                found.update(self._note(at).components)
        return found.issuperset(components) and bool(found)

    def _note(self, at: _At) -> EntryNote:
        return self._headers[at.segment].index.entries[at.number]

    def read(self, key: str, components: Iterable[str]) -> list[dict[str, np.ndarray]] | None:
        """Return the arrays of entries that have some components together; None if none do.

        A damaged entry is noted, and not used again.
        """
        lacking, found = set(components), list[dict[str, np.ndarray]]()
        while lacking:
            with self._lock:
                there = self._entries.get(key, ())
                places = [at for at in there if lacking & {*self._note(at).components}]
                if not places:
                    return None
                at, names = places[0], self._note(places[0]).components
            try:
                found.append(self.stored(at.segment, at.number).arrays())
                lacking -= {*names}
            except FileNotFoundError:  # another run has joined it to others
                self._drop(key, at)
                self.refresh()
            except (DamagedError, OSError) as error:
                self._drop(key, at, str(error), stays=isinstance(error, OSError))
        return found

    def stored(self, segment: str, number: int) -> StoredEntry:
        """Return an entry of a segment as it is stored.

        Raises
        ------
        OSError
            If it cannot be read.
        """
        header = self._headers.get(segment)
        if header is None:
            raise FileNotFoundError(segment)
        note = header.index.entries[number]
        content = self._folder.read(segment, header.nbytes + note.begin, note.end - note.begin)
        return header.stored(number, content)

    def _drop(self, key: str, at: _At, reason: str = "", *, stays: bool = False) -> None:
        with self._lock:
            if reason:
                self.damaged.append(Damage(at.segment, reason, key, stays))
            self._entries[key] = [one for one in self._entries.get(key, ()) if one != at]

    def refuse(self, key: str, reason: str) -> None:
        """Use no entry of a key any more, since what they have is not what is expected."""
        with self._lock:
            for at in self._entries.pop(key, ()):
                self.damaged.append(Damage(at.segment, reason, key))

    def write(self, entries: Sequence[NewEntry]) -> None:
        """Write a segment of entries.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        now = datetime.now(UTC)
        self.put([StoredEntry.of(one, now) for one in entries])

    def put(self, entries: Sequence[StoredEntry]) -> None:
        """Write a segment of entries as they are stored; raises as `write`."""
        now = datetime.now(UTC)
        content, header = segment_of(entries, now, _version())
        name = f"{now:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:12]}{SUFFIX}"
        self._folder.write(name, content)
        with self._lock:
            self._add(name, header, len(content))

    def remove(self, name: str) -> None:
        """Remove a segment; raises as `write`."""
        self._folder.remove(name)
        with self._lock:
            if name in self._headers:
                self._forget(name)

    def abandoned(self) -> list[str]:
        """Return the names of files whose writers were killed; raises as `write`."""
        return self._folder.abandoned()

    def headers(self) -> dict[str, Header]:
        """Return the headers of all segments, by name."""
        with self._lock:
            return dict(self._headers)

    def notes(self) -> Iterator[tuple[str, EntryNote]]:
        """Yield of each entry its segment, and its line in the index."""
        for name, header in sorted(self.headers().items()):
            for note in header.index.entries:
                yield name, note

    def written(self, key: str) -> datetime:
        """Return the time when the oldest entry of a key was written: now, if there is none."""
        with self._lock:
            times = [self._note(at).written for at in self._entries.get(key, ())]
        return min(times, default=datetime.now(UTC))

    def sizes(self) -> dict[str, int]:
        """Return the bytes of each segment."""
        with self._lock:
            return dict(self._sizes)


@cache
def _version() -> str:
    try:
        return version("chunkfold")
    except PackageNotFoundError:  # it runs from its sources
        return ""
