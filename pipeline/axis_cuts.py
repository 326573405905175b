"""Cuts of an axis into cells: every so many elements, or at given bounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chunkfold.errors import PlanError

MOST_CELLS = 1 << 27
"""Cells along one axis beyond which planning would take gigabytes."""


@dataclass(frozen=True)
class Cells:
    """The cells of an axis: cuts every `cell` elements, or at given bounds."""

    size: int
    """Elements of the axis."""
    cell: int
    """Elements of a cell, of the largest where they differ; the last one may have fewer."""
    bounds: tuple[int, ...] | None = None
    """Boundaries of an irregular grid, ascending from 0 to `size`."""

    @property
    def offsets(self) -> np.ndarray:
        """Boundaries, int64, one more than there are cells.

        >>> Cells(10, 4).offsets.tolist()
        [0, 4, 8, 10]
        """
        if self.bounds is not None:
            return np.array(self.bounds, np.int64)
        if self.size // self.cell > MOST_CELLS:
            raise PlanError(
                f"an axis of {self.size:,} elements has more than {MOST_CELLS:,} leaves of "
                f"{self.cell:,}: use larger chunks"
            )
        return np.append(np.arange(0, self.size, self.cell, dtype=np.int64), np.int64(self.size))

    def coarsened(self, factor: int) -> Cells:
        """Join every `factor` cells, counted from 0.

        >>> Cells(10, 4).coarsened(2).offsets.tolist()
        [0, 8, 10]
        """
        if self.bounds is None:
            return Cells(self.size, self.cell * factor)
        bounds = (*self.bounds[:-1:factor], self.bounds[-1])
        return Cells(self.size, max(int(n) for n in np.diff(bounds)), bounds)

    def inside(self, start: int, behind: int) -> np.ndarray:
        """Return the boundaries between the first of some elements and the last, int64.

        >>> Cells(10, 4).inside(1, 9).tolist(), Cells(9, 4, (0, 1, 5, 9)).inside(1, 9).tolist()
        ([4, 8], [5])
        """
        if self.bounds is None:
            return np.arange(start // self.cell + 1, (behind - 1) // self.cell + 1) * self.cell
        return np.array([n for n in self.bounds if start < n < behind], np.int64)

    def holding(self, elements: np.ndarray) -> np.ndarray:
        """Return the numbers of the cells that have some elements, int64.

        >>> Cells(9, 4, (0, 1, 5, 9)).holding(np.array([0, 1, 4, 8])).tolist()
        [0, 1, 1, 2]
        """
        if self.bounds is None:
            return elements // self.cell
        return np.searchsorted(np.array(self.bounds), elements, side="right") - 1
