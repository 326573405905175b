"""Threads that read and fold: small chunks, and pieces of those that are stored as they are."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import dask
import numpy as np
import pyopencl as cl
import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import chunkfold as cf
from chunkfold.kernels import Fold
from chunkfold.kernels.device.callers_queue import CallersQueue, runs_here
from chunkfold.kernels.errors import DeviceError
from chunkfold.kernels.fold.launch import Launcher
from chunkfold.planning import blocks, rules
from chunkfold.reading import readers
from chunkfold.running import backend
from chunkfold.sources.zarr_source import ZarrSource
from chunkfold.worker import per_thread, thread_fold, totals
from chunkfold.worker.thread_fold import FoldInTurn, ThreadFold
from chunkfold.worker.worker_device import process_device

SHAPE, CHUNKS = (40, 60, 50), (8, 60, 50)
OPS = ["sum", "std", "max"]


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch, device):
    """Pieces that are some rows of a chunk, so that small arrays have many; on each device."""
    monkeypatch.setattr(per_thread, "PIECE_BYTES", 3 * 60 * 50 * 4)
    monkeypatch.setattr(per_thread, "FOLD_BYTES", 3 * 60 * 50 * 4)  # of which CHUNKS is no part
    monkeypatch.setattr(blocks, "BLOCK_BYTES", (1 << 20, 1 << 20))
    worker_device = process_device(device.spec)
    monkeypatch.setattr(worker_device, "readers", 2)
    monkeypatch.setattr(backend, "process_device", lambda _: worker_device)
    monkeypatch.setattr("chunkfold.planning.planner.LEAF_BYTES", 40_000)


@pytest.fixture
def ran(monkeypatch) -> list[ThreadFold]:
    """The threads that ran."""
    seen: list[ThreadFold] = []
    run = ThreadFold.run
    monkeypatch.setattr(ThreadFold, "run", lambda self: (seen.append(self), run(self))[1])
    return seen


def stored(path: Path, array: np.ndarray, **layout) -> Path:
    layout = {"chunks": CHUNKS, "compressors": None} | layout
    made = zarr.create_array(str(path), shape=array.shape, dtype=array.dtype, **layout)
    made[...] = array
    return path


def wild(dtype: str = "f4") -> np.ndarray:
    return (np.random.default_rng(0).normal(size=SHAPE) * 100).astype(dtype)


def without_thread_folds(monkeypatch) -> None:
    monkeypatch.setenv(rules.VARIABLE, "fold_where_read")


def test_blocks_use_folds_again_and_count_their_launches_once(tmp_path, ran, monkeypatch):
    stored(tmp_path / "a", wild())
    monkeypatch.setattr(blocks, "BLOCK_BYTES", (wild().nbytes // 2,) * 2)
    runs = []
    for _ in range(2):
        runs.append(cf.submit(tmp_path / "a", "std"))
        assert runs[-1].result(60) == pytest.approx(wild().std(dtype="f8"))
    assert len({id(thread._fold) for thread in ran}) <= len(ran) / 2
    launches = [
        {name: times.launches for name, times in report.profile.items()}
        for run in runs
        for report in run.profile.values()
    ]
    assert launches[0] == launches[1]


@pytest.mark.parametrize(
    ("dtype", "layout"),
    [
        ("f4", {}),
        ("f4", {"shards": (16, 60, 50)}),
        (">f8", {}),
        ("f4", {"chunks": (3, 7, 50)}),
        ("f4", {"chunks": (2, 60, 9), "shards": (4, 60, 27)}),
        ("f4", {"chunks": (3, 7, 50), "compressors": "auto"}),
        ("f8", {"chunks": (2, 60, 9), "shards": (4, 60, 27), "compressors": "auto"}),
        ("f4", {"chunks": (3, 7, 50), "compressors": zarr.codecs.GzipCodec()}),
    ],
    ids=[
        *("float32", "shards", "swapped float64", "small chunks", "small chunks in shards"),
        *("zstd", "zstd in shards", "gzip"),
    ],
)
def test_the_ring_finds_the_same(tmp_path: Path, monkeypatch, ran, dtype: str, layout: dict):
    path = stored(tmp_path / "a", wild(dtype), **layout)
    exact, fast = (cf.submit(path, OPS, mode=mode) for mode in ("exact", "fast"))
    found, near = exact.result(), fast.result()
    assert ran
    without_thread_folds(monkeypatch)
    assert cf.reduce(path, OPS) == found
    for name, value in cf.reduce(path, OPS, mode="fast").items():
        np.testing.assert_allclose(near[name], value, rtol=1e-4)
    assert sum(report.nbytes for report in exact.profile.values()) == wild(dtype).nbytes


def test_no_other_thread_folds_if_the_device_can_do_without(tmp_path: Path, device, ran):
    cf.reduce(stored(tmp_path / "a", wild()), "sum")
    queues = {type(thread._fold.launcher.queue) for thread in ran}
    assert queues == {CallersQueue if runs_here(device) else cl.CommandQueue}


@given(st.data())
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_of_a_selection_every_element_is_folded_once(tmp_path: Path, ran, data):
    array = np.arange(np.prod(SHAPE), dtype="i4").reshape(SHAPE)
    path = tmp_path / "a"
    if not path.exists():
        stored(path, array)
    bounds = [sorted(data.draw(st.tuples(*[st.integers(0, n)] * 2))) for n in SHAPE]
    step = data.draw(st.integers(1, 3))
    chosen = tuple(slice(first, last, step) for first, last in bounds)
    assert cf.reduce(path, ["sum", "count"], selection=chosen, allow_empty=True) == {
        "sum": array[chosen].sum(),
        "count": array[chosen].size,
    }


def test_of_two_inputs_and_of_chunks_that_are_not_stored(tmp_path: Path, ran):
    one, two = wild("f8"), wild("f8")[::-1].copy()
    one[8:16] = two[8:16] = 7
    paths = [
        stored(tmp_path / "a", one, fill_value=7, config={"write_empty_chunks": False}),
        stored(tmp_path / "b", two, chunks=(16, 20, 50)),
    ]
    np.testing.assert_allclose(cf.reduce(paths, "dot"), (one * two).sum())
    assert ran
    ran.clear()
    np.testing.assert_allclose(cf.reduce(paths[0], "sum"), one.sum())
    assert ran


@pytest.mark.parametrize("compressors", [None, "auto"], ids=["pieces", "in turn"])
def test_bits_do_not_depend_on_who_folds_the_last_leaves(
    tmp_path: Path, monkeypatch, ran, compressors: str | None
):
    monkeypatch.setattr("chunkfold.planning.planner.LEAF_BYTES", 4 * 2 * 60 * 50)
    path = stored(tmp_path / "a", wild(), chunks=(2, 60, 50), compressors=compressors)
    plain, finish, found, took = ThreadFold._add, Fold.read_back, [], []
    monkeypatch.setattr(Fold, "read_back", lambda fold: (took.append(fold), finish(fold))[1])
    for slow in (0, 1):

        def add(self, *given, slow=slow):
            time.sleep(0.02 * (ran.index(self) == slow))
            return plain(self, *given)

        ran.clear(), took.clear()
        monkeypatch.setattr(ThreadFold, "_add", add)
        found.append(cf.reduce(path, ["sum", "std"], mode="fast"))
        shares = [sum(fold is thread._fold for fold in took) for thread in ran]
        assert shares[slow] < shares[1 - slow]
        assert sum(shares) == 2 * (thread_fold._LAST_LEAVES + thread_fold._LAST_SHARES)
    assert found[0] == found[1]


@pytest.mark.parametrize("leaves", [1, 8], ids=["whole leaves", "cut leaves"])
def test_small_chunks_of_two_inputs_stay_aligned(tmp_path: Path, monkeypatch, ran, leaves: int):
    monkeypatch.setattr(thread_fold, "_MANY_LEAVES", leaves)
    one, two = wild("f4"), wild("f8")[::-1].copy()
    paths = [
        stored(tmp_path / "a", one, chunks=(3, 7, 50), compressors="auto"),
        stored(tmp_path / "b", two, chunks=(3, 7, 50)),
    ]
    for path in (paths[0], paths[1] / "c"):
        missing = next(path.rglob("3/2/*"))
        missing.unlink()
    one[9:12, 14:21] = two[9:12, 14:21] = 0
    chosen = np.s_[1:, 3:58, 1:]
    expected = (one[chosen] * two[chosen]).sum()
    np.testing.assert_allclose(cf.reduce(paths, "dot", selection=chosen), expected)
    assert {type(thread) for thread in ran} == {FoldInTurn}


def test_of_small_chunks_a_damaged_one_is_named_and_skipped(tmp_path: Path, ran):
    array = np.random.default_rng(0).integers(0, 999, SHAPE, "i4")
    path = stored(tmp_path / "a", array, chunks=(5, 6, 50), compressors="auto")
    bad = path / "c" / "3" / "4" / "0"
    bad.write_bytes(bad.read_bytes()[:-7])
    with pytest.raises(cf.ChunkError, match=r"a: cannot read chunk 'c/3/4/0'"):
        cf.reduce(path)
    assert {type(thread) for thread in ran} == {FoldInTurn}
    run = cf.submit(path, on_bad_chunk="skip")
    assert run.result() == array.sum() - array[15:20, 24:30].sum()
    assert list(run.skipped.values()) == [5 * 6 * 50]


def test_fast_sums_are_the_same_each_time(tmp_path: Path, monkeypatch, ran):
    path = stored(tmp_path / "a", wild())
    read = ZarrSource.read

    def sleepy(self, *given):
        time.sleep(0.002 * (threading.get_native_id() % 3))
        read(self, *given)

    first = cf.reduce(path, "sum", mode="fast")
    monkeypatch.setattr(ZarrSource, "read", sleepy)
    assert {cf.reduce(path, "sum", mode="fast") for _ in range(3)} == {first}
    assert ran


@pytest.mark.parametrize(
    ("layout", "given"),
    [
        ({"compressors": "auto"}, {}),
        ({}, {"axis": 0}),
        ({}, {"op": "argmin"}),
        ({}, {"selection": np.s_[:2, :2]}),
    ],
    ids=["large compressed", "many outputs", "index", "little"],
)
def test_others_go_through_the_ring(tmp_path: Path, ran, layout: dict, given: dict):
    cf.reduce(stored(tmp_path / "a", wild(), **layout), **given)
    assert not ran


def test_many_readers_would_wait_for_each_other(tmp_path: Path, monkeypatch, device, ran):
    path = stored(tmp_path / "a", wild())
    worker_device = process_device(device.spec)
    for count, many in ((per_thread.MOST_THREADS, 1), (per_thread.MOST_THREADS + 1, 0)):
        monkeypatch.setattr(worker_device, "readers", count)
        monkeypatch.setattr(per_thread, "PIECE_BYTES", 20_000)
        cf.reduce(path)
        assert len(ran) == many * count
        ran.clear()


def test_a_chunk_that_was_cut_ends_all_of_them_or_is_skipped(tmp_path: Path, ran):
    array = wild("i4")
    path = stored(tmp_path / "a", array)
    cut = path / "c" / "2" / "0" / "0"
    cut.write_bytes(cut.read_bytes()[:-5000])
    with pytest.raises(cf.ChunkError, match=r"a: cannot read chunk 'c/2/0/0'"):
        cf.reduce(path)
    assert ran
    run = cf.submit(path, on_bad_chunk="skip")
    assert run.result() == array.sum() - array[16:24].sum()
    assert list(run.skipped.values()) == [array[16:24].size]


@pytest.mark.parametrize("shards", [None, (10, 60, 50)], ids=["chunks", "shards"])
def test_who_keeps_an_error_keeps_no_files_and_no_buffers(tmp_path: Path, ran, shards):
    layout = {"chunks": (5, 6, 50), "shards": shards, "compressors": "auto"}
    paths = [stored(tmp_path / name, wild("f8"), **layout) for name in "ab"]
    for file in (paths[1] / "c").rglob("0"):
        if file.is_file():
            file.write_bytes(b"damaged" + file.read_bytes()[7:])
    kept, files = [], []
    for _ in range(4):
        with pytest.raises(cf.ChunkError, match="b: cannot read") as caught:
            cf.reduce(paths, "dot")
        kept.append(caught.value)
        files.append(len(list(Path("/proc/self/fd").iterdir())))
    assert files[1:] == files[:1] * 3
    for error in kept:
        trace = error.__traceback__
        while trace is not None:
            assert "slot" not in trace.tb_frame.f_locals
            trace = trace.tb_next


@pytest.fixture
def soon_stalled():
    with dask.config.set({"chunkfold.run.stall": 1}):
        yield


@pytest.mark.usefixtures("soon_stalled")
def test_who_waits_for_the_threads_of_another_run_is_not_given_up(tmp_path: Path, monkeypatch, ran):
    for module in (totals, per_thread):
        monkeypatch.setattr(module, "REPORT_EVERY_S", 0.05)
    one, other = (stored(tmp_path / name, wild()) for name in "ab")
    go, read = threading.Event(), ZarrSource.read

    def slow(self, *given):
        if self.name == str(one):
            go.wait(30)
        read(self, *given)

    monkeypatch.setattr(ZarrSource, "read", slow)
    first = cf.submit(one)
    while not ran:
        time.sleep(0.01)
    second = cf.submit(other)
    with pytest.raises(TimeoutError):
        second.result(1.5)
    go.set()
    np.testing.assert_allclose(second.result(30), wild().sum(dtype="f8"), rtol=1e-6)
    with pytest.raises(cf.ClusterError, match="made no progress"):
        first.result(30)


def test_a_run_that_is_cancelled_ends_at_the_next_piece(tmp_path: Path, monkeypatch, ran):
    begun, reads, read = threading.Event(), [], ZarrSource.read

    def slow(self, *given):
        reads.append(given)
        begun.set()
        time.sleep(0.3)
        read(self, *given)

    monkeypatch.setattr(ZarrSource, "read", slow)
    run = cf.submit(stored(tmp_path / "a", wild()))
    assert begun.wait(30)
    run.cancel()
    with pytest.raises(cf.CancelledError):
        run.result(20)
    assert len(reads) < 6


@pytest.mark.parametrize("stuck", ["read", "launch", "fold"])
def test_what_never_returns_ends_at_its_deadline(tmp_path: Path, monkeypatch, ran, stuck: str):
    never = threading.Event()
    path = stored(tmp_path / "a", wild())
    cf.reduce(path)
    monkeypatch.setattr(readers, "READ_DEADLINE_S", 0.5)
    if stuck == "read":
        monkeypatch.setattr(ZarrSource, "read", lambda *_: never.wait(60))
    elif stuck == "launch":  # where it runs here, the fold itself
        monkeypatch.setattr(Launcher, "enqueue", lambda *_: never.wait(60))
    else:
        monkeypatch.setattr(thread_fold, "wait_watched", lambda *_: never.wait(60))
    kind, doing = (cf.ChunkError, "reading") if stuck == "read" else (DeviceError, "folding")
    with pytest.raises(kind, match=rf"a: {doing} .* took longer than 0 s"):
        cf.reduce(path, on_bad_chunk="skip")
    monkeypatch.undo()
    never.set()
    np.testing.assert_allclose(cf.reduce(path), wild().sum(dtype="f8"), rtol=1e-6)


def test_a_fold_that_fails_is_an_error_of_the_device(tmp_path: Path, monkeypatch, ran):
    def fails(*_):
        raise DeviceError("it failed")

    monkeypatch.setattr(thread_fold, "wait_watched", fails)
    with pytest.raises(DeviceError, match="it failed"):
        cf.reduce(stored(tmp_path / "a", wild()))
    assert ran
