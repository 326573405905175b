"""Devices with memory of their own are fed by files as they are stored; all else goes as before.

CPU runtimes stand in for them: what is uploaded there is copied, and all else is the same.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from pathlib import Path

import h5netcdf
import h5py
import numpy as np
import pytest
import zarr

import chunkfold as cf
from chunkfold.errors import ChangedError
from chunkfold.kernels.feed.fed_buffer import FedBuffer
from chunkfold.sources import h5_source
from chunkfold.sources.opening import open_source
from chunkfold.worker.worker_device import WorkerDevice

SHAPE = (40, 60, 500)
LAYOUTS = {
    "rows": {"chunks": (8, 60, 500)},
    "side by side": {"chunks": (8, 30, 500)},
    "edges": {"chunks": (7, 25, 500)},
    "format 2": {"chunks": (8, 60, 500), "zarr_format": 2},
    "big endian": {"chunks": (8, 60, 500), "dtype": ">f4"},
    "HDF5": {"chunks": (8, 30, 500), "dtype": ">f4"},
    "HDF5 in one piece": {},
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
    if path.suffix == ".h5":
        with h5py.File(path, "w") as file:
            file.create_dataset("a", data=wild(), **{"dtype": "f4", **layout})
        return path / "a"
    given = {"dtype": "f4", "compressors": None, **layout}
    made = zarr.create_array(path, shape=SHAPE, **given)  # type: ignore[arg-type]
    made[...] = wild()
    return path


# Each layout for some questions, each question for one layout.
ASKED = [
    *itertools.product(LAYOUTS, ["sum", "axis 0", "part", "steps"]),
    *itertools.product(["side by side"], QUESTIONS),
]


@pytest.mark.parametrize(("layout", "question"), dict.fromkeys(ASKED))
def test_answers_have_the_same_bits(
    worker_device: WorkerDevice, tmp_path: Path, counted, layout: str, question: str
):
    op, words = QUESTIONS[question]
    path = stored(tmp_path / ("a.h5" if "HDF5" in layout else "a"), **LAYOUTS[layout])
    found = cf.reduce(path, op, **words)
    wanted = cf.reduce(wild(), op, **words)  # an array in memory is copied
    for name, one in found.items() if isinstance(found, dict) else [("", found)]:
        np.testing.assert_array_equal(one, wanted[name] if name else wanted)
    if question != "steps" and layout != "edges":
        assert counted["fed"] > 0
    assert not counted["not as planned"]


def test_all_is_fed_that_is_stored_as_it_is(worker_device: WorkerDevice, tmp_path: Path, counted):
    path = stored(tmp_path / "a", chunks=(4, 60, 500))
    run = cf.submit(path, "sum")
    run.result()
    assert counted == {"fed": run.plan.layout.leaves, "not as planned": 0, "decoded": 0}


@pytest.mark.parametrize("codec", ["zstd", "gzip"])
def test_what_the_host_decodes_is_not_fed(
    worker_device: WorkerDevice, tmp_path: Path, counted, codec: str
):
    codecs = {"zstd": zarr.codecs.ZstdCodec(), "gzip": zarr.codecs.GzipCodec()}
    path = stored(tmp_path / "a", chunks=(8, 60, 500), compressors=codecs[codec])
    assert cf.reduce(path, "max", decode="host") == wild().max()
    assert not counted["fed"]
    assert counted["decoded"]


def test_sources_that_are_one_are_fed_by_their_files(
    worker_device: WorkerDevice, tmp_path: Path, counted
):
    paths = [stored(tmp_path / name, chunks=(8, 60, 500)) for name in "abc"]
    joined = cf.concatenate(paths)
    whole = np.concatenate([wild()] * 3)
    assert cf.reduce(joined, "max") == whole.max()
    assert not counted["decoded"]
    np.testing.assert_array_equal(cf.reduce(joined, "sum", axis=0), cf.reduce(whole, "sum", axis=0))
    assert counted["fed"]


def test_chunks_that_are_not_stored_are_fill(worker_device: WorkerDevice, tmp_path: Path, counted):
    path = stored(tmp_path / "a", chunks=(8, 20, 500), fill_value=7)
    (path / "c" / "2" / "1" / "0").unlink()
    values = wild()
    values[16:24, 20:40] = 7
    np.testing.assert_array_equal(cf.reduce(path, "min", axis=0), values.min(0))
    assert not counted["decoded"]


@pytest.mark.parametrize("do", ["cut", "longer", "empty", "a folder"])
def test_a_damaged_chunk_is_told_as_ever_or_left_out(
    worker_device: WorkerDevice, tmp_path: Path, counted, do: str
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
    worker_device: WorkerDevice, tmp_path: Path, monkeypatch, how: str
):
    path = stored(tmp_path / "a", chunks=(8, 60, 500))
    chunk, fed, done = path / "c" / "3" / "0" / "0", FedBuffer.feed_from_files, []
    first = threading.Lock()  # no other thread reads before the chunk has changed

    def changing(self: FedBuffer, runs: object) -> bool:
        with first:
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


def test_two_sources_are_fed_each_by_its_files(
    worker_device: WorkerDevice, tmp_path: Path, counted
):
    one, other = (stored(tmp_path / name, chunks=(8, 60, 500)) for name in "ab")
    assert cf.reduce((one, other), "max_abs_diff") == 0
    assert counted["fed"] % 2 == 0
    assert not counted["decoded"]


@pytest.mark.parametrize("how", ["written later", "cut"])
def test_a_file_of_hdf5_that_changes_under_way_ends_the_run(
    worker_device: WorkerDevice, tmp_path: Path, monkeypatch, how: str
):
    path, fed, answers = stored(tmp_path / "a.h5"), FedBuffer.feed_from_files, []

    def changing(self: FedBuffer, runs: object) -> bool:
        if how == "cut":
            os.truncate(path.parent, path.parent.stat().st_size - 1)
        else:
            later = time.time_ns() + 5_000_000_000
            os.utime(path.parent, ns=(later, later))
        answers.append(fed(self, runs))  # type: ignore[arg-type]
        return answers[-1]

    monkeypatch.setattr(FedBuffer, "feed_from_files", changing)
    with pytest.raises(ChangedError, match=r"its file .*a.h5 was written to"):
        cf.reduce(path)
    assert True not in answers


def linked(path: Path) -> Path:
    stored(path.with_name("b.h5"), chunks=(8, 60, 500))
    with h5py.File(path, "w") as file:
        file["a"] = h5py.ExternalLink("b.h5", "/a")
    return path / "a"


def test_a_linked_dataset_of_hdf5_is_fed_by_the_file_that_it_is_in(
    worker_device: WorkerDevice, tmp_path: Path, counted
):
    assert cf.reduce(linked(tmp_path / "a.h5"), "max") == wild().max()
    assert counted["fed"]
    assert not counted["decoded"]


def filtered(file: h5py.File) -> None:
    file.create_dataset("a", data=wild(), chunks=(8, 60, 500), compression="gzip")


def outside(file: h5py.File) -> None:
    raw = (f"{file.filename}.raw", 0, wild().nbytes)
    file.create_dataset("a", data=wild(), external=[raw])


def virtual(file: h5py.File) -> None:
    layout = h5py.VirtualLayout(SHAPE, "f4")
    layout[...] = h5py.VirtualSource(file.create_dataset("b", data=wild()))
    file.create_virtual_dataset("a", layout)


def in_the_header(file: h5py.File) -> None:
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_layout(h5py.h5d.COMPACT)
    space = h5py.h5s.create_simple((4, 1000))
    h5py.h5d.create(file.id, b"a", h5py.h5t.NATIVE_FLOAT, space, plist)
    file["a"][...] = wild()[0, :8].reshape(4, 1000)


def of_12_bits(file: h5py.File) -> None:
    """The other 4 are zeros, whatever the sign is."""
    kind = h5py.h5t.NATIVE_INT16.copy()
    kind.set_precision(12)
    h5py.h5d.create(file.id, b"a", kind, h5py.h5s.create_simple(SHAPE))
    file["a"][...] = -7


def behind_a_user_block(file: h5py.File) -> None:
    file["a"] = wild()


@pytest.mark.parametrize(
    "make",
    [
        filtered,
        outside,
        virtual,
        in_the_header,
        of_12_bits,
        behind_a_user_block,
    ],
)
def test_what_a_file_of_hdf5_has_in_another_way_is_read_by_hdf5(
    worker_device: WorkerDevice, tmp_path: Path, counted, make
):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", userblock_size=512 if make is behind_a_user_block else 0) as file:
        make(file)
    values = open_source(f"{path}/a").whole()
    np.testing.assert_array_equal(cf.reduce(path / "a", "max", axis=0), values.max(0))
    assert counted["decoded"]
    assert not counted["fed"]


def never_written(path: Path) -> None:
    with h5py.File(path, "w") as file:
        made = file.create_dataset("a", SHAPE, "f4", chunks=(8, 20, 500), fillvalue=7)
        made[:, :40], made[:16, 40:] = wild()[:, :40], wild()[:16, 40:]


def shorter_than_its_axis(path: Path) -> None:
    """As netCDF leaves a variable that lags behind another one."""
    with h5netcdf.File(path, "w") as file:
        file.dimensions = {"t": None, "y": 60, "x": 500}
        file.resize_dimension("t", 40)
        file.create_variable("a", ("t", "y", "x"), "f4", chunks=(8, 60, 500))
    with h5py.File(path, "a") as file:
        file["a"].resize(34, axis=0)
        file["a"][...] = wild()[:34]


@pytest.mark.parametrize("make", [never_written, shorter_than_its_axis])
def test_what_a_file_of_hdf5_does_not_have_is_fill(
    worker_device: WorkerDevice, tmp_path: Path, counted, monkeypatch, make
):
    monkeypatch.setattr(h5_source, "MOST_LISTED", 0)
    make(tmp_path / "a.h5")
    values = open_source(f"{tmp_path}/a.h5/a").whole()
    assert values.shape == SHAPE
    found = cf.reduce(tmp_path / "a.h5" / "a", "max", axis=0)
    np.testing.assert_array_equal(found, values.max(0))
    assert counted["fed"]
    assert counted["decoded"]


def test_what_this_process_has_open_to_write_is_read_by_hdf5(
    worker_device: WorkerDevice, tmp_path: Path, counted
):
    path = stored(tmp_path / "a.h5")
    with h5py.File(path.parent, "r+") as file:
        file["a"][0, 0, 0] = 1e6
        assert cf.reduce(file["a"], "max") == cf.reduce(path, "max") == 1e6
    assert not counted["fed"]


def test_what_a_writer_may_go_on_with_is_read_by_hdf5(
    worker_device: WorkerDevice, tmp_path: Path, counted
):
    path = stored(tmp_path / "a.h5", chunks=(8, 60, 500))
    with h5py.File(path.parent, swmr=True) as file:
        assert cf.reduce(file["a"], "max") == wild().max()
    assert not counted["fed"]
