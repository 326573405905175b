"""Layers of Dask's graphs that compute with stored arrays, element by element."""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import Any

import numpy as np
from dask.array import chunk
from dask.highlevelgraph import HighLevelGraph

from chunkfold.graphs.graph_calls import (
    BlockCall,
    NotTakenError,
    block_call,
    only_below,
)
from chunkfold.graphs.stored_views import (
    KINDS,
    RECHUNKED,
    StoredView,
    base_view,
    refuse_dtype,
    sizes_of,
)
from chunkfold.sources.cf_packing import packing_of
from chunkfold.sources.computed_source import ComputedSource, OperandSource, Step, after_steps
from chunkfold.sources.data_arrays import selected_alike

_OPERATORS = {
    getattr(operator, name)
    for name in (
        "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "neg", "pos", "abs", "invert",
        "and_", "or_", "xor", "lshift", "rshift", "lt", "le", "eq", "ne", "ge", "gt",
    )
} | {abs, np.where, np.clip}  # fmt: skip
_POWERS = (operator.pow, np.power)
_MOST_STEPS = 64


def view_of(graph: HighLevelGraph, name: str) -> StoredView:
    """Return a layer as a view of a stored array, or of what is computed of stored ones.

    The latter is computed element by element.

    Raises
    ------
    NotTakenError
        If it does anything else with them.
    """
    call = block_call(graph, name)
    if call is not None and len(call.inputs) == 1:
        ((below, _),) = call.inputs
        if call.function is np.transpose and {*call.options} == {"axes"}:
            return view_of(graph, below).turned(call.options["axes"])
        if _is_cast(call):
            made, dtype = view_of(graph, below), np.dtype(call.options["astype_dtype"])
            # A cast by `dtype=` sets the dtype of results, too: casts to integers are Dask's.
            if np.can_cast(made.dtype, dtype, "safe") and dtype.kind == "f" and not made.cast:
                return replace(made, dtype=dtype, cast=dtype != made.dtype)
    if name.startswith(RECHUNKED):
        below = only_below(graph, name)
        made = view_of(graph, below)
        return replace(made, chunks=sizes_of(graph, name, below, made))
    if call is not None and _is_elementwise(call):
        return _Computation(graph).of(name)
    return base_view(graph, name)


def _is_cast(call: BlockCall) -> bool:
    return call.function is chunk.astype and {*call.options} == {"astype_dtype"}


def _is_elementwise(call: BlockCall) -> bool:
    """Return True if a layer's function computes each element of those at its place alone."""
    function = call.function
    if call.args or (call.options and not _is_cast(call)):
        return False
    if isinstance(function, np.ufunc):
        own = getattr(np, function.__name__, None) is function
        if not own or function.nout != 1 or function.signature is not None:
            return False
    elif function not in _OPERATORS and not _is_cast(call):
        return False
    arrays = [axes for _, axes in call.inputs if axes is not None]
    if not arrays or any(axes != call.outputs for axes in arrays):
        return False
    if function in _POWERS and call.inputs[1][1] is not None:  # integers may refuse one
        return False
    return all(_is_number(given) for given, axes in call.inputs if axes is None)


def _is_number(given: Any) -> bool:
    if not isinstance(given, (bool, int, float, np.generic, np.ndarray)) or np.ndim(given):
        return False
    return np.asarray(given).dtype.kind in KINDS


class _Computation:
    """The steps by which a layer is computed of arrays of one shape, each of which is read once."""

    def __init__(self, graph: HighLevelGraph) -> None:
        self._graph = graph
        self._views: dict[str, StoredView] = {}
        self._calls: dict[str, BlockCall] = {}

    def of(self, name: str) -> StoredView:
        """Return the view of a layer."""
        self._find(name)
        views = [*self._views.values()]
        first = views[0]
        for one in views[1:]:
            _refuse_unlike(first, one)
        operands = tuple(map(_operand, views))
        steps = self._steps()
        each = [np.ones((1,) * len(first.order), one.dtype) for one in operands]
        dtype = after_steps(steps, each).dtype
        refuse_dtype(dtype)
        names = " and ".join(dict.fromkeys(one.source.name for one in operands))
        told, cells = f"what is computed of {names}", tuple(first.source.grid)
        source = ComputedSource(told, dtype, cells, operands, steps)
        readers = tuple(dict.fromkeys(reader for one in views for reader in one.readers))
        return replace(
            first, base=name, readers=readers, source=source, decoded=False, dtype=dtype, cast=False
        )

    def _find(self, name: str) -> None:
        """Collect the calls by which a layer is made, each after those that it needs."""
        if name in self._calls or name in self._views:
            return
        call = block_call(self._graph, name)
        if call is None or not _is_elementwise(call):
            self._views[name] = view_of(self._graph, name)
            return
        for given, axes in call.inputs:
            if axes is not None:
                self._find(str(given))
        self._calls[name] = call
        if len(self._calls) > _MOST_STEPS:
            raise NotTakenError(f"its elements are computed in more than {_MOST_STEPS} steps")

    def _steps(self) -> tuple[Step, ...]:
        places = {name: n for n, name in enumerate((*self._views, *self._calls))}
        return tuple(
            Step(
                call.function,
                tuple(given if axes is None else places[str(given)] for given, axes in call.inputs),
                tuple(axes is not None for _, axes in call.inputs),
                call.options,
            )
            for call in self._calls.values()
        )


def _refuse_unlike(one: StoredView, other: StoredView) -> None:
    """Refuse arrays whose shapes, axes, chunks or selections differ."""
    same = one.source.shape == other.source.shape and one.order == other.order
    if not same or one.chunks != other.chunks:
        raise NotTakenError("it is computed of arrays of other shapes, axes or chunks")
    if not selected_alike(one.selection, other.selection):
        raise NotTakenError("it is computed of other places of its arrays")


def _operand(view: StoredView) -> OperandSource:
    packing = packing_of(view.source) if view.decoded else None
    return OperandSource(view.source, packing, view.dtype)
