"""The ring of staging buffers goes on to what comes next, and comes back to what went wrong."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
import zarr

import chunkfold as cf
from chunkfold.planning import planner
from chunkfold.sources.zarr_source import ZarrSource
from chunkfold.worker import question_folds

pytestmark = pytest.mark.unoptimised


@pytest.fixture
def tiles(tmp_path: Path, monkeypatch) -> tuple[Path, np.ndarray]:
    """Eight tiles of two leaves each, if the first axis is reduced; each leaf is a chunk."""
    monkeypatch.setattr(planner, "LEAF_BYTES", 1)
    values = np.random.default_rng(0).normal(0, 1, (10, 64)).astype("f4")
    zarr.create_array(str(tmp_path / "a"), data=values, chunks=(5, 8))
    return tmp_path / "a", values


def test_the_next_tile_is_read_while_one_ends(tiles, monkeypatch):
    path, values = tiles
    read, ahead, real = set(), [], ZarrSource.read
    changed = threading.Condition()

    def noted(self, region, *given):
        real(self, region, *given)
        with changed:
            read.add(region[1].start // 8)
            changed.notify_all()

    class Ending(question_folds.Fold):
        def read_back(self):
            tile = len(ahead)
            with changed:
                ahead.append(changed.wait_for(lambda: tile == 7 or tile + 1 in read, 20))
            return super().read_back()

    monkeypatch.setattr(ZarrSource, "read", noted)
    monkeypatch.setattr(question_folds, "Fold", Ending)
    np.testing.assert_array_equal(cf.reduce(path, "max", axis=0), values.max(axis=0))
    assert ahead == [True] * 8


@pytest.mark.parametrize("bad", [{3}, {0, 1, 7}, set(range(8))], ids=str)
def test_what_is_read_ahead_of_a_bad_tile_is_read_again(tiles, bad: set[int]):
    path, values = tiles
    for tile in bad:
        (path / "c" / "1" / str(tile)).write_bytes(b"spoiled")
    run = cf.submit(path, ["max", "count"], axis=0, on_bad_chunk="skip", memory="1GB")
    whole = np.repeat([tile not in bad for tile in range(8)], 8)
    want = np.where(whole, values.max(axis=0), values[:5].max(axis=0))
    np.testing.assert_array_equal(run.result(60)["max"], want)
    assert sum(run.skipped.values()) == 40 * len(bad)
    assert [chunk for chunk in run.skipped if chunk and chunk.key.startswith("c/1/")]
    with pytest.raises(cf.ChunkError, match=f"chunk 'c/1/{min(bad)}'"):
        cf.reduce(path, "max", axis=0)


def test_sums_that_are_lost_are_read_again_in_between(tiles):
    """1e308 and 1e-308 are too far apart for a few doubles: such outputs are folded in limbs."""
    path, _ = tiles
    values = np.ones((10, 64))
    values[2, 9] = values[4, 33] = 1e300
    values[7, 9] = values[9, 33] = -1e300
    values[3, 9], values[8, 33] = 1e-300, 2e-300
    wide = zarr.create_array(str(path.parent / "wide"), data=values, chunks=(5, 8))
    want = np.full(64, 10.0)
    want[[9, 33]] = 7.0
    np.testing.assert_array_equal(cf.reduce(wide, "sum", axis=0), want)
