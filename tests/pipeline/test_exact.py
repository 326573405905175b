"""One answer: the same bits for any chunks, devices and number of workers, and the right ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import zarr

import chunkfold as cf
from chunkfold.cluster.joining import connect
from chunkfold.errors import DeviceError
from chunkfold.kernels.accumulator.partial import Partial, assembled
from chunkfold.kernels.device import host
from chunkfold.planning import blocks, planner
from chunkfold.worker import finishing, fold_tile, worker_device
from tests.conftest import DEVICES, workers_of
from tests.exactly import expected
from tests.kernels.catalogue.test_exact_sums import bits
from tests.pipeline.test_reduce import stored

OPS = ["sum", "mean", "var", "std", "sumsq", "norm1", "norm2"]
SHAPE = (9, 10, 11)


def hard(dtype: str, seed: int = 0) -> np.ndarray:
    """Values of both signs over many powers of two, most of which cancel."""
    rng = np.random.default_rng(seed)
    flat = rng.standard_normal(np.prod(SHAPE)) * 2.0 ** rng.uniform(-30, 30, np.prod(SHAPE))
    flat[1::2] = -flat[: len(flat) - 1 : 2]
    flat[::7] += 2.0**-40
    return rng.permutation(flat).reshape(SHAPE).astype(dtype)


@pytest.fixture(autouse=True)
def _small_leaves(monkeypatch):
    monkeypatch.setattr(planner, "LEAF_BYTES", 256)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", (512, 1024))


@pytest.fixture
def roots(monkeypatch) -> list[Partial]:
    """The root partials of runs, in their order."""
    seen: list[Partial] = []

    def kept(*given):
        seen.append(assembled(*given))
        return seen[-1]

    monkeypatch.setattr(finishing, "assembled", kept)
    return seen


def patterns(roots: list[Partial]) -> set[str]:
    return {repr(sorted(bits(root).items())) for root in roots}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_chunks_do_not_change_a_bit_and_all_are_right(dtype: str, roots: list[Partial]):
    array = hard(dtype)
    wanted = [expected(op, array.ravel().tolist(), dtype) for op in OPS]
    columns = array.reshape(SHAPE[0], -1).T.tolist()
    means = np.array([expected("mean", column, dtype) for column in columns], dtype)
    rng = np.random.default_rng(1)
    for _ in range(12):
        chunks = tuple(int(rng.integers(1, n + 1)) for n in SHAPE)
        source = stored(array, chunks=chunks)
        results = cf.reduce(source, OPS, mode="exact")
        assert [results[op].tobytes() for op in OPS] == [one.tobytes() for one in wanted]
        along = cf.reduce(source, "mean", axis=0, mode="exact")
        assert along.tobytes() == means.tobytes()
    assert len(roots) == 24
    assert len(patterns(roots)) == 2  # one of all elements, one of the columns


def test_sums_that_expansions_lose_are_the_same_for_any_chunks(monkeypatch, roots: list[Partial]):
    """Some outputs need limbs: where a block had lost them, and in the root, the same ones."""
    monkeypatch.setattr(fold_tile, "AGAIN_BYTES", 2000)
    array = hard("float64", seed=3)
    rng = np.random.default_rng(3)
    far = rng.random(SHAPE[1:]) < 0.2
    array[:, far] *= 2.0 ** rng.integers(-400, 400, (SHAPE[0], far.sum()))
    array[1, far] = -array[0, far]  # what cancels may fit an expansion again
    array[0, 0, 0] = np.nan
    columns = array.reshape(SHAPE[0], -1).T.tolist()
    ops = ["mean", "std"]
    wanted = {op: np.array([expected(op, column, "float64") for column in columns]) for op in ops}
    for number in range(6):
        chunks = tuple(int(rng.integers(1, n + 1)) for n in SHAPE) if number else SHAPE
        source = stored(array, chunks=chunks)
        results = cf.reduce(source, ops, axis=0)
        for op in ops:
            assert np.array_equal(results[op].reshape(-1), wanted[op], equal_nan=True), (op, chunks)
        assert 0 < len(roots[-1].wide["c0_s"].at) < far.sum() + 1
    assert len(roots) == 6
    assert len(patterns(roots)) == 1


@pytest.mark.unoptimised
def test_workers_do_not_change_a_bit(tmp_path: Path, roots: list[Partial]):
    """Two to four workers, of one runtime and of several."""
    array = hard("float32", seed=2)
    made = zarr.create_array(str(tmp_path / "a.zarr"), shape=SHAPE, chunks=(2, 3, 4), dtype="f4")
    made[...] = array
    wanted = [expected(op, array.ravel().tolist(), "float32").tobytes() for op in OPS]
    halves = [part for device in DEVICES for part in workers_of(device, 2)]
    for specs in (halves[:2], [*halves[:2], DEVICES[-1]], halves):
        with (
            cf.LocalOpenCLCluster(specs, dashboard_address=None) as cluster,
            connect(cluster.scheduler_address) as client,
        ):
            results = cf.reduce(tmp_path / "a.zarr", OPS, mode="exact", client=client)
        assert [results[op].tobytes() for op in OPS] == wanted
    assert len(roots) == 3
    assert len(patterns(roots)) == 1


def test_fast_is_close_where_exact_is_right():
    array = np.array([1e8, 1.0, -1e8] * 999 + [2.0**-20], "f4")
    source = stored(array, chunks=(100,))
    assert cf.reduce(source, mode="exact") == np.float32(999 + 2.0**-20)
    assert cf.reduce(source, mode="fast") == pytest.approx(999)


def test_a_plan_says_what_exactness_takes():
    source = stored(np.zeros((8, 100), "f4"), chunks=(1, 100))
    fast, exact = (cf.plan(source, "mean", axis=0, mode=mode) for mode in ("fast", "exact"))
    assert exact.memory.accumulators > fast.memory.accumulators


def test_integers_and_extremes_are_the_same_in_both_modes():
    array = np.arange(-500, 490, dtype="i4").reshape(SHAPE)
    source = stored(array, chunks=(4, 5, 6))
    ops = ["sum", "mean", "min", "argmax", "count_nonzero"]
    fast, exact = (cf.reduce(source, ops, mode=mode) for mode in ("fast", "exact"))
    assert fast == exact


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_what_devices_lack_does_not_change_a_bit(axis: int | None, monkeypatch):
    array = stored(np.random.default_rng(5).standard_normal((40, 70)).astype("f4"), chunks=(9, 70))
    ops = ["sum", "std", "argmin"]
    want = cf.reduce(array, ops, axis=axis)
    lacking = [
        (replace(device, without=frozenset({"fp64", "int64_atomics"})), handle)
        for device, handle in host._listed()
    ]
    monkeypatch.setattr(host, "_listed", lambda: tuple(lacking))
    monkeypatch.setattr(worker_device, "_of_process", {})
    got = cf.reduce(array, ops, axis=axis)
    assert [got[op].tobytes() for op in ops] == [want[op].tobytes() for op in ops]
    with pytest.raises(DeviceError, match="disables fp64"):
        cf.reduce(stored(np.ones((4, 4)), chunks=(4, 4)), "sum")
