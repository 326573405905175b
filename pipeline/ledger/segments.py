"""Segments: the files of a ledger. Each has some entries, in the format of safetensors.

That is: the length of a header (8 bytes, little-endian), the header (JSON: of each array its dtype,
shape and place, and an index of the entries), and the arrays. Nothing in it is executed, and any
reader of safetensors opens it (https://github.com/huggingface/safetensors#format).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

import numpy as np
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, PositiveInt, ValidationError

FORMAT = 3
"""Version of segments and of the partials in them: raised when either means something else."""
HEAD_BYTES = 8
MOST_HEADER_BYTES = 64 << 20
MOST_ENTRY_BYTES = 4 << 30
_NAMES = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "uint16": "U16", "int16": "I16", "uint32": "U32",
    "int32": "I32", "uint64": "U64", "int64": "I64", "float16": "F16", "float32": "F32",
    "float64": "F64",
}  # fmt: skip
_DTYPES = {name: np.dtype(dtype).newbyteorder("<") for dtype, name in _NAMES.items()}


class OtherFormatError(Exception):
    """A segment is of another version of chunkfold."""


class DamagedError(Exception):
    """A segment or an entry is not as it was written; the text says how."""


class EntryNote(BaseModel):
    """The line of an entry in the index of its segment."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    key: str = Field(pattern="^[0-9a-f]{32}$")
    """Hash of all that it was computed from: see `planning/ledger_span_keys.py`."""
    components: tuple[str, ...]
    """Components of accumulators that it has partials of."""
    source: str
    """Names of the inputs, without secrets."""
    what: str
    """Reductions, and the place of the elements, for people."""
    elements: str = ""
    """The array and the box of them that they are: see `planning/ledger_block_elements.py`."""
    span: tuple[PositiveInt, ...]
    """Elements along each axis, of blocks of its size that end before the array does."""
    nbytes: int = Field(ge=0, lt=1 << 63)
    """Decoded bytes of these."""
    written: AwareDatetime
    """When it was written; a segment that joins others is younger."""
    begin: int = Field(ge=0)
    """Its first byte, counted from the end of the header."""
    end: int = Field(ge=0)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    """Checksum of its key, components, arrays' names and places, and bytes."""


class SegmentIndex(BaseModel):
    """The index of a segment."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: int
    written: AwareDatetime
    """When it was written."""
    by: str
    """Version of chunkfold."""
    entries: tuple[EntryNote, ...]


class _Place(BaseModel):
    """The place of an array."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]

    def moved(self, by: int) -> _Place:
        """Return it so many bytes farther on."""
        begin, end = self.data_offsets
        return self.model_copy(update={"data_offsets": (begin + by, end + by)})


@dataclass(frozen=True)
class NewEntry:
    """A partial on its way to a ledger."""

    key: str
    components: tuple[str, ...]
    arrays: Mapping[str, np.ndarray]
    """By name: bools, integers or floats."""
    span: tuple[int, ...]
    source: str = ""
    what: str = ""
    nbytes: int = 0
    elements: str = ""


@dataclass(frozen=True)
class StoredEntry:
    """An entry as it is stored: its line, its arrays' places from its first byte on, its bytes."""

    note: EntryNote
    places: Mapping[str, _Place]
    content: bytes = field(repr=False)

    @classmethod
    def of(cls, entry: NewEntry, written: datetime) -> StoredEntry:
        """Return an entry as it is stored, and was written at some time."""
        places, pieces, end = dict[str, _Place](), list[bytes](), 0
        for name, array in entry.arrays.items():
            plain = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(array.shape)
            begin, end = end, end + plain.nbytes
            kind = _NAMES[plain.dtype.name]
            places[name] = _Place(dtype=kind, shape=plain.shape, data_offsets=(begin, end))
            pieces.append(plain.tobytes())
        content = b"".join(pieces)
        note = EntryNote(
            key=entry.key,
            components=entry.components,
            source=entry.source,
            what=entry.what,
            elements=entry.elements,
            span=entry.span,
            nbytes=entry.nbytes,
            written=written,
            begin=0,
            end=end,
            sha256=_digest(entry.key, entry.components, places, content),
        )
        return cls(note, places, content)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return its arrays, once its checksum agrees.

        Raises
        ------
        DamagedError
            If it is not what was written.
        """
        note = self.note
        if _digest(note.key, note.components, self.places, self.content) != note.sha256:
            raise DamagedError("the checksum of an entry differs")
        found = {}
        for name, place in self.places.items():
            (begin, end), count = place.data_offsets, math.prod(place.shape)
            dtype = _DTYPES.get(place.dtype)
            sound = begin >= 0 and all(0 <= n < 1 << 48 for n in place.shape)
            if dtype is None or not sound or end - begin != count * dtype.itemsize:
                raise DamagedError(f"array {name} has {end - begin:,} bytes of {place.dtype}")
            if end > len(self.content):
                raise DamagedError(f"array {name} is cut")
            array = np.frombuffer(self.content, dtype, count, begin)
            try:
                found[name] = array.reshape(place.shape).astype(dtype.newbyteorder("="))
            except ValueError as error:  # extents beside one of 0, say
                raise DamagedError(f"array {name} has shape {place.shape}") from error
        return found


@dataclass(frozen=True)
class Header:
    """The header of a segment."""

    index: SegmentIndex
    places: Mapping[str, _Place]
    """Arrays by number of the entry, "/", and their name."""
    nbytes: int
    """Bytes before the arrays."""

    def stored(self, number: int, content: bytes) -> StoredEntry:
        """Return an entry by its number; `content` are its bytes."""
        note, own = self.index.entries[number], self._by_entry.get(str(number), {})
        places = {name: place.moved(-note.begin) for name, place in own.items()}
        return StoredEntry(note, places, content)

    @cached_property
    def _by_entry(self) -> Mapping[str, Mapping[str, _Place]]:
        found = defaultdict[str, dict[str, _Place]](dict)
        for name, place in self.places.items():
            number, _, own = name.partition("/")
            found[number][own] = place
        return found


def segment_of(entries: Sequence[StoredEntry], written: datetime, by: str) -> tuple[bytes, Header]:
    """Return the bytes of a segment of entries, and its header."""
    places, notes, end = dict[str, _Place](), list[EntryNote](), 0
    for number, one in enumerate(entries):
        begin, end = end, end + len(one.content)
        notes.append(one.note.model_copy(update={"begin": begin, "end": end}))
        for name, place in one.places.items():
            places[f"{number}/{name}"] = place.moved(begin)
    index = SegmentIndex(format=FORMAT, written=written, by=by, entries=tuple(notes))
    each = {name: place.model_dump() for name, place in places.items()}
    head = json.dumps({"__metadata__": {"index": index.model_dump_json()}, **each}).encode()
    head += b" " * (-len(head) % 8)
    size = len(head).to_bytes(HEAD_BYTES, "little")
    content = b"".join([size, head, *(one.content for one in entries)])
    return content, Header(index, places, HEAD_BYTES + len(head))


def header_bytes(head: bytes, whole: int) -> int:
    """Return the bytes of a segment before its arrays; `head` has the first ones.

    Raises
    ------
    DamagedError
        If that cannot be.
    """
    size = int.from_bytes(head[:HEAD_BYTES], "little")
    if len(head) < HEAD_BYTES or not 0 < size <= min(MOST_HEADER_BYTES, whole - HEAD_BYTES):
        raise DamagedError(
            f"it is not a segment: its header would have {size:,} bytes of {whole:,}"
        )
    return HEAD_BYTES + size


def header_of(found: bytes, whole: int) -> Header:
    """Return the header of a segment of `whole` bytes.

    Raises
    ------
    DamagedError
        If it is none.
    OtherFormatError
        If it is of another format.
    """
    try:
        told = json.loads(found[HEAD_BYTES:])
        index = SegmentIndex.model_validate_json(told.pop("__metadata__")["index"])
        places = {name: _Place.model_validate(place) for name, place in told.items()}
    except (ValidationError, KeyError, TypeError, AttributeError, ValueError, RecursionError):
        raise DamagedError("its header cannot be read") from None
    if index.format != FORMAT:
        message = f"its format is {index.format}, and this version reads {FORMAT}"
        raise OtherFormatError(message)
    for note in index.entries:
        size = note.end - note.begin
        if not 0 <= size <= MOST_ENTRY_BYTES or len(found) + note.end > whole:
            raise DamagedError("it is cut")
    return Header(index, places, len(found))


def _digest(
    key: str, components: Sequence[str], places: Mapping[str, _Place], content: bytes
) -> str:
    """Return the SHA-256 of all that makes an entry's arrays what they are."""
    each = [(name, one.dtype, one.shape, one.data_offsets) for name, one in sorted(places.items())]
    told = json.dumps([key, components, each]).encode()
    return hashlib.sha256(told + b"\0" + content).hexdigest()
