"""Choose elements of a statistic: a picklable value that workers receive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from chunkfold.kernels.accumulator.partial import Partial


@dataclass(frozen=True)
class Chooser:
    """Ranks of the kept elements to choose; see `chunkfold.kernels.monoid.finish_context`."""

    name: str
    """Name of the statistic."""
    component: int
    """Number of the accumulator's component whose one field folds the least key."""
    count: str | None
    """Slot that counts present elements; None if all are present."""
    ranks: Callable[[np.ndarray], np.ndarray]

    def wanted(self, partial: Partial) -> np.ndarray:
        """Return the ranks that are wanted of a partial's outputs: int64, (outputs, ranks)."""
        counts = partial.count if self.count is None else partial.arrays[self.count]
        return self.ranks(np.broadcast_to(np.asarray(counts, np.int64), partial.outputs))
