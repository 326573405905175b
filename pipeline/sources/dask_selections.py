"""A Dask array may only select from one object that it reads: the selection is found here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

ORIGINAL = "original-"
"""Dask keeps what an array was made of under the array's name with this before it."""
_CUTS = ("getitem-", "rechunk-merge-", "rechunk-split-")
"""Prefixes of the names of Dask's tasks that only move elements."""
_MOST_CHUNKS = 100_000
"""The most chunks of an array whose graph is searched."""
_FACTOR, _SHIFT = 3, 7
"""Places that are counted otherwise: what only moves them keeps the relation."""


def read_by(data: Any) -> tuple[Any, tuple[int | slice | np.ndarray, ...]] | None:
    """Return the object that an array of Dask's reads, and what it selects of each axis.

    None if it reads several, does anything else with them, or turns axes. Nothing is read: Dask
    selects of the object's places instead.
    """
    layers, origin = data.dask.layers, _origin(data.name, data.dask.dependencies)
    if origin is None or len(layers[origin]) != 1:
        return None
    made = layers[origin][origin]
    shape = tuple(getattr(made, "shape", ()))
    if data.name == origin.removeprefix(ORIGINAL):
        return (made, (slice(None),) * len(shape)) if shape == data.shape else None
    if data.npartitions > _MOST_CHUNKS or not data.size or not data.ndim:
        return None
    cuts = _cuts(data, origin, shape)
    return None if cuts is None else (made, cuts)


def _origin(name: str, dependencies: Mapping[str, Any]) -> str | None:
    """Follow what an array is made of, as long as it is one thing that was only cut."""
    while len(below := dependencies.get(name, ())) == 1:
        (before,) = below
        if before == f"{ORIGINAL}{name}":
            return str(before)
        if not name.startswith(_CUTS):
            return None
        name = before
    return None


def _cuts(data: Any, origin: str, shape: Sequence[int]) -> tuple[Any, ...] | None:
    """Return what is selected of each axis: all that is cut of places, taken along each axis."""
    lines = [
        _lines(data, origin, np.arange(size) * factor + shift, n, shape)
        for n, size in enumerate(shape)
        for factor, shift in ((1, 0), (_FACTOR, _SHIFT))
    ]
    found: list[Any] = []
    along: list[int] = []
    for n in range(len(shape)):
        plain, counted = lines[2 * n], lines[2 * n + 1]
        moved = (one * _FACTOR + _SHIFT for one in plain)
        if not all(map(np.array_equal, moved, counted)):
            return None
        varying = [j for j, line in enumerate(plain) if len({*line.tolist()}) > 1]
        if data.ndim == len(shape):  # where one place is left of an axis nothing varies along it
            varying = varying or [n]
        if len(varying) > 1:
            return None
        along += varying
        found.append(plain[varying[0]] if varying else int(plain[0][0]))
    return tuple(found) if along == list(range(data.ndim)) else None


def _lines(
    data: Any, origin: str, places: np.ndarray, axis: int, shape: Sequence[int]
) -> list[np.ndarray]:
    """Return, along each axis of an array, the places of one axis of what it reads."""
    import dask.array as da
    from dask.highlevelgraph import HighLevelGraph, MaterializedLayer

    apart = np.expand_dims(places, [n for n in range(len(shape)) if n != axis])
    layers = {
        **data.dask.layers,
        origin: MaterializedLayer({origin: np.broadcast_to(apart, shape)}),
    }
    graph = HighLevelGraph(layers, data.dask.dependencies)
    array = da.Array(graph, data.name, data.chunks, meta=np.empty((0,) * data.ndim, places.dtype))
    lines = [
        array[(0,) * n + (slice(None),) + (0,) * (data.ndim - n - 1)] for n in range(data.ndim)
    ]
    # Here: a cluster may know other things by the same names.
    return [np.asarray(line.compute(scheduler="synchronous")) for line in lines]
