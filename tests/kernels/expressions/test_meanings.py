"""The table of meanings, row by row: evaluation and every device have NumPy's value."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from chunkfold.kernels import Device
from chunkfold.kernels.expressions.evaluate import tree_values
from chunkfold.kernels.expressions.functions import BY_NAME
from chunkfold.kernels.expressions.meanings import MEANINGS, verify
from chunkfold.kernels.expressions.nodes import Node, input_node, walk
from chunkfold.kernels.expressions.symbols import applied
from tests.conftest import ALL_SHAPES
from tests.kernels.expressions.values import DTYPES, edges, on_device, pairs, symbol

UNARY = ("square", "negative", "absolute", "sign", "invert", "isnan", "isfinite", "isinf",
         "signbit", "floor", "ceil", "trunc", "rint", "sqrt", "exp", "exp2", "expm1", "log",
         "log2", "log10", "log1p", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh",
         "cosh", "tanh", "fabs", "logical_not", "positive")  # fmt: skip
BINARY = ("add", "subtract", "multiply", "divide", "floor_divide", "remainder", "power",
          "left_shift", "right_shift", "bitwise_and", "bitwise_or", "bitwise_xor",
          "logical_and", "logical_or", "logical_xor", "equal", "not_equal", "less",
          "less_equal", "greater", "greater_equal", "minimum", "maximum", "fmin", "fmax",
          "hypot", "arctan2", "copysign", "fmod")  # fmt: skip
SAME_AS = {"true_divide", "mod", "abs", "bitwise_invert", "where", "clip"}
"""Other names of these, and what has tests of its own."""
LIBRARY = {"sqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan",
           "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "hypot", "arctan2",
           "power"}  # fmt: skip
WIDTHS = [0, 1, 2, 4, 8, 16] if ALL_SHAPES else [0, 1, 16]
"""Values at a time; 0 is one, as scalars."""
MIXED = [("int64", "uint64"), ("uint64", "int8"), ("int32", "uint8"), ("float32", "int32"),
         ("float64", "float32"), ("bool", "int16")]  # fmt: skip


def test_every_function_is_tried() -> None:
    assert set(BY_NAME) == {*UNARY, *BINARY, *SAME_AS}


@functools.cache
def rows(first: str, second: str) -> list[tuple[str, Node, np.ndarray]]:
    """Return each function that has a meaning for two dtypes, its tree, and NumPy's value."""
    x, y = symbol(0, first), symbol(1, second)
    a, b = pairs(first, second)
    found = []
    with np.errstate(all="ignore"):
        for name in (*UNARY, *BINARY) if first == second else BINARY:
            operands = (x, y) if name in BINARY else (x,)
            try:
                tree = applied(name, *operands).node
            except TypeError:
                continue
            arrays = (a, b) if name in BINARY else (a,)
            found.append((name, tree, np.asarray(_numpy(name, tree, *arrays))))
    return found


def _numpy(name: str, tree: Node, *arrays: np.ndarray) -> np.ndarray:
    """Return NumPy's value, of float32 where NumPy would make a float16 of integers."""
    function: Callable[..., np.ndarray] = getattr(np, name)
    value = function(*arrays)
    if value.dtype == np.float16:
        value = function(*(array.astype(tree.dtype) for array in arrays))
        value = value.astype(tree.dtype)
    return value


def kinds() -> Iterator[tuple[str, str]]:
    yield from ((name, name) for name in DTYPES)
    yield from MIXED


@pytest.mark.parametrize(("first", "second"), list(kinds()))
def test_dtypes_and_values_are_numpys(first: str, second: str) -> None:
    a, b = pairs(first, second)
    leaves = {input_node(0, a.dtype): a, input_node(1, b.dtype): b}
    found = rows(first, second)
    verify([tree for _, tree, _ in found])
    assert len(found) > 15
    for (name, tree, expected), value in zip(
        found, tree_values([tree for _, tree, _ in found], leaves), strict=True
    ):
        assert tree.dtype == expected.dtype, (name, tree.dtype, expected.dtype)
        assert value.dtype == expected.dtype, name
        np.testing.assert_array_equal(value, expected, err_msg=name)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("first", "second"), list(kinds()))
def test_devices_agree(device: Device, first: str, second: str, width: int) -> None:
    a, b = pairs(first, second)
    found = [row for row in rows(first, second) if device.fp64 or not _needs_fp64(row[1])]
    if width not in (0, 2):  # what is OpenCL's own function takes long to compile
        found = [row for row in found if row[0] not in LIBRARY]
    values = on_device(device, [tree for _, tree, _ in found], {0: a, 1: b}, width)
    for (name, tree, expected), value in zip(found, values, strict=True):
        bad = _differs(name, tree, value, expected, a, b, fp64=device.fp64)
        at = np.flatnonzero(bad)[:4]
        assert not at.size, (name, a[at], b[at], "device", value[at], "numpy", expected[at])


def hard_to_divide() -> tuple[np.ndarray, np.ndarray]:
    """Return float32 of all sizes, and those whose quotients are next to ties."""
    rng = np.random.default_rng(1)
    a, b = (np.ldexp(rng.uniform(1, 2, 4096), rng.integers(-50, 50, 4096)) for _ in range(2))
    a[:2048] = np.trunc(rng.uniform(2**23, 2**24, 2048)) * np.exp2(rng.integers(-9, 9, 2048))
    b[:2048] = np.trunc(rng.uniform(1, 2**24, 2048))
    near = a[2048:3072].astype("f4").astype("f8")
    a[2048:3072] = (near + np.spacing(near.astype("f4")) / 2) * b[2048:3072].astype("f4")
    return tuple(np.resize([*x, *y], 5120).astype("f4") for x, y in
                 zip((a, b), pairs("float32", "float32"), strict=True))  # fmt: skip


@pytest.mark.parametrize("width", [0, 8])
@pytest.mark.parametrize("without", [(), ("rounded_division",)])
def test_float32_is_divided_and_rooted_as_numpy_does(
    device: Device, without: tuple[str, ...], width: int
) -> None:
    """Whether the compiler is asked for it, or it is done in float64."""
    one = replace(device, without=frozenset(without))
    x, y = symbol(0, "float32"), symbol(1, "float32")
    a, b = hard_to_divide()
    trees = [(x / y).node, np.sqrt(x).node, (x / 3).node, (1 / np.sqrt(abs(y))).node]
    with np.errstate(all="ignore"):
        wanted = [a / b, np.sqrt(a), a / np.float32(3), 1 / np.sqrt(abs(b))]
    got = on_device(one, trees, {0: a, 1: b}, width)
    for tree, value, expected in zip(trees, got, wanted, strict=True):
        bad = _differs("", tree, value, expected, a, b, fp64=one.fp64)
        at = np.flatnonzero(bad)[:4]
        assert not at.size, (tree, a[at], b[at], "device", value[at], "numpy", expected[at])


def _needs_fp64(tree: Node) -> bool:
    return any(one.dtype == np.float64 for one in walk([tree]))


def _differs(
    name: str,
    tree: Node,
    value: np.ndarray,
    expected: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    *,
    fp64: bool,
) -> np.ndarray:
    """Return where values differ by more than OpenCL allows; subnormals may be flushed."""
    same = np.asarray(value == expected)
    if value.dtype.kind != "f":
        return ~same & ~_flushed(a) & ~_flushed(b)
    same |= np.isnan(value) & np.isnan(expected)
    allowed = sum(
        MEANINGS[one.op].error(one.dtype, fp64=fp64) for one in walk([tree]) if one.op in MEANINGS
    )
    with np.errstate(all="ignore"):
        near = np.abs(value - expected) <= (allowed + 1) * np.spacing(np.abs(expected))
    tiny = np.finfo(expected.dtype).tiny
    flushed = _flushed(a) | _flushed(b) | ((np.abs(expected) < tiny) & (np.abs(value) < 2 * tiny))
    return ~same & ~(near & (allowed > 0)) & ~flushed


def _flushed(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind != "f":
        return np.zeros(array.shape, bool)
    return (array != 0) & (np.abs(array) <= np.finfo(array.dtype).tiny)


@pytest.mark.parametrize("given", DTYPES)
def test_conversions(device: Device, given: str) -> None:
    """Integers wrap, floats saturate, NaN gives 0."""
    a = np.resize(edges(given), 48)
    names = [to for to in DTYPES if device.fp64 or "float64" not in (given, to)]
    trees = [symbol(0, given).astype(to).node for to in names]
    found = tree_values(trees, {input_node(0, a.dtype): a})
    for to, expected in zip(names, found, strict=True):
        if not (a.dtype.kind == "f" and np.dtype(to).kind in "iu"):
            with np.errstate(all="ignore"):
                np.testing.assert_array_equal(expected, a.astype(to))
            continue
        inside = np.isfinite(a) & (np.abs(a) < 100) & ((a >= 0) | (np.dtype(to).kind == "i"))
        np.testing.assert_array_equal(expected[inside], a[inside].astype(to))
        assert set(expected[a == np.inf]) == {np.iinfo(to).max}
        assert set(expected[np.isnan(a)]) == {0}
    for width in WIDTHS:
        values = on_device(device, trees, {0: a}, width)
        for to, value, expected in zip(names, values, found, strict=True):
            bad = (value != expected) & ~(np.isnan(expected) & np.isnan(value)) & ~_flushed(a)
            assert not bad.any(), (width, to, a[bad], value[bad], expected[bad])
