"""The monoid that is folded instead of another, by dtypes and the number of outputs."""

from __future__ import annotations

from collections.abc import Sequence
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


def stand_in(
    monoid: Monoid,
    dtype: np.dtype,
    exact: bool,
    outputs: int,
    keeping: bool,
    inputs: Sequence[np.dtype],
) -> Monoid:
    """Return what is folded in a monoid's place, or itself; parameters as `Monoid.for_dtype`."""
    kind, exactly = kind_of(dtype), monoid.exact if exact else None
    if kind not in monoid.all_kinds:
        able = set(monoid.all_kinds)
        names = ", ".join(name for letters, name in KINDS.items() if set(letters) & able)
        raise MonoidError(f"{monoid.told} is not defined for {dtype}, only for {names}")
    other = next((one for kinds, one in monoid.instead.items() if kind in kinds), None)
    if other is not None:
        found = other.for_dtype(dtype, exact=exact)
    elif exactly is not None and kind in exactly.all_kinds:
        found = exactly.for_dtype(dtype)
    elif keeping and monoid.choosing is not None:
        found = monoid.choosing(dtype)
    elif monoid.of_inputs is not None:
        found = monoid.of_inputs(inputs or (dtype,) * monoid.inputs, outputs)
    elif monoid.sized is not None:
        found = monoid.sized(dtype, outputs)
    elif monoid.adapt is not None:
        found = monoid.adapt(dtype)
    else:
        found = monoid
    return found
