"""What the tasks of a run are given: what they work on, and who watches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from chunkfold.kernels import Accumulator, Tuning
from chunkfold.layout import Layout
from chunkfold.source import Source
from chunkfold.worker import WorkerDevice


@dataclass(frozen=True)
class Work:
    """What the blocks of a run have in common. Travels with each task, so it stays small."""

    run: str
    sources: tuple[Source, ...]
    layout: Layout
    leaf_bytes: int
    """Most decoded bytes of a leaf of one input."""
    accumulator: Accumulator
    variant: str | None

    def tuning(self, owned: WorkerDevice, accumulator: Accumulator) -> Tuning:
        """Return how a device folds into an accumulator: the run's, or another form of it."""
        flat = not (self.layout.kept or accumulator.uses_index)
        return owned.tuning(accumulator, self.variant, flat=flat)


@dataclass(frozen=True)
class Watch:
    """How a block talks to whoever started it."""

    progress: Callable[[int, bool], None]
    """Told the bytes folded so far, and whether the block is done."""
    cancelled: Callable[[], bool]
