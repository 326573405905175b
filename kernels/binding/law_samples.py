"""Elements on which the laws of a monoid are tried, and orders in which they are folded.

A monoid that breaks its laws does so somewhere: mostly where a number that it names draws a line,
or in data like those that it is about to fold. Pure functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.binding.reference import constants_of
from chunkfold.kernels.binding.samples import inputs_of
from chunkfold.kernels.dtypes import literal_value

InputArrays = list[np.ndarray]
"""For each input an array of as many elements, as they stand in memory."""
FLOATS = (-2.5, -1.0, 0.0, 0.25, 1.0, 3.0, 7.0, 96.0)
INTEGERS = (-100, -3, -1, 0, 1, 2, 7, 111)
"""Small dyadic numbers, whose sums and products floats hold."""
_POWERS = tuple(sign * 2.0**power for power in range(-8, 21, 4) for sign in (1, -1))
MOST = 1024
"""Rows of a stored chunk that are tried, and of elements beside them."""
SEQUENCE, SHORT = 4096, 48
"""Elements that are folded one after another."""
EACH = 22
"""Orders in which each of three sequences is folded."""
_OF_A_CONSTANT = 64
_NAT = -(2.0**63)
"""The integer that is no time."""
_TIES = 64
"""Elements that come twice, at other indices."""
ENDS = np.uint32(1 << 31)
"""Marks an element of an order that ends a part."""


def small(accumulator: Accumulator) -> InputArrays:
    """Return small dyadic numbers; inputs differ."""
    values = [
        np.roll(np.tile(FLOATS if is_float(name) else INTEGERS, 2), number)  # twice: ties
        for number, name in enumerate(accumulator.stored)
    ]
    return inputs_of(accumulator, values)


def extremes(accumulator: Accumulator) -> InputArrays:
    """Return the ends of each input's dtype, of integers; of floats small numbers."""
    values = []
    for number, name in enumerate(accumulator.stored):
        low, high = (0, 1) if name == "bool" or is_float(name) else _limits(name)
        ends = [low, low + 1, low // 2, 0, 1, high // 2, high - 1, high]
        values.append(np.roll(np.array(ends, object), number))
    return inputs_of(accumulator, values)


def missing(accumulator: Accumulator, value: float) -> InputArrays:
    """Return small numbers, and among those of each input that is a float one that is `value`."""
    values = []
    for number, row in enumerate(small(accumulator)):
        held = row.byteswap() if accumulator.swapped[number] else row
        if is_float(accumulator.stored[number]) and accumulator.stored[number] != "bfloat16":
            held = held.copy()
            held[number::3] = value
        values.append(held.byteswap() if accumulator.swapped[number] else held)
    return values


def telling(accumulator: Accumulator, data: Sequence[np.ndarray] | None = None) -> InputArrays:
    """Return elements at which a monoid may change its mind: of numbers it names, and of data.

    `data` are some of the elements that will be folded, as they stand in memory.
    """
    numbers = sorted({0.0, *FLOATS, *_POWERS, *_named(accumulator)})
    if data is not None and any(accumulator.packings):  # what stands for a number is not known
        return [array[:MOST] for array in data]
    rng = np.random.default_rng(1)
    values = [
        np.array(
            sorted({held for number in numbers for held in _near(number, name)}),
            np.float64 if is_float(name) else object,  # which no int of 64 bits is too large for
        )
        for name in accumulator.stored
    ]
    count = min(MOST, max(map(len, values)) * (1 if len(values) == 1 else 8))
    picked = [
        given if len(given) == count else given[rng.integers(0, len(given), count)]
        for given in values
    ]
    rows = inputs_of(accumulator, [np.concatenate([one, one[:_TIES]]) for one in picked])
    if data is None:
        return rows
    return [
        np.concatenate([row, given[:MOST].view(row.dtype)])  # as both stand in memory
        for row, given in zip(rows, data, strict=True)
    ]


def sequences(rows: InputArrays) -> InputArrays:
    """Return three sequences of elements, one behind another: in runs, alternating, random."""
    rng, count = np.random.default_rng(2), len(rows[0])
    runs = np.repeat(
        rng.integers(0, count, SEQUENCE), np.minimum(rng.geometric(0.05, SEQUENCE), SEQUENCE)
    )[:SEQUENCE]
    pairs = np.repeat(rng.integers(0, count, (SEQUENCE // 64, 2)), 32, axis=0)
    numbers = np.concatenate([runs, pairs.reshape(-1), rng.integers(0, count, SEQUENCE)])
    return [array[numbers] for array in rows]


def orders(length: int) -> np.ndarray:
    """Return orders of `length` neighbours of each sequence, uint32, (3 * EACH, length).

    The first of each sequence takes them as they stand, in one part; the others are cut into parts
    at random, which are folded by themselves, and turned, rolled or shuffled.
    """
    rng, made = np.random.default_rng(length), []
    for number in range(3):
        first = number * SEQUENCE + int(rng.integers(0, SEQUENCE - length + 1))
        plain = np.arange(first, first + length, dtype=np.uint32)
        made += [_reordered(plain, order, rng) for order in range(EACH)]
    return np.array(made)


def _reordered(plain: np.ndarray, order: int, rng: np.random.Generator) -> np.ndarray:
    """Return elements in the order of a number, in parts; by number 0 as they stand, in one."""
    taken, cuts = plain, np.zeros(len(plain), bool)
    if order:
        cuts = rng.random(len(plain)) < rng.choice([0.3, 0.05, 0.005])
        ways = (
            lambda: plain,
            lambda: plain[::-1],
            lambda: np.roll(plain, int(rng.integers(1, len(plain)))),
            lambda: rng.permutation(plain),
        )
        taken = ways[order % len(ways)]()
    cuts[-1] = True
    return taken | np.where(cuts, ENDS, np.uint32(0))


def is_float(name: str) -> bool:
    """Return whether elements of a dtype are floats or complex numbers."""
    return "float" in name or "complex" in name


def _named(accumulator: Accumulator) -> Iterator[float]:
    """Yield the numbers that trees and zeros of components name, of either sign."""
    for component in accumulator.components:
        named = [number for number in constants_of(component.trees) if number != _NAT]
        step = max(1, len(named) // _OF_A_CONSTANT)
        yield from (sign * number for number in named[::step] for sign in (1, -1))
        for field in component.fields:
            yield float(literal_value(field.zero, field.dtype))


def _near(number: float, name: str) -> Iterator[float | int]:
    """Yield a number and its neighbours that elements of a dtype can be."""
    if not np.isfinite(number):
        return
    if is_float(name):
        kind = {"bfloat16": "float32", "complex64": "float32", "complex128": "float64"}
        dtype = np.dtype(kind.get(name, name))
        with np.errstate(over="ignore", under="ignore"):
            held = dtype.type(number)
            near = [held, held - 1, held + 1, held + 7, held / 2, held * 2]
            near += [np.nextafter(held, dtype.type(side)) for side in (-np.inf, np.inf)]
        tiny = float(np.finfo(dtype).tiny)
        for value in map(float, near):
            if value == 0 or tiny <= abs(value) < np.inf:
                yield value
        return
    limits = (0, 1) if name == "bool" else _limits(name)
    whole = int(np.floor(number))
    for near in (*range(whole - 1, whole + 3), whole + 7, whole // 2, whole * 2):
        if limits[0] <= near <= limits[1]:
            yield near


def _limits(name: str) -> tuple[int, int]:
    found = np.iinfo("int64" if name == "time" else name)
    least = int(found.min) + (name == "time")  # the least time is NaT
    return least, int(found.max)
