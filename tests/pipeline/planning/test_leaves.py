"""Leaves are whole cells, or decode as little as can be where inputs are cut unlike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from zarr.storage import MemoryStore

import chunkfold as cf
from chunkfold.planning.leaves import layouts_of, leaf_elements, leaf_factors, repeats
from chunkfold.selections import select
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
    assert little.leaf_bytes < much.leaf_bytes
    assert little.memory.total <= 1_300_000
    assert cf.reduce(paths, "dot") == cf.reduce(paths, "dot", memory=2_500_000)
