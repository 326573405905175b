"""The benchmarks measure what they say, on every device; nothing here is timed against a bound."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from chunkfold.kernels import (
    Device,
    DeviceContext,
    DeviceError,
    Fold,
    as_monoid,
    bind,
    box,
    choose,
)
from chunkfold.kernels.bench import measure, transfer
from chunkfold.kernels.bench.measure import read_kernels
from chunkfold.kernels.bench.peers import in_cache, repeated
from chunkfold.kernels.bench.timing import medians
from chunkfold.kernels.bench.transfer import IN_PLACE, bench_transfer
from chunkfold.kernels.fold.staging import PAGE, page_aligned
from chunkfold.kernels.ladder import LADDER
from tests.kernels.fold.test_fold import upload


def test_contenders_take_turns_and_each_follows_every_other():
    order: list[str] = []
    medians({name: lambda name=name: order.append(name) for name in "abc"}, 20)
    rounds = [order[first : first + 3] for first in range(0, len(order), 3)]
    assert all(sorted(one) == ["a", "b", "c"] for one in rounds)
    follows = Counter(pair for one in rounds for pair in itertools.pairwise(one))
    assert len(follows) == 6
    assert min(follows.values()) >= 3


def test_read_kernels_read(opened: DeviceContext):
    kernels = dict(read_kernels(opened, upload(opened, np.arange(1024)), 8192))
    assert len(kernels) >= 2
    for run in kernels.values():
        run()


@pytest.mark.parametrize("shape", [(1,), (5,), (7,), (3, 7), (1000, 11)])
def test_values_are_repeated_from_the_start_of_a_page(shape: tuple[int, ...]):
    values = np.arange(7, dtype="f8")
    array = repeated(values, shape)
    np.testing.assert_array_equal(array, np.resize(values, shape), strict=True)
    assert array.ctypes.data % PAGE == 0


def test_a_row_has_every_contender(device: Device):
    (row,) = measure.bench_kernels(device, ["max"], ["int32"], 1 << 20, 1)
    names = {measure.OURS, measure.CEILING, measure.NUMPY, measure.REDUCTION_KERNEL}
    assert set(row.rates) == names
    assert all(rate > 0 for rate in row.rates.values())
    assert row.share() == row.rates["chunkfold"] / row.rates["read ceiling"]


def test_arithmetic_is_measured_on_elements_that_stay_in_a_cache(opened: DeviceContext):
    """The same fold, and of what it says: runs of 256 KiB, each 64 elements behind the last."""
    array = (np.arange(1 << 20) * 37 % 1009).astype("float32")
    run = in_cache(opened, "sum", array, upload(opened, array))
    assert run is not None
    (total,) = run().arrays["c0_s"]
    runs = np.lib.stride_tricks.sliding_window_view(array, 1 << 16)[: 16 * 64 : 64]
    assert total == runs.sum(dtype="f8")
    few = array[: 1 << 18]
    assert in_cache(opened, "sum", few, upload(opened, few)) is None


def test_several_ops_are_one_pass_without_a_peer(device: Device):
    (row,) = measure.bench_kernels(device, ["sum+max"], ["float16"], 1 << 20, 1)
    assert measure.REDUCTION_KERNEL not in row.rates
    assert {measure.OURS, measure.NUMPY} <= set(row.rates)


def test_numpy_reduces_by_bits_too(device: Device):
    (row,) = measure.bench_kernels(device, ["bitwise_xor"], ["int32"], 1 << 20, 1)
    assert row.rates[measure.NUMPY] > 0


def test_the_ladder_has_every_rung_or_says_why(device: Device):
    row = measure.bench_ladder(device, "sum", "float32", 1 << 18, 1)
    rungs = [name for name in (*row.rates, *row.left_out) if name.strip()[0].isdigit()]
    assert len(rungs) == len(LADDER)
    assert all(row.left_out.values())


def test_a_crossover_is_a_size(device: Device):
    nbytes = measure.crossover(device, "sum", "float32", 1)
    assert nbytes is None or 1 << 10 <= nbytes <= 1 << 27


def test_more_than_a_buffer_holds_is_refused(device: Device):
    with pytest.raises(DeviceError, match=r"allows buffers of .* bytes, not .*; measure less"):
        next(measure.bench_kernels(device, ["sum"], ["int8"], device.max_alloc_bytes + 8, 1))


def test_every_way_to_a_device_is_measured(device: Device):
    found = bench_transfer(device, 1 << 20, 1)
    assert set(found.folded) == {"pageable", "pinned", "mapped", "zero copy", IN_PLACE}
    assert set(found.moved) >= {"pageable", "pinned", "mapped"}
    assert found.used in found.folded
    assert all(rate > 0 for rate in (*found.moved.values(), *found.folded.values()))


@pytest.mark.parametrize("way", ["_copied", "_mapped", "_shown"])
def test_what_is_moved_is_what_is_folded(opened: DeviceContext, way: str):
    memory = page_aligned(4000).view(np.float32)
    move = getattr(transfer, way)(opened, memory)
    bound = bind([as_monoid("sum")], [memory.dtype])
    fold = Fold(
        opened, bound.accumulator, choose(opened.device, bound.accumulator, kernels=("flat",))
    )
    for value in (1, 3):  # not what an earlier move left there
        memory[:] = value
        fold.add([move()], box((1000,), (0,)))
        assert bound.statistics[0].finish(fold.read_back()) == 1000 * value
