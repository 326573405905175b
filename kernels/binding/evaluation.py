"""Evaluate a reduction by NumPy alone: what kernels must give, from what the monoid declares."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from chunkfold.kernels.accumulator.accumulator import Accumulator, Slot
from chunkfold.kernels.accumulator.component import BoundField, Component
from chunkfold.kernels.accumulator.partial import Partial
from chunkfold.kernels.accumulator.traits import traits_of
from chunkfold.kernels.binding.reference import Reference, elements_of
from chunkfold.kernels.dtypes import literal_value
from chunkfold.kernels.errors import MonoidError
from chunkfold.kernels.exact.limbs import Limbs
from chunkfold.kernels.exact.polynomials import Monomial
from chunkfold.kernels.expressions.evaluate import compiled
from chunkfold.kernels.expressions.nodes import INDEX, Node
from chunkfold.kernels.monoid.monoid import Monoid

Elements = Mapping[Node, np.ndarray]
"""Arrays of shape (outputs, elements of each)."""


def evaluate(
    monoid: Monoid,
    arrays: Sequence[np.ndarray],
    axis: int | tuple[int, ...] | None = None,
    *,
    dtype: np.dtype | None = None,
    ddof: float = 0,
    exact: bool = True,
    initial: Any = None,
) -> np.ndarray:
    """Return what a reduction of arrays in memory gives; parameters as `Monoid.evaluate`."""
    # Here: children that try kernels evaluate what was bound, and need no catalogue for that.
    from chunkfold.kernels.binding.binding import bind

    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    axes = _axes(axis, len(shape))
    kept = tuple(n for n in range(len(shape)) if n not in axes)
    outputs = math.prod(shape[n] for n in kept)
    given = [array.dtype for array in arrays]
    bound = bind(
        [monoid], given, dtype=dtype, ddof=ddof, exact=exact, outputs=outputs, initial=initial
    )
    accumulator = bound.accumulator.with_limbs()
    count = math.prod(shape[n] for n in axes)
    if not count and bound.statistics[0].needs_elements:
        raise MonoidError(f"{monoid.quoted} of no elements has no value")
    if outputs and count < monoid.least and not monoid.min_count:
        raise MonoidError(f"{monoid.quoted} needs {monoid.least} elements, but {count} are given")

    def in_rows(array: np.ndarray) -> np.ndarray:
        return array.reshape(shape).transpose(*kept, *axes).reshape(outputs, count)

    flat = [_as_in_memory(np.broadcast_to(array, shape)) for array in arrays]
    elements = {leaf: in_rows(held) for leaf, held in elements_of(accumulator, flat).items()}
    with np.errstate(all="ignore"):
        found = evaluated(accumulator, elements)
    partial = Partial({slot.name: found[slot.name] for slot in accumulator.slots}, count=count)
    (statistic,) = bound.statistics
    if (more := statistic.next_pass(partial, shape, axes)) is not None:
        along = [1 if n in axes else size for n, size in enumerate(shape)]
        slots = [slot.reshape(along if slot.size == outputs else ()) for slot in more.slots]
        again = more.monoid(0, len(slots)).alike(statistic.monoid)
        own = arrays[: len(arrays) - monoid.slots]
        return evaluate(again, [*own, *slots], axis, dtype=dtype, ddof=ddof, exact=exact)
    done = statistic.finish(partial, shape, axes)
    return done.reshape((*(shape[n] for n in kept), *done.shape[1:]))


def evaluated(accumulator: Accumulator, elements: Elements) -> dict[str, np.ndarray]:
    """Return an array for each slot of an accumulator, in the form with limbs, of rows of elements.

    They are of shape (outputs,), or (outputs, entries) of tables.
    """
    return {
        Slot(number, field).name: column
        for number, part in enumerate(accumulator.components)
        for field, column in _folded(part, elements).items()
    }


def _as_in_memory(array: np.ndarray) -> np.ndarray:
    """Return elements in C order, as numbers of this machine that have the bytes of theirs."""
    return np.ascontiguousarray(array).reshape(-1).view(array.dtype.newbyteorder("="))


def _axes(axis: int | tuple[int, ...] | None, ndim: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, tuple) else (axis,)
    return tuple(sorted(np.lib.array_utils.normalize_axis_tuple(given, ndim)))


def _folded(part: Component, elements: Elements) -> dict[BoundField, np.ndarray]:
    """Return an array for each field of a component: (outputs,), or (outputs, entries)."""
    there = np.ones(elements[INDEX].shape, bool)
    if part.ignored is not None:
        (ignored,) = compiled([part.ignored], list(elements))(*elements.values())
        there &= ~ignored
    lifted = {
        field: np.broadcast_to(array, there.shape)
        for field, array in zip(
            part.fields,
            compiled([f.lift for f in part.fields], list(elements))(*elements.values()),
            strict=True,
        )
    }
    table = part.table
    if table is not None:
        rows = zip(lifted[table], there, strict=True)
        if table.limbs is not None:
            return {table: _summed(table, table.limbs, lifted[table], elements, there)}
        if table.adds:
            return {table: _added(table, elements, there)}
        return {table: np.array([_counts(row[held], table) for row, held in rows])}
    return (_placed if traits_of(part).is_position else _combined)(part, lifted, there)


def _counts(numbers: np.ndarray, table: BoundField) -> np.ndarray:
    assert table.entries is not None
    inside = numbers[(numbers >= 0) & (numbers < table.entries)]
    return np.bincount(inside, minlength=table.entries)


def _added(table: BoundField, elements: Elements, there: np.ndarray) -> np.ndarray:
    """Add to counters what elements add."""
    assert table.entries is not None
    out = np.zeros((len(there), table.entries), np.int64)
    trees = [tree for pair in table.adds for tree in pair]
    made = compiled(trees, list(elements))(*elements.values())
    wide = [np.broadcast_to(array, there.shape) for array in made]
    for numbers, amounts in zip(wide[::2], wide[1::2], strict=True):
        inside = there & (numbers >= 0) & (numbers < table.entries)
        np.add.at(out, (np.nonzero(inside)[0], numbers[inside]), amounts[inside])
    return out


def _summed(
    field: BoundField, limbs: Limbs, lifted: np.ndarray, elements: Elements, there: np.ndarray
) -> np.ndarray:
    """Return the limbs of exact sums: by rationals, but where a factor is no number."""
    made = compiled(field.factors, list(elements))(*elements.values())
    factors = {
        factor: np.broadcast_to(array, there.shape)
        for factor, array in zip(field.factors, made, strict=True)
    }
    odd = np.logical_or.reduce([~np.isfinite(array) for array in factors.values()] or [~there])
    rows = []
    for number, plain in enumerate(there & ~odd):
        held = {factor: array[number][plain].tolist() for factor, array in factors.items()}
        value = sum((_value(one, held, int(plain.sum())) for one in field.polynomial), Fraction(0))
        powers = lifted[number][there[number] & odd[number]] ** max(1, limbs.power)
        rows.append(_limbs(value, limbs, powers))
    return np.array(rows)


def _value(one: Monomial, held: Mapping[Node, Sequence[float]], count: int) -> Fraction:
    """Return the sum of a monomial of some elements."""
    if not one.factors:
        return one.number * count
    products = zip(*(map(Fraction, held[factor]) for factor in one.factors), strict=True)
    return one.number * sum(map(math.prod, products), Fraction(0))


def _limbs(value: Fraction, limbs: Limbs, odd: np.ndarray) -> np.ndarray:
    """Return the limbs of a sum, and of what is no number."""
    whole = value * Fraction(2) ** -limbs.low
    assert whole.denominator == 1
    specials = [int(np.any(found)) for found in (np.isnan(odd), odd == np.inf, odd == -np.inf)]
    number = int(whole)
    digits = [number >> 32 * n & 0xFFFFFFFF for n in range(limbs.count - 1)]
    return np.array([*digits, number >> 32 * (limbs.count - 1), *specials], np.int64)


def _placed(
    part: Component, lifted: Mapping[BoundField, np.ndarray], there: np.ndarray
) -> dict[BoundField, np.ndarray]:
    """Find the least or greatest key in each row, and the first index that has it."""
    key, index = part.fields
    nothing = _zero(key), _zero(index)
    keys, rows = np.where(there, lifted[key], nothing[0]), np.arange(len(there))
    best = getattr(keys, str(key.op))(axis=1, initial=nothing[0])
    has_it = there & (keys == best[:, None])
    if not has_it.size:
        return {key: best, index: np.full(len(there), nothing[1])}
    at = np.where(has_it, lifted[index], np.iinfo(index.dtype).max).argmin(axis=1)
    return {key: best, index: np.where(has_it.any(axis=1), lifted[index][rows, at], nothing[1])}


def _combined(
    part: Component, lifted: Mapping[BoundField, np.ndarray], there: np.ndarray
) -> dict[BoundField, np.ndarray]:
    """Fold accumulators pair by pair."""
    by = Reference(part)
    held = {field.name: np.where(there, array, _zero(field)) for field, array in lifted.items()}
    count = there.shape[1]
    if not count:
        held = {f.name: np.full((len(there), 1), _zero(f), f.dtype) for f in part.fields}
    while count > 1:
        even = {name: array[:, : count - count % 2] for name, array in held.items()}
        both = by.op(
            {name: array[:, ::2] for name, array in even.items()},
            {name: array[:, 1::2] for name, array in even.items()},
        )
        half = (len(there), count // 2)
        held = {
            name: np.concatenate(
                [np.broadcast_to(both[name], half), array[:, count - count % 2 :]], axis=1
            )
            for name, array in held.items()
        }
        count = count // 2 + count % 2
    return {field: held[field.name][:, 0] for field in part.fields}


def _zero(field: BoundField) -> np.generic:
    zero: np.generic = np.dtype(field.dtype).type(literal_value(field.zero, field.dtype))
    return zero
