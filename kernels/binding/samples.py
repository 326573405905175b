"""Small integers as elements of any dtype that kernels read, for trials."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chunkfold.kernels.accumulator.accumulator import Accumulator


def inputs_of(accumulator: Accumulator, values: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return numbers as they stand in memory in each input of an accumulator."""
    given = zip(values, accumulator.stored, accumulator.swapped, strict=True)
    return [as_stored(numbers, name, swapped=swapped) for numbers, name, swapped in given]


def as_stored(values: np.ndarray, name: str, *, swapped: bool) -> np.ndarray:
    r"""Return numbers as they stand in memory in the element dtype `name` (see dtypes.STORED).

    >>> as_stored(np.array([1]), "int16", swapped=True).tobytes()
    b'\x00\x01'
    """
    if name == "bfloat16":  # the upper half of a float32
        array = (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    else:
        array = values.astype(np.int64 if name == "time" else name)
    return array.byteswap() if swapped else array
