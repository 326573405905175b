"""Blocks of a ledger have as many leaves as workers, and partials, ask for."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chunkfold.axis_cuts import Cells
from chunkfold.grid import Axis
from chunkfold.planning.aligned_runs import LeafGrids
from chunkfold.planning.layout import Layout
from chunkfold.planning.spans import _sizes


def layout_of(tiles: int, parts: int) -> Layout:
    return Layout(tuple(Axis(Cells(n, 1), 0, n, 1) for n in (tiles, parts)), (1,))


@given(st.integers(1, 50), st.integers(1, 50), st.integers(1, 8), st.integers(1, 1 << 24))
def test_blocks_have_runs_of_tiles_and_of_parts(tiles, parts, workers, nbytes):
    costs, grids = np.full((tiles, parts), 1 << 24, float), LeafGrids.of(layout_of(tiles, parts))
    a, b = _sizes(costs, grids, workers, nbytes, whole=False)
    assert a in grids.tiles.lengths
    assert b in grids.parts.lengths
    assert _sizes(costs, grids, workers, nbytes, whole=True)[1] == parts
