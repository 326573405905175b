"""Decide the dtype of the inputs' values, and whether a reduction accepts it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chunkfold.kernels.accumulator.packing import Packing
from chunkfold.kernels.catalogue.mixed_dtypes import common_time
from chunkfold.kernels.dtypes import kind_of, stored_name
from chunkfold.kernels.errors import DeviceError, MonoidError
from chunkfold.kernels.monoid.monoid import Monoid

_UNPACKED = ("float32", "float64")
"""Dtypes that packed values are made, if one is asked for."""
_REAL = "biufV"
"""Kinds of weights; bfloat16 is of kind V."""


def common_dtype(dtypes: Sequence[np.dtype]) -> np.dtype:
    """Return the dtype that holds the values of every input, as NumPy promotes them."""
    for given in dtypes:
        stored_name(given)
    try:
        common = np.result_type(*dtypes).newbyteorder("=")
        stored_name(common)
    except (TypeError, DeviceError):
        names = " and ".join(map(str, dtypes))
        raise MonoidError(f"no dtype holds both {names}; give one with dtype=") from None
    return common


def common_of_pair(dtypes: Sequence[np.dtype]) -> np.dtype:
    """Return what stands for the dtypes of two inputs that are apart: their values keep theirs."""
    if dtypes[0].kind not in "mM":
        return np.dtype(np.int64)
    try:
        return common_time(dtypes)
    except (TypeError, OverflowError):
        names = " and ".join(map(str, dtypes))
        raise MonoidError(f"no unit holds both {names}: cast one of them first") from None


def check_weights(monoids: Sequence[Monoid], dtypes: Sequence[np.dtype]) -> None:
    """See that weights are real, and what they weigh has a kind that a monoid weighs."""
    for one in monoids:
        if not one.weights or one.inputs != len(dtypes):
            continue
        elements = one.inputs - one.weights - one.slots
        weights = dtypes[elements : elements + one.weights]
        odd = [given for given in weights if given.kind not in _REAL]
        if odd:
            raise MonoidError(f"weights are {odd[0]}; weights must be real numbers")
        for given in dtypes[:elements]:
            if given.kind in "mM":
                raise MonoidError(
                    f"{one.quoted} weighs numbers, but elements are {given}: omit the weights, or "
                    "convert the elements to numbers, as with (data - data[0]) / "
                    "np.timedelta64(1, 's')"
                )


def check_cast(given: np.dtype, packing: Packing | None, value: np.dtype) -> None:
    """See that kernels can make values of elements."""
    if packing and value.name not in _UNPACKED and value != packing.value_dtype(given):
        raise MonoidError(
            f"packed values become floats, not {value}: give dtype {' or '.join(_UNPACKED)}, or "
            "omit it"
        )
    if not _castable(given, value):
        raise MonoidError(f"elements of {given} cannot be cast to {value}")


def _castable(given: np.dtype, value: np.dtype) -> bool:
    """Return whether kernels convert elements to values: numbers only, without losing a part."""
    if given.newbyteorder("=") == value:
        return True
    kinds = kind_of(given), kind_of(value)
    if value.name == "bfloat16" or set(kinds) & set("mM"):
        return False
    return kinds[1] == "c" or "c" not in kinds
