"""Boxes of elements and how their axes are kept or reduced: pure integer functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from chunkfold.kernels.strides import Strides, c_strides

FOLDS = ("flat", "rows", "columns", "short_rows")
"""The kernels that fold boxes, each for boxes of its own kind: `Box.kernel`."""

ONE_OUTPUT = frozenset({"flat", "rows"})
"""Kernels that fold boxes of one output."""

BY_KEY = ("by_key", "by_key_alone")
"""Names of kernels that fold by key: into tables that work-items share, where possible; into
accumulators of each work-item's own."""

CHOOSE = "choose"
"""Name of the kernel that chooses among elements that are kept."""

OutputRun = tuple[int, int, int]
"""Accumulators next to each other: the first one, where it goes, and how many."""

SHORT_RUN = 64
"""Elements of a short run, at most ..."""
SHORT_RUNS = 8
"""... of which so many, at least, are of neighbouring outputs."""


@dataclass(frozen=True)
class Dim:
    """One dim of a box, after merging."""

    size: int
    stride: int
    """Elements between neighbours in the buffer."""
    index_stride: int
    """Distance of neighbours in the whole array's C-order index."""
    output_stride: int = 0
    """Distance of neighbours among the outputs, if kept."""
    other_strides: tuple[int, ...] = ()
    """Elements between neighbours in the buffer of each input behind the first, if any of these
    has strides of its own."""


@dataclass(frozen=True)
class Box:
    """Elements of a buffer, seen as outputs times reduced positions."""

    kept: tuple[Dim, ...]
    reduced: tuple[Dim, ...]
    offset: int = 0
    """First element in the buffer."""
    index: int = 0
    """C-order index of the first element in the whole array."""
    other_offsets: tuple[int, ...] = ()
    """First element in the buffer of each input behind the first, if any has strides of its own;
    none: all are as the first."""

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:  # of so many dims it takes 50 us where caches are cold
        return hash((self.kept, self.reduced, self.offset, self.index, self.other_offsets))

    @cached_property
    def outputs(self) -> int:
        """Number of outputs."""
        return math.prod(dim.size for dim in self.kept)

    @cached_property
    def elements_per_output(self) -> int:
        """Elements folded into each output."""
        return math.prod(dim.size for dim in self.reduced)

    @cached_property
    def elements(self) -> int:
        """Elements in all."""
        return self.outputs * self.elements_per_output

    @property
    def kernel(self) -> str:
        """Return the kernel of `FOLDS` that folds it."""
        return self.kernel_because[0]

    @cached_property
    def kernel_because(self) -> tuple[str, str]:
        """Return the kernel of `FOLDS` that folds it, and why.

        `flat` folds one contiguous run into one output; `columns` boxes whose neighbouring elements
        go into different outputs; `short_rows` boxes with few neighbours in each of many outputs;
        `rows` all others.
        """
        if self.outputs == 1 and self.elements_per_output <= 1:
            return "flat", "there is one element at most"
        if self.outputs == 1 and [(d.stride, d.index_stride) for d in self.reduced] == [(1, 1)]:
            return "flat", "all elements are one run in memory, and go into one output"
        if not self.kept:
            return "rows", "all elements go into one output, and are several runs in memory"
        if not self.reduced:
            return "columns", "each output has one element"
        row, run = self.kept[-1], self.reduced[-1]
        if row.stride < run.stride:
            return "columns", "neighbours in memory go into different outputs"
        short = run.stride == 1 and run.size <= SHORT_RUN and row.size >= SHORT_RUNS
        if short and not self.other_offsets:
            return "short_rows", (
                f"an output has runs of {run.size} neighbours in memory, {SHORT_RUN} at most"
            )
        return "rows", "neighbours in memory go into the same output"

    def words(self) -> np.ndarray:
        """Lay the dims out as kernels/cl/place.clh reads them: uint64, kept before reduced."""
        unit = Dim(1, 0, 0, other_strides=(0,) * len(self.other_offsets))
        kept, reduced = self.kept or (unit,), self.reduced or (unit,)
        words = [len(kept), len(reduced)]
        for dim in (*kept, *reduced):
            words += [dim.size, dim.stride, dim.index_stride, dim.output_stride]
        for number in range(len(self.other_offsets)):
            words += [dim.other_strides[number] for dim in (*kept, *reduced)]
        return np.array(words, np.uint64)

    def of_inputs(self, number: int) -> Box:
        """Return the box with strides of every input, of which there are so many."""
        if self.other_offsets:
            return self
        several = number - 1
        kept, reduced = (
            tuple(replace(dim, other_strides=(dim.stride,) * several) for dim in dims)
            for dims in (self.kept, self.reduced)
        )
        return replace(self, kept=kept, reduced=reduced, other_offsets=(self.offset,) * several)

    def cut_rows(self, fold: int) -> tuple[Box, Box | None]:
        """Cut the innermost reduced dim behind a multiple of `fold`; the rest is None if empty.

        >>> main, rest = box((7, 2), (0,)).cut_rows(3)
        >>> main.elements_per_output, rest.elements_per_output, rest.offset
        (6, 1, 12)
        """
        if not self.reduced or self.reduced[-1].size % fold == 0:
            return self, None
        *outer, rows = self.reduced
        whole = rows.size // fold * fold
        main = replace(self, reduced=(*outer, replace(rows, size=whole)))
        rest = replace(
            self,
            reduced=(*outer, replace(rows, size=rows.size - whole)),
            offset=self.offset + whole * rows.stride,
            index=self.index + whole * rows.index_stride,
            other_offsets=tuple(
                offset + whole * stride
                for offset, stride in zip(
                    self.other_offsets, rows.other_strides, strict=bool(self.other_offsets)
                )
            ),
        )
        return main, rest


def box(
    shape: Sequence[int],
    axes: Sequence[int],
    *,
    strides: Strides = None,
    index_strides: Strides = None,
    index: int = 0,
    offset: int = 0,
    other_strides: Sequence[Strides] = (),
    other_offsets: Sequence[int] | None = None,
) -> Box:
    """Describe a box of a buffer whose `axes` are reduced.

    Parameters
    ----------
    shape
        Shape of the box.
    axes
        Axes to reduce; the others are kept, and outputs stand in their C order.
    strides
        Elements of the buffer between neighbours along each axis, positive; None for a
        C-contiguous box. F order, parts and steps of a larger buffer are all strides.
    index_strides
        C-order strides of the whole array that the box was cut from, if the index matters;
        None lets it follow the buffer.
    index
        C-order index of the box's first element in the whole array.
    offset
        First element in the buffer.
    other_strides
        Strides of each input behind the first, 0 along axes that it lacks (`strides_along`); None
        for one that is as the first. Nothing: all are.
    other_offsets
        First element of each of these in its buffer; None: as in the first of those that are as
        it, 0 of others.

    >>> box((2, 3, 4), (1, 2)).reduced
    (Dim(size=12, stride=1, index_stride=1, output_stride=0, other_strides=()),)
    >>> box((2, 3), (1,), strides=(1, 2)).kernel
    'columns'
    >>> box((2, 3), (0, 1), other_strides=[(1, 0)]).reduced[0].other_strides
    (1,)
    """
    strides = tuple(c_strides(shape) if strides is None else strides)
    each, offsets = of_others(strides, offset, other_strides, other_offsets)
    dims = dims_of(shape, axes, strides, index_strides, each)
    kept = merged_dims([(dim,) for axis, dim in dims.items() if axis not in axes])
    reduced = merged_dims([(dim,) for axis, dim in dims.items() if axis in axes])
    parts = tuple(dim for (dim,) in kept), tuple(dim for (dim,) in reduced)
    return Box(*parts, offset, index, offsets)


def of_others(
    strides: tuple[int, ...],
    offset: int,
    other_strides: Sequence[Strides],
    other_offsets: Sequence[int] | None,
) -> tuple[list[tuple[int, ...]], tuple[int, ...]]:
    """Return strides and offset of each input behind the first; nothing if all are as the first."""
    each = [strides if one is None else tuple(one) for one in other_strides]
    if other_offsets is None:
        other_offsets = [0 if one is not None else offset for one in other_strides]
    if all(one == strides for one in each) and set(other_offsets) <= {offset}:
        return [], ()
    return each, tuple(other_offsets)


def dims_of(
    shape: Sequence[int],
    axes: Sequence[int],
    strides: Strides = None,
    index_strides: Strides = None,
    other_strides: Sequence[Sequence[int]] = (),
) -> dict[int, Dim]:
    """Return the dim of each axis; parameters as `box`."""
    strides = c_strides(shape) if strides is None else strides
    given = strides if index_strides is None else index_strides
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    outputs = dict(zip(kept, c_strides([shape[axis] for axis in kept]), strict=True))
    return {
        axis: Dim(
            shape[axis],
            strides[axis],
            given[axis],
            outputs.get(axis, 0),
            tuple(one[axis] for one in other_strides),
        )
        for axis in range(len(shape))
    }


def merged_dims(dims: Sequence[tuple[Dim, ...]]) -> list[tuple[Dim, ...]]:
    """Put dims in memory's order, merge those that are one run, drop those of one element.

    Each is a tuple: an axis as it is in several buffers. The order is that of the first; those that
    are merged are one run in all.
    """
    if any(each[0].size == 0 for each in dims):
        return [tuple(Dim(0, 1, 1, 1, tuple(1 for _ in dim.other_strides)) for dim in dims[0])]
    out: list[tuple[Dim, ...]] = []
    for each in sorted(dims, key=lambda each: -each[0].stride):
        if each[0].size == 1:
            continue
        if out and all(map(_continues, out[-1], each)):
            size = out[-1][0].size * each[0].size
            out[-1] = tuple(replace(dim, size=size) for dim in each)
        else:
            out.append(each)
    return out


def _continues(before: Dim, dim: Dim) -> bool:
    """Return True if a step of the dim before goes to the end of a dim's run."""
    return (
        before.stride == dim.size * dim.stride
        and before.index_stride == dim.size * dim.index_stride
        and before.output_stride == dim.size * dim.output_stride
        and before.other_strides == tuple(dim.size * stride for stride in dim.other_strides)
    )
