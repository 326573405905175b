"""Weights that are computed of coordinates, as `cos(lat)`: in the grammar of conditions."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping

import numpy as np

from chunkfold.errors import MonoidError, PlanError
from chunkfold.kernels.expressions.evaluate import tree_values
from chunkfold.kernels.expressions.functions import BY_NAME
from chunkfold.kernels.expressions.nodes import input_node
from chunkfold.kernels.expressions.parsed import parsed
from chunkfold.kernels.expressions.symbols import Symbol
from chunkfold.sources.axis_names import Named
from chunkfold.sources.date_parts import DecodedArray
from chunkfold.sources.named_labels import coordinate_of, known_names

_OF_ANGLES = ("sin", "cos", "tan")
_MOST = 10
"""Coordinates of one text: the grammar names so many inputs."""
_IN_RADIANS = {"pi"}
"""A name by which a text says itself that an angle is in radians."""
_PARTS = (ast.BinOp, ast.BoolOp, ast.Call, ast.Compare, ast.Constant, ast.Name, ast.UnaryOp,
          ast.boolop, ast.cmpop, ast.expr_context, ast.operator, ast.unaryop)  # fmt: skip


def computed_weights(text: str, data: Named) -> DecodedArray | None:
    """Return what a text makes of coordinates beside data; None if it is none, but an address.

    Angles are in degrees, as those of the coordinates are, unless their units are radians.

    Raises
    ------
    PlanError
        If it names no coordinate, or one that is no number, or cannot be computed.
    """
    try:
        body = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    parts = list(ast.walk(body))
    calls = {one.func.id for one in parts if isinstance(one, ast.Call)
             and isinstance(one.func, ast.Name)}  # fmt: skip
    if not calls or not all(isinstance(one, _PARTS) for one in parts):
        return None
    if unknown := sorted(calls - {*BY_NAME}):
        raise PlanError(
            f"weights {text!r}: no function is called {unknown[0]!r}; use one of "
            f"{', '.join(sorted(BY_NAME))} (angles are in degrees)"
        )
    names = dict.fromkeys(one.id for one in parts if isinstance(one, ast.Name))
    held = {
        name: _numbers(text, name, data)
        for name in names
        if name not in calls | {"pi", "inf", "nan"}
    }
    if not 0 < len(held) <= _MOST:
        raise PlanError(f"weights {text!r}: name 1 to {_MOST} coordinates, as in 'cos(lat)'")
    dims = list(dict.fromkeys(dim for one in held.values() for dim in one.dims))
    values = _value(text, body, held, dims)
    return DecodedArray(text, tuple(dims), values, {})


def _numbers(text: str, name: str, data: Named) -> DecodedArray:
    found = coordinate_of(name, data)
    if found is None:
        raise PlanError(
            f"weights {text!r}: {name!r} is not a coordinate of {data.name}, which has "
            f"{known_names(data)}"
        )
    if found.values.dtype.kind not in "iuf" or None in found.dims:
        raise PlanError(
            f"weights {text!r}: {name!r} of {data.name} is {found.values.dtype} along "
            f"{found.dims}; weights are made of numbers whose axes have names"
        )
    missing = np.argwhere(np.isnan(found.values))
    if len(missing):
        raise PlanError(
            f"weights {text!r}: {name!r} of {data.name} is missing at index "
            f"{', '.join(map(str, missing[0]))}, because it holds NaN or its fill value; weights "
            "need all values: mend the coordinate, or give the weights as an array"
        )
    return found


def _value(
    text: str, body: ast.expr, held: Mapping[str, DecodedArray], dims: list[str | None]
) -> np.ndarray:
    """Return the value of a text, whose names become those that the grammar has for inputs."""
    inputs = {name: f"x{n}" for n, name in enumerate(held)}
    radians = {inputs[name] for name, one in held.items() if "rad" in str(one.attrs.get("units"))}
    radians |= _IN_RADIANS
    written = ast.unparse(_Written(inputs, radians).visit(body))
    leaves = [input_node(n, np.dtype(np.float64)) for n in range(len(held))]
    arrays = [_along(one, dims) for one in held.values()]
    try:
        root = parsed(written)(*map(Symbol, leaves)).node
        (values,) = tree_values([root], dict(zip(leaves, arrays, strict=True)))
    except MonoidError as error:
        raise PlanError(f"weights {text!r}: {error}") from None
    shape = np.broadcast_shapes(*(one.shape for one in arrays))
    return np.array(np.broadcast_to(values, shape), np.float64)


def _along(one: DecodedArray, dims: list[str | None]) -> np.ndarray:
    """Lay a coordinate along axes, in float64, with extents of 1 where it has none."""
    order = [dim for dim in dims if dim in one.dims]
    values = one.values.astype(np.float64).transpose([one.dims.index(dim) for dim in order])
    return np.expand_dims(values, [n for n, dim in enumerate(dims) if dim not in order])


class _Written(ast.NodeTransformer):
    """Names inputs, and makes radians of angles."""

    def __init__(self, inputs: Mapping[str, str], radians: set[str]) -> None:
        self._inputs, self._radians = inputs, radians

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self._inputs.get(node.id, node.id), ast.Load())

    def visit_Call(self, node: ast.Call) -> ast.Call:
        arguments = [self.visit(one) for one in node.args]
        assert isinstance(node.func, ast.Name)
        read = {one.id for part in arguments for one in ast.walk(part) if isinstance(one, ast.Name)}
        if node.func.id in _OF_ANGLES and not read & self._radians:
            scale = ast.Constant(math.pi / 180)
            arguments = [ast.BinOp(one, ast.Mult(), scale) for one in arguments]
        return ast.Call(node.func, arguments, node.keywords)
