"""Conditions as text mean what NumPy means by them, and nothing is evaluated by Python."""

from __future__ import annotations

import numpy as np
import pytest

from chunkfold.errors import MonoidError
from chunkfold.kernels.expressions.evaluate import tree_values
from chunkfold.kernels.expressions.nodes import input_node
from chunkfold.kernels.expressions.parsed import parsed
from tests.kernels.expressions.values import symbol

A = np.array([-2.5, -1.0, 0.0, 0.5, 3.0, 300.0, np.nan], "f4")


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("x > 0", lambda x: x > 0),
        ("0 < x <= 300", lambda x: (x > 0) & (x <= 300)),
        ("not isnan(x) and (x < 0 or x == 3)", lambda x: ~np.isnan(x) & ((x < 0) | (x == 3))),
        ("~(x > 0) & (x != -1)", lambda x: ~(x > 0) & (x != -1)),
        ("abs(x - 0.5) * 2 < 1 + 2 ** 3", lambda x: abs(x - 0.5) * 2 < 9),
        ("np.floor(x) % 2 == 1", lambda x: np.floor(x) % 2 == 1),
        ("  x == x ", lambda x: x == x),
        ("x < inf", lambda x: x < np.inf),
        ("x", lambda x: x != 0),
    ],
)
def test_texts_mean_what_they_say(text: str, means: object) -> None:
    tree = parsed(text)(symbol(0, "float32")).astype(bool).node
    (found,) = tree_values([tree], {input_node(0, A.dtype): A})
    np.testing.assert_array_equal(found, means(A))  # type: ignore[operator]


def test_inputs_have_numbers() -> None:
    tree = parsed("x0 < x1")(symbol(0, "int8"), symbol(1, "int8")).node
    pair = (np.array([1, 2], "i1"), np.array([2, 1], "i1"))
    leaves = {input_node(n, np.dtype("i1")): array for n, array in enumerate(pair)}
    assert tree_values([tree], leaves)[0].tolist() == [True, False]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import os", "not a condition"),
        ("__import__('os').remove('x')", "not supported|does not contain"),
        ("x.__class__ == 1", "not supported"),
        ("[x for x in x]", "not supported"),
        ("(lambda: x)()", "not supported|calls"),
        ("open(x) > 1", "calls 'open'"),
        ("x > 'a'", "not a number"),
        ("x > z", "elements are called x"),
        ("3 > 2", "does not contain x"),
        ("x in (1, 2)", "not supported|`in`"),
        ("x is 1", "`in` or `is`"),
        ("abs(x", "not a condition"),
        ("x if x else 1", "not supported"),
        ("(y := x) > 1", "not supported"),
        ("clip(x, a_min=1) > 2", "calls"),
        ("", "not a condition"),
        ("x > 1" + " + 1" * 400, "characters"),
    ],
)
def test_anything_else_is_refused(text: str, says: str) -> None:
    with pytest.raises(MonoidError, match=says):
        parsed(text)


def test_numbers_alone_do_not_run_away() -> None:
    with pytest.raises(MonoidError, match="out of range"):
        parsed("x > 9 ** 9 ** 9")(symbol(0, "int32"))


def test_more_inputs_than_there_are_is_said_so() -> None:
    with pytest.raises(MonoidError, match="reads x1, but the reduction has 1 inputs"):
        parsed("x1 > 2")(symbol(0, "int32"))


def test_integers_are_exact() -> None:
    a = np.array([0, 2**53, 2**53 + 1, 2**63], "u8")
    tree = parsed("x > 2 ** 53 and x < 1 << 64")(symbol(0, "uint64")).node
    assert tree_values([tree], {input_node(0, a.dtype): a})[0].tolist() == [
        False,
        False,
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [("minimum(x) > 0", "does not take 1"), ("x > 0 & x < 1", r"\(x > 0\) & \(x < 1\)")],
)
def test_common_slips_are_told_with_the_remedy(text: str, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        parsed(text)(symbol(0, "float64"))
