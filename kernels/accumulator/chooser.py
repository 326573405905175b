"""How elements of a statistic are chosen, as it travels to workers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from chunkfold.kernels.accumulator.partial import Partial


@dataclass(frozen=True)
class Chooser:
    """What is chosen of elements that were kept; see `chunkfold.kernels.monoid.finish_context`."""

    name: str
    """The statistic's."""
    component: int
    """Of the accumulator, whose one field folds the least key."""
    count: str | None
    """Slot that counts elements which are there; None: all are."""
    ranks: Callable[[np.ndarray], np.ndarray]

    def wanted(self, partial: Partial) -> np.ndarray:
        """Return the ranks that are wanted of a partial's outputs: int64, (outputs, ranks)."""
        counts = partial.count if self.count is None else partial.arrays[self.count]
        return self.ranks(np.broadcast_to(np.asarray(counts, np.int64), partial.outputs))
