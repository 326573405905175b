"""Results written into a Zarr as they come: whole chunks, of which few are kept meanwhile."""

from __future__ import annotations

import itertools
import math
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.storage import StorePath

from chunkfold.boxes import Slices, extents_of
from chunkfold.kernels.accumulator.partial import zero_partial
from chunkfold.outputs.outputs import naming
from chunkfold.planning.plan import Plan
from chunkfold.planning.request import Streamed
from chunkfold.results.results import Results
from chunkfold.workflows.regionwise.chunk_writers import ChunkWriters

LEAST_CHUNK = 1 << 20
"""Bytes of a chunk: smaller tiles share one."""
MOST_OPEN = 256 << 20
"""Bytes of chunks that wait for more of their results."""
_Key = tuple[int, str, tuple[int, ...]]


@dataclass
class _Open:
    """A chunk of which some results are here."""

    values: np.ndarray
    left: int
    """Results that are still to come."""
    unsettled: bool = True
    """True if some came since it was written."""


class ZarrTiles:
    """Writes results into arrays of a group: for each level and op one.

    Parameters
    ----------
    folder
        Of the group, or its place in a store.
    out
        How messages call it.
    called
        What the array of a level and an op is called.
    chunks
        Of arrays of a shape; None: so that few tiles share one.
    names
        Of the arrays' axes; None: those of the source's.
    compressors
        Of their chunks, as zarr has them.
    last
        Returns when all that is written outlives this process, and its host.
    """

    def __init__(
        self,
        folder: Path | StorePath,
        out: str | Path,
        called: Callable[[int, str], str] = lambda _, op: op,
        chunks: Callable[[tuple[int, ...]], tuple[int, ...]] | None = None,
        names: Sequence[str | None] | None = None,
        compressors: Any = "auto",
        last: Callable[[], None] = lambda: None,
    ) -> None:
        self._folder, self._out, self._called = folder, out, called
        self._chunks, self._names, self._compressors = chunks, names, compressors
        self._arrays: dict[tuple[int, str], zarr.Array[Any]] = {}
        self._open: OrderedDict[_Key, _Open] = OrderedDict()
        self._open_bytes = 0
        self._written: dict[_Key, int] = {}
        """Results that are still to come of chunks that were written before they were whole."""
        self._farthest: dict[str, Any] = {}
        self._writers, self._last = ChunkWriters(MOST_OPEN), last

    def begin(self, plan: Plan) -> None:
        """Make the group, and see what arrays will be like."""
        assert plan.request.streamed is not None
        self._plan, self._streamed = plan, plan.request.streamed
        with naming(self._out):
            self._group = zarr.open_group(self._folder, mode="a", zarr_format=3)
        self._names = Results(plan, {}).dims if self._names is None else self._names

    def write(self, level: int, op: str, region: Slices, values: np.ndarray) -> None:
        """Take some results.

        Raises
        ------
        OutputError
            If there is no room for them.
        """
        if level == 0:
            self._note(op, values)
        array = self._array(level, op, values)
        with naming(self._out):
            for number, within, at in _shared(array, region):
                self._fill((level, op, number), array, within, values[at])
            while len(self._open) > 1 and self._open_bytes > MOST_OPEN:
                key = next(iter(self._open))
                self._written[key] = self._put(key).left

    def has(self, level: int, op: str, region: Slices) -> None:
        """Leave some results as they are in the folder, all of which come before the first write.

        Chunks that they share with others are read when these come.
        """
        if (level, op) not in self._arrays:
            self._arrays[level, op] = self._there(level, op)
        array = self._arrays[level, op]
        for number, within, _ in _shared(array, region):
            key = level, op, number
            whole = math.prod(extents_of(_place(array, number)))
            self._written[key] = self._written.get(key, whole) - math.prod(extents_of(within))
            if not self._written[key]:
                del self._written[key]

    def settle(self) -> Callable[[], None]:
        """Write what has come of chunks that wait for more; return what makes all of it last."""
        with naming(self._out):
            for key, one in self._open.items():
                if one.unsettled:
                    array = self._arrays[key[:2]]
                    self._writers.put(key, array, _place(array, key[2]), one.values)
                    one.unsettled = False
            self._writers.settle()
        return self._last

    def end(self) -> Mapping[str, Any]:
        """Write the last chunks; return an array for each op that is like its results.

        Each element of it is the number that is farthest from 0.
        """
        with naming(self._out):
            while self._open:
                self._put(next(iter(self._open)))
            self._writers.settle()
            for level, op in itertools.product(range(self._streamed.levels), self._ops):
                if (level, op) not in self._arrays:
                    self._empty(level, op)
        return {
            op: np.broadcast_to(
                np.asarray(self._farthest.get(op, 0), self._arrays[0, op].dtype),
                self._arrays[0, op].shape,
            )
            for op in self._ops
        }

    def stop(self) -> None:
        """Write nothing more."""
        self._writers.stop()

    @property
    def _ops(self) -> Sequence[str]:
        return self._plan.request.options.names

    def _note(self, op: str, values: np.ndarray) -> None:
        """Keep the finite number that is farthest from 0."""
        if values.dtype.kind not in "iuf" or not values.size:
            return
        finite = values[np.isfinite(values)]
        ends = [finite.min(), finite.max()] if finite.size else []
        known = [self._farthest[op]] if op in self._farthest else []
        if ends or known:
            self._farthest[op] = max([*ends, *known], key=lambda one: abs(float(one)))

    def _array(self, level: int, op: str, values: np.ndarray) -> zarr.Array[Any]:
        if (level, op) not in self._arrays and self._called(level, op) in self._group:
            self._arrays[level, op] = self._there(level, op)
        if (level, op) not in self._arrays:
            outer = result_shape(self._plan, self._streamed, level)
            own = values.shape[len(outer) :]
            shape = (*outer, *own)
            chunks = chunk_shape(values, shape)
            if self._chunks is not None:
                chunks = self._chunks(shape)
            names = None if self._names is None else [*self._names, *[None] * len(own)]
            with naming(self._out):
                self._arrays[level, op] = self._group.create_array(
                    self._called(level, op),
                    shape=shape,
                    chunks=tuple(max(1, n) for n in chunks),
                    dtype=values.dtype,
                    dimension_names=names,
                    compressors=self._compressors,
                )
        return self._arrays[level, op]

    def _there(self, level: int, op: str) -> zarr.Array[Any]:
        """Return the array that an earlier run made."""
        made = self._group[self._called(level, op)]
        assert isinstance(made, zarr.Array)
        return made

    def _empty(self, level: int, op: str) -> None:
        """Make the array of what has no outputs."""
        (statistic,) = (one for one in self._plan.bound.statistics if one.name == op)
        layout = self._plan.layout
        nothing = zero_partial(self._plan.accumulator, 0)
        done = statistic.finish(nothing, layout.by_window, layout.reduced_by_window)
        shape = result_shape(self._plan, self._streamed, level)
        values = np.empty(
            (*(0 for _ in shape), *done.shape[1:]), self._streamed.rounded_to or done.dtype
        )
        self._array(level, op, values)

    def _fill(self, key: _Key, array: zarr.Array[Any], within: Slices, values: np.ndarray) -> None:
        one = self._open.get(key)
        if one is None:
            place = _place(array, key[2])
            shape = extents_of(place)
            if key in self._written:
                self._writers.settle(key)
                one = _Open(np.array(array[place]), self._written.pop(key))
            else:
                one = _Open(np.empty(shape, array.dtype), math.prod(shape))
            self._open[key] = one
            self._open_bytes += one.values.nbytes
        one.values[within], one.unsettled = values, True
        one.left -= values.size
        if one.left <= 0:
            self._put(key)

    def _put(self, key: _Key) -> _Open:
        """Begin to write a chunk; return what was here of it."""
        one, array = self._open.pop(key), self._arrays[key[:2]]
        self._open_bytes -= one.values.nbytes
        self._writers.put(key, array, _place(array, key[2]), one.values)
        return one


def result_shape(plan: Plan, streamed: Streamed, level: int) -> tuple[int, ...]:
    """Return the extents of results along axes of the source and groups, at a level."""
    layout, grouping = plan.layout, plan.grouping
    sizes = {n: layout.axes[n].outputs for n in layout.kept}
    steps = level + bool(streamed.modes)
    for factors in streamed.factors(plan.request.chosen, layout.kept)[:steps]:
        sizes = {n: -(-sizes[n] // by) for n, by in zip(layout.kept, factors, strict=True)}
    shape: list[int] = []
    for n in Results(plan, {}).axes:
        if grouping is not None and n == grouping.first:
            shape += grouping.shape
        else:
            shape.append(sizes.get(n, 1))
    return tuple(shape)


def chunk_shape(values: np.ndarray, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return chunks of about a tile; larger ones where that is little, along the last axes first.

    So few chunks wait for others of their tiles, which come in C order.
    """
    chunks = [max(1, min(a, b)) for a, b in zip(values.shape, shape, strict=True)]
    for n in range(len(chunks) - 1, -1, -1):
        while math.prod(chunks) * values.itemsize < LEAST_CHUNK and chunks[n] < shape[n]:
            chunks[n] = min(2 * chunks[n], shape[n])
    return tuple(chunks)


def _shared(
    array: zarr.Array[Any], region: Slices
) -> Iterator[tuple[tuple[int, ...], Slices, Slices]]:
    """Yield the chunks that a region is in: their numbers, where in them, and what of it."""
    along = []
    for cut, chunk in zip(region, array.chunks, strict=True):
        cuts = []
        for number in range(cut.start // chunk, -(-cut.stop // chunk)):
            first, behind = max(cut.start, number * chunk), min(cut.stop, (number + 1) * chunk)
            within = slice(first - number * chunk, behind - number * chunk)
            cuts.append((number, within, slice(first - cut.start, behind - cut.start)))
        along.append(cuts)
    for each in itertools.product(*along):
        yield tuple(n for n, _, _ in each), tuple(b for _, b, _ in each), tuple(c for *_, c in each)


def _place(array: zarr.Array[Any], number: Sequence[int]) -> Slices:
    return tuple(
        slice(n * chunk, min((n + 1) * chunk, size))
        for n, chunk, size in zip(number, array.chunks, array.shape, strict=True)
    )
