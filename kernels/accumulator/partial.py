"""A partial: accumulators of some outputs, on the host."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from chunkfold.kernels.accumulator.accumulator import COUNTS, Accumulator
from chunkfold.kernels.accumulator.traits import traits_of
from chunkfold.kernels.dtypes import literal_value
from chunkfold.kernels.exact.limbs import settled


@dataclass(frozen=True)
class Wide:
    """Limbs of some outputs."""

    at: np.ndarray
    """The outputs, int64, ascending."""
    tables: np.ndarray
    """Settled limbs of each, (outputs, entries)."""


@dataclass(frozen=True)
class Partial:
    """One array per slot of an accumulator: (outputs,), or (outputs, entries) of a table."""

    arrays: Mapping[str, np.ndarray]
    wide: Mapping[str, Wide] = field(default_factory=dict)
    """The exact sums that their expansions do not hold, by the name of the sum."""
    count: int | np.ndarray = 0
    """Elements folded into each output, skipped ones among them: int64 of shape (outputs,), or one
    number where it is the same for all."""
    chosen: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Keys of elements that were chosen of each output, by the statistic that they are for."""

    @property
    def outputs(self) -> int:
        """Number of accumulators."""
        return len(next(iter(self.arrays.values())))

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        rows = sum(wide.at.nbytes + wide.tables.nbytes for wide in self.wide.values())
        both = (*self.arrays.values(), *self.chosen.values())
        return rows + sum(array.nbytes for array in both)

    def part(self, outputs: slice) -> Partial:
        """View a run of the outputs."""
        wide = {}
        for name, rows in self.wide.items():
            some = slice(*np.searchsorted(rows.at, (outputs.start, outputs.stop)))
            if some.start < some.stop:
                wide[name] = Wide(rows.at[some] - outputs.start, rows.tables[some])
        return self._of(outputs, wide)

    def within(self, outputs: tuple[int, ...], place: tuple[slice, ...]) -> Partial:
        """Return those of a box of its outputs, which have the extents `outputs`."""
        if all(along == slice(0, size) for along, size in zip(place, outputs, strict=True)):
            return self
        numbers = np.arange(math.prod(outputs)).reshape(outputs)[place].reshape(-1)
        wide = {}
        for name, rows in self.wide.items():
            kept = np.isin(rows.at, numbers)
            if kept.any():
                wide[name] = Wide(np.searchsorted(numbers, rows.at[kept]), rows.tables[kept])
        return self._of(numbers, wide)

    def _of(self, outputs: slice | np.ndarray, wide: Mapping[str, Wide]) -> Partial:
        arrays = {name: array[outputs] for name, array in self.arrays.items()}
        count = self.count[outputs] if isinstance(self.count, np.ndarray) else self.count
        chosen = {name: array[outputs] for name, array in self.chosen.items()}
        return Partial(arrays, wide, count, chosen)


def unpack(accumulator: Accumulator, raw: np.ndarray, outputs: int) -> Partial:
    """View the bytes that kernels write (slot behind slot) as a partial's scalars.

    `raw` has dtype uint8 and shape (accumulator.scalar_bytes * outputs,).
    """
    arrays, offset = {}, 0
    for slot in accumulator.scalars:
        size = slot.dtype.itemsize * outputs
        arrays[slot.name] = raw[offset : offset + size].view(slot.dtype)
        offset += size
    return Partial(arrays)


def packed_bytes(accumulator: Accumulator, partials: Sequence[Partial]) -> int:
    """Return the bytes that `pack` writes."""
    return accumulator.scalar_bytes * sum(partial.outputs for partial in partials)


def pack(accumulator: Accumulator, partials: Sequence[Partial], raw: np.ndarray) -> None:
    """Lay partials of equal outputs out in `raw`, uint8, as splits of one: slot behind slot."""
    size, offset = sum(partial.outputs for partial in partials), 0
    for slot in accumulator.scalars:
        nbytes = size * slot.dtype.itemsize
        into = raw[offset : offset + nbytes].view(slot.dtype)
        np.concatenate([partial.arrays[slot.name] for partial in partials], out=into)
        offset += nbytes


def with_tables(accumulator: Accumulator, scalars: Partial, counts: Partial) -> Partial:
    """Join a partial's scalars with its tables: those of an output behind one another."""
    rows = counts.arrays[COUNTS.slots[0].name].reshape(-1, accumulator.entries)
    arrays, offset = dict(scalars.arrays), 0
    for slot in accumulator.tables:
        arrays[slot.name] = rows[:, offset : offset + slot.entries]
        offset += slot.entries
    return replace(scalars, arrays=arrays)


def settled_partial(accumulator: Accumulator, partial: Partial) -> Partial:
    """Propagate the carries of limbs: equal sums are then equal bytes."""
    exact = {slot.name for slot in accumulator.tables if slot.field.limbs}
    arrays = partial.arrays.items()
    return replace(partial, arrays={name: settled(a) if name in exact else a for name, a in arrays})


def zero_partial(accumulator: Accumulator, outputs: int) -> Partial:
    """Return the partial of nothing: the zero element for every output."""
    return Partial(
        {
            slot.name: _full(
                slot.shape(outputs), literal_value(slot.field.zero, slot.field.dtype), slot.dtype
            )
            for slot in accumulator.slots
        }
    )


def _full(shape: tuple[int, ...], value: Any, dtype: np.dtype) -> np.ndarray:
    """Fill an array; of zeros no memory is touched."""
    one = np.full(1, value, dtype)
    return np.full(shape, one, dtype) if one.view(np.uint8).any() else np.zeros(shape, dtype)


def taken(accumulator: Accumulator, partial: Partial, outputs: np.ndarray) -> Partial:
    """Return some outputs of a partial, by their numbers; that behind the last one is of nothing.

    `outputs` are int64, (outputs,); none but that one is there twice.
    """
    nothing = zero_partial(accumulator, 1).arrays
    beyond = outputs == partial.outputs
    inner = np.where(beyond, 0, outputs) if beyond.any() else outputs
    arrays = {}
    for name, array in partial.arrays.items():
        arrays[name] = array[inner]
        if inner is not outputs:
            arrays[name][beyond] = nothing[name]
    wide = {}
    order = np.argsort(outputs, kind="stable") if partial.wide else outputs
    ascending = outputs[order] if partial.wide else outputs
    for name, rows in partial.wide.items():
        found = np.searchsorted(ascending, rows.at)
        there = found < len(outputs)
        there[there] = ascending[found[there]] == rows.at[there]
        if there.any():
            at = order[found[there]]
            wide[name] = joined_wide([Wide(at, rows.tables[there])])
    count = partial.count[inner] if isinstance(partial.count, np.ndarray) else partial.count
    return Partial(arrays, wide, np.where(beyond, 0, count))


def without_indices(accumulator: Accumulator, partial: Partial) -> Partial:
    """Return a partial as if what reads the index had seen no element."""
    nothing = zero_partial(accumulator, partial.outputs).arrays
    indexed = {n for n, part in enumerate(accumulator.components) if traits_of(part).reads_index}
    told = {s.name: nothing[s.name] for s in accumulator.slots if s.component in indexed}
    return replace(partial, arrays={**partial.arrays, **told})


def assembled(
    accumulator: Accumulator,
    outputs: tuple[int, ...],
    tiles: Iterable[tuple[tuple[slice, ...], Partial]],
) -> Partial:
    """Put partials, each of a box of the outputs, together to one of all of them.

    Each is taken when those before it are in their place, so that it may go then.
    """
    whole = zero_partial(accumulator, math.prod(outputs))
    rows: dict[str, list[Wide]] = {}
    chosen: dict[str, np.ndarray] = {}
    counted: list[tuple[tuple[slice, ...], int | np.ndarray]] = []
    for place, partial in tiles:
        if partial.outputs == math.prod(outputs):  # it is alone
            return partial
        shape = tuple(along.stop - along.start for along in place)
        counted.append((place, partial.count))
        for name, array in partial.arrays.items():
            grid = whole.arrays[name].reshape(outputs + array.shape[1:])
            grid[place] = array.reshape(shape + array.shape[1:])
        for name, array in partial.chosen.items():
            if name not in chosen:
                chosen[name] = np.zeros((*outputs, *array.shape[1:]), array.dtype)
            chosen[name][place] = array.reshape(shape + array.shape[1:])
        for name, wide in partial.wide.items():
            within = np.unravel_index(wide.at, shape)
            at = [n + along.start for n, along in zip(within, place, strict=True)]
            moved = np.ravel_multi_index(at, outputs)
            rows.setdefault(name, []).append(Wide(np.asarray(moved), wide.tables))
    wides = {name: joined_wide(several) for name, several in rows.items()}
    kept = {name: array.reshape(-1, *array.shape[len(outputs) :]) for name, array in chosen.items()}
    return Partial(whole.arrays, wides, _counts(outputs, counted), kept)


def _counts(
    outputs: tuple[int, ...], counted: Sequence[tuple[tuple[slice, ...], int | np.ndarray]]
) -> int | np.ndarray:
    """Return the elements of each output; one number where all boxes cover them with the same."""
    boxes = sum(math.prod(one.stop - one.start for one in place) for place, _ in counted)
    alike = {count for _, count in counted if isinstance(count, int)}
    whole = boxes == math.prod(outputs) and len(alike) == 1
    if whole and all(isinstance(count, int) for _, count in counted):
        return alike.pop()
    counts = np.zeros(outputs, np.int64)
    for place, count in counted:
        shape = counts[place].shape
        counts[place] = count if isinstance(count, int) else count.reshape(shape)
    return counts.reshape(-1)


def joined_wide(several: Sequence[Wide]) -> Wide:
    """Put rows of different outputs in order."""
    at = np.concatenate([wide.at for wide in several])
    order = np.argsort(at)
    return Wide(at[order], np.concatenate([wide.tables for wide in several])[order])
