"""Strides of C-contiguous arrays, in elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

Strides: TypeAlias = "Sequence[int] | None"
"""Elements between neighbours along each axis."""


def c_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return C-order strides in elements.

    >>> c_strides((2, 3, 4))
    (12, 4, 1)
    """
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def strides_along(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    """Return the C-order strides of what has some of a shape's axes: 0 along those it lacks.

    >>> strides_along((7, 3, 4), (1, 2)), strides_along((7, 3, 4), (1,))
    ((0, 4, 1), (0, 1, 0))
    """
    own = dict(zip(axes, c_strides([shape[axis] for axis in axes]), strict=True))
    return tuple(own.get(axis, 0) for axis in range(len(shape)))
