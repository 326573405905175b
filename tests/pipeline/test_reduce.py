"""cf.reduce in this process: NumPy's answer, for every layout of the data."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkfold as cf
from chunkfold.events import BlockProgress, RunFinished, RunStarted
from chunkfold.planning import blocks, planner, workers
from chunkfold.running import block_scheduler
from tests.kernels.fold.test_fold import PLAIN
from tests.pipeline.test_plain import entries

pytestmark = pytest.mark.unoptimised

OPS = ["sum", "min", "max", "mean"]


@pytest.fixture(autouse=True)
def _small_leaves(monkeypatch):
    """Many leaves, blocks and levels, although the arrays are small."""
    monkeypatch.setattr(planner, "LEAF_BYTES", 256)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", (512, 1024))


def stored(array: np.ndarray, **kwargs) -> zarr.Array:
    made = zarr.create_array({}, shape=array.shape, dtype=array.dtype, **kwargs)
    made[...] = array
    return made


def same(got, want) -> None:
    assert type(got) is type(want)
    assert got.dtype == want.dtype
    if want.dtype.kind == "f":
        np.testing.assert_allclose(got, want, rtol=1e-3 if want.dtype.itemsize == 2 else 1e-5)
    else:
        np.testing.assert_array_equal(got, want)


def selected(array: np.ndarray, selection: tuple) -> np.ndarray:
    """Select of each axis by itself, the last one first: integers leave none of those behind."""
    entries = [entry for entry in selection if entry is not ...]
    for n, entry in reversed(list(enumerate(entries))):
        index = np.array(entry, None if entry else int) if isinstance(entry, list) else entry
        array = array[(slice(None),) * n + (index,)]
    return array


@given(st.data())
@settings(max_examples=60)
def test_equals_numpy_for_any_chunks_axes_and_selection(data):
    shape = tuple(data.draw(st.lists(st.integers(0, 12), max_size=4), "shape"))
    chunks = tuple(data.draw(st.integers(1, 6), "chunk") for _ in shape)
    dtype = data.draw(st.sampled_from([n for n in PLAIN if n != "float16"]), "dtype")
    selection = tuple(data.draw(entries(n)) for n in shape[: data.draw(st.integers(0, len(shape)))])
    selection = data.draw(st.sampled_from([selection, (*selection, ...)]))
    array = np.random.default_rng(1).integers(0, 100, shape).astype(dtype)
    part = selected(array, selection)
    axis = data.draw(
        st.none() | st.sets(st.integers(0, part.ndim - 1)).map(tuple) if part.ndim else st.none()
    )
    keepdims = data.draw(st.booleans(), "keepdims")
    source = stored(array, chunks=chunks)
    reduced = range(part.ndim) if axis is None else axis
    asked = {"axis": axis, "keepdims": keepdims, "selection": selection, "allow_empty": True}
    if part.size or all(part.shape[n] for n in reduced):
        got = cf.reduce(source, OPS, **asked)
        for op in OPS:
            same(got[op], np.asarray(getattr(np, op)(part, axis=axis, keepdims=keepdims))[()])
    else:
        got = cf.reduce(source, "sum", **asked)
        same(got, np.asarray(part.sum(axis=axis, keepdims=keepdims))[()])


@pytest.mark.parametrize("dtype", PLAIN)
@pytest.mark.parametrize(
    "layout",
    [
        {"zarr_format": 2},
        {"zarr_format": 2, "order": "F"},
        {"zarr_format": 3},
        {"zarr_format": 3, "shards": (20, 40)},
        {"zarr_format": 3, "compressors": None},
        {"zarr_format": 3, "filters": "auto", "fill_value": 1},
    ],
    ids=str,
)
def test_every_dtype_in_every_format(dtype: str, layout: dict):
    array = np.random.default_rng(2).integers(0, 2, (50, 70)).astype(dtype)
    source = stored(array, chunks=(10, 20), **layout)
    got = cf.reduce(source, [*OPS, "prod"])
    for op in [*OPS, "prod"]:
        same(got[op], getattr(np, op)(array))


@pytest.mark.parametrize("dtype", [">f4", ">i2", ">u8"])
def test_foreign_byte_order(dtype: str):
    array = np.arange(100).astype(dtype)
    source = stored(array, chunks=(7,), zarr_format=2)
    assert cf.reduce(source) == array.sum()


def test_foreign_byte_order_of_no_axes():
    one = np.array(3.5, ">f8")
    assert cf.reduce(one, "max") == 3.5
    assert cf.reduce(np.arange(4.0), "sum", weights=one) == 21


def test_chunks_that_were_never_written_are_fill():
    source = zarr.create_array({}, shape=(100, 100), chunks=(9, 9), dtype="i4", fill_value=3)
    source[20:40, 5:50] = 7
    assert cf.reduce(source) == np.asarray(source[...]).sum()


@given(st.data())
def test_truths_and_bits_along_axes(data):
    array = np.random.default_rng(4).integers(0, 3, (7, 9, 5)).astype("u2")
    source = stored(array, chunks=(3, 4, 5))
    axis = data.draw(st.none() | st.sets(st.integers(0, 2)).map(tuple))
    got = cf.reduce(source, ["any", "all", "count_nonzero", "bitwise_xor"], axis=axis)
    np.testing.assert_array_equal(got["any"], array.any(axis=axis))
    np.testing.assert_array_equal(got["all"], array.all(axis=axis))
    np.testing.assert_array_equal(got["count_nonzero"], np.count_nonzero(array, axis=axis))
    np.testing.assert_array_equal(got["bitwise_xor"], np.bitwise_xor.reduce(array, axis=axis))


def test_a_single_op_gives_a_value_and_a_list_a_dict():
    source = stored(np.arange(10.0), chunks=(3,))
    assert cf.reduce(source, "max") == 9.0
    assert cf.reduce(source, ["max"]) == {"max": 9.0}
    assert isinstance(cf.reduce(source, "max"), np.float64)


def test_a_monoid_of_the_user_s_own():
    closest = cf.Monoid(
        "farthest",
        fields={"d": "float64", "i": "uint64"},
        zero={"d": -1, "i": "highest"},
        lift=lambda x, i: {"d": abs(x), "i": i},
        op=lambda a, b: {
            "d": np.maximum(a.d, b.d),
            "i": cf.where((a.d > b.d) | ((a.d == b.d) & (a.i < b.i)), a.i, b.i),
        },
        finish=lambda fields, _: fields["i"],
    )
    array = np.random.default_rng(3).normal(size=(37, 53))
    source = stored(array, chunks=(5, 7))
    assert cf.reduce(source, closest) == np.abs(array).argmax()
    part = (slice(3, 30, 4), slice(None, -2))
    assert cf.reduce(source, closest, selection=part) == np.abs(array[part]).argmax()


@pytest.mark.parametrize("op", ["min", "max"])
def test_nothing_has_no_minimum(op: str):
    source = stored(np.zeros((0, 3)), chunks=(1, 1))
    with pytest.raises(cf.PlanError, match=f"{op} of no elements has no value"):
        cf.reduce(source, op)
    with pytest.raises(ValueError, match="no value"):  # as NumPy's is
        cf.reduce(source, op, axis=0)
    assert cf.reduce(source, op, axis=1).shape == (0,)


def test_nothing_sums_to_zero_and_has_no_mean():
    source = stored(np.zeros((0, 3), "f4"), chunks=(1, 1))
    got = cf.reduce(source, ["sum", "prod", "mean"])
    assert got["sum"] == 0
    assert got["prod"] == 1
    assert np.isnan(got["mean"])


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        ({"op": "summ"}, "did you mean 'sum'"),
        ({"op": "sum, max"}, r"several are a list: \['sum', 'max'\]"),
        ({"op": []}, "no reduction was named"),
        ({"op": None}, "a name or a Monoid, not None"),
        ({"op": [["sum"]]}, "a name or a Monoid, not"),
        ({"op": b"sum"}, "a name or a Monoid, not b'sum'"),
        ({"dtype": "O"}, "not for 'sum' of float64"),
        ({"dtype": "S3"}, "cannot be reduced"),
        ({"dtype": np}, "dtype=<module"),
        ({"mode": "best"}, "mode is 'best'; use one of: 'exact', 'fast'"),
        ({"skipna": "no"}, "skipna is 'no'; give True or False"),
        ({"mask_and_scale": 1}, "mask_and_scale is 1; give True or False"),
        ({"client": 5}, "client is a distributed.Client, not int"),
        ({"op": ["max", "sum", "max"]}, "max is named more than once"),
        ({"axis": 5}, "axis 5 is out of range"),
        ({"selection": 99}, "index 99 is out of range"),
        ({"dtype": "U4"}, "cannot be reduced"),
        ({"variant": "warp"}, "variant is 'warp'; use one of: 'tree'"),
    ],
)
def test_bad_arguments_are_named(kwargs: dict, match: str):
    with pytest.raises(cf.ChunkfoldError, match=match):
        cf.reduce(stored(np.arange(5.0), chunks=(2,)), **kwargs)


def test_dtype_is_numpy_s():
    array = np.arange(200, dtype="u1")
    source = stored(array, chunks=(64,))
    for dtype in ("f4", "i8", "u2", "f8"):
        same(cf.reduce(source, "sum", dtype=dtype), array.sum(dtype=dtype))
    with pytest.raises(OverflowError, match="the sum of uint8 is 19900, which uint8 cannot hold"):
        cf.reduce(source, "sum", dtype="u1")
    same(cf.reduce(source, "mean", dtype="f4"), array.mean(dtype="f4"))


def test_object_holds_sums_of_any_size():
    array = np.full((2, 5), 2**63 - 1, "i8")
    source = stored(array, chunks=(1, 2))
    whole = cf.reduce(source, "sum", dtype=object)
    assert type(whole) is int
    assert whole == 10 * (2**63 - 1)
    along = cf.reduce(source, "sum", axis=1, keepdims=True, dtype=object)
    assert along.tolist() == [[5 * (2**63 - 1)]] * 2
    with pytest.raises(cf.ChunkfoldError, match="not for 'sum' of float32"):
        cf.reduce(stored(np.ones(3, "f4"), chunks=(2,)), dtype=object)


@pytest.mark.parametrize("stored_as", ["f4", "f8", "i4"])
def test_float16_rounds_elements_first(stored_as: str):
    array = (np.random.default_rng(5).normal(size=(40, 30)) * 1000).astype(stored_as)
    source = stored(array, chunks=(7, 30))
    halves = array.astype("f2")
    np.testing.assert_array_equal(cf.reduce(source, "max", axis=1, dtype="f2"), halves.max(axis=1))
    want = halves.astype("f8").sum(axis=1).astype("f2")
    np.testing.assert_array_equal(cf.reduce(source, "sum", axis=1, dtype="f2"), want)


def test_a_zip_file_and_a_home_are_found(tmp_path: Path, monkeypatch):
    from zarr.storage import ZipStore

    with ZipStore(tmp_path / "a.zip", mode="w") as store:
        zarr.create_array(store, shape=(10,), chunks=(3,), dtype="i4")[...] = 2
    assert cf.reduce(tmp_path / "a.zip") == 20
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cf.reduce("~/a.zip") == 20


def test_events_tell_the_whole_story():
    heard = []
    source = stored(np.arange(1000.0), chunks=(10,))
    run = cf.submit(source, "sum", on_event=heard.append)
    assert run.result(60) == 499500.0
    assert heard == run.events
    assert isinstance(heard[0], RunStarted)
    assert isinstance(heard[-1], RunFinished)
    assert heard[-1].error is None
    done = [event for event in heard if isinstance(event, BlockProgress) and event.done]
    assert sorted(event.block for event in done) == list(range(heard[0].blocks))
    assert sum(event.nbytes for event in done) == heard[0].nbytes == 8000
    (entry,) = run.profile.values()
    assert (entry.blocks, entry.nbytes) == (heard[0].blocks, 8000)
    assert entry.profile["fold_flat", 0].launches >= heard[0].blocks


def test_a_subscriber_that_raises_does_not_cost_the_result():
    def broken(event):
        raise RuntimeError("no paper")

    source = stored(np.arange(100.0), chunks=(10,))
    with pytest.warns(RuntimeWarning, match="it raised RuntimeError"):
        assert cf.reduce(source, on_event=broken) == 4950.0


def test_a_cancelled_run_ends_in_the_middle_of_a_block(monkeypatch):
    """The block is one task; it notices between two leaves."""
    from chunkfold.sources.zarr_source import ZarrSource

    monkeypatch.setattr(blocks, "BLOCK_BYTES", (1 << 30, 1 << 30))
    begun, read = threading.Event(), []
    real = ZarrSource.read

    def slow(self, *given):
        read.append(given[0])
        begun.set()
        threading.Event().wait(0.05)
        real(self, *given)

    monkeypatch.setattr(ZarrSource, "read", slow)
    run = cf.submit(stored(np.zeros(64_000), chunks=(32,)), "sum")
    assert len(run.plan.blocks) == 1
    assert begun.wait(30)
    run.cancel()
    with pytest.raises(cf.CancelledError):
        run.result(10)
    assert len(read) < run.plan.layout.parts / 4


def test_the_next_block_reads_while_one_waits_for_its_last_chunk(monkeypatch):
    """Here as on workers: readers do not idle at the end of a block."""
    from chunkfold.sources.zarr_source import ZarrSource

    read, others = ZarrSource.read, threading.Event()

    def patient(self, region, *given):
        if region[0].start >= 500:
            others.set()  # of the second half, which is a block of its own
        elif region[0].start == 0:
            assert others.wait(30)
        read(self, region, *given)

    monkeypatch.setattr(blocks, "BLOCK_BYTES", (4000, 4000))
    monkeypatch.setattr(ZarrSource, "read", patient)
    run = cf.submit(stored(np.arange(1000), chunks=(10,)))
    assert len(run.plan.blocks) == 2
    assert run.result() == np.arange(1000).sum()


def test_what_fails_interrupts_the_other_blocks(monkeypatch):
    from chunkfold.sources.zarr_source import ZarrSource

    read = []

    def failing(self, region, out, *_):
        read.append(region)
        time.sleep(0.02)
        if region[0].start == 0:
            raise cf.ChunkError("a chunk is bad")

    monkeypatch.setattr(ZarrSource, "read", failing)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", (4000, 4000))
    with pytest.raises(cf.ChunkError, match="a chunk is bad"):
        cf.reduce(stored(np.arange(10_000), chunks=(10,)))
    count = len(read)
    assert count < 100
    time.sleep(0.2)
    assert len(read) == count


def test_what_this_host_has_no_memory_for_is_refused(monkeypatch):

    source = stored(np.zeros((4, 1000)), chunks=(1, 1000))
    monkeypatch.setattr(workers, "MEMORY_LIMIT", 1 << 20)
    for asked in (cf.reduce, cf.plan):
        with pytest.raises(cf.PlanError, match=r"may use only .* of its limit of 1.0 MiB.*edges"):
            asked(source, "histogram", axis=0)


def test_blocks_run_one_by_one_where_memory_is_short(monkeypatch):
    monkeypatch.setattr(planner, "LEAF_BYTES", 1 << 16)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", (1 << 19, 1 << 19))
    slowly(monkeypatch, 0.005)
    array = stored(np.arange(1 << 20, dtype="f4"), chunks=(1 << 14,))
    ample = cf.submit(array)
    want = ample.result(60)
    least = cf.plan(array, threads=1)
    run = cf.submit(array, memory=least.memory.total)
    assert run.result(60) == want
    assert (ample.plan.threads, run.plan.threads, run.plan.readers) == (2, 1, least.readers)
    for one, at_once in ((ample, 2), (run, 1)):
        times = [block for entry in one.profile.values() for block in entry.timeline]
        assert len(times) >= 4
        begun = [sum(b.began <= t.began < b.began + b.seconds for b in times) for t in times]
        assert max(begun) == at_once


def test_a_process_that_was_forked_is_told_so():
    """OpenCL's threads are not in it: it would wait for ever."""
    code = (
        "import os, signal, numpy as np, zarr, chunkfold as cf\n"
        "array = zarr.create_array({}, data=np.arange(9.0))\n"
        "assert cf.reduce(array) == 36\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    signal.alarm(60)\n"
        "    try:\n"
        "        cf.reduce(array)\n"
        "    except cf.DeviceError as error:\n"
        "        os._exit(7 if 'was forked from one' in str(error) else 8)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7\n"
        "assert cf.reduce(array) == 36\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


def slowly(monkeypatch, seconds: float) -> None:
    """Let every read take its time."""
    from chunkfold.sources.zarr_source import ZarrSource

    read = ZarrSource.read

    def slow(self, *given):
        time.sleep(seconds)
        read(self, *given)

    monkeypatch.setattr(ZarrSource, "read", slow)


def test_to_wait_for_an_earlier_block_is_not_to_be_late(monkeypatch):
    from chunkfold.reading import readers

    slowly(monkeypatch, 0.1)
    monkeypatch.setattr(readers, "READ_DEADLINE_S", 0.5)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", (4000, 4000))
    array = np.arange(2000)
    assert cf.reduce(stored(array, chunks=(32,))) == array.sum()


def test_a_cancelled_run_does_not_wait_for_the_reads_of_others(monkeypatch):
    slowly(monkeypatch, 0.05)
    source = stored(np.zeros(20_000), chunks=(32,))
    first, second = cf.submit(source), cf.submit(source)
    second.cancel()
    with pytest.raises(cf.CancelledError):
        second.result(10)
    assert not first.done()
    first.cancel()


def test_a_process_ends_while_a_run_is_under_way(tmp_path: Path):
    stored_at = str(tmp_path / "a")
    zarr.create_array(stored_at, data=np.ones(400_000, "f4"), chunks=(500,))
    code = f"""if True:
        import time
        import chunkfold as cf
        from chunkfold.planning import planner
        from chunkfold.decoding.direct import Direct
        planner.LEAF_BYTES = 2000
        cf.reduce({stored_at!r})
        read = Direct.read
        Direct.read = lambda *given: (time.sleep(0.1), read(*given))
        cf.submit({stored_at!r})
        time.sleep(0.3)
    """
    subprocess.run([sys.executable, "-c", code], timeout=30, check=False)


def test_a_read_that_never_returns_ends_at_its_deadline(monkeypatch):
    from chunkfold.reading import readers
    from chunkfold.sources.zarr_source import ZarrSource

    never = threading.Event()
    monkeypatch.setattr(readers, "READ_DEADLINE_S", 0.3)
    monkeypatch.setattr(ZarrSource, "read", lambda *_: never.wait(60))
    began = time.monotonic()
    with pytest.raises(cf.ChunkError, match="took longer than 0 s"):
        cf.reduce(stored(np.zeros(1000), chunks=(10,)))
    assert time.monotonic() - began < 20
    never.set()


def test_metadata_that_vanish_or_change_while_an_array_is_read_are_an_error(tmp_path, monkeypatch):
    from chunkfold.decoding.direct import Direct

    real = Direct.each
    once = threading.Lock()  # released by nobody: the readers are several, the accident is one

    def changed(self, *given):
        yield from real(self, *given)
        if once.acquire(blocking=False):
            zarr.open_array(str(tmp_path / "a.zarr")).update_attributes({"units": "K"})

    def removed(self, *given):
        yield from real(self, *given)
        (tmp_path / "a.zarr/zarr.json").unlink(missing_ok=True)

    for accident, match in ((changed, "metadata changed"), (removed, "vanished")):
        made = zarr.create_array(
            str(tmp_path / "a.zarr"), shape=(100,), chunks=(10,), dtype="i8", overwrite=True
        )
        made[...] = 1
        monkeypatch.setattr(Direct, "each", accident)
        with pytest.raises(cf.SourceError, match=f"a.zarr: .*{match}"):
            cf.reduce(tmp_path / "a.zarr")


def test_a_step_beyond_everything_takes_the_first():
    source = stored(np.arange(5.0) + 7, chunks=(2,))
    assert cf.reduce(source, selection=slice(None, None, 2**63)) == 7


def test_floats_saturate_where_a_cast_to_integers_has_no_meaning():
    array = np.array([-1.0, -129.7, 1e20, np.nan, 3.9])
    source = stored(array, chunks=(2,))
    for dtype in ("u1", "i1", "u4", "i4", "u8", "i8"):
        limits = np.iinfo(dtype)
        got = cf.reduce(source, ["min", "max"], dtype=dtype)
        assert got["max"] == limits.max
        assert got["min"] == max(limits.min, -129)


def test_a_finish_that_fails_is_named():
    source = stored(np.arange(5.0), chunks=(2,))
    plain = {"fields": {"s": "float64"}, "zero": 0, "lift": lambda x: x, "op": "add"}
    with pytest.raises(cf.MonoidError, match="finish of 'm' raised KeyError: 't'"):
        cf.reduce(source, cf.Monoid("m", **plain, finish=lambda fields, _: fields["t"]))
    with pytest.raises(cf.MonoidError, match=r"finish of 'm' made shape \(\) of"):
        cf.reduce(source, cf.Monoid("m", **plain, finish=lambda *_: 1))


def test_a_cancelled_run_ends_and_says_so():
    source = stored(np.zeros(200_000), chunks=(10,))
    started = threading.Event()
    run = cf.submit(source, "sum", on_event=lambda _: started.set())
    assert started.wait(30)
    run.cancel()
    with pytest.raises(cf.CancelledError, match="was cancelled"):
        run.result(60)
    assert run.done()


def test_a_result_that_misses_elements_is_an_error(monkeypatch):
    """The count that came along is checked against the plan."""

    source = stored(np.arange(1000.0), chunks=(10,))
    real = block_scheduler.BlockScheduler._place
    lost = []

    def losing(self, node, handle):
        if not lost and node.level == 0:
            from dataclasses import replace

            lost.append(node)
            report = replace(handle.report, elements=handle.report.elements - 1)
            handle = replace(handle, report=report)
        real(self, node, handle)

    monkeypatch.setattr(block_scheduler.BlockScheduler, "_place", losing)
    with pytest.raises(cf.IncompleteError, match="saw 999 elements of 1,000"):
        cf.reduce(source)


def test_result_waits_no_longer_than_told():
    source = stored(np.zeros(100_000), chunks=(10,))
    run = cf.submit(source)
    with pytest.raises(TimeoutError, match="has not ended after"):
        run.result(0.001)
    run.cancel()


def test_plan_says_what_would_run(tmp_path: Path):
    zarr.create_array(str(tmp_path / "a.zarr"), shape=(100, 40), chunks=(10, 10), dtype="f4")
    text = str(cf.plan(tmp_path / "a.zarr", ["sum", "max"], axis=0))
    assert "sum, max over axes (0,)" in text
    assert "shape (100, 40), chunks of (10, 10)" in text
    assert "4,000 elements" in text


def test_chunks_beyond_the_largest_allocation_are_split(monkeypatch):
    from dataclasses import replace

    from chunkfold.worker.worker_device import process_device

    worker_device = process_device()
    small = replace(worker_device.opened.device, max_alloc_bytes=1000)
    monkeypatch.setattr(worker_device.opened, "device", small)
    array = np.random.default_rng(0).integers(0, 1000, (60, 70), "i4")
    source = stored(array, chunks=(60, 70))
    got = cf.reduce(source, ["sum", "max"])
    assert got == {"sum": array.sum(), "max": array.max()}
    for axis in (0, 1, ()):
        np.testing.assert_array_equal(cf.reduce(source, "max", axis=axis), array.max(axis=axis))
    cube = array.reshape(6, 10, 70).astype("f4")
    source = stored(cube, chunks=(6, 10, 70))
    for axis in (0, 1, 2, (0, 2)):
        want = cube.astype("f8").sum(axis=axis)
        np.testing.assert_allclose(cf.reduce(source, "sum", axis=axis), want, rtol=1e-6)
        got = cf.reduce(source, "argmax", axis=axis) if isinstance(axis, int) else 0
        assert np.array_equal(got, cube.argmax(axis=axis) if isinstance(axis, int) else 0)


def test_axes_go_by_name_too():
    array = np.arange(24.0).reshape(2, 3, 4)
    source = stored(array, chunks=(1, 3, 2), dimension_names=("time", "lat", "lon"))
    for axis, numbers in (("time", 0), (("lat", "lon"), (1, 2)), (["lon", 0], (0, 2))):
        np.testing.assert_array_equal(cf.reduce(source, "sum", axis=axis), array.sum(axis=numbers))
    with pytest.raises(cf.PlanError, match="no axis 'depth'; its axes are 'time', 'lat', 'lon'"):
        cf.plan(source, "sum", axis="depth")
    with pytest.raises(cf.PlanError, match="no axis 'latitude'; did you mean 'lat'"):
        cf.plan(source, "sum", axis="latitude")
    with pytest.raises(cf.PlanError, match="no axis 'time'; its axes have no names"):
        cf.plan(stored(array, chunks=(1, 3, 2)), "sum", axis="time")


def test_axes_of_the_same_name_are_told_apart_by_number():
    array = np.arange(24).reshape(2, 3, 4)
    source = stored(array, chunks=(1, 3, 2), dimension_names=("x", "y", "x"))
    with pytest.raises(cf.PlanError, match=r"has 2 axes that are called 'x': .* number, 0 or 2$"):
        cf.plan(source, "sum", axis="x")
    same(cf.reduce(source, "sum", axis=("y", 2)), array.sum(axis=(1, 2)))
    same(cf.reduce(source, "sum", axis="x", selection=1), array[1].sum(axis=1))


@given(st.data())
def test_names_mean_the_axes_of_the_array_whatever_is_selected(data):
    """As in xarray, whose integers leave nothing of an axis either."""
    array = np.random.default_rng(0).integers(0, 1000, (4, 5, 6))
    source = stored(array, chunks=(3, 2, 4), dimension_names=("time", "lat", "lon"))
    entries = [st.integers(0, n - 1) | st.just(slice(1, n)) for n in array.shape]
    selection = data.draw(st.tuples(*entries))
    names = ("time", "lat", "lon")
    left = [name for name, one in zip(names, selection, strict=True) if isinstance(one, slice)]
    wanted = data.draw(st.lists(st.sampled_from(names), unique=True, min_size=1))
    if not set(wanted) <= set(left):
        gone = next(name for name in wanted if name not in left)
        with pytest.raises(cf.PlanError, match=f"axis '{gone}' cannot be reduced, because the sel"):
            cf.plan(source, "max", axis=wanted, selection=selection)
        return
    want = array[selection].max(axis=tuple(map(left.index, wanted)))
    same(cf.reduce(source, "max", axis=wanted, selection=selection), want)
