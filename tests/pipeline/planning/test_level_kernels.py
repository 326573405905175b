"""Which levels kernels make: those whose bits are known to be the same as of partials."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import chunkfold as cf
from chunkfold.kernels import as_monoid
from chunkfold.kernels.fold.levels import Levels
from chunkfold.planning.level_kernels import levels_of
from chunkfold.planning.plan import Plan
from chunkfold.workflows.pyramid_plan import plan_pyramid
from tests.workflows.test_pyramid import image


def planned(folder: Path, dtype: str, **given: Any) -> Plan:
    path = image(folder / "a", np.ones((3, 64, 64)).astype(dtype), (1, 32, 32))
    return cf.plan(plan_pyramid(path, folder / "b", **{"levels": 2, **given}).request)


@pytest.mark.parametrize("op", ["mean", "min", "max"])
@pytest.mark.parametrize("dtype", ["float32", "uint8", "int32"])
def test_plain_ops_of_narrow_elements_are(tmp_path: Path, dtype: str, op: Any):
    plan = planned(tmp_path, dtype, op=op)
    assert levels_of(plan) == Levels(op, dtype, (1, 2, 2), 2)


@pytest.mark.parametrize(
    ("dtype", "given"),
    [
        ("float32", {"mode": "fast"}),
        ("float32", {"skipna": True}),
        ("float32", {"op": "sum"}),
        ("float32", {"op": "std"}),
        ("float32", {"op": as_monoid("max").among(lambda x: x > 1)}),
        ("float32", {"on_bad_chunk": "skip"}),
        ("float32", {"min_count": 3}),
        ("uint8", {"op": "mode"}),
        ("uint8", {"factor": 17, "levels": 1}),
        ("float32", {"initial": 5.0, "op": "max", "statistics": False}),
        ("float64", {}),
        ("float16", {}),
        ("int64", {}),
        ("complex64", {"statistics": False}),
    ],
)
def test_none_are_that_are_asked_for_otherwise(tmp_path: Path, dtype: str, given: dict[str, Any]):
    assert levels_of(planned(tmp_path, dtype, **given)) is None


def test_none_are_of_bytes_in_another_order(tmp_path: Path):
    group = zarr.open_group(str(tmp_path / "a"), mode="w", zarr_format=2)
    group.create_array("0", shape=(64, 64), chunks=(32, 32), dtype=">f4")
    assert levels_of(cf.plan(plan_pyramid(tmp_path / "a" / "0", tmp_path / "b", 2).request)) is None
