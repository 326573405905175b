"""Upkeep of a ledger: join its small files, verify all, remove what is damaged or old.

Whatever is joined or kept is written before the files that had it are removed, so that it may end
at any time. Who has opened the ledger before finds less until it looks again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Container
from datetime import UTC, datetime, timedelta

from chunkfold.ledger.ledger import Damage, Ledger
from chunkfold.ledger.segments import DamagedError, EntryNote, StoredEntry

MOST_SEGMENTS = 32
"""Segments from which on small ones are joined."""
SMALL_BYTES = 8 << 20


def join_segments(ledger: Ledger) -> int:
    """Join small segments to one, if they are many; return how many were joined.

    Entries that are damaged, or stand twice, are left out.

    Raises
    ------
    OSError
        If the joined one cannot be written: the others stay then.
    """
    small = [name for name, size in ledger.sizes().items() if size < SMALL_BYTES]
    if len(small) < MOST_SEGMENTS:
        return 0
    each, read = dict[tuple[str, tuple[str, ...]], StoredEntry](), list[str]()
    for name in small:
        with contextlib.suppress(OSError):  # it stays as it is
            each |= {(one.note.key, one.note.components): one for one in _sound(ledger, name)}
            read.append(name)
    if each:
        ledger.put([*each.values()])
    for name in read:
        ledger.remove(name)
    return len(read)


def verify(ledger: Ledger) -> list[Damage]:
    """Read every entry; return what cannot be used."""
    found = [one for one in ledger.damaged if not one.key]
    for name, header in sorted(ledger.headers().items()):
        for number, note in enumerate(header.index.entries):
            try:
                ledger.stored(name, number).arrays()
            except DamagedError as error:
                found.append(Damage(name, str(error), note.key))
            except OSError as error:
                found.append(Damage(name, str(error), note.key, stays=True))
    return found


def prune(ledger: Ledger, *, older_than: timedelta | None = None) -> list[str]:
    """Remove damaged and old entries, and what killed writers left; return the files that went.

    Other entries of these files are written anew.

    Parameters
    ----------
    older_than
        Entries are removed that were written longer ago; None: none for their age.

    Raises
    ------
    OSError
        If one cannot be removed.
    """
    now, found = datetime.now(UTC), verify(ledger)

    def is_old(note: EntryNote) -> bool:
        return older_than is not None and now - note.written > older_than

    damaged = {one.name for one in found} - {one.name for one in found if one.stays}
    notes = [*ledger.notes()]
    gone = damaged | {name for name, note in notes if is_old(note)}
    mixed = {name for name, note in notes if name in gone and not is_old(note)}
    sound = (one for name in sorted(mixed) for one in _sound(ledger, name))
    if kept := [one for one in sound if not is_old(one.note)]:
        ledger.put(kept)
    gone |= {*ledger.abandoned()}
    for name in gone:
        ledger.remove(name)
    return sorted(gone)


def drop(ledger: Ledger, component: str, keys: Container[str]) -> None:
    """Remove the entries that have a component, but for those of some keys.

    Raises
    ------
    OSError
        If they cannot be removed.
    """

    def stays(note: EntryNote) -> bool:
        return component not in note.components or note.key in keys

    for name in {name for name, note in ledger.notes() if not stays(note)}:
        if kept := [one for one in _sound(ledger, name) if stays(one.note)]:
            ledger.put(kept)
        ledger.remove(name)


def _sound(ledger: Ledger, name: str) -> list[StoredEntry]:
    """Return the entries of a segment that are as they were written.

    Raises
    ------
    OSError
        If one cannot be read, which says nothing of it.
    """
    sound, header = list[StoredEntry](), ledger.headers().get(name)
    for number in range(0 if header is None else len(header.index.entries)):
        stored = ledger.stored(name, number)
        with contextlib.suppress(DamagedError):
            stored.arrays()
            sound.append(stored)
    return sound
