"""What a reduction needs another read of the data for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from chunkfold.kernels.monoid.monoid import Monoid


@dataclass(frozen=True, eq=False)
class Further:
    """Another read of the same elements."""

    slots: tuple[np.ndarray, ...]
    """Inputs of that read that have one element for each output, or one for all: of the elements'
    dtype."""
    monoid: Callable[[int, int], Monoid]
    """Makes what is folded: given the number of its first slot, and how many there are in all."""
    between: tuple[np.ndarray, np.ndarray] | None = None
    """The least and the greatest values of elements that still count, (outputs, ranges) each.

    Others need not be read. None: all count."""
