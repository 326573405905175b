"""Tolerances of a comparison: differences of elements that count as none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from chunkfold.errors import PlanError
from chunkfold.kernels.catalogue.differences import Element, alike, far_complex, same_of
from chunkfold.kernels.catalogue.sums_of_two import far_as_float
from chunkfold.kernels.expressions.library import bits, distance, magnitude, real, where, wide
from chunkfold.kernels.expressions.symbols import ComplexSymbol, Symbol, applied

_MOST_ULP = 2**62


@dataclass(frozen=True)
class Tolerance:
    """Differences that count as none; where all are 0 every difference counts."""

    rtol: float = 0.0
    """Relative to the second element, as `numpy.isclose`."""
    atol: float = 0.0
    """Absolute; added to the relative one."""
    ulp: int = 0
    """Steps from one representable value to the next; enough by itself."""

    def __post_init__(self) -> None:
        for name in ("rtol", "atol"):
            given = getattr(self, name)
            plain = isinstance(given, (int, float)) and not isinstance(given, bool)
            if not plain or not 0 <= given < math.inf:
                raise PlanError(f"{name} is {given!r}; give a number of 0 or more")
        whole = isinstance(self.ulp, int) and not isinstance(self.ulp, bool)
        if not whole or not 0 <= self.ulp <= _MOST_ULP:
            raise PlanError(f"ulp is {self.ulp!r}; give a whole number from 0 to 2**62")

    def __bool__(self) -> bool:
        return any((self.rtol, self.atol, self.ulp))

    def __str__(self) -> str:
        told = {"rtol": self.rtol, "atol": self.atol, "ulp": self.ulp}
        return ", ".join(f"{name} {value}" for name, value in told.items() if value)

    def near(self, x0: Element, x1: Element, *, half: bool = False) -> Any:
        """Return the condition that elements of one dtype differ by no more; NaN is near NaN.

        `half`: they are float16, which symbols have as float32.
        """
        if not self or x0.dtype.kind == "b":
            return alike(x0, x1)
        same: Any = alike(x0, x1)
        if isinstance(x0, ComplexSymbol) and isinstance(x1, ComplexSymbol):
            size = applied("hypot", wide(x1.real), wide(x1.imag))
            near = self._within(far_complex(x0, x1), size)
            steps = self._by_steps(x0.real, x1.real) & self._by_steps(x0.imag, x1.imag)
        elif isinstance(x0, Symbol) and isinstance(x1, Symbol) and x0.dtype.kind == "f":
            near = self._within(abs(real(x0) - real(x1)), abs(real(x1)))
            steps = self._by_steps(x0, x1, half=half)
        else:
            assert isinstance(x0, Symbol)
            assert isinstance(x1, Symbol)
            near = self._within(real(distance(x0, x1)), real(magnitude(x1)))
            steps = distance(x0, x1) <= np.uint64(self.ulp)
        same = same | near
        return same | steps if self.ulp else same

    def near_mixed(self, dtypes: Sequence[np.dtype], x0: Symbol, x1: Symbol) -> Any:
        """Return the same condition for elements of two dtypes that no dtype holds."""
        same = same_of(dtypes)(x0, x1)
        if not self or dtypes[0].kind in "mM":
            return same
        far = far_as_float(dtypes, x0, x1)
        steps = far <= float(self.ulp)
        return same | steps | self._within(far, real(magnitude(x1)))

    def _within(self, far: Any, size: Any) -> Any:
        return (far <= self.atol + self.rtol * size) & (size < math.inf)

    def _by_steps(self, x0: Any, x1: Any, *, half: bool = False) -> Any:
        (sign0, size0), (sign1, size1) = (_sign_and_size(x, half) for x in (x0, x1))
        apart = where(size0 > size1, size0 - size1, size1 - size0)
        apart = where(sign0 == sign1, apart, size0 + size1)
        finite = (abs(x0) < math.inf) & (abs(x1) < math.inf)
        return finite & (apart <= np.uint64(self.ulp))


EXACTLY = Tolerance()
"""No difference counts as none."""


def _sign_and_size(x: Any, half: bool) -> tuple[Any, Any]:
    """Return the sign bit of a float, and its steps from 0 as a uint64."""
    top = 8 * x.dtype.itemsize - 1
    held = bits(x).astype(np.uint64)
    sign, size = held >> top, held & np.uint64((1 << top) - 1)
    if half:  # below 2**-14 steps are even; above they are those of float32 with 13 bits less
        small = (abs(x) * 2.0**24).astype(np.uint64)
        size = where(abs(x) < 2.0**-14, small, (size >> 13) - np.uint64(112 << 10))
    return sign, size
