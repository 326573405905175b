"""Which reductions need the index of the first of equal elements alone."""

from __future__ import annotations

import numpy as np
import pytest

from chunkfold.kernels import Monoid, as_monoid, bind
from chunkfold.kernels.indices import reads_index, takes_first


def of_index(lift: str, op: str = "min", dtype: str = "int64") -> bool:
    """Say whether a reduction that reads the index takes the first of equal elements."""
    mine = Monoid("mine", fields={"n": dtype}, zero=0, lift=lift, op=op)
    (part,) = bind([mine], [np.dtype("f4")]).accumulator.components
    assert reads_index(part)
    return takes_first(part)


@pytest.mark.parametrize(
    "lift",
    ["i", "(long)i", "x > 3 ? (long)i : LONG_MAX", "x > 3 ? 7 : i", "x < 1 ? 5 : x > 3 ? 9L : i"],
)
def test_the_least_of_what_rises_with_the_index_is_the_first_s(lift: str):
    assert of_index(lift)


@pytest.mark.parametrize(
    ("lift", "op", "dtype"),
    [
        ("(long)i", "max", "int64"),
        ("(long)i", "add", "int64"),
        ("(long)i", "min", "int32"),
        ("i % 7", "min", "int64"),
        ("-(long)i", "min", "int64"),
        ("-(x > 0 ? 5 : i)", "min", "int64"),
        ("i > 9 ? 3 : 5", "min", "int64"),
        ("x > 0 ? -i : 5", "min", "int64"),
        ("x > 3 ? (long)i : LONG_MAX", "a.n < b.n ? a.n : b.n", "int64"),
    ],
)
def test_others_may_need_every_index(lift: str, op: str, dtype: str):
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
        state={"n": "int64"}, start={"n": 0}, step={"n": "s.n + (long)i"}, end={"n": "s.n"}
    )
    mine = Monoid("mine", fields={"n": "int64"}, zero=0, lift="i", op="add", accumulate=way)
    assert not bind([mine], [np.dtype("f4")]).accumulator.takes_first
