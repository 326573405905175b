"""Whether elements are folded row by row first, and how results come of the rows."""

from __future__ import annotations

from collections.abc import Sequence

from chunkfold.kernels import Accumulator
from chunkfold.planning.broadcast_inputs import BroadcastInput
from chunkfold.planning.factored_weights import factored_weights
from chunkfold.planning.grouping import AnyKeys
from chunkfold.planning.labelled_rows import labelled_rows
from chunkfold.planning.layout import Layout
from chunkfold.planning.rows import WayOfRows


def way_of_rows(
    accumulator: Accumulator,
    layout: Layout,
    held: Sequence[BroadcastInput],
    staged: int,
    keys: AnyKeys | None,
    kinds: frozenset[str],
) -> WayOfRows | None:
    """Return how outputs are made of rows; None if they are made of elements.

    Parameters
    ----------
    held
        Inputs that lack axes, behind so many `staged` ones.
    keys
        Which group each element is in, if there are groups.
    kinds
        Of devices.
    """
    if keys is None:
        return factored_weights(accumulator, layout, held, staged)
    return labelled_rows(accumulator, layout, keys, held, staged, kinds)
