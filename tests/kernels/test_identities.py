"""What is found where elements are what identities are, or absent: what NumPy says."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from chunkfold.kernels import DeviceContext, Fold, as_monoid, bind, box
from tests.conftest import ALL_SHAPES, SHAPES, shaped, tried
from tests.kernels.fold.test_fold import PLAIN, upload

pytestmark = pytest.mark.unoptimised

DTYPES = (*PLAIN, "bfloat16", "M8[ns]", "m8[s]")
OPS = ("min", "max", "minmax", "argmin", "argmax")
SKIPPING = ("nanmin", "nanmax", "nanargmin", "nanargmax")
FEW = ("tree", "vectors", "tree-stride")
LENGTH = 21
"""Elements of a row: full vectors and some left over."""
BITS = {
    2: (0, 0x8000, 0x7C00, 0xFC00, 0x7E00, 0xFE00, 0x7C01, 0x7FFF, 0xFFFF),
    4: (0, 1 << 31, 0x7F80 << 16, 0xFF80 << 16, 0x7FC0 << 16, 0x7F800001, 0x7FFFFFFF, 0xFFFFFFFF),
    8: (0, 1 << 63, 0x7FF << 52, 0xFFF << 52, (0x7FF << 52) + 1, 2**63 - 1, 2**64 - 1),
}
"""Of floats: both zeros, both infinities, and NaN of both signs, with the least and the largest
payload."""


def kind_of(dtype: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, dtype, dtype))


def odd_ones(kind: np.dtype) -> np.ndarray:
    """Return what identities are, or look like, and something between."""
    if kind.kind in "mM":
        return np.array([-(2**63), 1 - 2**63, 0, 2**63 - 1]).view(kind)
    if kind.kind == "b":
        return np.array([False, True])
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        return np.array([limits.min, limits.max, limits.max // 2], kind)
    bits = BITS[kind.itemsize] if kind.name != "bfloat16" else [n >> 16 for n in BITS[4]]
    numbers = np.array(sorted(set(bits)), f"u{kind.itemsize}").view(kind)
    return np.append(numbers, np.array([-1.5], kind))


def rows_of(kind: np.dtype) -> np.ndarray:
    """Return rows of one value alone, and of one with another at its beginning, middle or end."""
    rows = []
    for one, other in itertools.product(odd_ones(kind), repeat=2):
        for place in (0, LENGTH // 2, LENGTH - 1):
            row = np.full(LENGTH, one, kind)
            row[place] = other
            rows.append(row)
    return np.array(rows)


def absent_in(array: np.ndarray) -> np.ndarray:
    return np.isnat(array) if array.dtype.kind in "mM" else array != array


def wanted(op: str, row: np.ndarray) -> Any:
    """Return what NumPy says of a row, and of nothing what docs/differences.md does."""
    there = np.flatnonzero(~absent_in(row)) if op.startswith("nan") else np.arange(len(row))
    name = op.removeprefix("nan")
    if row.dtype.name == "bfloat16":
        row = row.astype("f4")
    if name == "norminf":
        with np.errstate(invalid="ignore"):
            return max(map(abs, row.tolist())) if row.dtype.kind in "biu" else np.abs(row).max()
    if not len(there):
        return -1 if "arg" in name else row[0]
    found = row[there]
    if name.startswith("arg"):
        return there[getattr(np, name)(found)]
    return [found.min(), found.max()] if name == "minmax" else getattr(np, name)(found)


def same(got: Any, want: Any) -> bool:
    got, want = np.atleast_1d(got), np.atleast_1d(want)
    return bool(np.all((got == want) | (absent_in(got) & absent_in(want))))


CASES = [
    (dtype, shape)
    for number, dtype in enumerate(DTYPES)
    for shape in (SHAPES if ALL_SHAPES else FEW[number % len(FEW) :][:1])
]
"""Every dtype with a shape, in turn; all of them where that is asked for."""


@pytest.mark.parametrize(("dtype", "shape"), CASES)
def test_what_identities_are_is_found(opened: DeviceContext, dtype: str, shape: str):
    kind = kind_of(dtype)
    array = rows_of(kind)
    ops = (
        *OPS,
        *["norminf"] * (kind.kind not in "mM"),
        *(SKIPPING if kind.kind not in "biu" else ()),
    )
    bound = bind([as_monoid(op) for op in ops], [kind])
    accumulator = bound.accumulator.for_outputs(len(array))
    tuning = (shaped if shape in FEW else tried)(opened.device, accumulator, shape)
    if tuning is None:
        pytest.skip("the device cannot do it")
    fold = Fold(opened, accumulator, tuning, len(array))
    fold.add([upload(opened, array)], box(array.shape, (1,)))
    partial = fold.read_back()
    for one in bound.statistics:
        for row, got in zip(array, one.finish(partial, array.shape, (1,)), strict=True):
            assert same(got, wanted(one.name, row)), (one.name, row)
