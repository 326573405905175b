"""What results are of a monoid without a finish: its fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from chunkfold.kernels.monoid.context import Context, Fields


def record(fields: Fields, context: Context) -> np.ndarray:
    """Return the only field, or all of them as a structured array; exact sums are rounded."""
    from chunkfold.kernels.accumulator.exact_array import ExactArray

    held = cast("Mapping[str, Any]", fields)
    fields = {
        name: one.rounded(context.floats) if isinstance(one, ExactArray) else one
        for name, one in held.items()
    }
    if len(fields) == 1:
        return next(iter(fields.values()))
    dtype = np.dtype([(name, array.dtype, array.shape[1:]) for name, array in fields.items()])
    record = np.empty(len(next(iter(fields.values()))), dtype)
    for name, array in fields.items():
        record[name] = array
    return record
