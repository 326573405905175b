"""What `finish` sees: fields of the root, and what they are of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from chunkfold.kernels.dtypes import kind_of
from chunkfold.kernels.exact.limbs import part_of

Fields = Mapping[str, np.ndarray]
"""A finished partial as `finish` sees it: one array per field, over the outputs; of exact sums an
`ExactArray`."""


@dataclass(frozen=True)
class Context:
    """What `finish` may want to know beside the fields."""

    dtype: np.dtype
    """Of the values that were lifted."""
    shape: tuple[int, ...]
    """Extents of what was reduced, axis by axis."""
    axes: tuple[int, ...]
    """The reduced axes, ascending."""
    ddof: float = 0
    """Delta degrees of freedom, as NumPy's `var` takes it."""
    result: np.dtype | None = None
    """Dtype that results will be cast to, if one was asked for."""
    inputs: tuple[np.dtype, ...] = ()
    """Of each input, before they were cast to one."""
    initial: Any = None
    """What results begin with, as NumPy's `initial=`; None: with nothing. Only finishes of monoids
    that say so (`Monoid.initial`) are given one."""
    told: str = ""
    """How messages call the reduction: `Monoid.told`."""
    integers: np.dtype | None = None
    """Dtype that floats will be rounded to, if any: exact numbers are not rounded before that."""

    @property
    def floats(self) -> np.dtype:
        """Dtype of means and the like: floats keep theirs, and others become float64.

        Of complex numbers it is that of their parts.
        """
        part = part_of(self.dtype)
        return part if kind_of(part) == "f" else np.dtype(np.float64)

    def position(self, index: np.ndarray) -> np.ndarray:
        """Turn C-order indices `i` into C-order positions among the reduced axes.

        >>> Context(np.dtype("f4"), (4, 5), (0,)).position(np.array([7])).tolist()
        [1]
        """
        if not self.axes or not index.size:
            return np.zeros_like(index)
        places = np.unravel_index(index, self.shape)
        reduced = [places[axis] for axis in self.axes]
        return np.asarray(np.ravel_multi_index(reduced, [self.shape[axis] for axis in self.axes]))


Finish = Callable[[Fields, Context], Any]
"""Returns one result per output; each may be an array itself, of axes behind the first. An
`ExactArray` is rounded."""
