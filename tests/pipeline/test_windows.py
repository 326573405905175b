"""Windows are whole in leaves, or cut into as many pieces each; nothing is lost or there twice."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chunkfold.grid import Axis, Cells

AXES = st.builds(
    lambda size, cell, start, step, window, together, split: Axis(
        Cells(size, cell), min(start, size), size, step, False, window, together, split
    ),
    st.integers(1, 60), st.integers(1, 20), st.integers(0, 5), st.integers(1, 3),
    st.integers(1, 30), st.integers(1, 3), st.booleans(),
)  # fmt: skip


@given(AXES)
def test_pieces_are_the_axis_and_know_the_cells_that_they_are_in(axis: Axis):
    pieces = [axis.piece(n) for n in range(axis.pieces)]
    chosen = [n for piece in pieces for n in range(axis.cells.size)[piece.source]]
    assert chosen == list(range(axis.start, axis.stop, axis.step))
    first, behind = axis.touched(axis.cells)
    for piece, begin, end in zip(pieces, first, behind, strict=True):
        cells = np.unique(np.arange(axis.cells.size)[piece.source] // axis.cells.cell)
        assert cells.size == 0 or (cells[0], cells[-1] + 1) == (begin, end)
        assert end - begin == 0 if piece.length == 0 else end > begin


@given(AXES)
def test_a_piece_has_windows_whole_or_is_in_one(axis: Axis):
    assert axis.outputs == -(-axis.length // axis.window)
    for piece in map(axis.piece, range(axis.pieces)):
        last = max(piece.position, piece.position + piece.length - 1)
        if axis.split and piece.length:
            assert piece.position // axis.window == last // axis.window
        elif not axis.split:
            assert piece.position % (axis.window * axis.together) == 0
    if axis.split and axis.length:
        assert axis.pieces == axis.outputs * axis.parts
