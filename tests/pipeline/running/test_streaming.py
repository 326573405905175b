"""Results that leave as they come: all of them, once, before the run has ended."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import zarr

import chunkfold as cf
from chunkfold.api import stream
from chunkfold.errors import OutputError
from chunkfold.events import BlockProgress
from chunkfold.planning import blocks, planner
from chunkfold.planning.options import Options
from chunkfold.planning.plan import Plan
from chunkfold.planning.planner import make_plan
from chunkfold.planning.request import Streamed
from chunkfold.planning.resolve import resolve
from chunkfold.running import streaming

pytestmark = pytest.mark.unoptimised
ARRAY = np.random.default_rng(0).standard_normal((12, 20, 18))


@pytest.fixture(autouse=True)
def _small_leaves(monkeypatch):
    """Several leaves to a block, several blocks."""
    monkeypatch.setattr(planner, "LEAF_BYTES", 1024)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", (2048, 4096))
    monkeypatch.setattr(blocks, "RESULT_BYTES", 1000)


class Kept:
    """Keeps what it is given, and how many blocks had ended by then."""

    def __init__(self, *, full: bool = False) -> None:
        self.full, self.ended, self.after = full, 0, list[int]()
        self.arrays: dict[str, np.ndarray] = {}
        self.times: dict[str, np.ndarray] = {}

    def begin(self, plan: Plan) -> None:
        self.shape = plan.layout.outputs_shape

    def write(self, level: int, op: str, region: tuple[slice, ...], values: np.ndarray) -> None:
        if self.full:
            raise OutputError("there is no room")
        assert level == 0
        self.arrays.setdefault(op, np.empty(self.shape, values.dtype))[region] = values
        self.times.setdefault(op, np.zeros(self.shape, int))[region] += 1
        self.after.append(self.ended)

    def end(self) -> Mapping[str, Any]:
        return self.arrays

    def stop(self) -> None:
        self.stopped = True

    def hear(self, event: object) -> None:
        self.ended += isinstance(event, BlockProgress) and event.done


@pytest.mark.parametrize("axis", [(0,), (1,), (1, 2), ()])
def test_each_result_leaves_once_and_is_what_reduce_gives(axis: tuple[int, ...]):
    made = zarr.create_array({}, data=ARRAY, chunks=(5, 6, 9))
    sink, ops = Kept(), ["mean", "max", "argmax"]
    run = stream(resolve(made, Options(ops, axis=axis)), sink, on_event=sink.hear)
    run.result()
    want = cf.reduce(made, ops, axis=axis)
    for op in ops:
        np.testing.assert_array_equal(sink.arrays[op], want[op])
        assert (sink.times[op] == 1).all()
    if axis == ():
        assert min(sink.after) < len(run.plan.blocks) - 2, (
            "the first leave before the last are made"
        )


def test_what_keeps_results_from_being_written_ends_the_run():
    made = zarr.create_array({}, data=ARRAY, chunks=(5, 6, 9))
    with pytest.raises(OutputError, match="there is no room"):
        stream(resolve(made, Options("mean", axis=0)), Kept(full=True)).result()


def test_plans_whose_results_leave_keep_less_of_them():
    rows = zarr.create_array({}, shape=(1 << 26, 2), chunks=(1 << 16, 2), dtype="f4")
    request = resolve(rows, Options("mean", axis=1))
    whole, streamed = (make_plan(replace(request, streamed=one)) for one in (None, Streamed()))
    assert math.prod(rows.shape) * 4 < whole.memory.accumulators
    assert streamed.memory.accumulators < whole.memory.accumulators / 4
    assert len(streamed.blocks) > len(whole.blocks)


@pytest.mark.parametrize("shape", [(0,), (1,), (7, 3), (12, 4, 900)])
@pytest.mark.parametrize("turned", [False, True])
def test_threads_copy_every_result_once(monkeypatch, shape: tuple[int, ...], turned: bool):
    monkeypatch.setattr(streaming, "_COPY_BYTES", 1)
    values = np.arange(math.prod(shape)).reshape(shape[::-1] if turned else shape)
    values = values.T if turned else values
    whole = np.full([size + 2 for size in shape], -1)
    streaming._copy(whole[(..., *(slice(1, -1) for _ in shape))], values)
    assert (whole == -1).sum() == whole.size - values.size
    assert np.array_equal(whole[(..., *(slice(1, -1) for _ in shape))], values)
