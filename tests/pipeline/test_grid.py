"""Windows are whole in leaves, or cut into as many pieces each; nothing is lost or there twice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chunkfold.axis_cuts import Cells
from chunkfold.grid import Axis


def axes(size: int, cell: int, places: list[int], picked: bool, back: bool, **windows: int) -> Axis:
    cells = Cells(size, cell)
    start, step = min(places[0], size), len(places) % 3 + 1
    chosen = np.array(places) % size if picked else range(start, size, step)
    return replace(Axis.at(cells, chosen[::-1] if back else chosen), **windows)


AXES = st.builds(
    axes,
    st.integers(1, 60),
    st.integers(1, 20),
    st.lists(st.integers(0, 59), min_size=1, max_size=40),
    st.booleans(),
    st.booleans(),
    window=st.integers(1, 30),
    together=st.integers(1, 3),
    split=st.booleans(),
)


@given(AXES)
def test_pieces_are_the_axis_and_know_the_cells_that_they_are_in(axis: Axis):
    pieces = [axis.piece(n) for n in range(axis.pieces)]
    array = np.arange(axis.cells.size)
    chosen = [n for piece in pieces for n in array[piece.source]]
    assert chosen == list(axis.places)
    first, behind = axis.touched(axis.cells)
    for piece, begin, end in zip(pieces, first, behind, strict=True):
        cells = array[piece.source] // axis.cells.cell
        if piece.length:
            assert (cells.min(), cells.max() + 1) == (begin, end)
        else:
            assert begin == end


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
