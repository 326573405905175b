"""Inputs that are folded by key have strides of their own: weights of fewer axes than the data."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from chunkfold.kernels import DeviceContext, KeyedFold, Monoid, as_monoid, bind, keyed_box
from chunkfold.kernels.expressions.library import first, rank_high
from chunkfold.kernels.fold.keyed.keyed_plan import MOST_OUTPUTS
from chunkfold.kernels.geometry import BY_KEY
from chunkfold.kernels.strides import strides_along
from tests.conftest import shaped
from tests.kernels.fold.test_fold import upload

pytestmark = pytest.mark.unoptimised
FARTHEST = Monoid(
    "farthest",
    inputs=2,
    fields={"m": "order", "i": "int64"},
    zero={"m": "lowest", "i": "highest"},
    lift=lambda x, w, i: {"m": rank_high(x - w), "i": i},
    op={"m": "max", "i": lambda a, b: first(b.m, a.m, a.i, b.i)},
    finish=lambda f, context: f["i"],
)
OPS = {"max_abs_diff": as_monoid("max_abs_diff"), "weighted_mean": as_monoid("weighted_mean"),
       "farthest": FARTHEST}  # fmt: skip
"""An extreme, sums and a position."""
SHAPE, KEYS = (12, 5, 24), 3
Case = tuple[tuple[int, ...], tuple[int, ...]]
CASES: list[Case] = [
    ((0,), (0,)),
    ((1,), (1, 2)),
    ((1, 2), (1, 2)),
    ((2,), (0, 1, 2)),
    ((0, 1), (1,)),
]
"""Axes of weights, and those that are reduced by key."""


def _elements(case: Case) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Data, weights along axes of their own, and keys along those that are reduced."""
    own, axes = case
    rng = np.random.default_rng(CASES.index(case))
    x = rng.standard_normal(SHAPE).astype("f4")
    w = (rng.integers(1, 9, [SHAPE[a] for a in own]) / 8).astype("f2")
    return x, w, rng.integers(-1, KEYS, [SHAPE[a] for a in axes]).astype(np.int32)


@functools.cache  # for every shape, way and device the same
def _wanted(case: Case, op: str) -> list[list[float]]:
    """Evaluate an op on each key's elements of each output by themselves."""
    own, axes = case
    x, w, keys = _elements(case)
    kept = [axis for axis in range(3) if axis not in axes]
    wide = np.broadcast_to(w.reshape([n if a in own else 1 for a, n in enumerate(SHAPE)]), SHAPE)
    rows = [
        each.transpose(*kept, *axes).reshape(-1, keys.size)
        for each in (x, wide, np.arange(x.size).reshape(SHAPE))
    ]

    def of_group(*own: np.ndarray) -> np.ndarray:
        if op == "farthest":
            return own[2][(own[0] - own[1]).argmax()]
        return OPS[op].evaluate(*own[:2])

    done = [
        [of_group(*(a[keys.ravel() == k] for a in some)) for some in zip(*rows, strict=True)]
        for k in range(KEYS)
    ]
    return np.array(done).tolist()


@pytest.mark.parametrize("shape", ["tree", "tree-64", "vectors"])
@pytest.mark.parametrize("way", BY_KEY)
def test_weights_by_key_may_lack_axes(opened: DeviceContext, way: str, shape: str):
    """In tables that are shared (extremes), local and global, and in others (the rest)."""
    bound = bind(
        list(OPS.values()), [np.dtype("f4"), np.dtype("f2")],
        exact=True, keyed=True, fp64=opened.device.fp64,
    )  # fmt: skip
    accumulator = bound.accumulator.for_outputs(MOST_OUTPUTS)
    tuning = shaped(opened.device, accumulator, shape)
    assert tuning is not None
    for case in CASES:
        own, axes = case
        x, w, keys = _elements(case)
        layout = keyed_box(SHAPE, axes, axes, other_strides=[strides_along(SHAPE, own)])
        for local in (True, False):
            fold = KeyedFold(
                opened, accumulator, tuning, KEYS, layout.outputs, way=way, local=local
            )
            fold.add([upload(opened, x), upload(opened, w)], upload(opened, keys), layout)
            partial = fold.read_back()
            for one in bound.statistics:
                got = one.finish(partial, SHAPE, axes).reshape(KEYS, layout.outputs)
                assert got.tolist() == _wanted(case, one.name), (case, one.name)
