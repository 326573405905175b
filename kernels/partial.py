"""A partial: accumulators of some outputs, on the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from chunkfold.kernels.accumulator import COUNTS, Accumulator
from chunkfold.kernels.dtypes import literal_value
from chunkfold.kernels.limbs import settled


@dataclass(frozen=True)
class Partial:
    """One array per slot of an accumulator: (outputs,), or (outputs, entries) of a table."""

    arrays: Mapping[str, np.ndarray]

    @property
    def outputs(self) -> int:
        """Number of accumulators."""
        return len(next(iter(self.arrays.values())))

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays.values())


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


def pack(accumulator: Accumulator, partials: Sequence[Partial]) -> np.ndarray:
    """Lay partials of equal outputs out as splits of one, in the kernels' byte order."""
    rows = [
        np.concatenate([partial.arrays[slot.name] for partial in partials]).view(np.uint8)
        for slot in accumulator.scalars
    ]
    return np.concatenate([np.empty(0, np.uint8), *rows])


def with_tables(accumulator: Accumulator, scalars: Partial, counts: Partial) -> Partial:
    """Join a partial's scalars with its tables, as `table_counts` lays them out."""
    rows = counts.arrays[COUNTS.slots[0].name].reshape(-1, accumulator.entries)
    arrays, offset = dict(scalars.arrays), 0
    for slot in accumulator.tables:
        arrays[slot.name] = rows[:, offset : offset + slot.entries]
        offset += slot.entries
    return Partial(arrays)


def table_counts(accumulator: Accumulator, partial: Partial) -> Partial:
    """Lay a partial's tables out as kernels do: those of an output behind one another."""
    rows = np.concatenate([partial.arrays[slot.name] for slot in accumulator.tables], axis=1)
    return Partial({COUNTS.slots[0].name: rows.reshape(-1)})


def settled_partial(accumulator: Accumulator, partial: Partial) -> Partial:
    """Propagate the carries of limbs: equal sums are then equal bytes."""
    exact = {slot.name for slot in accumulator.tables if slot.field.limbs}
    arrays = partial.arrays.items()
    return Partial({name: settled(a) if name in exact else a for name, a in arrays})


def zero_partial(accumulator: Accumulator, outputs: int) -> Partial:
    """Return the partial of nothing: the zero element for every output."""
    return Partial(
        {
            slot.name: np.full(
                slot.shape(outputs), literal_value(slot.field.zero, slot.field.dtype), slot.dtype
            )
            for slot in accumulator.slots
        }
    )
