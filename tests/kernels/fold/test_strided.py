"""Inputs have strides of their own: 0 along axes that they lack, or another order in memory."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pyopencl as cl
import pytest

from chunkfold.kernels import (
    Bound,
    Box,
    DeviceContext,
    Fold,
    Monoid,
    Packing,
    as_monoid,
    bind,
    box,
    choose,
)
from chunkfold.kernels.expressions.library import order_low
from chunkfold.kernels.strides import c_strides, strides_along
from tests.conftest import ALL_SHAPES, shaped
from tests.kernels.fold.test_fold import upload

PRODUCTS = Monoid(
    "products",
    inputs=3,
    fields={"s": "exact", "least": "order", "n": "int64"},
    zero={"s": 0, "least": "highest", "n": 0},
    lift=lambda x, w, m, i: {"s": x * w * m, "least": order_low(w), "n": (m > 1) * i},
    op={"s": "add", "least": "min", "n": "add"},
)
DTYPES = ("float32", ">f4", "float16")
SHAPE = (7, 5, 40)
AXES = [(0, 1, 2), (1, 2), (0, 2), (2,), (0,), (1,), (0, 1)]
OWN = [(0,), (1,), (2,), (1, 2), (0, 2), ()]
"""Axes that an input has: a vector along time, a cos(latitude), a mask, a number."""
LAYOUTS = [((900,), (0,)), ((0,), (0,)), ((40, 3), (0,)), ((70, 6), (0,)), ((9, 8, 24), (0,)),
           ((9, 5, 16), (0, 2)), ((6, 300), (1,)), ((3, 4, 5, 6), (1, 2)), ((50, 11), (0, 1)),
           ((8, 5), ()), ((12, 12), (1,))]  # fmt: skip
"""Shapes and what is reduced: also columns so few that rows are folded side by side."""


def strided(array: np.ndarray, own: Sequence[int]) -> tuple[np.ndarray, tuple[int, ...]]:
    """Return an array of some of the axes, broadcast, and its strides in the whole."""
    shape = tuple(n if axis in own else 1 for axis, n in enumerate(SHAPE))
    return array.reshape(shape), strides_along(SHAPE, own)


def inputs(*owns: Sequence[int], seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    wide = 2.0 ** rng.integers(-9, 9, SHAPE)
    first = (rng.standard_normal(SHAPE) * wide).astype(DTYPES[0])
    others = [
        np.ascontiguousarray(rng.integers(-8, 9, [SHAPE[a] for a in own]) / 4).astype(dtype)
        for own, dtype in zip(owns, DTYPES[1:], strict=True)
    ]
    return [first, *others]


def answer(
    opened: DeviceContext, bound: Bound, shape: str, buffers: list[cl.Buffer], *boxes: Box
) -> np.ndarray:
    accumulator = bound.accumulator.for_outputs(2)  # in expansions, of any number of outputs
    tuning = shaped(opened.device, accumulator, shape)
    assert tuning is not None
    fold = Fold(opened, accumulator, tuning, boxes[0].outputs)
    for one in boxes:
        fold.add(buffers, one)
    return bound.statistics[0].finish(fold.read_back())


def bound_products(opened: DeviceContext) -> Bound:
    dtypes = [np.dtype(name) for name in DTYPES]
    return bind([PRODUCTS], dtypes, exact=True, fp64=opened.device.fp64)


@pytest.mark.unoptimised
@pytest.mark.parametrize("shape", ["tree", "vectors"])
def test_inputs_of_fewer_axes_are_as_if_broadcast(opened: DeviceContext, shape: str):
    bound = bound_products(opened)
    used = set()
    for number, (axes, one) in enumerate(itertools.product(AXES, OWN)):
        if not ALL_SHAPES and number % 2:
            continue
        other = OWN[(number + axes[0] + 1) % len(OWN)]
        first, *rest = inputs(one, other, seed=number)
        pairs = [strided(array, own) for array, own in zip(rest, (one, other), strict=True)]
        part = box(SHAPE, axes, other_strides=[strides for _, strides in pairs])
        used.add(part.kernel)
        got = answer(opened, bound, shape, [upload(opened, a) for a in (first, *rest)], part)
        whole = [first, *(np.broadcast_to(array, SHAPE) for array, _ in pairs)]
        want = PRODUCTS.evaluate(*whole, axis=axes).reshape(-1)
        for name in want.dtype.names:
            assert got[name].tolist() == want[name].tolist(), (axes, one, other, name)
    assert used == {"rows", "columns"}


def viewed(
    rng: np.random.Generator, values: np.ndarray, *, first: bool
) -> tuple[np.ndarray, np.ndarray, tuple[int, ...], int]:
    """Put an array somewhere in a larger one; return that, the view, its strides and its offset.

    Others than the first are in any order, and may lack axes.
    """
    ndim = values.ndim
    order = np.arange(ndim) if first and rng.random() < 0.5 else rng.permutation(ndim)
    steps = np.where(rng.random(ndim) < 0.3, rng.integers(1, 4, ndim), 1)
    if not first:
        values = values[tuple(slice(0, 1 if rng.random() < 0.4 else None) for _ in range(ndim))]
    begins = rng.integers(0, 3, ndim)
    extents = begins + np.array(values.shape) * steps
    base = np.zeros(extents[order], values.dtype)
    view = base.transpose(np.argsort(order))[
        tuple(slice(b, b + n * s, s) for b, n, s in zip(begins, values.shape, steps, strict=True))
    ]
    view[...] = values
    strides = [
        0 if n == 1 else stride // view.itemsize
        for n, stride in zip(view.shape, view.strides, strict=True)
    ]
    offset = (view.ctypes.data - base.ctypes.data) // view.itemsize
    return base, view, tuple(strides), offset


@pytest.mark.unoptimised
@pytest.mark.parametrize("shape", ["tree", "vectors", "tree-stride"])
def test_inputs_may_stand_anywhere_in_memory(opened: DeviceContext, shape: str):
    bound, rng = bound_products(opened), np.random.default_rng(2)
    used = set()
    for number, (extents, axes) in enumerate(2 * LAYOUTS):
        arrays = [(rng.integers(-8, 9, extents) / 4).astype(dtype) for dtype in DTYPES]
        placed = [viewed(rng, array, first=not n) for n, array in enumerate(arrays)]
        (_, _, strides, offset), *others = placed
        part = box(
            extents,
            axes,
            strides=strides,
            index_strides=c_strides(extents),
            offset=offset,
            other_strides=[one[2] for one in others],
            other_offsets=[one[3] for one in others],
        )
        used.add(part.kernel)
        got = answer(opened, bound, shape, [upload(opened, one[0]) for one in placed], part)
        if not math.prod(extents):
            assert got["s"].tolist() == [0]
            continue
        want = PRODUCTS.evaluate(*(one[1] for one in placed), axis=axes).reshape(-1)
        for name in want.dtype.names:
            assert got[name].tolist() == want[name].tolist(), (number, extents, axes, name)
    assert used == {"flat", "rows", "columns"}


@pytest.mark.unoptimised
@pytest.mark.parametrize("dtype", ["int16", ">i2", ">f2"])
@pytest.mark.parametrize(
    "packed", [n for n in itertools.product((True, False), repeat=3) if any(n)]
)
def test_any_inputs_are_packed_whatever_strides_they_have(
    opened: DeviceContext, packed: tuple[bool, bool, bool], dtype: str
):
    packing = Packing(0.5, missing=(7,))
    packings = [packing if one else None for one in packed]
    dtypes = [np.dtype(dtype if one else "f4") for one in packed]
    ops = [PRODUCTS.skipping()]
    bound = bind(ops, dtypes, exact=True, fp64=opened.device.fp64, packings=packings)
    for shape, (axes, own) in itertools.product(
        ("tree", "vectors"), [((0, 1, 2), (1,)), ((1, 2), (0,)), ((0,), (1, 2)), ((2,), ())]
    ):
        rng = np.random.default_rng(len(axes))
        owns = [(0, 1, 2), (0, 1, 2), own]
        arrays = [
            rng.integers(-9, 9, [SHAPE[a] for a in one]).astype(dtype)
            for one, dtype in zip(owns, dtypes, strict=True)
        ]
        part = box(SHAPE, axes, other_strides=[None, strides_along(SHAPE, own)])
        got = answer(opened, bound, shape, [upload(opened, array) for array in arrays], part)
        values = [
            array if one is None else one.values(array)
            for array, one in zip(arrays, packings, strict=True)
        ]
        whole = [*values[:2], np.broadcast_to(strided(values[2], own)[0], SHAPE)]
        want = ops[0].evaluate(*whole, axis=axes).reshape(-1)
        for name in want.dtype.names:
            assert got[name].tolist() == want[name].tolist(), (shape, axes, own, name)


@pytest.mark.unoptimised
def test_boxes_with_and_without_strides_go_into_one_partial(opened: DeviceContext):
    """As blocks of a mask that is constant in some of them."""
    bound = bound_products(opened)
    first, vector, mask = inputs((1,), (1, 2), seed=5)
    whole = [
        np.broadcast_to(strided(a, own)[0], SHAPE) for a, own in ((vector, (1,)), (mask, (1, 2)))
    ]
    want = PRODUCTS.evaluate(
        np.concatenate([first] * 2), *(np.concatenate([a] * 2) for a in whole), axis=0
    )
    plain = box(SHAPE, (0,))
    others = [strides_along(SHAPE, own) for own in ((1,), (1, 2))]
    apart = box(SHAPE, (0,), other_strides=others, index=first.size)
    assert (plain.other_offsets, apart.other_offsets) == ((), (0, 0))
    buffers = [upload(opened, a) for a in (first, vector, mask)]
    laid = [buffers[0], *(upload(opened, np.ascontiguousarray(a)) for a in whole)]
    accumulator = bound.accumulator.for_outputs(2)
    tuning = shaped(opened.device, accumulator, "tree")
    fold = Fold(opened, accumulator, tuning, plain.outputs)
    fold.add(laid, plain)
    fold.add(buffers, apart)
    got = bound.statistics[0].finish(fold.read_back())
    for name in got.dtype.names:
        assert got[name].tolist() == want[name].ravel().tolist(), name


def test_strides_that_are_the_firsts_own_are_none():
    own, offset = (64, 8, 1), 5
    same = box(
        (4, 4, 8), (0,), strides=own, offset=offset, other_strides=[None, own], other_offsets=[5, 5]
    )
    assert same == box((4, 4, 8), (0,), strides=own, offset=offset)
    moved = box(
        (4, 4, 8), (0,), strides=own, offset=offset, other_strides=[None], other_offsets=[6]
    )
    assert moved.other_offsets == (6,)
    main, rest = box((7, 2), (0,), other_strides=[(1, 0)]).cut_rows(3)
    assert (main.other_offsets, rest.other_offsets, rest.elements_per_output) == ((0,), (6,), 1)


def test_a_tuning_for_strides_is_tried_before_it_is_chosen(opened: DeviceContext):
    bound = bind([as_monoid("dot")], [np.dtype("f4")] * 2, fp64=opened.device.fp64)
    tuning = choose(opened.device, bound.accumulator, kernels=("flat",), strided=True)
    assert tuning.strided
    fold = Fold(opened, bound.accumulator, tuning)
    data = upload(opened, np.arange(50, dtype="f4"))
    fold.add([data, data], box((50,), (0,)))  # also of those that are as the first
    fold.add([data, data], box((50,), (0,), other_strides=[(0,)], other_offsets=[7]))
    got = bound.statistics[0].finish(fold.read_back())
    assert got.tolist() == [sum(n * n + 7 * n for n in range(50))]
