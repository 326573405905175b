"""Tiles whose levels kernels make: the same bits as from partials, whatever the elements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from chunkfold.kernels.fold.levels import LevelsFold
from chunkfold.planning import blocks, planner, rules
from chunkfold.workflows.images.pyramid import pyramid
from tests.workflows.images.test_pyramid import hard, image

pytestmark = pytest.mark.unoptimised


@pytest.fixture(autouse=True)
def _small_leaves(monkeypatch):
    """Several leaves to a block, several blocks."""
    monkeypatch.setattr(planner, "LEAF_BYTES", 4096)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", (8192, 16384))


@pytest.fixture
def made(monkeypatch) -> list[bool]:
    """For each buffer that kernels were given, whether they made its levels."""
    found: list[bool] = []
    make = LevelsFold.made

    def watched(self: LevelsFold, *given: Any) -> Any:
        levels = make(self, *given)
        if np.prod(given[1]) >= 32 * 32:  # not what is tried first
            found.append(levels is not None)
        return levels

    monkeypatch.setattr(LevelsFold, "made", watched)
    return found


def bits(group: zarr.Group) -> list[bytes]:
    return [np.asarray(group[path][...]).tobytes() for path in sorted(group.array_keys())]  # type: ignore[index] # arrays


@pytest.mark.parametrize(
    ("dtype", "op"),
    [("f4", "mean"), ("f4", "max"), ("u1", "mean"), ("i2", "min")],
)
def test_levels_are_those_of_partials(tmp_path: Path, monkeypatch, made, dtype: str, op: str):
    rng = np.random.default_rng(6)
    values = (rng.normal(40, 20, (93, 130)) * (1 if dtype == "u1" else 100)).astype(dtype)
    if dtype == "f4":  # tiles that are hard, and one that has all fill values
        values[:32, :32] = hard("float32", (32, 32)) * np.float32(1e-30)
        values[40:44, 50:60] = [np.nan, -0.0, np.inf, 1e-42, 0, -0.0, -np.inf, 3, 2, 1]
        values[64:93, 96:128] = 0
    path = image(tmp_path / "a", values, (32, 32))
    fast = bits(pyramid(path, tmp_path / "b", 4, op))
    assert any(made)
    assert all(made) == (dtype != "f4")
    made.clear()
    monkeypatch.setenv(rules.VARIABLE, "device_levels")
    assert bits(pyramid(path, tmp_path / "c", 4, op)) == fast
    assert not made


def test_chunks_are_read_once_though_levels_might_not_be_exact(tmp_path: Path, made):
    values = np.full((64, 64), np.nan, "f4")
    path = image(tmp_path / "a", values, (32, 32))
    events: list[Any] = []
    group = pyramid(path, tmp_path / "b", 2, on_event=events.append)
    assert made == [False] * 4
    assert np.isnan(group["1"][...]).all()  # type: ignore[index] # an array
    read = sum(one.nbytes for one in events if type(one).__name__ == "BlockProgress" and one.done)
    assert read == values.nbytes
