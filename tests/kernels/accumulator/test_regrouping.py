"""Rows of accumulators are combined to the few outputs that they belong to."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from chunkfold.kernels import Combiner, DeviceContext, Fold, Partial, as_monoid, bind, box, choose
from chunkfold.kernels.accumulator.grouped_partials import regrouped
from tests.conftest import DEVICES
from tests.kernels.fold.test_fold import upload

pytestmark = pytest.mark.unoptimised
BOUND = bind([as_monoid(op) for op in ("sum", "min", "argmax")], [np.dtype("f4")], exact=True)
ACCUMULATOR = BOUND.accumulator


def joined(opened: DeviceContext, values: np.ndarray, owners: np.ndarray, outputs: int) -> Partial:
    """Fold each row of values, and combine rows by their owners."""
    tuning = choose(opened.device, ACCUMULATOR, kernels={"flat", "rows", "columns", "short_rows"})
    made = box(values.shape, (1,), index_strides=(values.shape[1], 1), index=0)
    fold = Fold(opened, ACCUMULATOR, tuning, made.outputs)
    fold.add([upload(opened, values)], made)
    combiner = Combiner(opened, ACCUMULATOR, tuning)
    return regrouped(ACCUMULATOR, fold.read_back(), owners, outputs, combiner.combine)


def finished(partial: Partial, shape: tuple[int, int]) -> list[Any]:
    with np.errstate(all="ignore"):
        return [one.finish(partial, shape, (0, 1)) for one in BOUND.statistics]


@pytest.mark.parametrize("rows", [1, 2, 15, 16, 17, 700])
@pytest.mark.parametrize("device", DEVICES, indirect=True)
def test_each_output_is_of_all_rows_that_belong_to_it(opened: DeviceContext, rows: int):
    rng = np.random.default_rng(rows)
    far = 10.0 ** rng.integers(-30, 30, (rows, 5))
    values = (rng.standard_normal((rows, 5)) * far).astype("f4")
    owners, outputs = rng.integers(-1, 4, rows), 6  # to the last two none belongs
    sums, least, places = finished(joined(opened, values, owners, outputs), values.shape)
    for output in range(outputs):
        mine = np.flatnonzero(owners == output)
        own = values[mine]
        exact = np.float32(math.fsum(own.reshape(-1).tolist()))
        assert np.float32(sums[output]) == exact
        if len(mine):
            assert least[output] == own.min()
            assert values.reshape(-1)[places[output]] == own.max()


@pytest.mark.parametrize("device", DEVICES[:1], indirect=True)
def test_counts_are_of_all_rows_and_nothing_is_of_none(opened: DeviceContext):
    found = joined(opened, np.ones((3, 4), "f4"), np.array([2, -1, 2]), 3)
    np.testing.assert_array_equal(found.count, [0, 0, 8])
    none = joined(opened, np.ones((3, 4), "f4"), np.full(3, -1), 2)
    np.testing.assert_array_equal(finished(none, (3, 4))[0], [0, 0])
