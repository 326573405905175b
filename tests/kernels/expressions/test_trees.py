"""Rewriting keeps the value of trees, verifying finds mistakes, tables compile."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkfold.kernels import Device
from chunkfold.kernels.expressions import rewrite
from chunkfold.kernels.expressions.evaluate import tree_values
from chunkfold.kernels.expressions.library import (
    lookup,
    order_high,
    order_low,
    search,
    towards_zero,
)
from chunkfold.kernels.expressions.meanings import verify
from chunkfold.kernels.expressions.nodes import BOOL, Node, constant, input_node, node, walk
from tests.kernels.expressions.values import edges, on_device, symbol

I4 = np.dtype("i4")
OPS = ("add", "subtract", "multiply", "bitwise_and", "bitwise_or", "bitwise_xor", "minimum")


@st.composite
def trees(draw: st.DrawFn, depth: int = 4) -> Node:
    if depth == 0 or draw(st.booleans()):
        leaf = st.sampled_from([input_node(0, I4), *(constant(n, I4) for n in (0, 1, -1, 7))])
        return draw(leaf)
    a, b = draw(trees(depth=depth - 1)), draw(trees(depth=depth - 1))
    kind = draw(st.sampled_from([*OPS, "select", "invert", "cast"]))
    if kind == "select":
        return node("select", I4, node("less", BOOL, a, b), a, b)
    if kind == "invert":
        return node("invert", I4, a)
    if kind == "cast":
        return node("cast", I4, node("cast", np.dtype("i2"), a))
    return node(kind, I4, a, b)


def simplified(root: Node) -> Node:
    """Return a tree of which every node is made as operations make theirs."""
    done: dict[Node, Node] = {}
    for one in walk([root]):
        sources = (done[source] for source in one.sources)
        done[one] = rewrite.simplify(node(one.op, one.dtype, *sources, arg=one.arg))
    return done[root]


@given(trees())
def test_rewriting_keeps_the_value(tree: Node) -> None:
    a, x = np.array([-(2**31), -70000, -1, 0, 1, 5, 2**31 - 1], "i4"), input_node(0, I4)
    simple = simplified(tree)
    verify([tree, simple])
    (plain,), (other,) = tree_values([tree], {x: a}), tree_values([simple], {x: a})
    np.testing.assert_array_equal(np.broadcast_to(plain, a.shape), np.broadcast_to(other, a.shape))


@pytest.mark.parametrize(
    "wrong",
    [
        node("add", I4, constant(1, I4)),
        node("add", I4, constant(1, I4), constant(1, np.dtype("i8"))),
        node("add", np.dtype("i8"), constant(1, I4), constant(1, I4)),
        node("sqrt", I4, constant(1, I4)),
        node("less", I4, constant(1, I4), constant(1, I4)),
        node("bitcast", np.dtype("f8"), constant(1, I4)),
        node("no such", I4, constant(1, I4)),
        node("select", I4, constant(1, I4), constant(1, I4), constant(1, I4)),
        node("cast", np.dtype("f2"), constant(1, I4)),
    ],
)
def test_malformed_trees_are_found(wrong: Node) -> None:
    with pytest.raises(TypeError):
        verify([wrong])


@pytest.mark.parametrize("width", [0, 1, 4, 16])
def test_tables_are_read_by_scalars_and_lanes(device: Device, width: int) -> None:
    a = np.resize(edges("int16"), 48)
    x, keys = symbol(0, "int16"), np.array([-300, 0, 7, 3000], "int32")
    found = [
        lookup(np.array([1.5, -2.5, 4.0], "f4"), x, 9.0).node,
        search(keys, x.astype("i4")).node,
        search(keys, x.astype("i4"), (x.astype("f4") + 300) * np.float32(1e-3), 0.2).node,
    ]
    expected = tree_values(found[:2], {input_node(0, a.dtype): a})
    values = on_device(device, found, {0: a}, width)
    np.testing.assert_array_equal(values[0], expected[0])
    np.testing.assert_array_equal(values[1], expected[1])
    np.testing.assert_array_equal(values[2][a < -300], -1)


@pytest.mark.parametrize("width", [0, 1, 4])
@pytest.mark.parametrize("name", ["int8", "int32", "uint32", "int64", "uint64"])
def test_integers_are_rounded_towards_zero(device: Device, name: str, width: int) -> None:
    a = np.resize(edges(name), 48)
    tree = towards_zero(symbol(0, name)).node
    (value,) = tree_values([tree], {input_node(0, a.dtype): a})
    exact = [(abs(int(v)), abs(int(f))) for v, f in zip(a.tolist(), value.tolist(), strict=True)]
    assert all(near <= whole for whole, near in exact)
    assert all(whole - near <= whole * 2.0**-23 for whole, near in exact)
    np.testing.assert_array_equal(on_device(device, [tree], {0: a}, width)[0], value)


@pytest.mark.parametrize("name", ["float32", "float64", "int8", "uint64", "bool"])
@pytest.mark.parametrize("key", [order_low, order_high])
def test_keys_sort_like_values(device: Device, name: str, key: object) -> None:
    if name == "float64" and not device.fp64:
        return
    a = edges(name)
    tree = key(symbol(0, name)).node  # type: ignore[operator]
    (keys,) = tree_values([tree], {input_node(0, a.dtype): a})
    positive = ~np.signbit(a) if a.dtype.kind == "f" else a
    sorted_keys = keys[np.lexsort((positive, a))]
    plain = ~np.isnan(np.sort(a)) if a.dtype.kind == "f" else slice(None)
    assert (np.diff(sorted_keys[plain].astype(object)) >= 0).all()
    padded = np.resize(a, 48)
    np.testing.assert_array_equal(on_device(device, [tree], {0: padded}, 4)[0], np.resize(keys, 48))
