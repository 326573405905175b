"""Statistics of every chunk of an array, in one read: which hold nothing, one value or odd ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from distributed import Client

from chunkfold.api import submit
from chunkfold.bad_chunks import Skipped
from chunkfold.events import OnEvent
from chunkfold.kernels import Monoid, Packing, as_monoid, is_defined
from chunkfold.planning.options import Options
from chunkfold.planning.resolve import resolve
from chunkfold.sources.source import Source
from chunkfold.workflows.checks.finding_kinds import FindingKind

_COUNT = as_monoid("count")
_OWN, _KEPT = "chunks", "kept"
"""Questions of numbers as they are stored, and of the values that they stand for."""
_WIDE = {"i": "int64", "u": "uint64"}


@dataclass(frozen=True)
class ChunkStatistics:
    """Statistics of the chunks of an array, each over their grid."""

    elements: np.ndarray
    """Elements that were read."""
    nans: np.ndarray
    """NaN and NaT."""
    numbers: np.ndarray
    """Elements that are neither NaN nor a number that attributes call missing."""
    filled: np.ndarray
    """Elements that are the fill value, or called missing."""
    low: np.ndarray | None
    """Least of the numbers, as it is stored; None if the dtype has no order."""
    high: np.ndarray | None
    """Greatest of them."""
    expected: np.ndarray
    """Elements that there are."""
    stored: np.ndarray | None
    """True for each chunk of which something is stored; None if the store does not tell."""
    lacking: int
    """Objects that are not stored, as a listing or the read found."""
    skipped: Skipped = field(default_factory=dict)
    kept: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Statistics that were asked for besides, by their names."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Chunks along each axis."""
        return self.elements.shape

    @property
    def there(self) -> np.ndarray:
        """True for each chunk that is stored, as far as that is known, and was read."""
        read = self.elements > 0
        return read if self.stored is None else read & self.stored

    @property
    def with_numbers(self) -> np.ndarray:
        """True for each of these that has numbers."""
        return self.there & (self.numbers > 0)

    def masks(self, outside: np.ndarray) -> Mapping[FindingKind, np.ndarray]:
        """Return for each kind of finding the chunks that it is true of.

        `outside` are those with values that there may not be.
        """
        there, several = self.there, self.elements > 1
        nan = there & (self.nans == self.elements)
        fill = there & several & ~nan & (self.filled + self.nans == self.elements)
        constant, infinite = np.zeros_like(there), np.zeros_like(there)
        if self.low is not None and self.high is not None:
            whole = there & several & (self.numbers == self.elements)
            constant = whole & ~fill & (self.low == self.high)
            if self.low.dtype.kind == "f":
                infinite = self.with_numbers & (np.isinf(self.low) | np.isinf(self.high))
        missing = np.zeros_like(there) if self.stored is None else ~self.stored
        return {
            FindingKind.MISSING: missing,
            FindingKind.CONSTANT: constant,
            FindingKind.FILL: fill,
            FindingKind.NAN: nan,
            FindingKind.INFINITE: infinite,
            FindingKind.OUTSIDE: outside,
            FindingKind.UNREADABLE: self.elements < self.expected,
        }


def chunk_statistics(
    source: Source,
    packing: Packing | None,
    *,
    kept: Sequence[Monoid] = (),
    unpacked: bool = False,
    memory: int | str | None = None,
    client: Client | None = None,
    on_event: OnEvent | None = None,
) -> ChunkStatistics:
    """Read an array once; chunks that cannot be read are left out.

    Parameters
    ----------
    kept
        More statistics of each chunk.
    unpacked
        True: these are of the values that packed numbers stand for.

    Raises
    ------
    ChunkfoldError
        Whatever ended the read.
    """
    windows = dict(enumerate(_extents(source)))
    own = _monoids(source, packing)
    given: dict[str, Any] = {"coarsen": windows, "boundary": "pad"} if windows else {}
    given |= {"on_bad_chunk": "skip", "memory": memory}
    each: Any = Options([*own, *([] if unpacked else kept)], **given)
    if unpacked:
        each = {_OWN: each, _KEPT: Options(kept, mask_and_scale=True, **given)}
    run = submit(resolve([source], each), client=client, on_event=on_event)
    results = run.result()
    every = {**results[_OWN], **results[_KEPT]} if unpacked else results
    found = {name: np.asarray(value) for name, value in every.items()}
    if packing and packing.stored:
        found |= {end: found[end].astype(packing.stored) for end in ("low", "high")}
    (listing,) = run.plan.scan.listings
    elements = found["elements"]
    return ChunkStatistics(
        elements=elements,
        nans=elements - found["unmarked"],
        numbers=found["numbers"],
        filled=found.get("filled", np.zeros_like(elements)),
        low=found.get("low"),
        high=found.get("high"),
        expected=_expected(source),
        stored=None if listing is None else over_chunks(source, listing.sizes > 0),
        lacking=sum(missing for missing, _ in run.missing.values()),
        skipped=run.skipped,
        kept={one.name: found[one.name] for one in kept},
    )


def _extents(source: Source) -> tuple[int, ...]:
    """Extents of a chunk, none longer than the array."""
    return tuple(min(cell, n) for cell, n in zip(source.chunks, source.shape, strict=True))


def region_of(source: Source, place: Sequence[int]) -> tuple[slice, ...]:
    """Return the elements of a chunk, by its place in their grid."""
    cells = zip(place, _extents(source), source.shape, strict=True)
    return tuple(slice(n * cell, min((n + 1) * cell, size)) for n, cell, size in cells)


def chunks_of(source: Source, region: Sequence[slice]) -> tuple[slice, ...] | None:
    """Return the chunks that a region consists of, in their grid; None if it cuts some."""
    box = []
    for cut, cell, size in zip(region, _extents(source), source.shape, strict=True):
        if cut.start % cell or (cut.stop % cell and cut.stop != size) or cut.stop > size:
            return None
        box.append(slice(cut.start // cell, -(-cut.stop // cell)))
    return tuple(box)


def object_of(source: Source, place: Sequence[int]) -> tuple[int, ...]:
    """Return the place of the object (chunk or shard) that a chunk is in."""
    cells = zip(place, _extents(source), source.object_shape, strict=True)
    return tuple(n * cell // size for n, cell, size in cells)


def _expected(source: Source) -> np.ndarray:
    counted = np.ones((), np.int64)
    for size, cell in zip(source.shape, _extents(source), strict=True):
        along = np.minimum(cell, size - np.arange(0, size, cell))
        counted = counted[..., None] * along
    return counted


def over_chunks(source: Source, objects: np.ndarray) -> np.ndarray:
    """Spread what is known of objects over the chunks in them."""
    for axis, (size, cell) in enumerate(zip(source.shape, _extents(source), strict=True)):
        of = np.arange(0, size, cell) // source.object_shape[axis]
        objects = np.take(objects, of, axis)
    return objects


def _monoids(source: Source, packing: Packing | None) -> list[Monoid]:
    """Return what is asked of each chunk."""
    missing = packing.missing if packing else ()
    read_as = packing.stored if packing else None
    numbers = _COUNT.skipping()
    least, most = (extreme_read(op, source, read_as) for op in ("min", "max"))
    if missing:
        among = partial(_is_number, missing, read_as)
        numbers, least, most = (one.among(among) for one in (numbers, least, most))
    ends = (least.called("low"), most.called("high"))
    made = [
        _COUNT.called("elements"),
        _COUNT.skipping().called("unmarked"),
        numbers.called("numbers"),
        *(one for one in ends if is_defined(one, [source.dtype], [None])),
    ]
    fill = _plain(source)
    if fill is not None or missing:
        filled = partial(_is_filled, fill, missing, read_as)
        made.append(_COUNT.skipping().among(filled).called("filled"))
    return made


def _plain(source: Source) -> Any:
    """Return the fill value as a number of Python's; None if it is none to compare with."""
    if source.dtype.kind not in "biuf":
        return None
    fill = np.asarray(source.fill, source.dtype.newbyteorder("=")).item()
    return None if isinstance(fill, float) and math.isnan(fill) else fill


def extreme_read(op: str, source: Source, read_as: str | None) -> Monoid:
    """Return an extreme, of integers as they are read; of no elements it is any number."""
    found = as_monoid(op)
    if read_as is None:
        found = found.instead["mM"] if source.dtype.kind in "mM" else found
        return replace(found, on_empty="finish").skipping()
    return Monoid(
        op,
        fields={"v": _WIDE[np.dtype(read_as).kind]},
        zero={"min": "highest", "max": "lowest"}[op],
        lift=partial(_as, read_as),
        op=op,
        kinds="iu",
    )


def _as(dtype: str | None, x: Any) -> Any:
    return x if dtype is None else x.astype(np.dtype(dtype))


def _is_any(values: Sequence[Any], x: Any) -> Any:
    found = x == values[0]
    for value in values[1:]:
        found = found | (x == value)
    return found


def _is_number(missing: Sequence[Any], read_as: str | None, x: Any) -> Any:
    return ~_is_any(missing, _as(read_as, x))


def _is_filled(fill: Any, missing: Sequence[Any], read_as: str | None, x: Any) -> Any:
    if fill is None:
        return _is_any(missing, _as(read_as, x))
    return (x == fill) | _is_any(missing, _as(read_as, x)) if missing else x == fill
