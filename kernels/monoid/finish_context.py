"""Arguments of `finish`: fields and context; and what it may ask for: ranks, one more read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from chunkfold.kernels.exact.limbs import floats_of

if TYPE_CHECKING:
    from chunkfold.kernels.monoid.monoid import Monoid


Fields = Mapping[str, np.ndarray]
"""A finished partial as `finish` sees it: one array per field, over the outputs; of exact sums an
`ExactArray`."""


@dataclass(frozen=True)
class Context:
    """The reduction that `finish` makes results of, besides its fields."""

    dtype: np.dtype
    """Dtype of the values that were lifted."""
    shape: tuple[int, ...]
    """Shape of the reduced array."""
    axes: tuple[int, ...]
    """The reduced axes, ascending."""
    ddof: float = 0
    """Delta degrees of freedom, as NumPy's `var` takes it."""
    result: np.dtype | None = None
    """Dtype that results will be cast to, if one was asked for."""
    inputs: tuple[np.dtype, ...] = ()
    """Dtype of each input, before the cast to a common one."""
    initial: Any = None
    """NumPy's `initial=`, or None. Only monoids with `Monoid.initial` get one."""
    quoted: str = ""
    """The reduction's name in messages: `Monoid.quoted`."""
    integers: np.dtype | None = None
    """Dtype that floats will be rounded to, if any: exact numbers are not rounded before that."""

    @property
    def floats(self) -> np.dtype:
        """Dtype of means and the like: floats keep theirs, and others become float64.

        Complex numbers have that of their parts.
        """
        return floats_of(self.dtype)

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


@dataclass(frozen=True)
class Choice:
    """Elements of each output, chosen by their ranks among those that are not skipped."""

    key: str
    """The field that folds the least key of elements: an integer that sorts like them."""
    count: str
    """The field that counts elements that are not skipped."""
    ranks: Callable[[np.ndarray], np.ndarray]
    """Returns the ranks, int64 (outputs, ranks), given the counts, int64 (outputs,). The field
    "chosen" has the keys of each rank and of the next one: (outputs, ranks, 2)."""


@dataclass(frozen=True, eq=False)
class NextPass:
    """Another read of the same elements."""

    slots: tuple[np.ndarray, ...]
    """Inputs of that read, of the elements' dtype: one element for each output, or one for all."""
    monoid: Callable[[int, int], Monoid]
    """Returns the monoid to fold, given the number of its first slot, and of all slots."""
    between: tuple[np.ndarray, np.ndarray] | None = None
    """The least and the greatest values of the elements that it needs, (outputs, ranges) each.
    None: it needs all."""


NextPassOf = Callable[[Fields, Context], "NextPass | None"]


def record(fields: Fields, context: Context) -> np.ndarray:
    """Return the only field, or all of them as a structured array; exact sums are rounded."""
    from chunkfold.kernels.accumulator.exact_array import ExactArray

    held = cast("Mapping[str, Any]", fields)
    fields = {
        name: one.rounded(context.floats) if isinstance(one, ExactArray) else one
        for name, one in held.items()
    }
    if len(fields) == 1:
        return next(iter(fields.values()))
    dtype = np.dtype([(name, array.dtype, array.shape[1:]) for name, array in fields.items()])
    record = np.empty(len(next(iter(fields.values()))), dtype)
    for name, array in fields.items():
        record[name] = array
    return record
