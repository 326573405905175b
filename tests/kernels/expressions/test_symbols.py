"""Python on symbols: what makes a tree, and what is refused because it would silently not."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from chunkfold.kernels.expressions.evaluate import tree_values
from chunkfold.kernels.expressions.library import as_symbol, lookup, real, search, where, wide
from chunkfold.kernels.expressions.nodes import BOOL, input_node
from chunkfold.kernels.expressions.operations import has_float64
from chunkfold.kernels.expressions.symbols import ComplexSymbol, Symbol
from tests.kernels.expressions.values import symbol

TWO = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
       operator.lshift, operator.rshift, operator.and_, operator.or_, operator.xor, operator.lt,
       operator.le, operator.gt, operator.ge, operator.eq, operator.ne]  # fmt: skip
ONE = [operator.neg, operator.pos, operator.abs, operator.invert]


def value(tree: Symbol, *arrays: np.ndarray) -> np.ndarray:
    leaves = {input_node(n, array.dtype): array for n, array in enumerate(arrays)}
    return tree_values([tree.node], leaves)[0]


@pytest.mark.parametrize("apply", TWO)
@pytest.mark.parametrize("other", [3, np.int32(3), np.array(3, "int64")[()]])
def test_operators_take_numbers_on_either_side(apply: Callable[..., Any], other: Any) -> None:
    a = np.arange(-5, 9, dtype="int32")
    for tree, expected in (
        (apply(symbol(0, "int32"), other), apply(a, other)),
        (apply(other, symbol(0, "int32")), apply(other, a)),
    ):
        assert tree.dtype == expected.dtype
        np.testing.assert_array_equal(value(tree, a), expected)


@pytest.mark.parametrize("apply", ONE)
def test_operators_of_one(apply: Callable[..., Any]) -> None:
    a = np.arange(-5, 9, dtype="int64")
    np.testing.assert_array_equal(value(apply(symbol(0, "int64")), a), apply(a))


@pytest.mark.parametrize("power", [0, 1, 2, 3, 7, 0.5, -1.5])
def test_powers(power: float) -> None:
    a = np.array([0.5, 1.0, 2.0, 9.0])
    np.testing.assert_allclose(value(symbol(0, "float64") ** power, a), a**power, rtol=1e-15)


@pytest.mark.parametrize(
    ("use", "says"),
    [
        (lambda x: 1 if x > 0 else 2, "cf.where"),
        (lambda x: 0 < x < 1, r"\(0 < x\) & \(x < 1\)"),
        (lambda x: x and 1, "&"),
        (lambda x: min(x, 3), "np.minimum"),
        (int, "astype"),
        (float, "astype"),
        (math.exp, "np.exp"),
        (complex, "parts"),
        (len, "one element"),
        (list, "iterate"),
        (lambda x: x[0], "a.name"),
        (lambda x: [1, 2][x], "cf.lookup"),
        (lambda x: 1 in x, r"\|"),
        (lambda x: x in (1, 2), "&"),
        (round, "np.rint"),
        (math.floor, "np.floor"),
        (math.ceil, "np.ceil"),
        (math.trunc, "np.trunc"),
        (lambda x: divmod(x, 2), "//"),
        (lambda x: x @ x, r"\*"),
        (np.asarray, "not an array"),
        (lambda x: np.convolve(x, x), "np.convolve"),
        (lambda x: np.gcd(x, x), "np.gcd"),
        (np.add.reduce, ".reduce"),
        (lambda x: np.add(x, x, out=None, where=True), "where"),
        (lambda x: x + 2**40, "int64"),
        (lambda x: x + "1", "str"),
        (lambda x: x & 0.5, "bitwise_and"),
        (lambda x: x**-1, "0 or more"),
        (lambda x: x == "a", "compared with symbols and numbers, not with 'a'"),
        (lambda x: x != None, "compared with symbols and numbers, not with None"),  # noqa: E711
        (lambda x: x == [1], "compared with symbols and numbers"),
        (lambda x: where(x > 0, None, 1), "None is neither a symbol nor a number"),
        (lambda x: as_symbol([1], x.dtype), r"\[1\] is neither a symbol nor a number"),
        (lambda x: as_symbol(np.array([1, 2]), x.dtype), "neither a symbol nor a number"),
    ],
)
def test_what_would_mean_something_else_is_refused(use: Callable[[Any], Any], says: str) -> None:
    with pytest.raises(TypeError, match=says):
        use(symbol(0, "int32"))


@pytest.mark.parametrize(
    "use", [*(lambda x, do=do: do(x, 2) for do in TWO), *ONE, np.exp, lambda x: 1j * x, bool]
)
def test_complex_symbols_say_that_they_have_parts(use: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match=r"compute with x\.real and x\.imag"):
        use(ComplexSymbol(symbol(0, "float32"), symbol(1, "float32")))


def test_equality_makes_a_node_and_hashing_works() -> None:
    x = symbol(0, "float32")
    assert (x == 0).dtype == BOOL
    assert {x: 1}[x] == 1


def test_numpys_functions_take_symbols() -> None:
    x, a = symbol(0, "float64"), np.array([-1.0, 0.25, 4.0])
    tree = np.where(np.isnan(x) | (x < 0), 0, np.clip(np.sqrt(np.abs(x)), 0.1, 1.5))
    np.testing.assert_array_equal(value(tree, a), [0, 0.5, 1.5])


@pytest.mark.parametrize(
    ("number", "apply", "expected"),
    [(300, operator.lt, True), (-1, operator.lt, False), (300, operator.eq, False),
     (-1, operator.ge, True), (300, operator.ne, True)],
)  # fmt: skip
def test_comparisons_with_numbers_beyond_the_dtype_are_exact(
    number: int, apply: Callable[..., Any], expected: bool
) -> None:
    a = np.array([0, 1, 255], "uint8")
    assert value(apply(symbol(0, "uint8"), number), a).tolist() in ([expected] * 3, expected)
    assert (apply(number, a) == value(apply(number, symbol(0, "uint8")), a)).all()


def test_a_float_literal_promotes_an_integer() -> None:
    assert (symbol(0, "int32") * 0.5).dtype == np.float64


def test_devices_without_float64_compute_in_float32() -> None:
    held = has_float64.set(False)
    try:
        assert wide(symbol(0, "float32")).dtype == real(symbol(0, "int32")).dtype == np.float32
    finally:
        has_float64.reset(held)


def test_lookups_outside_the_table_give_the_default() -> None:
    a = np.array([-1, 0, 2, 3, 99], "int16")
    assert value(lookup([5, 6, 7], symbol(0, "int16"), -9), a).tolist() == [-9, 5, 7, -9, -9]


def test_truths_are_looked_up_as_truths() -> None:
    a = np.array([-1, 0, 2, 3], "int16")
    for default in (True, False):
        tree = lookup([True, False, True], symbol(0, "int16"), default)
        assert tree.dtype == BOOL
        assert value(tree, a).tolist() == [default, True, True, default]


def test_searches_find_the_last_key_that_is_reached() -> None:
    keys, a = np.array([0, 3, 3, 9], "int32"), np.array([-1, 0, 3, 8, 9, 99], "int32")
    assert value(search(keys, symbol(0, "int32")), a).tolist() == [-1, 0, 2, 2, 3, 3]


def test_symbols_print_as_expressions() -> None:
    x = symbol(0, "float64")
    assert repr(where(x > 300, x * 2 + 1, -x)) == "where((x > 300.0), (x * 2.0 + 1.0), -x)"


def test_what_is_used_often_is_shown_once() -> None:
    x = symbol(0, "float64")
    far = np.abs(x - 280) ** 2
    assert (
        repr(far * far + far) == "(t0 * t0) * (t0 * t0) + t0 * t0, with t0 = absolute((x - 280.0))"
    )
    for _ in range(60):
        x = x * x + x
    assert len(repr(x)) < 5000


def test_long_chains_are_made_in_little_time() -> None:
    x = symbol(0, "int32")
    for _ in range(20_000):
        x = x + 1
    assert value(x, np.array([1], "int32")).tolist() == [20_001]
