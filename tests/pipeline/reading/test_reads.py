"""What is read for a box of outputs, and which kernels fold it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

import chunkfold as cf
from chunkfold.axis_cuts import Cells
from chunkfold.kernels import as_monoid, bind
from chunkfold.planning.folding import Folding
from chunkfold.planning.layout import Layout
from chunkfold.planning.work import Scan, Work
from chunkfold.reading.box_kernels import kernels_of
from chunkfold.reading.reads import (
    all_outputs,
    output_boxes_by_cell,
    output_boxes_within,
    reads_of,
)
from chunkfold.reading.tile_leaves import TileLeaf
from chunkfold.selections import select
from chunkfold.sources.opening import open_source

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
    scan = Scan("run", (source,), (None,), leaf_bytes, None, 2, 2, 1, 0, 60.0, by_cell)
    work = Work(scan, Folding(layout, accumulator, keys=None, broadcast=()))
    kernels, foreseen = set(), set()
    windows_of = output_boxes_by_cell if by_cell else output_boxes_within
    for tile in range(layout.tiles):
        elements = layout.leaf_elements()[tile].tolist()
        parts = [TileLeaf(n, many, 4 * many, False, (None,)) for n, many in enumerate(elements)]
        place = tuple(slice(0, size) for size in layout.tile_shape(tile))
        for one in windows_of(work, tile, place, parts, buffer_bytes):
            starts = [data.draw(st.integers(0, extent - 1)) for extent in one.shape]
            inner = tuple(slice(start, start + 1) for start in starts)
            output_box = one.within(inner) if data.draw(st.booleans()) else one
            least = kernels_of(work, output_box, buffer_bytes)
            reads = list(reads_of(work, output_box, buffer_bytes))
            read = {part.box.kernel for part in reads}
            assert not any(part.in_turn for part in reads)  # zarr reads what is in its memory
            assert {part.box.outputs for part in reads} == {output_box.outputs}
            assert max(part.box.elements for part in reads) * 4 <= buffer_bytes
            assert read <= least
            kernels |= read
            foreseen |= least
    if not by_cell and leaf_bytes <= buffer_bytes:
        assert kernels == foreseen  # no more are built than are launched


@pytest.mark.parametrize(
    ("op", "axis", "chunks", "in_turn"),
    [
        ("sum", (0, 1), [(3, 5)], True),
        ("sum", (0,), [(3, 5)], False),
        ("argmin", (0, 1), [(3, 5)], False),
        ("dot", (0, 1), [(3, 5), (3, 5)], True),
        ("dot", (0, 1), [(3, 5), (5, 3)], False),
    ],
)
def test_chunks_are_read_in_turn_where_no_place_matters(
    tmp_path: Path, op: str, axis: tuple[int, ...], chunks: list, *, in_turn: bool
):
    rng = np.random.default_rng(0)
    values = [rng.integers(0, 99, (20, 30)).astype("f4") for _ in chunks]
    for n, (array, shape) in enumerate(zip(values, chunks, strict=True)):
        zarr.create_array(str(tmp_path / f"{n}"), data=array, chunks=shape)
    sources = tuple(open_source(tmp_path / f"{n}") for n in range(len(chunks)))
    layout = Layout(select([Cells(20, 6), Cells(30, 10)]), axis)
    accumulator = bind([as_monoid(op)], [source.dtype for source in sources]).accumulator
    scan = Scan("run", sources, (None, None), 240, None, 2, 2, 1, 0, 60.0, skips=False)
    work = Work(scan, Folding(layout, accumulator, keys=None, broadcast=()))
    output_box = all_outputs(work, 0, [TileLeaf(0, 60, 240, False, (None,) * len(chunks))])
    assert {read.in_turn for read in reads_of(work, output_box, 240)} == {in_turn}
    given = tuple(tmp_path / f"{n}" for n in range(len(chunks)))
    got = cf.reduce(given if len(given) > 1 else given[0], op, axis=axis)
    numpys = {"dot": lambda a, b: (a * b).sum(axis), "sum": lambda a: a.sum(axis)}
    want = values[0].argmin() if op == "argmin" else numpys[op](*values)
    np.testing.assert_array_equal(got, want)
