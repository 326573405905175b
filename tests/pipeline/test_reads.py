"""What is read for a window, and which kernels fold it."""

from __future__ import annotations

import zarr
from hypothesis import given
from hypothesis import strategies as st

from chunkfold.grid import Cells, select
from chunkfold.kernels import as_monoid, bind
from chunkfold.layout import Layout
from chunkfold.opening import open_source
from chunkfold.parts import Part
from chunkfold.reads import kernels_of, reads_of, windows_by_cell, windows_within
from chunkfold.work import Work

AXES = st.lists(st.tuples(st.integers(1, 7), st.integers(1, 4)), min_size=1, max_size=4)
"""Extents, and those of chunks."""


@given(st.data(), AXES, st.sampled_from(["sum", "argmin"]), st.integers(4, 300), st.booleans())
def test_no_box_needs_a_kernel_that_was_not_foreseen(data, axes, op, buffer_bytes, by_cell):
    shape, chunks = zip(*axes, strict=True)
    reduced = tuple(sorted(data.draw(st.sets(st.integers(0, len(axes) - 1)))))
    source = open_source(zarr.create_array({}, shape=shape, chunks=chunks, dtype="f4"))
    layout = Layout(select([Cells(*axis) for axis in axes]), reduced)
    accumulator = bind([as_monoid(op)], [source.dtype]).accumulator
    leaf_bytes = 4 * int(layout.leaf_elements().max())
    work = Work("run", (source,), layout, leaf_bytes, accumulator, None, 2, by_cell)
    kernels, foreseen = set(), set()
    windows_of = windows_by_cell if by_cell else windows_within
    for tile in range(layout.tiles):
        elements = layout.leaf_elements()[tile].tolist()
        parts = [Part(n, many, 4 * many, False, (None,)) for n, many in enumerate(elements)]
        for one in windows_of(work, tile, parts, buffer_bytes):
            starts = [data.draw(st.integers(0, extent - 1)) for extent in one.shape]
            inner = tuple(slice(start, start + 1) for start in starts)
            window = one.within(inner) if data.draw(st.booleans()) else one
            least = kernels_of(work, window, buffer_bytes)
            reads = list(reads_of(work, window, buffer_bytes))
            read = {part.box.kernel for part in reads}
            assert {part.box.outputs for part in reads} == {window.outputs}
            assert max(part.box.elements for part in reads) * 4 <= buffer_bytes
            assert read <= least
            kernels |= read
            foreseen |= least
    if not by_cell and leaf_bytes <= buffer_bytes:
        assert kernels == foreseen  # no more are built than are launched
