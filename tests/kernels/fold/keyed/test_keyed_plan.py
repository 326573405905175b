"""Plans of sums by key: digits do not overflow, and tables fit where they are to be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkfold.kernels import all_devices, as_monoid, bind
from chunkfold.kernels.fold.keyed.keyed_plan import (
    local_tables,
    private_plan,
    private_splits,
    table_plan,
)
from chunkfold.kernels.program.shared_layout import SharedLayout, shared_of
from tests.conftest import as_gpu, shaped


def sums_of(*ops: str, dtype: str = "float32") -> SharedLayout:
    bound = bind([as_monoid(op) for op in ops], [np.dtype(dtype)], exact=True, keyed=True)
    return shared_of(bound.accumulator, range(len(bound.accumulator.components)))


@given(
    keys=st.integers(1, 10**6), outputs=st.integers(1, 256), reduces=st.integers(1, 2**33),
    local=st.sampled_from([16 << 10, 48 << 10, 1 << 20]), op=st.sampled_from(["sum", "std"]),
    dtype=st.sampled_from(["float16", "float32", "float64"]),
)  # fmt: skip
def test_no_sum_overflows_and_every_element_is_added(
    keys: int, outputs: int, reduces: int, local: int, op: str, dtype: str
):
    (device, *_) = all_devices()
    sums = sums_of(op, dtype=dtype)
    tuning = shaped(device, sums.accumulator, "tree")
    assert tuning is not None
    tables = local_tables(replace(device, local_bytes=local), tuning, sums, keys)
    plan = table_plan(tuning, sums, tables.digits, outputs, reduces)
    in_one = plan.span if plan.local else reduces
    assert in_one * sums.doubles * 2**plan.bits < 2**63
    assert plan.work_groups * plan.span >= reduces > (plan.work_groups - 1) * plan.span
    if plan.local:
        assert tables.keys * sums.key_bytes(plan.digits) <= local
        assert tables.keys == keys or (tables.keys * 2 >= keys and tuning.sharing > 1)
    assert plan.bits >= 24


@pytest.mark.parametrize(
    ("op", "dtype", "keys", "digits", "tables"),
    [("sum", "float32", 4000, 1, 1), ("sum", "float32", 12, 3, 1), ("mean", "float32", 4000, 1, 1),
     ("sum", "float64", 4000, 2, 2), ("sum", "float64", 100, 3, 1), ("std", "float64", 100, 3, 1),
     ("count", "int32", 12000, 1, 1), ("sum", "int32", 5000, 1, 1), ("sum", "int32", 12000, 1, 2),
     ("sum", "int32", 30000, 0, 5), ("std", "int64", 1000, 1, 2)],
)  # fmt: skip
def test_as_many_digits_and_keys_as_fit_48_kib(
    op: str, dtype: str, keys: int, digits: int, tables: int
):
    device, sums = as_gpu(all_devices()[0]), sums_of(op, dtype=dtype)
    tuning = shaped(device, sums.accumulator, "tree-64")
    assert tuning is not None
    found = local_tables(device, tuning, sums, keys)
    assert (found.digits, -(-keys // found.keys)) == (digits, tables)
    alone = replace(tuning, flat=replace(tuning.flat, local_size=1))
    if tables > 1 and alone.sharing == 1:
        assert local_tables(device, alone, sums, keys).digits == 0


@given(
    keys=st.integers(1, 1000), outputs=st.integers(1, 10**6), reduces=st.integers(1, 10**9),
    nbytes=st.integers(0, 64),
)  # fmt: skip
def test_streams_share_all_elements(keys: int, outputs: int, reduces: int, nbytes: int):
    (device, *_) = all_devices()
    tuning = shaped(device, sums_of("sum").accumulator, "tree")
    assert tuning is not None
    splits = private_splits(device, tuning, nbytes, keys, outputs)
    most = max(256 << 20, 0 if device.unified_memory else device.global_bytes // 128)
    assert splits == 1 or splits * nbytes * keys * outputs <= most
    used, span = private_plan(tuning, keys, reduces, splits)
    assert 1 <= used <= splits
    assert used * span >= reduces > (used - 1) * span
