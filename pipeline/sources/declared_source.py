"""Sources of which dtype and grid are known without looking at what they are read from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chunkfold.axis_cuts import Cells
from chunkfold.sources.source import Source


@dataclass(frozen=True, repr=False, eq=False)
class DeclaredSource(Source):
    """A source of which dtype and grid are known without looking at what it is read from."""

    name: str
    element: np.dtype
    cells: tuple[Cells, ...]

    @property
    def dtype(self) -> np.dtype:
        """Return the dtype of an element."""
        return self.element

    @property
    def grid(self) -> tuple[Cells, ...]:
        """Return the boundaries of chunks along each axis."""
        return self.cells


class BroughtSource(DeclaredSource):
    """Some of a source's chunks, as a block brings them: it has the whole one's grid."""

    @property
    def as_it_is(self) -> bool:
        """Return True: a read is a copy."""
        return True
