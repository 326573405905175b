"""What compilers make of the main kernels where they optimise, as they do for users."""

from __future__ import annotations

import math

import numpy as np
import pytest

from chunkfold.kernels import DeviceContext, Fold, as_monoid, bind, box
from chunkfold.kernels.accumulator.sums import any_lost
from tests.conftest import shaped
from tests.exactly import expected
from tests.kernels.fold.test_fold import upload

OPS = ("sum", "mean", "max")
SHAPE = (37, 90)  # more than short rows have


@pytest.mark.parametrize("axes", [(0, 1), (1,), (0,)], ids=["flat", "rows", "columns"])
def test_the_main_kernels_are_exact_as_users_run_them(opened: DeviceContext, axes: tuple[int, ...]):
    rng = np.random.default_rng(1)
    array = np.ldexp(rng.standard_normal(SHAPE), rng.integers(-20, 20, SHAPE)).astype("f4")
    array[:, 1::2] = -array[:, ::2]  # all cancels but for what is added here
    array[::5, 0] = 2.0**-30
    part = box(SHAPE, axes)
    bound = bind(list(map(as_monoid, OPS)), [array.dtype], exact=True, fp64=opened.device.fp64)
    accumulator = bound.accumulator.for_outputs(part.outputs)
    tuning = shaped(opened.device, accumulator, "tree")
    assert tuning is not None
    fold = Fold(opened, accumulator, tuning, part.outputs)
    fold.add([upload(opened, array)], part)
    partial = fold.read_back()
    assert not any_lost(accumulator, partial).any()
    kept = [axis for axis in (0, 1) if axis not in axes]
    rows = array.transpose(*kept, *axes).reshape(math.prod(SHAPE[a] for a in kept), -1)
    for one in bound.statistics:
        got = one.finish(partial, SHAPE, axes)
        want = [
            row.max() if one.name == "max" else expected(one.name, row.tolist(), "float32")
            for row in rows
        ]
        assert got.tolist() == want, one.name
