"""How many chunks a plan has room for."""

from __future__ import annotations

from chunkfold.errors import PlanError
from chunkfold.planning.layout import Layout
from chunkfold.planning.request import Request

MOST_CHUNKS = 1 << 27
"""Selected of a source."""


def refuse_many_chunks(request: Request, layout: Layout) -> None:
    """Refuse absurd grids: what is known of each chunk, however small, takes time and memory.

    Raises
    ------
    PlanError
        If too many chunks are selected.
    """
    for source in request.sources:
        chunks = 1
        for axis, unit in zip(layout.axes, source.unit, strict=True):
            first, behind = axis.touched(unit)
            chunks *= int((behind - first).sum())
        if chunks > MOST_CHUNKS:
            raise PlanError(
                f"{source.name}: {chunks:,} chunks of {source.unit} are selected, but plans have "
                f"room for {MOST_CHUNKS:,}: select less, or write it with larger chunks"
            )
