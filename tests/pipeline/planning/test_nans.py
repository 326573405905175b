"""Results that are NaN since elements are say so; others, which nothing would help, do not."""

from __future__ import annotations

import numpy as np
import pytest
import zarr

import chunkfold as cf

pytestmark = pytest.mark.unoptimised

HOLES = [1.0, np.nan, 3.0, 4.0]
BOTH = [np.inf, -np.inf, 3.0, 4.0]


def told(data, op, **given) -> list[str]:
    run = cf.submit(zarr.create_array({}, data=np.array(data)), op, **given)
    run.result()
    return [line for line in run.remarks() if "NaN" in line]


@pytest.mark.parametrize("op", ["sum", "mean", "std", "min", "minmax", "norm2"])
def test_elements_that_are_nan_are_told(op: str):
    since = f"{op} is NaN because the data contain NaN; skipna=True ignores them"
    assert told(HOLES, op) == [since]
    assert told(HOLES, op, skipna=True) == []


@pytest.mark.parametrize(
    ("data", "op", "given"),
    [
        (BOTH, ["sum", "mean", "std"], {}),
        ([1.0], "std", {"ddof": 1}),
        (np.empty(0), "mean", {}),
        (HOLES, ["nanmean", "count", "argmax", "any", "histogram"], {}),
        ([1, 2], "mean", {}),
        ([np.nan, 1.0, 2.0], "max", {"selection": slice(1, None)}),
    ],
)
def test_nothing_is_told_where_no_element_is_the_cause(data, op, given):
    assert told(data, op, **given) == []


def test_what_may_be_of_infinities_is_told_so():
    data = np.array([HOLES, BOTH])
    assert told(data, ["sum", "max"], axis=1) == [
        "max is NaN because the data contain NaN; skipna=True ignores them",
        "sum is NaN, perhaps because the data contain NaN; skipna=True ignores them",
    ]


def test_times_and_missing_values_are_told_too():
    assert told(np.array([1, "NaT"], "M8[s]"), "mean")
    packed = zarr.create_array({}, data=np.array([1, 2], "i2"), attributes={"_FillValue": 2})
    run = cf.submit(packed, "mean", mask_and_scale=True)
    run.result()
    assert list(run.remarks())
