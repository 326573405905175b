"""What the benchmarks fold, data in place: reductions of arrays of many shapes and dtypes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pyopencl as cl
from gpu_clocks import own_seconds

from chunkfold.kernels import (
    Box,
    DeviceContext,
    Fold,
    Monoid,
    Packing,
    as_monoid,
    bind,
    box,
    choose,
    histogram,
)
from chunkfold.kernels.bench.peers import device_copy, repeated

_PATTERN = 1 << 20
Layout = tuple[tuple[int, ...], tuple[int, ...]]
"""Shape, whose -1 is what fills the bytes, and reduced axes."""
FLAT: Layout = ((-1,), (0,))
FIRST: Layout = ((-1, 360, 360), (0,))
LONG: Layout = ((-1, 720, 1440), (2,))
SHORT: Layout = ((-1, 48), (1,))
LAYOUTS: list[Layout] = [
    FLAT,
    FIRST,
    ((-1, 720, 1440), (1,)),
    LONG,
    ((-1, 720, 1440), (0, 2)),
    ((-1, 4), (0,)),
    ((-1, 3), (1,)),
    ((-1, 16), (1,)),
    SHORT,
    ((-1, 64), (1,)),
    ((-1, 100), (1,)),
]
EXACT_LAYOUTS: list[Layout] = [
    FLAT,
    ((512, -1), (0,)),
    ((-1, 1440), (1,)),
    ((64, -1, 1440), (0, 2)),
]
OPS = {
    "sum": "sum",
    "max": "max",
    "var": "var",
    "four": "sum mean min max",
    "ten": "sum mean min max var std sumsq norm1 norm2 count_nonzero",
    "nansum": "nansum",
    "nanfour": "nansum nanmean nanmin nanmax",
    "dot": "dot",
    "covariance": "covariance",
    "argmin": "argmin",
    "nanargmax": "nanargmax",
}


@dataclass(frozen=True)
class Case:
    """One or more statistics of arrays of one shape, in one pass."""

    op: str
    """Of `OPS`; or `histogram`."""
    layout: Layout
    dtype: str = "float32"
    exact: bool = field(default=False, kw_only=True)
    packing: Packing | None = field(default=None, kw_only=True)

    @property
    def name(self) -> str:
        """Unique."""
        shape, axes = ("x".join("n" if n < 0 else str(n) for n in self.layout[0]), self.layout[1])
        mode = "exact " * self.exact + "packed " * bool(self.packing)
        return f"{mode}{self.op} {self.dtype} {shape} over {','.join(map(str, axes))}"

    @property
    def inputs(self) -> int:
        """Arrays."""
        return self.monoids[0].inputs

    @property
    def monoids(self) -> list[Monoid]:
        """The statistics."""
        if self.op == "histogram":
            return [histogram(np.linspace(200, 360, 81))]
        return [as_monoid(name) for name in OPS[self.op].split()]

    def shape(self, nbytes: int) -> tuple[int, ...]:
        """Return the shape of arrays that fill so many bytes together.

        Raises
        ------
        ValueError
            If they are too few.
        """
        shape = self.layout[0]
        each = nbytes // self.inputs // np.dtype(self.dtype).itemsize
        rest = -math.prod(shape)
        if each < rest:
            raise ValueError(f"{self.name} needs more than {nbytes} bytes")
        return tuple(each // rest if n < 0 else n for n in shape)


PACKED = Packing(0.01, 273.15)
CASES = [
    *(Case(op, layout) for layout in LAYOUTS for op in ("sum", "max", "var", "four", "ten")),
    *(Case("histogram", layout) for layout in (FLAT, LONG)),
    *(
        Case(op, layout, dtype, exact=True)
        for dtype in ("float32", "float64")
        for layout in EXACT_LAYOUTS
        for op in ("sum", "var")
    ),
    *(
        Case(op, layout, dtype)
        for dtype in ("int8", "int16", "float16", "complex64")
        for op, layout in (("sum", FLAT), ("sum", FIRST), ("sum", SHORT), ("four", SHORT))
        if (op, dtype) != ("four", "complex64")  # which have no order
    ),
    *(Case("sum", layout, "int16", packing=PACKED) for layout in (FLAT, FIRST, SHORT)),
    Case("four", SHORT, "int16", packing=PACKED),
    *(Case(op, layout) for op in ("nansum", "nanfour") for layout in (FLAT, FIRST, SHORT)),
    *(Case("dot", layout) for layout in (FLAT, FIRST, SHORT)),
    *(
        Case(op, layout, dtype, exact=True)
        for dtype in ("float32", "float64")
        for op in ("dot", "covariance")
        for layout in (FLAT, LONG)
    ),
    *(Case(op, layout) for op in ("argmin", "nanargmax") for layout in (FLAT, FIRST, LONG)),
]
"""Those of the same data follow each other."""


def pattern(dtype: str, *, nans: bool = False) -> np.ndarray:
    """Return small numbers of integers, N(280, 15) of floats; of 100 elements one is NaN."""
    rng = np.random.default_rng(0)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(-100, 100, _PATTERN).astype(dtype)
    values = (280 + 15 * rng.standard_normal(_PATTERN)).astype(dtype)
    if nans:
        values[rng.random(_PATTERN) < 0.01] = np.nan
    return values


@lru_cache(maxsize=2)
def _flat(dtype: str, nbytes: int, nans: bool, _number: int) -> np.ndarray:
    """Return the array of all cases of a dtype; those with other numbers are other memory."""
    return repeated(pattern(dtype, nans=nans), (nbytes // np.dtype(dtype).itemsize,))


@lru_cache(maxsize=2)
def _placed(opened: DeviceContext, *flat: Any) -> cl.Buffer:
    return device_copy(opened, _flat(*flat))


def _flats(case: Case, nbytes: int) -> list[tuple[str, int, bool, int]]:
    nans, each = case.op.startswith("nan"), nbytes // case.inputs
    return [(case.dtype, each, nans, number) for number in range(case.inputs)]


def arrays_of(case: Case, nbytes: int) -> list[np.ndarray]:
    """Return the arrays of a case in host memory."""
    shape = case.shape(nbytes)
    return [_flat(*flat)[: math.prod(shape)].reshape(shape) for flat in _flats(case, nbytes)]


@dataclass(frozen=True)
class Prepared:
    """A case on a device, its kernels compiled."""

    fold: Fold
    buffers: list[cl.Buffer]
    whole: Box

    @property
    def nbytes(self) -> int:
        """Bytes that are read."""
        return self.whole.elements * self.fold.accumulator.element_bytes

    def __call__(self) -> object:
        """Fold once, and read the partial back."""
        self.fold.add(self.buffers, self.whole)
        return self.fold.read_back()

    def device_seconds(self) -> float:
        """Fold once; return what the kernels took by the device's clock."""
        return own_seconds(self.fold, self, 1)


def prepared(opened: DeviceContext, case: Case, nbytes: int) -> Prepared:
    """Place the arrays of a case, which fill so many bytes together, and choose its kernels."""
    dtypes = [np.dtype(case.dtype)] * case.inputs
    packings = [case.packing] if case.packing else ()
    whole = box(case.shape(nbytes), case.layout[1])
    bound = bind(case.monoids, dtypes, exact=case.exact, packings=packings)
    accumulator = bound.accumulator.for_outputs(whole.outputs)
    tuning = choose(opened.device, accumulator, kernels=(whole.kernel,))
    buffers = [_placed(opened, *flat) for flat in _flats(case, nbytes)]
    return Prepared(Fold(opened, accumulator, tuning, whole.outputs), buffers, whole)
