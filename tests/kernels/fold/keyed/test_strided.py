"""Inputs that are folded by key have strides of their own: weights of fewer axes than the data."""

from __future__ import annotations

import numpy as np
import pytest

from chunkfold.kernels import DeviceContext, KeyedFold, as_monoid, bind, keyed_box
from chunkfold.kernels.fold.keyed.plan import MOST_OUTPUTS
from chunkfold.kernels.geometry import BY_KEY, strides_along
from tests.conftest import shaped
from tests.kernels.fold.test_fold import upload

pytestmark = pytest.mark.unoptimised
OPS = ["max_abs_diff", "weighted_mean"]
SHAPE, KEYS = (12, 5, 24), 3
CASES = [((0,), (0,)), ((1,), (1, 2)), ((1, 2), (1, 2)), ((2,), (0, 1, 2)), ((0, 1), (1,))]
"""Axes of weights, and those that are reduced by key."""


@pytest.mark.parametrize("shape", ["tree", "tree-64", "vectors"])
@pytest.mark.parametrize("way", BY_KEY)
def test_weights_by_key_may_lack_axes(opened: DeviceContext, way: str, shape: str):
    """In tables that are shared (extremes), local and global, and in others (the rest)."""
    bound = bind(
        list(map(as_monoid, OPS)), [np.dtype("f4"), np.dtype("f2")],
        exact=True, keyed=True, fp64=opened.device.fp64,
    )  # fmt: skip
    accumulator = bound.accumulator.for_outputs(MOST_OUTPUTS)
    tuning = shaped(opened.device, accumulator, shape)
    assert tuning is not None
    for number, (own, axes) in enumerate(CASES):
        rng = np.random.default_rng(number)
        x = rng.standard_normal(SHAPE).astype("f4")
        w = (rng.integers(1, 9, [SHAPE[a] for a in own]) / 8).astype("f2")
        kept = [axis for axis in range(3) if axis not in axes]
        keys = rng.integers(-1, KEYS, [SHAPE[a] for a in axes]).astype(np.int32)
        layout = keyed_box(SHAPE, axes, axes, others=[strides_along(SHAPE, own)])
        wide = np.broadcast_to(
            w.reshape([n if a in own else 1 for a, n in enumerate(SHAPE)]), SHAPE
        )
        rows = [a.transpose(*kept, *axes).reshape(layout.outputs, -1) for a in (x, wide)]
        for local in (True, False):
            fold = KeyedFold(
                opened, accumulator, tuning, KEYS, layout.outputs, way=way, local=local
            )
            fold.add([upload(opened, x), upload(opened, w)], upload(opened, keys), layout)
            partial = fold.finish()
            for one in bound.statistics:
                got = one.finish(partial, SHAPE, axes).reshape(KEYS, layout.outputs)
                want = [
                    [one.monoid.evaluate(a[keys.ravel() == k], b[keys.ravel() == k])
                     for a, b in zip(*rows, strict=True)]
                    for k in range(KEYS)
                ]  # fmt: skip
                assert got.tolist() == np.array(want).tolist(), (own, axes, one.name)
