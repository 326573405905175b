"""Nodes exist once, live as long as they are held, and travel."""

from __future__ import annotations

import gc
import pickle

import numpy as np

from chunkfold.kernels.expressions import nodes
from chunkfold.kernels.expressions.nodes import constant, flat, input_node, walk
from chunkfold.kernels.expressions.symbols import Symbol

F8 = np.dtype("f8")


def tree() -> nodes.Node:
    x = Symbol(input_node(0, F8))
    return ((x + 1) * (x + 1)).node


def test_equal_trees_are_one_object() -> None:
    assert tree() is tree()
    assert len(list(walk([tree()]))) == 4  # x, 1, the sum once, the product


def test_constants_are_told_apart_by_their_bits() -> None:
    assert constant(0.0, F8) is not constant(-0.0, F8)
    assert constant(np.nan, F8) is constant(np.nan, F8)
    assert constant(1, F8) is not constant(1, np.dtype("i8"))


def test_nodes_are_the_same_objects_after_a_journey() -> None:
    made = tree()
    assert pickle.loads(pickle.dumps(made)) is made
    rows = flat([made])
    assert all(number < at for at, row in enumerate(rows) for number in row[2])


def test_nodes_live_as_long_as_they_are_held() -> None:
    made = (Symbol(input_node(0, F8)) * 123.456).node
    key = ("multiply", made.dtype.str, made.sources, None)
    assert nodes._made.get(key) is made
    del made
    gc.collect()
    assert nodes._made.get(key) is None
