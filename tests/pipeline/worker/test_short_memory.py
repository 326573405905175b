"""Devices with less memory left than planned: smaller reads, the same results, and a warning."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import zarr

import chunkfold as cf
from chunkfold.kernels.fold import staging
from chunkfold.planning import planner
from chunkfold.worker import per_thread, worker_device

pytestmark = pytest.mark.unoptimised
X = np.random.default_rng(0).normal(size=(64, 200, 100)).astype("f4")
LEAF = 16 * 200 * 100 * 4


@pytest.fixture
def path(tmp_path, monkeypatch) -> str:
    monkeypatch.setattr(planner, "LEAF_BYTES", LEAF)
    monkeypatch.setattr(per_thread, "MOST_THREADS", 0)
    zarr.create_array(tmp_path / "a", data=X, chunks=(2, 200, 100))
    return str(tmp_path / "a")


@pytest.fixture
def leave(monkeypatch) -> Callable[[int], None]:
    """Return what sets how many bytes of memory there are for a buffer."""
    allowed, whole = [LEAF], staging.page_aligned

    def page_aligned(nbytes: int) -> np.ndarray:
        if nbytes > allowed[0]:
            raise MemoryError(f"no {nbytes:,} bytes are left")
        return whole(nbytes)

    def leave(nbytes: int) -> None:
        worker_device.process_device().memory._buffers.clear()  # idle ones would do
        allowed[0] = nbytes

    monkeypatch.setattr(staging, "page_aligned", page_aligned)
    return leave


def same(found, want) -> bool:
    if isinstance(want, dict):
        return found.keys() == want.keys() and all(same(found[n], want[n]) for n in want)
    return np.array_equal(np.asarray(found), np.asarray(want))


@pytest.mark.parametrize("smaller", [4, 16, 64])
@pytest.mark.parametrize(
    ("op", "options"),
    [
        (["sum", "std", "max"], {}),
        (["mean", "argmax"], {"axis": 0}),
        ("median", {"axis": 0}),
        ("mean", {"by": np.arange(64) % 5, "by_axis": 0}),
    ],
)
def test_results_of_smaller_reads_are_the_same(path, leave, op, options, smaller):
    want = cf.reduce(path, op, **options)
    leave(LEAF // smaller)
    with pytest.warns(cf.ShortMemoryWarning, match=f"reads were {smaller} times smaller"):
        found = cf.reduce(path, op, **options)
    assert same(found, want)
    leave(LEAF)  # another run begins with reads as planned
    assert same(cf.reduce(path, op, **options), want)


def test_no_memory_at_all_is_an_error_of_the_device(path, leave):
    cf.reduce(path, "sum")
    leave(1)
    none = pytest.raises(cf.DeviceError, match=r"has no memory left, even for reads of [\d.]+ ")
    with none:
        cf.reduce(path, "sum", axis=1)
