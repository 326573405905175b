"""Arithmetic and comparisons of nodes, as NumPy promotes their dtypes."""

from __future__ import annotations

import numpy as np

from chunkfold.kernels.expressions.nodes import Node
from chunkfold.kernels.expressions.operations import (
    Operand,
    as_node,
    common,
    comparison,
    logical,
    made,
    operation,
)


def divide(a: Operand, b: Operand) -> Node:
    """Divide as floats, integers as float64."""
    dtype = common(a, b)
    dtype = dtype if dtype.kind == "f" else np.dtype(np.float64)
    return made("divide", dtype, as_node(a, dtype), as_node(b, dtype))


add, multiply = logical("add", "bitwise_or"), logical("multiply", "bitwise_and")
subtract = operation("subtract")
equal, not_equal = comparison("equal"), comparison("not_equal")
less, less_equal = comparison("less"), comparison("less_equal")
greater, greater_equal = comparison("greater"), comparison("greater_equal")
