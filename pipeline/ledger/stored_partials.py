"""Partials as the arrays of an entry, by component: other reductions may have some of them too.

The array of slot `f` of component `c` is named `TILE.c.f`; exact sums that their expansions do not
hold add `TILE.c.f.at` and `TILE.c.f.tables`; `TILE.count` has the elements of each output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from chunkfold.kernels import Accumulator, Partial
from chunkfold.kernels.accumulator.accumulator import Slot
from chunkfold.kernels.accumulator.partial import Wide
from chunkfold.ledger.segments import DamagedError


def stored_arrays(
    accumulator: Accumulator, components: Sequence[str], partials: Sequence[Partial]
) -> dict[str, np.ndarray]:
    """Return the partials of some tiles as arrays by name; `components` name the accumulator's."""
    found = dict[str, np.ndarray]()
    for tile, partial in enumerate(partials):
        found[f"{tile}.count"] = np.asarray(partial.count, np.int64)
        for name, array in partial.chosen.items():
            found[f"{tile}.chosen.{name}"] = array
        for slot in accumulator.slots:
            found[_name(tile, components, slot)] = partial.arrays[slot.name]
        for slot in _sums(accumulator):
            if (wide := partial.wide.get(slot.name)) is not None:
                name = _name(tile, components, slot)
                found[f"{name}.at"], found[f"{name}.tables"] = wide.at, wide.tables
    return found


def partials_in(
    entries: Sequence[Mapping[str, np.ndarray]],
    accumulator: Accumulator,
    components: Sequence[str],
    outputs: Sequence[int],
) -> tuple[Partial, ...]:
    """Return the partials of tiles that have some outputs each, from entries that have them.

    Raises
    ------
    DamagedError
        If they are not such partials.
    """
    found = dict[str, np.ndarray]()
    for one in entries:
        found |= one
    return tuple(
        _partial(found, accumulator, components, tile, count) for tile, count in enumerate(outputs)
    )


def _partial(
    found: Mapping[str, np.ndarray],
    accumulator: Accumulator,
    components: Sequence[str],
    tile: int,
    outputs: int,
) -> Partial:
    arrays, wide = {}, {}
    for slot in accumulator.slots:
        name = _name(tile, components, slot)
        arrays[slot.name] = _array(found, name, slot.dtype, slot.shape(outputs))
    for slot in _sums(accumulator):
        name = _name(tile, components, slot)
        if f"{name}.at" in found:
            assert slot.field.limbs is not None
            at = _array(found, f"{name}.at", np.dtype(np.int64), None)
            shape = len(at), slot.field.limbs.entries
            tables = _array(found, f"{name}.tables", np.dtype(np.int64), shape)
            if at.ndim != 1 or (np.diff(at, prepend=-1, append=outputs) <= 0).any():
                raise DamagedError(f"array {name}.at has no outputs of {outputs:,}")
            wide[slot.name] = Wide(at, tables)
    count = _array(found, f"{tile}.count", np.dtype(np.int64), None)
    if count.shape not in ((), (outputs,)):
        raise DamagedError(f"array {tile}.count has shape {count.shape}")
    before = f"{tile}.chosen."
    chosen = {n.removeprefix(before): one for n, one in found.items() if n.startswith(before)}
    return Partial(arrays, wide, int(count) if count.ndim == 0 else count, chosen)


def _sums(accumulator: Accumulator) -> list[Slot]:
    """Return slots that are named as the exact sums are, of which some may be in tables."""
    return [
        Slot(number, part.fields[0])
        for number, part in enumerate(accumulator.components)
        if part.limbs
    ]


def _name(tile: int, components: Sequence[str], slot: Slot) -> str:
    own = slot.name.partition("_")[2]
    return f"{tile}.{components[slot.component]}.{own}"


def _array(
    found: Mapping[str, np.ndarray], name: str, dtype: np.dtype, shape: tuple[int, ...] | None
) -> np.ndarray:
    array = found.get(name)
    if array is None or array.dtype != dtype or (shape is not None and array.shape != shape):
        told = "is missing" if array is None else f"is {array.dtype} of shape {array.shape}"
        raise DamagedError(f"array {name} {told}")
    return array
