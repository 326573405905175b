"""Components by NumPy: lift, op and streams of elements, as their trees say it.

What kernels do to many elements is done here to arrays of them: laws are tried with it, and kernels
compared with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.accumulator.component import Component, NamedTrees
from chunkfold.kernels.dtypes import literal_value
from chunkfold.kernels.expressions.evaluate import compiled, tree_values
from chunkfold.kernels.expressions.nodes import (
    INDEX,
    Node,
    constant_value,
    field_node,
    input_node,
    walk,
)
from chunkfold.kernels.expressions.operations import cast

Values = Mapping[str, np.ndarray]
"""An array for each field."""


def elements_of(accumulator: Accumulator, rows: Sequence[np.ndarray]) -> dict[Node, np.ndarray]:
    """Return what elements are to trees, given how they stand in memory."""
    leaves: dict[Node, np.ndarray] = {}
    for number, row in enumerate(rows):
        value = _value(accumulator, number, row)
        if value.dtype.kind == "c":
            leaves[input_node(number, value.real.dtype, "re")] = value.real
            leaves[input_node(number, value.real.dtype, "im")] = value.imag
        else:
            leaves[input_node(number, value.dtype)] = value
    leaves[INDEX] = np.arange(len(rows[0]), dtype=np.int64)
    return leaves


def _value(accumulator: Accumulator, number: int, row: np.ndarray) -> np.ndarray:
    stored, name = accumulator.stored[number], accumulator.value[number]
    held = row.byteswap() if accumulator.swapped[number] else row
    if stored == "bfloat16":
        held = (held.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    elif stored == "time":
        held = held.view(np.int64)
    wanted = np.dtype({"bfloat16": "float32", "time": "int64"}.get(name, name))
    packing = accumulator.packings[number]
    if packing is not None:
        held = packing.unpacked(held.view(stored), wanted)
    elif wanted.kind in "iu" and held.dtype.kind == "f":
        source = input_node(0, held.dtype)
        (held,) = compiled([cast(source, wanted)], [source])(held)
    held = held.astype(wanted)
    return held.astype(np.float32) if wanted == np.float16 else held


class Reference:
    """One component, folded by NumPy; arrays hold an accumulator or a state in each place."""

    def __init__(self, part: Component) -> None:
        self.part = part
        self.fields = {f.name: np.dtype(f.dtype) for f in part.fields}
        state = part.state
        self.state = {name: np.dtype(d) for name, d in state.dtypes.items()} if state else {}
        self._of: dict[tuple[object, ...], Any] = {}

    def zero(self, count: int) -> dict[str, np.ndarray]:
        """Return accumulators of nothing."""
        return {
            f.name: np.full(count, literal_value(f.zero, f.dtype), f.dtype)
            for f in self.part.fields
        }

    def start(self, count: int) -> dict[str, np.ndarray]:
        """Return states of nothing."""
        assert self.part.state is not None
        return {
            name: np.full(count, literal_value(start, dtype), dtype)
            for name, dtype, start in self.part.state.fields
        }

    def lift(self, elements: Mapping[Node, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the accumulator of each element; of those that are ignored zero."""
        count = len(elements[INDEX])
        made = tree_values([field.lift for field in self.part.fields], elements)
        lifted = {
            name: np.broadcast_to(array, count).copy()
            for name, array in zip(self.fields, made, strict=True)
        }
        if self.part.ignored is None:
            return lifted
        (ignored,) = tree_values([self.part.ignored], elements)
        zero = self.zero(count)
        return {name: np.where(ignored, zero[name], array) for name, array in lifted.items()}

    @cached_property
    def _op(self) -> Any:
        leaves = [field_node(side, name, d) for side in "ab" for name, d in self.fields.items()]
        return compiled([f.op_tree for f in self.part.fields], leaves)

    def op(self, a: Values, b: Values) -> dict[str, np.ndarray]:
        """Combine accumulators, place by place."""
        made = self._op(*(a[name] for name in self.fields), *(b[name] for name in self.fields))
        return dict(zip(self.fields, made, strict=True))

    def _of_states(self, trees: NamedTrees, **held: Values) -> dict[str, np.ndarray]:
        """Return the values of trees that read states, by the names that they have for them."""
        leaves = {
            field_node(side, name, dtype): values[name]
            for side, values in held.items()
            for name, dtype in self.state.items()
        }
        count, key = len(next(iter(leaves.values()))), (trees, *held)
        if key not in self._of:
            self._of[key] = compiled([tree for _, tree in trees], list(leaves))
        made = self._of[key](*leaves.values())
        return {
            name: np.broadcast_to(array, count)
            for (name, _), array in zip(trees, made, strict=True)
        }

    @cached_property
    def _taking(self) -> tuple[list[Node], list[tuple[str, NamedTrees, Any]]]:
        """Return the leaves of elements that a step reads, and what it does in order."""
        state = self.part.state
        assert state is not None
        read = [one for one in walk(self.part.of_elements) if one.op in ("input", "index")]
        fields = [field_node("s", name, dtype) for name, dtype in self.state.items()]
        phases = (("first", state.first), ("step", state.step), ("carry", state.carry))
        return read, [
            (phase, trees, compiled([tree for _, tree in trees], [*fields, *read]))
            for phase, trees in phases
            if trees
        ]

    @cached_property
    def _mask(self) -> Any:
        """Function that tells from the leaves of a step whether an element is missing."""
        assert self.part.ignored is not None
        return compiled([self.part.ignored], self._taking[0])

    def step(
        self, state: Values, begun: np.ndarray, elements: Mapping[Node, np.ndarray]
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Take in an element in each place, but for those that are ignored.

        `begun` says where there was one before; returns the states, and where there is one now.
        """
        read, phases = self._taking
        given = [elements[leaf] for leaf in read]
        now = dict(state)
        for phase, trees, values in phases:
            made = values(*(now[name] for name in self.state), *given)
            for (name, _), array in zip(trees, made, strict=True):
                fresh = np.broadcast_to(array, begun.shape)
                now[name] = np.where(begun, now[name], fresh) if phase == "first" else fresh
        if self.part.ignored is None:
            return now, np.ones_like(begun)
        (ignored,) = self._mask(*given)
        kept = {name: np.where(ignored, state[name], now[name]) for name in now}
        return kept, begun | ~np.broadcast_to(ignored, begun.shape)

    def end(self, state: Values) -> dict[str, np.ndarray]:
        """Return what states end as."""
        assert self.part.state is not None
        return self._of_states(self.part.state.end, s=state)


def constants_of(trees: Sequence[Node]) -> list[float]:
    """Return the numbers that trees name: their constants, and those of tables."""
    found: list[float] = []
    for one in walk(trees):
        if one.op == "constant":
            found.append(float(constant_value(one)))
        elif one.op in ("lookup", "search"):
            dtype = one.dtype if one.op == "lookup" else one.sources[0].dtype
            found += np.frombuffer(one.arg[0], dtype).astype(float).tolist()
    return found
