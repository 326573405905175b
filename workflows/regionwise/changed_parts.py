"""Arrays made of others element by element: written part by part, which a ledger notes."""

from __future__ import annotations

import itertools
import os
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.storage import StorePath

from chunkfold.boxes import Slices
from chunkfold.errors import ChunkError, LedgerError, LedgerWarning, OutputError
from chunkfold.kernels import Packing
from chunkfold.ledger.ledger import Ledger
from chunkfold.ledger.segments import NewEntry
from chunkfold.ledger.upkeep import drop
from chunkfold.outputs.outputs import naming, resumable
from chunkfold.outputs.staged_objects import StagedObjects
from chunkfold.outputs.staging_folder import StagedOutput, question_of
from chunkfold.planning.ledger_spans import SETTLED_NS
from chunkfold.plural import counted
from chunkfold.printable import printable
from chunkfold.sources.axis_names import axis_names
from chunkfold.sources.source import Source
from chunkfold.sources.stored_identity import is_as_listed
from chunkfold.sources.stored_metadata import same_codecs
from chunkfold.sources.zarr_source import ZarrSource
from chunkfold.workflows.regionwise.bounded_calls import call_each

Change = Callable[[Slices, np.ndarray], np.ndarray]
"""Returns the new values of a box, given where it is and its values, float64. Can be pickled."""
NOTED_EVERY_S = 2.0
"""Seconds of work that a kill may cost, beside what is under way."""


def parts_of(source: ZarrSource) -> Iterator[Slices]:
    """Yield the boxes of an array's objects: two writers of one would undo each other's work."""
    along = (
        [slice(at, min(at + step, n), 1) for at in range(0, n, step)]
        for n, step in zip(source.shape, source.object_shape, strict=True)
    )
    return itertools.product(*along)


class NotedParts:
    """Parts of an output that are written, by a ledger's notes. For use by one thread.

    Each is made of one object of a source. A note is of some parts: their numbers, and the size and
    the time of what each was made of.

    Raises
    ------
    LedgerError
        If the source's objects cannot be listed with their times, or the ledger not be written.
    """

    def __init__(
        self, ledger: Ledger, source: ZarrSource, output: StagedOutput | StagedObjects
    ) -> None:
        self._ledger, self._source, self._output = ledger, source, output
        listing = source.listing()
        if listing is None or listing.modified is None:
            raise LedgerError(
                f"{source.name}: a ledger needs chunks that can be listed with their modification "
                "times, but its store has no such times: omit the ledger"
            )
        self._sizes, self._modified = listing.sizes, listing.modified
        self._states = np.stack([self._sizes.ravel(), self._modified.ravel()]).astype(np.int64)
        self._settled = time.time_ns() - SETTLED_NS[source.remote]
        self._ended, self._due = list[int](), time.monotonic() + NOTED_EVERY_S
        self._there = self._known()

    def _known(self) -> set[int]:
        """Return the parts that were written of what is there of the source now.

        Should what was replaced since come back, its notes must not be taken for what is written
        in their place now: only one of what is there stays.
        """
        name, there = self._output.name, np.zeros(self._states.shape[1], bool)
        keys = [note.key for _, note in self._ledger.notes() if name in note.components]
        for found in (one for key in keys for one in self._ledger.read(key, [name]) or ()):
            parts, states = found["parts"], found["states"]
            there[parts[(self._states[:, parts] == states).all(axis=0)]] = True
        numbers = np.flatnonzero(there)
        if keys:
            try:
                drop(self._ledger, name, {self._write(numbers)})
            except OSError as error:
                message = f"the ledger {self._ledger.name} cannot be written: {error}"
                raise LedgerError(message) from error
        return set(numbers.tolist())

    def _write(self, parts: np.ndarray) -> str:
        key = uuid.uuid4().hex
        told = f"{counted(len(parts), 'object')} of {printable(self._output.label)}"
        arrays = {"parts": parts, "states": self._states[:, parts]}
        name, source = self._output.name, printable(self._source.name)
        self._ledger.write([NewEntry(key, (name,), arrays, (), source, told)])
        return key

    def lacks(self, box: Slices) -> bool:
        """Return True if a part is still to be written."""
        return self._number(box) not in self._there

    def _number(self, box: Slices) -> int:
        place = [one.start // n for one, n in zip(box, self._source.object_shape, strict=True)]
        return int(np.ravel_multi_index(place, self._sizes.shape)) if place else 0

    def ended(self, box: Slices) -> None:
        """Note that a part is written, or wait for more to note together."""
        number = self._number(box)
        if self._states[1, number] <= self._settled:
            self._ended.append(number)
        if time.monotonic() >= self._due:
            self.flush()

    def flush(self) -> None:
        """Note all parts that ended, whose source is still as it was listed."""
        parts = [one for one in self._ended if self._is_as_listed(one)]
        self._ended, self._due = [], time.monotonic() + NOTED_EVERY_S
        if not parts:
            return
        try:
            self._output.keep()
            self._write(np.array(parts, np.int64))
        except OSError as error:
            message = (
                f"the ledger {self._ledger.name} cannot be written ({error.strerror or error}): "
                f"{counted(len(parts), 'object')} of the output are not noted"
            )
            warnings.warn(message, LedgerWarning, stacklevel=2)

    def _is_as_listed(self, number: int) -> bool:
        place = tuple(slice(n, n + 1) for n in np.unravel_index(number, self._sizes.shape))
        return is_as_listed(self._source, self._sizes[place], self._modified[place], place)


@dataclass(frozen=True)
class PartWriter:
    """Writes boxes of an array that is made of another, element by element."""

    source: Source
    target: Any
    out: str | Path
    """The output's place once it is complete."""
    change: Change
    packing: Packing | None

    def __call__(self, box: Slices) -> None:
        """Read a box, and write it."""
        try:
            self._write(box)
        except OutputError:
            raise
        except Exception as error:
            place = ", ".join(f"{along.start}:{along.stop}" for along in box)
            raise ChunkError(
                f"{self.source.name}: [{place}] cannot be read, or not written "
                f"({type(error).__name__}: {error})"
            ) from error

    def _write(self, box: Slices) -> None:
        values = self.source.part(box)
        if self.packing is not None:
            values = self.packing.values(values)
        changed = self.change(box, np.asarray(values, np.float64))
        with naming(self.out):
            self.target[box] = changed


def write_changed(
    opened: ZarrSource,
    out: str | Path,
    change: Change,
    dtype: np.dtype,
    attributes: Mapping[str, Any],
    *,
    packing: Packing | None,
    name: str = "",
    finish: Callable[[Path | StorePath], None] = lambda _: None,
    told: Sequence[Any] = (),
    overwrite: bool = False,
    ledger: str | os.PathLike[str] | None = None,
    trust_ledger: bool = False,
) -> None:
    """Write an array that is made of another element by element, object by object, by Dask.

    Chunks, shards and names of axes are the source's, and its codecs, where it has the same dtype.

    Parameters
    ----------
    name
        Of the array in a group; "": the array stands alone.
    finish
        Called with the place of the output before that takes its place.
    told
        All that the values depend on, beside the source, `dtype` and `attributes`.
    overwrite, ledger, trust_ledger
        As `chunkfold.workflows.transforms.normalize.apply` has them.

    Raises
    ------
    ChunkfoldError
        If it cannot be written; nothing is then left there.
    """
    names = axis_names(opened, range(len(opened.shape)))
    known = "" if ledger is None else question_of(opened, names, dtype, dict(attributes), *told)
    with resumable(out, overwrite=overwrite, question=known) as output:
        made = output.made
        place = made / name if name else made
        try:
            target = zarr.open_array(place, mode="r+")
        except FileNotFoundError:
            if name:
                zarr.open_group(made, mode="a", zarr_format=3)
            target = zarr.create_array(
                place,
                shape=opened.shape,
                chunks=opened.chunks,
                shards=opened.shards,
                dtype=dtype,
                attributes=dict(attributes),
                dimension_names=names,
                **(same_codecs(opened) if dtype == opened.dtype else {}),
            )
        writer, parts = PartWriter(opened, target, out, change, packing), parts_of(opened)
        if ledger is None:
            call_each(writer, parts)
        else:
            kept = Ledger.at(os.fspath(ledger), trusted=trust_ledger)
            noted = NotedParts(kept, opened, output)
            try:
                call_each(writer, filter(noted.lacks, parts), noted.ended)
            except BaseException as error:
                noted.flush()
                error.add_note(
                    f"the parts that were written are kept in {output.where}, and {kept.name} "
                    "lists them"
                )
                raise
        finish(made)
