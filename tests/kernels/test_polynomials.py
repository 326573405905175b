"""Exact sums of polynomials: rationals to the last bit, on every device, in any order."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from chunkfold.kernels import (
    Accumulator,
    Bound,
    Fold,
    Monoid,
    OpenedDevice,
    Partial,
    bind,
    box,
)
from chunkfold.kernels.limbs import integers, specials
from chunkfold.kernels.sums import any_lost, exact_sums, restored
from tests.kernels.test_exact import chosen
from tests.kernels.test_fold import upload

pytestmark = pytest.mark.unoptimised
COUNT = 41


def summing(inputs: int = 1, kinds: str = "biuf", **lifts: Callable[..., Any]) -> Monoid:
    """Declare exact sums of some polynomials."""
    return Monoid(
        "sums",
        inputs=inputs,
        kinds=kinds,
        fields=dict.fromkeys(lifts, "exact"),
        zero=dict.fromkeys(lifts, 0),
        lift=lambda *x: {name: lift(*x) for name, lift in lifts.items()},
        op="add",
    )


def folded(
    opened: OpenedDevice,
    bound: Bound,
    arrays: Sequence[np.ndarray],
    axes: tuple[int, ...],
    form: Callable[[Accumulator], Accumulator] = lambda accumulator: accumulator,
) -> Partial:
    """Fold several inputs; what expansions have lost once more in limbs."""
    shape = arrays[0].shape
    outputs = math.prod(n for axis, n in enumerate(shape) if axis not in axes)

    def once(accumulator: Accumulator) -> Partial:
        whole = box(shape, axes)
        fold = Fold(opened, accumulator, chosen(opened, accumulator, whole.kernel), outputs)
        fold.add([upload(opened, np.ascontiguousarray(array)) for array in arrays], whole)
        return fold.finish()

    accumulator = form(bound.accumulator.for_outputs(outputs))
    partial = once(accumulator)
    if any_lost(accumulator, partial).any():
        again = once(accumulator.with_limbs())
        partial = restored(accumulator, partial, np.arange(outputs), again)
    return partial


def sums_of(bound: Bound, partial: Partial) -> dict[str, list[Fraction | float]]:
    """Return what exact fields hold, without rounding."""
    (statistic,) = bound.statistics
    found = {}
    for name, slot in statistic.slots.items():
        limbs = statistic.limbs[name]
        tables = exact_sums(partial, slot, limbs).tables(np.arange(partial.outputs))
        unit = Fraction(2) ** limbs.low
        pairs = zip(integers(tables), specials(tables), strict=True)
        found[name] = [float(odd) if odd else value * unit for value, odd in pairs]
    return found


def wanted(lift: Callable[..., Any], *columns: np.ndarray) -> Fraction | float:
    """Add up a polynomial of elements by rationals; of what is no number as floats do."""
    total: Fraction | float = Fraction(0)
    for row in zip(*(column.tolist() for column in columns), strict=True):
        finite = all(map(math.isfinite, row))
        with np.errstate(all="ignore"):
            total = total + lift(*(map(Fraction, row) if finite else map(np.float64, row)))
    return total if isinstance(total, Fraction) else float(total)


def alike(one: Fraction | float, other: Fraction | float) -> bool:
    return one == other or (one != one and other != other)


def check(
    opened: OpenedDevice,
    lifts: dict[str, Callable[..., Any]],
    rows: Sequence[np.ndarray],
    *,
    fp64: bool = True,
) -> None:
    """Compare rows, columns and the whole of each row, on a device, with rationals."""
    monoid = summing(len(rows), **lifts)
    bound = bind([monoid], [array.dtype for array in rows], fp64=fp64, exact=True)
    want = {
        name: [wanted(lift, *row) for row in zip(*rows, strict=True)]
        for name, lift in lifts.items()
    }
    few = range(0, len(rows[0]), 7)
    layouts: list[tuple[list[np.ndarray], int, Sequence[int]]] = [
        (list(rows), 1, range(len(rows[0]))),
        ([array.T for array in rows], 0, range(len(rows[0]))),
        *(([array[n : n + 1] for array in rows], 1, [n]) for n in few),
    ]
    for arrays, axis, numbers in layouts:
        got = sums_of(bound, folded(opened, bound, arrays, (axis,)))
        for name in lifts:
            pairs = zip(got[name], (want[name][n] for n in numbers), numbers, strict=True)
            for found, value, number in pairs:
                assert alike(found, value), (name, axis, number, float(found), float(value))


def hard(dtype: str, seed: int, count: int = COUNT) -> np.ndarray:
    """Return rows that are hard to add powers of."""
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        info = np.iinfo(kind)
        ends = rng.choice([info.min, info.max, info.min + 1, 0, 1], (3, count))
        return np.concatenate(
            [rng.integers(info.min, info.max, (5, count), kind), ends.astype(kind)]
        )
    info = np.finfo(kind)
    plain = rng.standard_normal((8, count))
    exponents = np.array([0, 3, 0, info.minexp, info.maxexp - 3, info.minexp / 3, 0, 0])
    scales = 2.0 ** np.broadcast_to(exponents[:, None], plain.shape)
    scales[2] = 2.0 ** rng.uniform(info.minexp / 2, info.maxexp / 2, count)
    scales[6] = 2.0 ** rng.uniform(info.minexp, info.maxexp - 2, count)
    data = (plain * scales).astype(dtype)
    data[1, 1::2] = -data[1, : count - 1 : 2]
    data[7] = rng.permuted(np.where(rng.random(count) < 0.1, np.inf, data[7])).astype(dtype)
    data[7, ::9] = rng.choice(np.array([0, -0.0, np.nan, info.smallest_subnormal], dtype))
    return data


POWERS: dict[str, Callable[..., Any]] = {
    "one": lambda x: x,
    "two": lambda x: x * x,
    "three": lambda x: x**3,
    "four": lambda x: x**4,
    "mixed": lambda x: 2 * x * x - 3 * x,
}
PRODUCTS: dict[str, Callable[..., Any]] = {
    "product": lambda x, y: x * y,
    "apart": lambda x, y: (x - y) ** 2,
    "four": lambda x, y: x * y * (x + y) * (x - 5 * y),
    "lone": lambda x, y: -y - 7,
}
DTYPES = ["float64", "float32", "float16", "int16", "int64", "uint64"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_powers_are_exact(opened: OpenedDevice, dtype: str):
    check(opened, POWERS, [hard(dtype, 1)])


@pytest.mark.parametrize("dtype", DTYPES[:-1])
def test_products_of_two_inputs_are_exact(opened: OpenedDevice, dtype: str):
    check(opened, PRODUCTS, [hard(dtype, 1), hard(dtype, 2)])


@pytest.mark.parametrize("dtype", ["float32", "float16", "int16"])
def test_devices_without_float64_do_it_by_integers(opened: OpenedDevice, dtype: str):
    check(opened, PRODUCTS, [hard(dtype, 3), hard(dtype, 4)], fp64=False)
