"""Devices with memory of their own are fed by files as they are stored; all else goes as before.

CPU runtimes stand in for them: what is uploaded there is copied, and all else is the same.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
import zarr

import chunkfold as cf
from chunkfold.kernels.feed.fed_buffer import FedBuffer
from chunkfold.worker.worker_device import WorkerDevice

SHAPE = (40, 60, 500)
LAYOUTS = {
    "rows": {"chunks": (8, 60, 500)},
    "side by side": {"chunks": (8, 30, 500)},
    "edges": {"chunks": (7, 25, 500)},
    "format 2": {"chunks": (8, 60, 500), "zarr_format": 2},
    "big endian": {"chunks": (8, 60, 500), "dtype": ">f4"},
}
QUESTIONS = {
    "sum": ("sum", {}),
    "fast": ("sum", {"mode": "fast"}),
    "axis 0": ("mean", {"axis": 0}),
    "axes 1, 2": ("std", {"axis": (1, 2)}),
    "position": ("argmax", {"axis": 0}),
    "several": (["min", "count"], {"axis": 1}),
    "labels": ("sum", {"axis": 0, "by": [0, 1] * 20}),
    "weights": ("mean", {"axis": 0, "weights": np.arange(40.0).reshape(-1, 1, 1)}),
    "median": ("median", {"axis": 0}),
    "part": ("max", {"selection": (slice(3, 30), slice(10, None))}),
    "steps": ("max", {"selection": (slice(3, 30, 4), slice(None, None, 7))}),
}


@pytest.fixture
def counted(monkeypatch) -> dict[str, int]:
    """Count reads that were fed, and those that were decoded by the thread that reads."""
    counts = {"fed": 0, "not as planned": 0, "decoded": 0}
    fed, begin = FedBuffer.feed_from_files, FedBuffer.begin

    def noted(self: FedBuffer, runs: object) -> bool:
        done = fed(self, runs)  # type: ignore[arg-type]
        counts["fed" if done else "not as planned"] += 1
        return done

    def begun(self: FedBuffer) -> np.ndarray:
        counts["decoded"] += 1
        return begin(self)

    monkeypatch.setattr(FedBuffer, "feed_from_files", noted)
    monkeypatch.setattr(FedBuffer, "begin", begun)
    return counts


def wild() -> np.ndarray:
    return (np.random.default_rng(0).normal(size=SHAPE) * 100).astype("f4")


def stored(path: Path, **layout: object) -> Path:
    given = {"dtype": "f4", "compressors": None, **layout}
    made = zarr.create_array(path, shape=SHAPE, **given)  # type: ignore[arg-type]
    made[...] = wild()
    return path


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("question", QUESTIONS)
def test_answers_have_the_same_bits(
    owned: WorkerDevice, tmp_path: Path, counted, layout: str, question: str
):
    op, words = QUESTIONS[question]
    path = stored(tmp_path / "a", **LAYOUTS[layout])
    found = cf.reduce(path, op, **words)
    wanted = cf.reduce(wild(), op, **words)  # an array in memory is copied
    for name, one in found.items() if isinstance(found, dict) else [("", found)]:
        np.testing.assert_array_equal(one, wanted[name] if name else wanted)
    if question != "steps" and layout != "edges":
        assert counted["fed"] > 0
    assert not counted["not as planned"]


def test_all_is_fed_that_is_stored_as_it_is(owned: WorkerDevice, tmp_path: Path, counted):
    path = stored(tmp_path / "a", chunks=(4, 60, 500))
    run = cf.submit(path, "sum")
    run.result()
    assert counted == {"fed": run.plan.layout.leaves, "not as planned": 0, "decoded": 0}


@pytest.mark.parametrize("codec", ["zstd", "gzip"])
def test_what_the_host_decodes_is_not_fed(owned: WorkerDevice, tmp_path: Path, counted, codec: str):
    codecs = {"zstd": zarr.codecs.ZstdCodec(), "gzip": zarr.codecs.GzipCodec()}
    path = stored(tmp_path / "a", chunks=(8, 60, 500), compressors=codecs[codec])
    assert cf.reduce(path, "max", decode="host") == wild().max()
    assert not counted["fed"]
    assert counted["decoded"]


def test_sources_that_are_one_are_fed_by_their_files(owned: WorkerDevice, tmp_path: Path, counted):
    paths = [stored(tmp_path / name, chunks=(8, 60, 500)) for name in "abc"]
    joined = cf.concatenate(paths)
    whole = np.concatenate([wild()] * 3)
    assert cf.reduce(joined, "max") == whole.max()
    assert not counted["decoded"]
    np.testing.assert_array_equal(cf.reduce(joined, "sum", axis=0), cf.reduce(whole, "sum", axis=0))
    assert counted["fed"]


def test_chunks_that_are_not_stored_are_fill(owned: WorkerDevice, tmp_path: Path, counted):
    path = stored(tmp_path / "a", chunks=(8, 20, 500), fill_value=7)
    (path / "c" / "2" / "1" / "0").unlink()
    values = wild()
    values[16:24, 20:40] = 7
    np.testing.assert_array_equal(cf.reduce(path, "max", axis=0), values.max(0))
    assert counted["decoded"]


@pytest.mark.parametrize("do", ["cut", "longer", "empty", "a folder"])
def test_a_damaged_chunk_is_told_as_ever_or_left_out(
    owned: WorkerDevice, tmp_path: Path, counted, do: str
):
    path = stored(tmp_path / "a", chunks=(8, 60, 500))
    chunk = path / "c" / "2" / "0" / "0"
    content = chunk.read_bytes()
    chunk.unlink()
    if do == "a folder":
        chunk.mkdir()
    else:
        chunk.write_bytes({"cut": content[:-5000], "longer": content + b"x", "empty": b""}[do])
    if do == "a folder":  # to zarr it is not stored
        values = wild()
        values[16:24] = 0
        assert cf.reduce(path, "max", axis=(0, 1)).tolist() == values.max((0, 1)).tolist()
        return
    with pytest.raises(cf.ChunkError, match=r"a: cannot read chunk 'c/2/0/0'"):
        cf.reduce(path)
    assert counted["not as planned"]
    run = cf.submit(path, "max", on_bad_chunk="skip")
    assert run.result() == np.delete(wild(), slice(16, 24), 0).max()
    assert list(run.skipped.values()) == [wild()[16:24].size]


@pytest.mark.parametrize("how", ["written later", "gone"])
def test_a_chunk_that_changes_under_way_ends_the_run(
    owned: WorkerDevice, tmp_path: Path, monkeypatch, how: str
):
    path = stored(tmp_path / "a", chunks=(8, 60, 500))
    chunk, fed, done = path / "c" / "3" / "0" / "0", FedBuffer.feed_from_files, []

    def changing(self: FedBuffer, runs: object) -> bool:
        if not done:
            done.append(True)
            if how == "gone":
                chunk.unlink()
            else:
                later = time.time_ns() + 5_000_000_000
                os.utime(chunk, ns=(later, later))
        return fed(self, runs)  # type: ignore[arg-type]

    monkeypatch.setattr(FedBuffer, "feed_from_files", changing)
    with pytest.raises(cf.ChunkfoldError, match=r"c/3/0/0.*(after the run was planned|is gone)"):
        cf.reduce(path)


def test_two_sources_are_fed_each_by_its_files(owned: WorkerDevice, tmp_path: Path, counted):
    one, other = (stored(tmp_path / name, chunks=(8, 60, 500)) for name in "ab")
    assert cf.reduce((one, other), "max_abs_diff") == 0
    assert counted["fed"] % 2 == 0
    assert not counted["decoded"]


def test_datasets_of_hdf5_are_read_by_it(owned: WorkerDevice, tmp_path: Path, counted):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a"] = wild()
    assert cf.reduce(f"{tmp_path}/a.h5/a", "max") == wild().max()
    assert counted["decoded"]
