"""Which reductions need the index of the first of equal elements alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from chunkfold.kernels import Monoid, as_monoid, bind
from chunkfold.kernels.accumulator.indices import reads_index, takes_first
from chunkfold.kernels.expressions.library import where


def _of_those_above_3(x: Any, i: Any) -> Any:
    return where(x > 3, i, np.iinfo("i8").max)


def of_index(lift: Callable, op: str | Callable = "min", dtype: str = "int64") -> bool:
    """Say whether a reduction that reads the index takes the first of equal elements."""
    mine = Monoid("mine", fields={"n": dtype}, zero=0, lift=lift, op=op)
    (part,) = bind([mine], [np.dtype("f4")]).accumulator.components
    assert reads_index(part)
    return takes_first(part)


@pytest.mark.parametrize(
    "lift",
    [
        lambda x, i: i,
        lambda x, i: i.astype("uint64"),
        _of_those_above_3,
        lambda x, i: where(x > 3, 7, i),
        lambda x, i: where(x < 1, 5, where(x > 3, 9, i)),
    ],
)
def test_the_least_of_what_rises_with_the_index_is_the_first_s(lift: Callable):
    assert of_index(lift)


@pytest.mark.parametrize(
    ("lift", "op", "dtype"),
    [
        (lambda x, i: i, "max", "int64"),
        (lambda x, i: i, "add", "int64"),
        (lambda x, i: i, "min", "int32"),
        (lambda x, i: i.astype("int32"), "min", "int64"),
        (lambda x, i: i % 7, "min", "int64"),
        (lambda x, i: -i, "min", "int64"),
        (lambda x, i: -where(x > 0, 5, i), "min", "int64"),
        (lambda x, i: where(i > 9, 3, 5), "min", "int64"),
        (lambda x, i: where(x > 0, -i, 5), "min", "int64"),
        (_of_those_above_3, lambda a, b: where(a.n < b.n, a.n, b.n), "int64"),
    ],
)
def test_others_may_need_every_index(lift: Callable, op: str | Callable, dtype: str):
    assert not of_index(lift, op, dtype)


@pytest.mark.parametrize("op", ["argmin", "argmax", "nanargmin", "nanargmax", "sum", "minmax"])
@pytest.mark.parametrize("dtype", ["int16", "float32", "M8[s]"])
def test_the_catalogue_takes_the_first(op: str, dtype: str):
    if op == "sum" and dtype == "M8[s]":
        pytest.skip("it has none")
    assert bind([as_monoid(op)], [np.dtype(dtype)]).accumulator.takes_first


@pytest.mark.parametrize("dtypes", [("f4", "f4"), ("i8", "u8"), ("M8[s]", "M8[D]"), ("c8", "c8")])
def test_mismatches_are_the_first(dtypes: tuple[str, str]):
    pair = [np.dtype(dtype) for dtype in dtypes]
    bound = bind([as_monoid("first_mismatch")], pair)
    assert bound.accumulator.uses_index
    assert bound.accumulator.takes_first


def test_a_state_may_need_every_index():
    import chunkfold as cf

    way = cf.Accumulate(
        state={"n": "int64"},
        start={"n": 0},
        step=lambda s, x, i: {"n": s.n + i},
        end=lambda s: {"n": s.n},
    )
    mine = Monoid(
        "mine", fields={"n": "int64"}, zero=0, lift=lambda x, i: i, op="add", accumulate=way
    )
    assert not bind([mine], [np.dtype("f4")]).accumulator.takes_first
