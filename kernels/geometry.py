"""Boxes of elements and how their axes are kept or reduced: pure integer functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Dim:
    """One dim of a box, after merging."""

    size: int
    stride: int
    """Elements between neighbours in the buffer."""
    index_stride: int
    """Distance of neighbours in the whole array's C-order index."""


@dataclass(frozen=True)
class Box:
    """Elements of a buffer, seen as outputs times reduced positions."""

    kept: tuple[Dim, ...]
    reduced: tuple[Dim, ...]
    offset: int = 0
    """First element in the buffer."""
    index: int = 0
    """C-order index of the first element in the whole array."""

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return math.prod(dim.size for dim in self.kept)

    @property
    def reduces(self) -> int:
        """Elements folded into each output."""
        return math.prod(dim.size for dim in self.reduced)

    @property
    def elements(self) -> int:
        """Elements in all."""
        return self.outputs * self.reduces

    @property
    def flat(self) -> bool:
        """Whether it is one contiguous run folded into one output, indices in step."""
        return self.outputs == 1 and (
            self.reduces <= 1 or [(d.stride, d.index_stride) for d in self.reduced] == [(1, 1)]
        )

    def words(self) -> np.ndarray:
        """Lay the dims out as kernels/axes.cl reads them: uint64, kept before reduced."""
        unit = Dim(1, 0, 0)
        kept, reduced = self.kept or (unit,), self.reduced or (unit,)
        words = [len(kept), len(reduced)]
        for dim in (*kept, *reduced):
            words += [dim.size, dim.stride, dim.index_stride]
        return np.array(words, np.uint64)


def c_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return C-order strides in elements.

    >>> c_strides((2, 3, 4))
    (12, 4, 1)
    """
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def box(
    shape: Sequence[int],
    axes: Sequence[int],
    *,
    index_strides: Sequence[int] | None = None,
    index: int = 0,
    offset: int = 0,
) -> Box:
    """Describe a C-contiguous box of a buffer whose `axes` are reduced.

    Parameters
    ----------
    shape
        Extents of the box.
    axes
        Axes to reduce; the others are kept.
    index_strides
        C-order strides of the whole array that the box was cut from, if the index matters;
        None lets it follow the buffer.
    index
        C-order index of the box's first element in the whole array.
    offset
        First element in the buffer.

    >>> box((2, 3, 4), (1, 2))
    Box(kept=(Dim(size=2, stride=12, index_stride=12),), \
reduced=(Dim(size=12, stride=1, index_stride=1),), offset=0, index=0)
    """
    strides = c_strides(shape)
    given = strides if index_strides is None else index_strides
    dims = [Dim(*entry) for entry in zip(shape, strides, given, strict=True)]
    kept = _merged([dim for axis, dim in enumerate(dims) if axis not in axes])
    reduced = _merged([dim for axis, dim in enumerate(dims) if axis in axes])
    return Box(kept, reduced, offset, index)


def _merged(dims: Sequence[Dim]) -> tuple[Dim, ...]:
    """Merge dims that are one run, and drop those of one element."""
    if any(dim.size == 0 for dim in dims):
        return (Dim(0, 1, 1),)
    out: list[Dim] = []
    for dim in dims:
        if dim.size == 1:
            continue
        before = out[-1] if out else None
        if (
            before is not None
            and before.stride == dim.size * dim.stride
            and before.index_stride == dim.size * dim.index_stride
        ):
            out[-1] = Dim(before.size * dim.size, dim.stride, dim.index_stride)
        else:
            out.append(dim)
    return tuple(out)
