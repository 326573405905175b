"""What compilers make of folds by key where they optimise, as they do for users."""

from __future__ import annotations

import numpy as np
import pytest

from chunkfold.kernels import DeviceContext
from tests.kernels.fold.keyed.test_keyed_fold import assert_same, expected, folded


@pytest.mark.parametrize("dtype", ["uint32", "uint64", "int64"])
def test_minima_keep_their_complements(opened: DeviceContext, dtype: str):
    """Minima are the greatest of complements, which Intel's compiler of 2025 loses."""
    array = np.random.default_rng(8).integers(0, 1 << 30, (6, 50)).astype(dtype)
    labels = np.arange(50, dtype=np.int32) % 4
    got = folded(opened, ["min", "max"], array, labels, 4, (0, 1), (1,), pieces=2)
    for op in got:
        assert_same(got[op], expected(op, array, labels, 4, (0, 1), (1,)), op)
