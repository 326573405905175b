"""Questions of one read: leaves are the same for all, whichever of them has windows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chunkfold.axis_cuts import Cells
from chunkfold.planning.asking import asked
from chunkfold.planning.leaves import layouts_of
from chunkfold.planning.options import Options
from chunkfold.planning.together import layout_beside
from chunkfold.sources.array_source import ArraySource

AXES = st.sampled_from([(), (0,), (1,), (0, 1)])
PICKED = st.lists(st.integers(0, 12), min_size=1, max_size=13)


@given(
    size=st.integers(1, 12),
    chunks=st.tuples(st.integers(1, 13), st.integers(1, 9)),
    windows=st.dictionaries(st.integers(0, 1), st.integers(1, 14), min_size=1),
    selection=st.sampled_from([(), (slice(None, None, -2),)]) | PICKED.map(lambda one: (one,)),
    axes=AXES,
    together=st.sampled_from([1, 3]),
)
def test_a_question_without_windows_has_the_leaves_of_one_that_has_some(
    size, chunks, windows, selection, axes, together
):
    grid = tuple(map(Cells, (13, 9), chunks))
    source = ArraySource(np.zeros((13, 9), "f4"), "a", grid)
    with_windows = Options("sum", selection=selection, coarsen=windows, boundary="pad")
    plain = Options("sum", selection=selection, axis=axes)
    first = asked(source, {"windows": with_windows, "plain": plain})
    chosen = [replace(axis, together=together if axis.window else 1) for axis in first.chosen]
    for layout in layouts_of(first.sources, chosen, first.reduced, size * 16):
        own = layout_beside(first.beside[0], layout)
        seen = np.zeros(own.outputs_shape, np.int64)
        for tile, part in np.ndindex(layout.tiles, layout.parts):
            leaf = layout.leaf(tile, part)
            number, piece = own.tile_and_part(layout.numbers(tile, part))
            for mine, other in zip(own.leaf(number, piece), leaf, strict=True):
                assert (mine.position, mine.length) == (other.position, other.length)
            within = own.outputs_of([slice(0, one.length) for one in leaf])
            assert all(along.stop <= n for along, n in
                       zip(within, own.tile_shape(number), strict=True))  # fmt: skip
            elements = np.prod([leaf[n].length for n in own.reduced], dtype=int)
            seen[own.tile_region(number)] += elements
        assert (seen == np.prod([own.shape[n] for n in own.reduced], dtype=int)).all()
