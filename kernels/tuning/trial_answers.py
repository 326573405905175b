"""Samples on which kernels are tried, and the right answers: NumPy's, by the declaration.

Exact sums, integers and extremes must be that to the last bit; sums of floats within what rounding
may make of them in another order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyopencl as cl

from chunkfold.kernels.accumulator.accumulator import Accumulator, Slot
from chunkfold.kernels.accumulator.component import Component
from chunkfold.kernels.accumulator.partial import Partial
from chunkfold.kernels.accumulator.sums import exact_sums
from chunkfold.kernels.binding.evaluation import evaluated
from chunkfold.kernels.binding.law_samples import InputArrays
from chunkfold.kernels.binding.reference import elements_of
from chunkfold.kernels.binding.samples import inputs_of
from chunkfold.kernels.exact.limbs import integers, specials
from chunkfold.kernels.expressions.meanings import MEANINGS
from chunkfold.kernels.expressions.nodes import INDEX, walk
from chunkfold.kernels.fold.fold import Fold
from chunkfold.kernels.geometry import box
from chunkfold.kernels.program.device_context import DeviceContext
from chunkfold.kernels.program.options import Tuning

COUNT = 1031
"""Elements of a sample: a prime, so that no stage divides it."""
_RTOL = {"float32": 1e-4, "float64": 1e-8}
"""Relative difference of what rounds: of sums in another order, and of devices' functions."""


def samples(accumulator: Accumulator) -> Iterator[tuple[InputArrays, bool]]:
    """Yield numbers of each input, and whether what rounds is to agree on them."""
    inputs = range(len(accumulator.stored))
    counts = np.arange(COUNT)
    # Small integers of both signs, and factors whose product stays finite.
    for pattern in (counts * 37 % 101 - 50, 1 + (counts % 97 == 0)):
        yield [pattern + number for number in inputs], True
    if "float" in accumulator.value[0] or accumulator.exact:
        for spilling in _spilling(accumulator):
            yield [np.roll(spilling, number) for number in inputs], False
    if all(name.startswith(("int", "uint")) for name in accumulator.stored):
        yield [_extremes(name, number) for number, name in enumerate(accumulator.stored)], False


def _spilling(accumulator: Accumulator) -> Iterator[np.ndarray]:
    """Yield numbers so far apart that exact sums do not fit the terms that most data do.

    They have all bits; of the second all that is large cancels.
    """
    counts, rng = np.arange(COUNT), np.random.default_rng(4)
    double = accumulator.value[0] in ("float64", "complex128")
    most = 12 if accumulator.value[0] == "float16" else 200 if double else 45
    if not accumulator.exact:
        most = 12
    elif (
        not accumulator.in_limbs
    ):  # expansions hold 159 bits, and of squares twice as many are taken
        most = 12 if double else min(most, 24)
    far = np.ldexp(rng.uniform(1, 2, COUNT), rng.integers(-most, most, COUNT))
    yield np.where(counts % 3 == 0, -far, far)
    half = COUNT // 2
    yield np.concatenate([far[:half], -far[:half][::-1], np.ldexp([5.0], -most)])


def _extremes(name: str, number: int) -> np.ndarray:
    """Return integers over all of a dtype: its ends among them."""
    info = np.iinfo(name)
    rng = np.random.default_rng(5 + number)
    made = rng.integers(info.min, info.max, COUNT, name, endpoint=True)
    made[::50], made[7::50] = info.min, info.max
    return made


_AFTER_ANOTHER = [box((6, 103), (0,)), box((4, 103), (0,), offset=618, index=618)]
"""Boxes whose rows follow each other, and fill vectors."""


class Answers:
    """The right accumulators of some elements, in the order of outputs.

    `groups` are the places of each output's elements; None: one output has all.
    """

    def __init__(
        self,
        accumulator: Accumulator,
        values: InputArrays,
        groups: Sequence[np.ndarray] | None = None,
    ) -> None:
        self._accumulator = accumulator
        elements = elements_of(accumulator, inputs_of(accumulator, values))
        places = [np.arange(len(elements[INDEX]))] if groups is None else groups
        whole = accumulator.with_limbs()
        with np.errstate(all="ignore"):
            rows = [
                evaluated(whole, {leaf: held[None, at] for leaf, held in elements.items()})
                for at in places
            ]
        self._known = {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}

    def mismatch(self, got: Partial, other: Partial, *, rounds: bool) -> str:
        """Describe a difference of a partial from the right one, or from another; empty if none.

        `rounds`: fields that round are compared, too.
        """
        for name, part in _sums(self._accumulator):
            mismatch = self._sum_mismatch(name, part, got, other)
            if mismatch:
                return mismatch
        for slot in self._accumulator.slots:
            if slot.field.limbs:
                continue
            part = self._accumulator.components[slot.component]
            exact = _is_exact(slot)
            if not rounds and not (exact and is_numpys(part)):
                continue
            ways = [other.arrays[slot.name], *([self._known[slot.name]] if is_numpys(part) else [])]
            for want in ways:
                at = _differ(want, got.arrays[slot.name], exact=exact)
                if at.size:
                    return _described(slot.name, want[at[0]], got.arrays[slot.name][at[0]])
        return ""

    def _sum_mismatch(self, name: str, part: Component, got: Partial, other: Partial) -> str:
        """Compare exact sums, but for those that expansions have lost."""
        assert part.limbs is not None
        sums = [exact_sums(one, name, part.limbs) for one in (got, other)]
        held = np.flatnonzero(~sums[0].lost & ~sums[1].lost)
        tables = [one.tables(held) for one in sums]
        tables += [self._known[name][held]] if is_numpys(part) else []
        values, odd = list(map(integers, tables)), list(map(specials, tables))
        for want, strange in zip(values[1:], odd[1:], strict=True):
            for n in range(len(held)):
                # NaN and infinities hide all other addends.
                if not np.array_equal(strange[n], odd[0][n], equal_nan=True) or (
                    want[n] != values[0][n] and not strange[n]
                ):
                    return _described(name, want[n] * 2.0**part.limbs.low, values[0][n])
        return ""


def _described(name: str, want: object, got: object) -> str:
    return f"it is wrong: {name} is {want} or {got}"


def _sums(accumulator: Accumulator) -> list[tuple[str, Component]]:
    parts = [part for part in accumulator.components if part.limbs]
    return list(zip(accumulator.sums, parts, strict=True))


def is_numpys(part: Component) -> bool:
    """Return True if devices must give NumPy's value: no function rounds in a way of its own."""
    nodes = [one for one in walk(part.trees) if one.op in MEANINGS]
    return not any(MEANINGS[one.op].error(one.dtype, fp64=False) for one in nodes)


def _is_exact(slot: Slot) -> bool:
    """Return True for a field that does not depend on the order of elements."""
    return slot.dtype.kind != "f" or slot.field.op in ("min", "max")


def _differ(want: np.ndarray, got: np.ndarray, *, exact: bool) -> np.ndarray:
    """Return the outputs of which two answers differ."""
    same = (want == got) | ((want != want) & (got != got))
    if not exact:
        with np.errstate(invalid="ignore"):
            same |= np.isclose(want, got, rtol=_RTOL[want.dtype.name], atol=0, equal_nan=True)
    return np.flatnonzero(~same.reshape(len(same), -1).all(axis=1))


def mismatch_in_order(
    opened: DeviceContext,
    accumulator: Accumulator,
    tuning: Tuning,
    values: InputArrays,
    buffers: Sequence[cl.Buffer],
) -> str:
    """Fold elements in their order, of one output and of several; describe a mismatch, or ''."""
    every = np.arange(COUNT)
    for groups, boxes in (
        (every[None], [box((COUNT,), (0,))]),
        (every[:1027].reshape(13, 79), [box((13, 79), (1,))]),
        (every[:1030].reshape(10, 103).T, _AFTER_ANOTHER),
    ):
        fold = Fold(opened, accumulator, tuning, len(groups))
        for part in boxes:
            fold.add(buffers, part)
        done = fold.read_back()
        if mismatch := Answers(accumulator, values, list(groups)).mismatch(done, done, rounds=True):
            return f"{mismatch}, of {len(groups)} outputs in their order"
    return ""
