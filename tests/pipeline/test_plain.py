"""The pure parts of the pipeline: grids, layouts, blocks, trees, memory."""

from __future__ import annotations

import itertools
import math
import pickle
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from numcodecs import GZip, Zstd

from chunkfold import PlanError, plan
from chunkfold.axis_cuts import Cells
from chunkfold.boxes import slabs, slabs_of_cells
from chunkfold.kernels import histogram
from chunkfold.kernels.fold.combine import SLAB_BYTES
from chunkfold.kernels.fold.shapes import MOST_GROUPS, SPLIT_BYTES
from chunkfold.planning import blocks, planner
from chunkfold.planning.blocks import FAN_IN_LARGE, FAN_IN_SMALL, LARGE_PARTIAL_BYTES, Tree, fan_in
from chunkfold.planning.layout import Layout
from chunkfold.planning.leaf_boxes import InputTraits, leaf_box
from chunkfold.planning.leaves import LEAST_OUTPUTS, leaf_factors
from chunkfold.planning.memory import ring_slots
from chunkfold.selections import select
from chunkfold.sources.axis_names import normalized_axes
from chunkfold.sources.opening import open_source
from chunkfold.sources.zarr_source import ZarrSource
from tests.plans import planned

SIZES = st.integers(0, 40)


def entries(size: int) -> st.SearchStrategy:
    bound = st.none() | st.integers(-size - 2, size + 2)
    steps = st.none() | st.integers(1, size + 3) | st.integers(-size - 3, -1)
    slices = st.builds(slice, bound, bound, steps)
    if not size:
        return slices
    number = st.integers(-size, size - 1)
    bools = st.lists(st.booleans(), min_size=size, max_size=size)
    return slices | number | st.lists(number, max_size=size + 5) | bools


def positions_of(size: int, entry: Any) -> np.ndarray:
    """What NumPy selects of an axis, as positions."""
    if isinstance(entry, list):
        entry = np.array(entry, None if entry else int)
    return np.atleast_1d(np.arange(size)[entry])


def array_of(shape, chunks, dtype="i4", **kwargs) -> zarr.Array:
    return zarr.create_array({}, shape=shape, chunks=chunks, dtype=dtype, **kwargs)


@given(st.data(), SIZES, st.integers(1, 12), st.integers(1, 4))
def test_pieces_are_the_selection_cut_at_cells(data, size: int, cell: int, factor: int):
    entry = data.draw(entries(size))
    cells = Cells(size, cell).coarsened(factor)
    (axis,) = select([cells], entry)
    want = positions_of(size, entry)
    got = [np.arange(size)[axis.piece(n).source] for n in range(axis.pieces)]
    np.testing.assert_array_equal(np.concatenate([*got, np.empty(0, int)]), want)
    for n, elements in enumerate(got):
        assert len(elements) == axis.piece(n).length > 0
        assert len(set(elements // cells.cell)) == 1
        assert len(elements) <= cells.cell
        assert axis.piece(n).position == sum(map(len, got[:n]))
    hit = axis.hits(3, 20)
    np.testing.assert_array_equal(np.flatnonzero(hit), np.unique(want // 3))
    first, behind = axis.touched(3)
    assert [(min(one) // 3, max(one) // 3 + 1) for one in got] == [*zip(first, behind, strict=True)]


@given(st.data(), SIZES, st.integers(1, 12))
def test_what_is_folded_as_stored_is_shown_in_the_order_asked_for(data, size: int, cell: int):
    (axis,) = select([Cells(size, cell)], data.draw(entries(size)))
    made, taken = (axis, slice(None)) if axis.ascends else axis.ascending()
    places = np.asarray(axis.places)
    assert made.ascends
    np.testing.assert_array_equal(made.places, places[taken])
    np.testing.assert_array_equal(made.shown, places)
    travelled = pickle.loads(pickle.dumps(made))
    np.testing.assert_array_equal(travelled.shown, places)
    assert travelled.lengths.tolist() == made.lengths.tolist()
    # Each cell once, but for places that are picked more often than it has elements.
    assert made.pieces <= len(np.unique(places // cell)) + len(places) // cell


@given(st.data(), st.lists(st.integers(1, 9), min_size=1, max_size=8))
def test_irregular_cells_cut_where_they_say(data, widths: list[int]):
    bounds = tuple(int(n) for n in np.cumsum([0, *widths]))
    cells = Cells(bounds[-1], 0, bounds).coarsened(data.draw(st.integers(1, 3)))
    (axis,) = select([cells], data.draw(entries(bounds[-1])))
    elements = [np.arange(bounds[-1])[axis.piece(n).source] for n in range(axis.pieces)]
    assert sum(map(len, elements)) == axis.length
    for one in elements:
        assert len(np.unique(np.searchsorted(cells.offsets, one, side="right"))) == 1


@pytest.mark.parametrize(
    ("selection", "match"),
    [
        ((slice(None),) * 3, "3 entries for 2 axes"),
        ((..., ...), "more than one Ellipsis"),
        (slice(None, None, 0), "axis 0"),
        (slice(0.5, None), "axis 0"),
        ((0, 9), "index 9 is out of range for axis 1 of size 5"),
        (-4, "index -4 is out of range for axis 0 of size 3"),
        (True, "not an integer, a slice"),
        ("x", "not an integer, a slice"),
        ([0.5, 1], "not an integer, a slice"),
        ((None, 0), "not an integer, a slice"),
        ([1, 3], "index 3 is out of range for axis 0 of size 3"),
        ((..., [-6, 1]), "index -6 is out of range for axis 1 of size 5"),
        ([True, False], "2 bools, but the axis has 3 elements"),
        (np.ones((3, 5), bool), "2 axes; .* where= takes a mask"),
        ([[1], [2, 3]], "not an integer, a slice"),
    ],
)
def test_bad_selections_are_named(selection, match: str):
    with pytest.raises(PlanError, match=match):
        select([Cells(3, 2), Cells(5, 2)], selection)


@pytest.mark.parametrize(
    ("axis", "want"), [(None, (0, 1, 2)), (-1, (2,)), ((2, 0), (0, 2)), ((), ())]
)
def test_axes_are_read_as_numpy_reads_them(axis, want):
    assert normalized_axes(axis, 3) == want


@pytest.mark.parametrize(
    ("axis", "ndim", "match"),
    [
        (3, 3, "axis 3 is out of range for an array of 3 dimension.*use -3 to 2"),
        (-4, 3, "axis -4"),
        ((0, -3), 3, "twice"),
        (0, 0, "no axis to reduce"),
        (1.5, 3, "1.5 is not an integer"),
    ],
)
def test_bad_axes_are_named(axis, ndim: int, match: str):
    with pytest.raises(PlanError, match=match):
        normalized_axes(axis, ndim)


@given(st.lists(st.integers(1, 9), max_size=4), st.integers(1, 200))
def test_slabs_cover_a_box_once_within_the_limit(shape: list[int], limit: int):
    seen = np.zeros(shape, int)
    for slab in slabs(shape, 1, limit):
        seen[slab] += 1
        assert math.prod(s.stop - s.start for s in slab) <= limit
    assert (seen == 1).all()


@given(
    st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=5), min_size=1, max_size=3),
    st.integers(0, 9),
    st.integers(1, 200),
)
def test_no_cell_is_cut_that_fits(cells: list[list[int]], first: int, limit: int):
    bounds = [list(itertools.accumulate(extents, initial=first)) for extents in cells]
    cuts = [[slice(*ends) for ends in itertools.pairwise(along)] for along in bounds]
    seen = np.zeros([along[-1] for along in bounds], int)
    fit = math.prod(map(max, cells)) <= limit
    for slab in slabs_of_cells(cuts, 1, limit):
        seen[slab] += 1
        assert math.prod(s.stop - s.start for s in slab) <= limit
        if fit:
            assert all({s.start, s.stop} <= set(b) for s, b in zip(slab, bounds, strict=True))
    assert (seen[(slice(first, None),) * len(cells)] == 1).all()
    assert seen.sum() == math.prod(map(sum, cells))


@given(
    st.lists(st.integers(1, 300), min_size=1, max_size=4),
    st.sampled_from([1, 2, 4, 8]),
    st.sets(st.integers(0, 3)),
    st.lists(st.integers(1, 3000), min_size=4, max_size=4),
)
def test_leaves_are_powers_of_two_within_the_target(
    cell: list[int], itemsize: int, axes: set, counts: list[int]
):
    reduced = sorted(axes & set(range(len(cell))))
    cells = [Cells(size * count, size) for size, count in zip(cell, counts, strict=False)]
    factors = leaf_factors(cells, itemsize, 1 << 20, reduced)
    assert all(factor & (factor - 1) == 0 for factor in factors)
    assert all(f < 2 * count for f, count in zip(factors, counts, strict=False))
    nbytes = math.prod(cell) * itemsize * math.prod(factors)
    whole = all(f >= count for f, count in zip(factors, counts, strict=False))
    assert math.prod(factors) == 1 or nbytes <= 1 << 20
    assert whole or nbytes * 2 > 1 << 20
    kept = [n for n in range(len(cell)) if n not in reduced]
    if any(factors[n] > 1 for n in reduced) and any(factors[n] < counts[n] for n in kept):
        assert math.prod(cell[n] * factors[n] for n in kept) >= LEAST_OUTPUTS


@given(st.data())
def test_leaves_cover_every_selected_element_once_and_outputs_fit(data):
    shape = data.draw(st.lists(st.integers(1, 9), max_size=4))
    cells = [Cells(size, data.draw(st.integers(1, 5))) for size in shape]
    selection = tuple(data.draw(entries(size)) for size in shape)
    reduced = tuple(n for n in range(len(shape)) if data.draw(st.booleans()))
    layout = Layout(select(cells, selection), reduced)
    seen = np.zeros(shape, int)
    for tile in range(layout.tiles):
        for part in range(layout.parts):
            pieces = layout.leaf(tile, part)
            np.add.at(seen, np.ix_(*(p.places(np.arange(p.length)) for p in pieces)), 1)
            outputs = math.prod(pieces[n].length for n in layout.kept)
            assert outputs == layout.tile_outputs(tile)
            within = [slice(0, piece.length) for piece in pieces]
            for indexed in (False, True):
                one = leaf_box(layout, pieces, within, InputTraits(indexed))
                assert (one.outputs, one.elements) == (outputs, math.prod(p.length for p in pieces))
    want = np.zeros(shape, int)
    each = (positions_of(size, entry) for size, entry in zip(shape, selection, strict=True))
    np.add.at(want, np.ix_(*each), 1)
    np.testing.assert_array_equal(seen, want)


@given(st.integers(1, 400), st.integers(1, 8), st.sampled_from([(0,), (1,), (0, 1), ()]))
def test_blocks_cover_every_leaf_once(rows: int, workers: int, axis):
    source = ZarrSource(array_of((rows, 50), (3, 20), "f8"), "a")
    layout_target, planner.LEAF_BYTES = planner.LEAF_BYTES, 500
    low_high, blocks.BLOCK_BYTES = blocks.BLOCK_BYTES, (2000, 9000)
    try:
        plan = planned(source, axis=axis, workers=workers)
    finally:
        planner.LEAF_BYTES, blocks.BLOCK_BYTES = layout_target, low_high
    seen = np.zeros((plan.layout.tiles, plan.layout.parts), int)
    for block in plan.blocks:
        seen[slice(*block.tiles), slice(*block.parts)] += 1
        # Either parts of one tile, or whole tiles: a partial belongs to one tile.
        assert block.tiles[1] - block.tiles[0] == 1 or block.parts == (0, plan.layout.parts)
    assert (seen == 1).all()
    assert [block.number for block in plan.blocks] == list(range(len(plan.blocks)))
    assert str(len(plan.blocks)) in str(plan)


def test_leaves_stay_where_they_are_when_the_array_grows():
    def leaves(rows: int) -> set:
        source = ZarrSource(array_of((rows, 1000), (10, 300), "f4"), "a")
        layout = planned(source).layout
        return {
            tuple((p.source.start, p.source.stop) for p in layout.leaf(0, part))
            for part in range(layout.parts)
        }

    small, large = leaves(20_000), leaves(60_000)
    assert len(small) > 4
    assert len(small - large) <= 4  # only those at the old edge have grown


@given(st.integers(1, 5000), st.sampled_from((FAN_IN_LARGE, FAN_IN_SMALL)))
def test_the_tree_takes_every_node_once(count: int, fan_in: int):
    tree = Tree(count, fan_in)
    sizes = tree.sizes
    assert sizes[0] == count
    assert sizes[-1] == 1
    for level, (below, here) in enumerate(pairwise(sizes), start=1):
        taken = [n for node in range(here) for n in tree.children(level, node)]
        assert taken == list(range(below))
        assert max(len(tree.children(level, node)) for node in range(here)) <= fan_in


def test_the_memory_bound_has_every_term():
    """Distinct primes, so that no term can hide behind another."""
    source = ZarrSource(array_of((11 * 7, 13 * 5), (11, 13), "f4"), "a")
    leaf = planner.LEAF_BYTES
    planner.LEAF_BYTES = 1
    try:
        plan = planned(source, axis=0, threads=3, readers=7)
    finally:
        planner.LEAF_BYTES = leaf
    memory = plan.memory
    assert plan.scan.leaf_bytes == 11 * 13 * 4
    assert memory.staging == 3 * ring_slots(7) * 11 * 13 * 4
    assert memory.decoding == 7 * 2 * 11 * 13 * 4
    partial = 13 * plan.accumulator.nbytes
    assert memory.accumulators == 3 * 3 * partial + 5 * partial  # and the roots of all five tiles
    assert memory.total == memory.staging + memory.decoding + memory.accumulators
    memory = planned(source, "sum", mode="exact", axis=0).memory
    outputs = 13 * 5  # the whole of them: leaves are no smaller here
    partial, limbs = outputs * 3 * 8, outputs * (11 + 3) * 8
    assert memory.accumulators == 3 * partial + 3 * limbs + partial
    memory = planned(source, histogram(range(18)), threads=3).memory
    assert memory.accumulators == 3 * (3 * 17 * 8 + MOST_GROUPS * 17 * 8) + 17 * 8
    memory = planned(source, histogram(range(50_001))).memory
    assert memory.accumulators == 3 * 50_000 * 8 + SPLIT_BYTES + 50_000 * 8


def test_the_bound_is_of_the_largest_tile():
    """Not of the first one, which a selection may have cut."""
    cell = 1 << 20
    source = ZarrSource(array_of((4, 3 * cell), (4, cell), "f8"), "a")
    whole = planned(source, axis=0)
    most = (slice(None), slice(cell - 1, None))
    cut = planned(source, axis=0, selection=most)
    assert cut.layout.tile_outputs(0) == 1
    assert cut.layout.most_outputs == whole.layout.most_outputs == cell


def test_large_partials_wait_in_pairs_and_blocks_leave_little():
    assert (fan_in(LARGE_PARTIAL_BYTES - 1), fan_in(LARGE_PARTIAL_BYTES)) == (8, 2)
    source = ZarrSource(array_of((10_000, 721, 1440), (8, 721, 1440), "f4"), "a")
    plan = planned(source, axis=0)
    partial = 721 * 1440 * plan.accumulator.nbytes
    assert plan.largest_tree.fan_in == 2
    assert plan.scan.nbytes / len(plan.blocks) >= 128 * partial
    waiting = plan.largest_tree.height * partial
    assert 2**plan.largest_tree.height >= len(plan.blocks) > 2 ** (plan.largest_tree.height - 1)
    alone = planned(source, axis=0, selection=slice(0, 8)).memory
    together = 2 * min(SLAB_BYTES, 2 * partial) + partial
    assert plan.memory.accumulators == alone.accumulators + waiting + together
    small = planned(source)
    assert (small.largest_tree.fan_in, small.scan.nbytes / len(small.blocks) < 2**30 * 1.1) == (
        8,
        True,
    )


def test_what_comes_through_zarr_or_a_network_is_decoded_leaf_by_leaf(tmp_path):
    """Files are decoded chunk by chunk, or some chunks at a time."""
    for name, compressors, shape in (
        ("plain", GZip(), (100, 10)),
        ("a few", Zstd(), (100, 10)),
        ("large", Zstd(), (100, 1000)),
    ):
        source = open_source(array_in(tmp_path / name, chunks=shape, compressors=compressors))
        at_a_time = 10 if name == "plain" else 1000
        assert planned(source).memory.decoding == 2 * 2 * 100 * at_a_time * 4
    source = open_source(array_in(tmp_path / "filtered", chunks=(100, 10), order="F"))
    assert planned(source).memory.decoding == 2 * 2 * 100 * 1000 * 4


def array_in(folder, chunks, **layout):
    return zarr.create_array(
        str(folder), shape=(100, 1000), chunks=chunks, dtype="f4", zarr_format=2, **layout
    )


def test_fewer_blocks_run_at_once_and_fewer_threads_read_where_memory_is_short():
    source = ZarrSource(array_of((1 << 14, 1 << 12), (1 << 10, 1 << 12), "f4"), "a")
    ways = []
    for mib in (100, 200, 400, 850, 1200, 4000):
        plan = planned(source, threads=3, readers=16, memory=mib << 20)
        assert plan.memory.total <= mib << 20
        ways.append((plan.readers, plan.threads))
    assert ways == sorted(ways)
    assert ways[0] == (1, 1)
    assert (16, 1) in ways
    assert ways[-1] == (16, 3)
    with pytest.raises(PlanError, match=r"a: a worker needs 9\d\.\d MiB, but may use only 50\.0 M"):
        planned(source, readers=16, memory=50 << 20)


def test_leaves_of_small_chunks_are_smaller_where_memory_is_short():
    source = ZarrSource(array_of((2048, 256, 1024), (1, 256, 1024), "f4"), "a")
    leaves = []
    for mib in (4000, 100, 60, 30, 12):
        plan = planned(source, threads=2, readers=2, memory=mib << 20)
        assert plan.memory.total <= mib << 20
        leaves.append(plan.scan.leaf_bytes >> 20)
    assert leaves == [16, 4, 4, 1, 1]
    with pytest.raises(PlanError, match=r"even with leaves of 1\.0 MiB: use more memory, or"):
        planned(source, memory=2 << 20)


@pytest.mark.parametrize(
    "memory",
    [
        0,
        -1,
        "",
        "abc",
        "GB",
        True,
        [1],
        float("inf"),
        float("nan"),
        "5e400GB",
        b"1",
        "1_0GB",
        "٣GB",
        "2²GB",
    ],
)
def test_a_memory_that_is_none_is_refused(memory):
    with pytest.raises(PlanError, match="give a size with its unit, such as '2 GiB'"):
        plan(array_of((10,), (5,), "f4"), memory=memory)


@pytest.mark.parametrize("memory", ["10", " 1e9 ", "2.5", "0", "inf"])
def test_a_memory_without_a_unit_is_refused_where_it_is_a_text(memory: str):
    with pytest.raises(PlanError, match="a number without a unit: write the unit, as in '2 GiB'"):
        plan(array_of((10,), (5,), "f4"), memory=memory)


@pytest.mark.parametrize("memory", [1 << 30, 1e9, np.int64(10**9), "1GB", "0.5 GiB"])
def test_memory_may_be_said_in_several_ways(memory):
    assert plan(array_of((10,), (5,), "f4"), memory=memory).readers >= 1


def test_a_plan_beyond_the_workers_memory_is_refused():
    source = ZarrSource(array_of((1 << 15, 1 << 15), (1 << 14, 1 << 14), "f8"), "big.zarr")
    with pytest.raises(PlanError, match=r"big.zarr: a worker needs .* may use only 614\.4 MiB"):
        planned(source, memory_limit=1 << 30)


def test_planning_a_million_chunks_is_a_matter_of_seconds():
    """Counted, not timed: blocks, not chunks, decide the work."""
    source = ZarrSource(array_of((1_000_000, 1000), (1, 1000), "f4"), "a")
    plan = planned(source, workers=2)
    assert plan.layout.parts > 100
    assert len(plan.blocks) < 100


@pytest.mark.parametrize("workers", [2, 5, 16])
def test_every_worker_gets_a_block_of_what_is_not_small(workers: int):
    source = ZarrSource(array_of((40 * workers, 1 << 18), (1, 1 << 18), "f4"), "a")
    assert len(planned(source, workers=workers).blocks) >= workers
    assert len(planned(source, workers=1).blocks) == 1
