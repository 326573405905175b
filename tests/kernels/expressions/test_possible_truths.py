"""Possible truths hold every truth that a condition has, and no other where that is plain."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkfold.kernels import bind
from chunkfold.kernels.expressions.evaluate import tree_values
from chunkfold.kernels.expressions.nodes import Node, walk
from chunkfold.kernels.expressions.possible_truths import BOTH, possible_truths
from chunkfold.planning.options import Options

NUMBERS = st.sampled_from([-3, -1, 0, 1, 2.5, 3, 7])
COMPARED = st.builds(
    lambda op, number, turned: f"{number} {op} x" if turned else f"x {op} {number}",
    st.sampled_from(["<", "<=", ">", ">=", "==", "!="]),
    NUMBERS,
    st.booleans(),
)
OTHER = st.sampled_from(["isnan(x)", "not isnan(x)", "abs(x) > 2", "x * x < 4", "-x > 1"])
CONDITIONS = st.recursive(
    COMPARED | OTHER,
    lambda inner: st.one_of(
        st.builds("({} and {})".format, inner, inner),
        st.builds("({} or {})".format, inner, inner),
        st.builds("not ({})".format, inner),
    ),
    max_leaves=5,
)
ELEMENTS = st.lists(st.sampled_from([-4, -3, -1, 0, 1, 2, 3, 5, 8]), min_size=1, max_size=6)


def ignored(condition: str, dtype: str, *, skipna: bool = False) -> Node:
    """Return the tree that says of an element that it does not meet a condition."""
    monoids = Options(op="max", where=condition, skipna=skipna).monoids
    (component, *_) = bind(monoids, [np.dtype(dtype)]).accumulator.components
    assert component.ignored is not None
    return component.ignored


def truths(tree: Node, x: np.ndarray) -> set[bool]:
    (leaf,) = {one for one in walk([tree]) if one.op == "input"} or {None}
    found = tree_values([tree], {leaf: x} if leaf else {})[0]
    return {*np.broadcast_to(found, x.shape).tolist()}


@given(CONDITIONS, ELEMENTS, st.sampled_from(["f4", "f8", "i2", "i8"]), st.booleans())
def test_every_truth_that_a_condition_has_is_possible(condition, elements, dtype, nan):
    if dtype[0] == "i" and "isnan" in condition:
        return
    x = np.array(elements, dtype)
    tree, low, high = ignored(condition, dtype), x.min(), x.max()
    if nan and dtype[0] == "f":
        x = np.append(x, np.nan).astype(dtype)
    assert truths(tree, x) <= possible_truths(tree, low, high)


@pytest.mark.parametrize(
    ("condition", "low", "high", "possible"),
    [
        ("x > 3", 0, 3, {True}),
        ("x > 3", 0, 4, BOTH),
        ("x > 3", 4, 9, BOTH),  # it may be NaN, which is not above 3
        ("x >= 3", 0, 2, {True}),
        ("x < 3", 3, 9, {True}),
        ("0 < x < 1", 1, 5, {True}),
        ("x == 3", 4, 5, {True}),
        ("x != 3", 3, 3, BOTH),
        ("x > 3 or x < -3", -3, 3, {True}),
        ("x > 3 and not isnan(x)", 0, 2, {True}),
        ("not (x <= 3)", 0, 3, BOTH),
        ("abs(x) > 3", 0, 1, BOTH),
        ("x > 3", np.nan, np.nan, {True}),
    ],
)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_elements_that_cannot_meet_a_condition_are_known(condition, low, high, possible, dtype):
    ends = (np.dtype(dtype).type(one) for one in (low, high))
    assert possible_truths(ignored(condition, dtype), *ends) == possible


def test_elements_that_are_not_nan_are_known_of_integers():
    assert possible_truths(ignored("x > 3", "i2"), np.int16(4), np.int16(9)) == {False}
    assert possible_truths(ignored("x > 3.5", "i2"), np.int16(0), np.int16(3)) == {True}


def test_elements_that_are_left_out_are_no_trouble():
    tree = ignored("x > 3", "f4", skipna=True)
    assert possible_truths(tree, np.float32(0), np.float32(2)) == {True}
    assert possible_truths(tree, np.float32(0), np.float32(4)) == BOTH
