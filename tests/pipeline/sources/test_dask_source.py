"""Arrays of Dask's in this process: each task runs once; what is wrong is said in a sentence."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array as da
import dask.bag
import numpy as np
import pytest
import xarray as xr
import zarr

import chunkfold as cf
from chunkfold.kernels import Device
from chunkfold.planning import blocks, planner
from chunkfold.sources.dask_source import DaskSource
from chunkfold.sources.opening import open_source

VALUES = np.arange(40 * 60).reshape(40, 60) % 977
CHUNKS = ((7, 7, 7, 7, 7, 5), (10, 20, 30))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make leaves of one chunk, and blocks of a few: so arrays of a few kB have several."""
    monkeypatch.setattr(planner, "LEAF_BYTES", 800)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", (2000, 2000))
    monkeypatch.setattr(blocks, "BLOCK_PER_PARTIAL", 0)


class Counted:
    """An array whose chunks are made by tasks that are counted."""

    def __init__(self, values: np.ndarray = VALUES, chunks: Any = CHUNKS) -> None:
        self.ran = Counter[tuple[int, ...]]()
        self.array = da.from_array(values, chunks=chunks).map_blocks(self._made, dtype=values.dtype)

    def _made(self, chunk: np.ndarray, block_info: Any = None) -> np.ndarray:
        self.ran[block_info[0]["chunk-location"]] += 1
        return chunk


MADE: dict[str, Callable[[Any], Any]] = {
    "as it is": lambda x: x,
    "less its mean": lambda x: x - x.mean(),
    "rechunk": lambda x: x.rechunk((40, 5)),
    "map_overlap": lambda x: x.map_overlap(lambda chunk: chunk + 1, depth=1, boundary="reflect"),
    "cumsum": lambda x: x.cumsum(axis=0),
}
"""Arrays made of one; of most a chunk needs several of its chunks."""


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("made", MADE)
def test_each_task_runs_once_in_however_many_blocks(made: str):
    counted = Counted()
    array = MADE[made](counted.array)
    wanted = MADE[made](da.from_array(VALUES, chunks=CHUNKS)).compute(scheduler="synchronous")
    run = cf.submit(array, ["max", "sum"], axis=1)
    assert (run.result()["max"] == wanted.max(axis=1)).all()
    assert np.allclose(run.result()["sum"], wanted.sum(axis=1))
    assert len(run.plan.blocks) > 4
    assert counted.ran == dict.fromkeys(np.ndindex(6, 3), 1)


@pytest.mark.parametrize("axis", [None, 0])
def test_a_chunk_that_is_read_in_slabs_is_computed_once(
    axis: int | None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(
        Device, "max_alloc_bytes", property(lambda _: 256, lambda *_: None), raising=False
    )
    counted = Counted(chunks=(40, 30))
    assert (cf.reduce(counted.array, "max", axis=axis) == VALUES.max(axis)).all()
    assert counted.ran == {(0, 0): 1, (0, 1): 1}


def test_only_what_is_selected_is_computed():
    counted = Counted()
    selection = (slice(8, 20), slice(15, 16))
    assert cf.reduce(counted.array, "sum", selection=selection) == VALUES[selection].sum()
    assert counted.ran == {(1, 1): 1, (2, 1): 1}


@pytest.mark.usefixtures("small")
def test_inputs_that_have_tasks_in_common_share_them():
    counted = Counted()
    found = cf.reduce((counted.array, counted.array + 1), "dot")
    assert found == (VALUES * (VALUES + 1)).sum()
    assert counted.ran == dict.fromkeys(np.ndindex(6, 3), 1)


def test_what_takes_a_path_takes_it(tmp_path: Path):
    path = tmp_path / "a.zarr"
    zarr.create_array(path, data=VALUES, chunks=(9, 25))
    array = da.from_array(VALUES, chunks=CHUNKS)
    assert cf.reduce((array, path), "dot") == (VALUES * VALUES).sum()
    kept = cf.reduce(array, "max", axis=1, keepdims=True)
    assert (kept == VALUES.max(axis=1, keepdims=True)).all()
    assert cf.reduce(array, "count", where="x > 300") == (VALUES > 300).sum()
    grouped = cf.reduce(array, "max", axis=0, by=np.arange(40) % 3)
    assert (grouped == [VALUES[n::3].max(axis=0) for n in range(3)]).all()


@pytest.mark.parametrize("shape", [(), (0, 3), (5,)])
def test_all_shapes(shape: tuple[int, ...]):
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    assert cf.reduce(da.from_array(values)) == values.sum()


def test_chunks_without_elements_are_no_cells():
    array = da.from_array(VALUES[:9], chunks=((0, 4, 0, 5), 60))
    assert (cf.reduce(array, "max", axis=1) == VALUES[:9].max(axis=1)).all()


def test_xarrays_arrays_bring_the_names_of_their_axes():
    counted = Counted()
    given = xr.DataArray(counted.array, dims=("time", "x"), name="air")
    assert (cf.reduce(given, "max", axis="time") == VALUES.max(axis=0)).all()
    assert open_source(given).name == "air"
    assert isinstance(open_source(given), DaskSource)
    assert not counted.ran.keys() - np.ndindex(6, 3)


def test_a_region_is_read_without_a_run():
    source, out = open_source(da.from_array(VALUES, chunks=CHUNKS)), np.empty((3, 2), VALUES.dtype)
    source.read((slice(6, 9, 1), slice(9, 20, 10)), out)
    assert (out == VALUES[6:9, 9:20:10]).all()


def test_the_plan_says_what_its_memory_leaves_out():
    told = str(cf.plan(da.from_array(VALUES, chunks=CHUNKS)))
    assert "computed by Dask" in told
    assert "the bound does not include the memory of its tasks and their results" in told


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (lambda x: x[x > 3], r"unknown along axis 0: call x.compute_chunk_sizes\(\)"),
        (dask.delayed(np.sum), "dask's Delayed is not an array"),
        (lambda _: dask.bag.from_sequence([1]), "dask's Bag is not an array"),
        (lambda x: da.ma.masked_greater(x, 3), "masked array.*skipna"),
        (lambda x: x.astype(object), "cannot be reduced"),
    ],
)
def test_what_cannot_be_reduced_is_refused(given: Callable[[Any], Any], told: str):
    with pytest.raises(cf.SourceError, match=told):
        cf.reduce(given(da.from_array(VALUES, chunks=CHUNKS)))


def failing(chunk: np.ndarray, block_info: Any = None) -> np.ndarray:
    if block_info[0]["chunk-location"] == (2, 1):
        raise OSError("no such file")
    return chunk


BAD: dict[str, tuple[Callable[[Any], Any], str]] = {
    "fails": (lambda x: x.map_blocks(failing, dtype=x.dtype), "OSError: no such file"),
    "lies": (
        lambda x: x.map_blocks(
            lambda c, block_info=None: c.astype("f4") if c.shape == (7, 20) else c, dtype=x.dtype
        ),
        r"it is float32 of shape \(7, 20\), not int64",
    ),
    "is masked": (
        lambda x: x.map_blocks(
            lambda c: np.ma.masked_less(c, 3) if c.shape == (7, 20) else c, dtype=x.dtype
        ),
        "its elements are masked",
    ),
}
"""Arrays of which some chunks of 7 times 20 are bad, and what is said of them."""


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("bad", BAD)
def test_a_bad_chunk_is_named_or_left_out(bad: str):
    made, told = BAD[bad]
    array = made(da.from_array(VALUES, chunks=CHUNKS))
    with pytest.raises(
        cf.ChunkError, match=rf"^{array.name}: cannot read chunk '\(\d, 1\)'.*{told}"
    ):
        cf.reduce(array, "count")
    run = cf.submit(array, "count", on_bad_chunk="skip")
    assert run.result() == VALUES.size - sum(run.skipped.values())
    assert {chunk.key for chunk in run.skipped} == (
        {"(2, 1)"} if bad == "fails" else {f"({n}, 1)" for n in range(5)}
    )


@pytest.mark.usefixtures("small")
def test_a_bad_task_of_many_chunks_is_named():
    array = da.from_array(VALUES, chunks=CHUNKS).map_blocks(failing, dtype=VALUES.dtype)
    less = array - array.max()
    with pytest.raises(
        cf.ChunkError, match=rf"^{less.name}: cannot read task .*2, 1.*no such file"
    ):
        cf.reduce(less)
    run = cf.submit(less, "count", on_bad_chunk="skip")
    assert run.result() == 0  # they all need it


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("shared", [False, True])
def test_a_cancelled_run_begins_no_more_tasks(shared: bool):
    begun, going = threading.Semaphore(0), threading.Event()
    ran = []

    def made(chunk: np.ndarray) -> np.ndarray:
        ran.append(chunk.shape)
        begun.release()
        going.wait(60)
        return chunk

    array = da.from_array(VALUES, chunks=CHUNKS).map_blocks(made, meta=VALUES[:0, :0])
    run = cf.submit(array - array.max() if shared else array)
    assert begun.acquire(timeout=60)
    run.cancel()
    going.set()
    with pytest.raises(cf.errors.CancelledError):
        run.result(60)
    assert len(ran) < 18
