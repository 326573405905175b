"""Leaves are whole cells, or decode as little as can be where inputs are cut unlike."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from zarr.storage import MemoryStore

import chunkfold as cf
from chunkfold.axis_cuts import Cells
from chunkfold.planning.leaves import (
    layouts_of,
    leaf_elements,
    leaf_factors,
    repeats,
    secondary_layout,
)
from chunkfold.planning.options import Options
from chunkfold.planning.resolve import resolve
from chunkfold.selections import select
from chunkfold.sources.array_source import ArraySource
from chunkfold.sources.zarr_source import ZarrSource

SHAPE = (60, 50, 40)
CUTS = st.tuples(*(st.integers(1, size) for size in SHAPE))


def cut(*chunks: int) -> ZarrSource:
    array = zarr.create_array(MemoryStore(), shape=SHAPE, chunks=chunks, dtype="f4")
    return ZarrSource(array, "a")


def as_one_has_it(source: ZarrSource, target_bytes: int) -> tuple[int, ...]:
    factors = leaf_factors(source.grid, 4, target_bytes, (0, 1, 2))
    return tuple(a.coarsened(n).cell for a, n in zip(source.grid, factors, strict=True))


@given(CUTS, st.integers(100, 200_000))
def test_of_inputs_cut_alike_there_is_one_way(chunks: tuple[int, ...], target: int):
    source = cut(*chunks)
    (layout,) = layouts_of([source, cut(*chunks)], select(source.grid), (0, 1, 2), target)
    assert tuple(axis.cells.cell for axis in layout.axes) == as_one_has_it(source, target)
    assert repeats(source, layout) == 1


@given(CUTS, CUTS, st.integers(400, 200_000))
def test_the_first_way_decodes_no_more_than_the_others_and_none_is_much_larger(
    one: tuple[int, ...], two: tuple[int, ...], target: int
):
    sources = [cut(*one), cut(*two)]
    layouts = layouts_of(sources, select(sources[0].grid), (0, 1, 2), target)
    decoded = [sum(repeats(source, layout) for source in sources) for layout in layouts]
    assert decoded[0] <= min(decoded) + 0.2
    least = min(leaf_elements(layout) for layout in layouts)
    assert all(leaf_elements(layout) <= max(least, target) for layout in layouts)


def test_of_three_steps_and_two_those_are_counted_that_cross():
    layout = layouts_of([cut(3, 50, 40)], select(cut(3, 50, 40).grid), (0, 1, 2), 1)[0]
    # Of every six elements, cut in threes, the second of three pairs is in two leaves.
    assert repeats(cut(2, 50, 40), layout) == pytest.approx(4 / 3)


def test_little_memory_is_room_for_small_leaves_and_the_answer_is_the_same(
    tmp_path: Path, monkeypatch
):
    monkeypatch.setattr("chunkfold.planning.planner.LEAF_BYTES", 40_000)
    values = np.random.default_rng(0).normal(size=SHAPE).astype("f4")
    paths = []
    for name, chunks in (("a", (7, 50, 40)), ("b", (60, 6, 40))):
        made = zarr.create_array(str(tmp_path / name), shape=SHAPE, chunks=chunks, dtype="f4")
        made[...] = values
        paths.append(tmp_path / name)
    much = cf.plan(paths, "dot", mode="fast")
    assert "are decoded" in str(much)
    little = cf.plan(paths, "dot", memory=1_300_000, mode="fast")
    assert little.scan.leaf_bytes < much.scan.leaf_bytes
    assert little.memory.total <= 1_300_000
    assert cf.reduce(paths, "dot") == cf.reduce(paths, "dot", memory=2_500_000)


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
    first = resolve(source, {"windows": with_windows, "plain": plain})
    chosen = [replace(axis, together=together if axis.window else 1) for axis in first.chosen]
    for layout in layouts_of(first.sources, chosen, first.reduced, size * 16):
        own = secondary_layout(first.secondary[0], layout)
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
