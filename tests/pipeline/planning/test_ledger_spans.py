"""Blocks of a ledger have as many leaves as workers, and partials, ask for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chunkfold as cf
from chunkfold.axis_cuts import Cells
from chunkfold.grid import Axis
from chunkfold.planning import planner
from chunkfold.planning.aligned_runs import LeafGrids
from chunkfold.planning.layout import Layout
from chunkfold.planning.ledger_spans import _sizes
from tests.ledgers import asked, small_blocks, stored


def layout_of(tiles: int, parts: int) -> Layout:
    return Layout(tuple(Axis(Cells(n, 1), 0, n, 1) for n in (tiles, parts)), (1,))


@given(st.integers(1, 50), st.integers(1, 50), st.integers(1, 8), st.integers(1, 1 << 24))
def test_blocks_have_runs_of_tiles_and_of_parts(tiles, parts, workers, nbytes):
    costs, grids = np.full((tiles, parts), 1 << 24, float), LeafGrids.of(layout_of(tiles, parts))
    a, b = _sizes(costs, grids, workers, nbytes, whole=False)
    assert a in grids.tiles.lengths
    assert b in grids.parts.lengths
    assert _sizes(costs, grids, workers, nbytes, whole=True)[1] == parts


def test_partials_of_less_than_a_leaf_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As a GPU, whose leaves are large, finds those of a CPU."""
    source = tmp_path / "a.zarr"
    stored(source, np.random.default_rng(0).normal(size=(24, 6, 8)).astype("f4"), (2, 6, 8))
    small_blocks(monkeypatch, 512, (1 << 11, 1 << 11))
    assert len(asked(source, "mean", tmp_path / "l").plan.blocks) > 1
    monkeypatch.setattr(planner, "max_leaf_bytes", lambda *_: 1 << 14)
    assert cf.plan(source, "mean").layout.leaves == 1
    assert asked(source, "mean", tmp_path / "l").plan.scan.nbytes == 0
    assert asked(source, "max", tmp_path / "l").plan.layout.leaves == 1
