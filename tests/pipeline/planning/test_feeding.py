"""Large leaves and few readers where GPUs are fed by files as they are stored; else as ever."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
import zarr

from chunkfold.planning import feeding, planner
from tests.plans import planned


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """An array of 64 chunks of 64 KiB."""
    zarr.create_array(
        tmp_path / "a", shape=(64, 16384), chunks=(1, 16384), dtype="f4", compressors=None
    )[...] = np.float32(1)
    return tmp_path / "a"


@pytest.fixture(autouse=True)
def _small(monkeypatch) -> None:
    monkeypatch.setattr(planner, "LEAF_BYTES", 64 << 10)
    monkeypatch.setattr(feeding, "LEAF_BYTES", 256 << 10)


def test_gpus_have_large_leaves_and_few_readers(path: Path):
    plan = planned(path, own_memory=True, readers=16)
    assert (plan.leaf_bytes, plan.readers) == (256 << 10, feeding.READERS)
    other = planned(path, own_memory=False, readers=16)
    assert (other.leaf_bytes, other.readers) == (64 << 10, 16)


def test_hdf5_without_filters_is_fed_as_chunks_without_codecs_are(tmp_path: Path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, given in (("plain", {}), ("packed", {"compression": "gzip"})):
            file.create_dataset(name, (64, 16384), "f4", chunks=(1, 16384), **given)[...] = 1
    found = [planned(tmp_path / "a.h5" / name, own_memory=True) for name in ("plain", "packed")]
    assert [plan.leaf_bytes for plan in found] == [256 << 10, 64 << 10]


def test_each_worker_has_some_leaves(path: Path):
    assert planned(path, own_memory=True, workers=4).leaf_bytes == 128 << 10
    assert planned(path, own_memory=True, workers=40).leaf_bytes == 64 << 10


def test_leaves_are_a_small_part_of_a_devices_memory(path: Path):
    assert planned(path, own_memory=True, buffer_bytes=1 << 20).leaf_bytes == 128 << 10
