"""The monoid that is folded for given elements, where it depends on their dtypes and outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chunkfold.kernels.dtypes import kind_of
from chunkfold.kernels.errors import MonoidError

if TYPE_CHECKING:
    from chunkfold.kernels.monoid.monoid import Monoid

KINDS = {
    "b": "bool",
    "i": "signed integers",
    "u": "unsigned integers",
    "f": "floats",
    "c": "complex numbers",
    "m": "timedeltas",
    "M": "datetimes",
}
"""NumPy's kinds of elements."""


@dataclass(frozen=True)
class FoldedElements:
    """The elements that a monoid reduces."""

    dtype: np.dtype
    """Dtype that all inputs are cast to."""
    inputs: tuple[np.dtype, ...] = ()
    """Dtype of each input before the cast."""
    outputs: int = 1
    keeping: bool = False
    """True: there is memory for all elements of an output."""


Specialised = Callable[[FoldedElements], "Monoid | None"]
"""Returns the monoid that is folded for elements; None: the monoid itself."""


def for_each_dtype(make: Callable[[np.dtype], Monoid]) -> Specialised:
    """Return what specialises a monoid by the dtype of elements alone."""
    return lambda elements: make(elements.dtype)


@dataclass(frozen=True)
class ForMixedInputs:
    """Specialises a monoid for two inputs that no dtype holds (catalogue/mixed_dtypes.py)."""

    make: Callable[[Sequence[np.dtype]], Monoid]
    """Returns the monoid, given the dtypes of both inputs, which are not cast."""

    def __call__(self, elements: FoldedElements) -> None:
        """Leave the monoid as it is for inputs of one dtype."""


def specialise(monoid: Monoid, elements: FoldedElements, *, exact: bool) -> Monoid:
    """Return the monoid that is folded; parameters as `Monoid.for_dtype`."""
    kind, exactly = kind_of(elements.dtype), monoid.exact if exact else None
    if kind not in monoid.all_kinds:
        able = set(monoid.all_kinds)
        names = ", ".join(name for letters, name in KINDS.items() if set(letters) & able)
        raise MonoidError(f"{monoid.quoted} is not defined for {elements.dtype}, only for {names}")
    other = next((one for kinds, one in monoid.instead.items() if kind in kinds), None)
    if other is not None:
        return other.for_dtype(elements.dtype, exact=exact)
    if exactly is not None and kind in exactly.all_kinds:
        return exactly.for_dtype(elements.dtype)
    found = monoid.specialised(elements) if monoid.specialised else None
    return monoid if found is None else found
