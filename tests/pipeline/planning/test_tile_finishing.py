"""Finish tiles where they are whole: the blocks that do, their levels, and results that are NaN."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import chunkfold as cf
from chunkfold.kernels import as_monoid
from chunkfold.kernels.fold.levels import Levels
from chunkfold.planning.options import Options
from chunkfold.planning.plan import Plan
from chunkfold.planning.planner import make_plan
from chunkfold.planning.resolve import resolve
from chunkfold.planning.work import Work
from chunkfold.planning.workers import Terms
from chunkfold.workflows.images.pyramid_plan import plan_pyramid
from tests.workflows.images.test_pyramid import image

ROWS, SIDE, CHUNK = 512, 2048, (16, 1024, 1024)
GPU, CPU = frozenset({"gpu"}), frozenset({"cpu"})


def planned(
    op: Any = "mean", rows: int = ROWS, workers: int = 2, kinds: frozenset[str] = GPU, **given: Any
) -> Plan:
    """Plan a reduction of tiles that have a million outputs each: four, unless there are others."""
    dtype, chunks = given.pop("dtype_of", "f4"), given.pop("chunks", CHUNK)
    array = zarr.create_array({}, shape=(rows, SIDE, SIDE), chunks=chunks, dtype=dtype)
    terms = Terms(workers=workers, threads=2, readers=8, kinds=kinds)
    return make_plan(resolve(array, Options(op, **{"axis": 0, **given})), (None,), terms)


def shared(plan: Plan) -> bool:
    return any(block.parts != (0, plan.layout.parts) for block in plan.blocks)


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("op", ["mean", "std"])
def test_workers_have_whole_tiles_where_devices_round_results(workers: int, op: str):
    plan = planned(op, workers=workers)
    assert plan.layout.tiles == 4
    assert not shared(plan)
    assert len(plan.blocks) >= workers


@pytest.mark.parametrize(
    "given",
    [
        {"op": "max"},
        {"kinds": CPU},
        {"workers": 3},  # of which one would have two of the four tiles
        {"rows": 16 * ROWS},  # tiles of 32 GiB
    ],
    ids=str,
)
def test_tiles_are_shared_where_nothing_is_gained_or_too_much_waits(given: dict[str, Any]):
    assert shared(planned(**given))


@pytest.mark.parametrize(
    ("given", "finishes"),
    [
        ({}, True),
        ({"op": ["sum", "std", "norm2"], "ddof": 1}, True),
        ({"op": ["mean", "max"]}, False),
        ({"kinds": CPU}, False),
        ({"kinds": frozenset()}, False),
        ({"dtype_of": "i4"}, False),
        ({"axis": (1, 2)}, False),  # few outputs
        ({"mode": "fast"}, False),
    ],
    ids=str,
)
def test_tiles_are_finished_by_blocks_where_devices_can_round_all(given, finishes: bool):
    plan = planned(**given)
    assert (Work.of("run", plan).first.finishing is not None) == finishes
    assert Work.in_graph("run", plan).first.finishing is None


def pyramid(folder: Path, dtype: str, **given: Any) -> Plan:
    path = image(folder / "a", np.ones((3, 64, 64)).astype(dtype), (1, 32, 32))
    return cf.plan(plan_pyramid(path, folder / "b", **{"levels": 2, **given}).request)


def kernel_levels(plan: Plan) -> Levels | None:
    """Return what kernels are to make of tiles of one leaf, in a plan whose results leave."""
    finishing = plan.first.finishing
    assert finishing is not None
    return finishing.by_kernels


@pytest.mark.parametrize("op", ["mean", "min", "max"])
@pytest.mark.parametrize("dtype", ["float32", "uint8", "int32"])
def test_kernels_make_levels_of_plain_ops_of_narrow_elements(tmp_path: Path, dtype: str, op: Any):
    assert kernel_levels(pyramid(tmp_path, dtype, op=op)) == Levels(op, dtype, (1, 2, 2), 2)


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
def test_kernels_make_no_levels_that_are_asked_for_otherwise(
    tmp_path: Path, dtype: str, given: dict[str, Any]
):
    assert kernel_levels(pyramid(tmp_path, dtype, **given)) is None


def test_kernels_make_no_levels_of_bytes_in_another_order(tmp_path: Path):
    group = zarr.open_group(str(tmp_path / "a"), mode="w", zarr_format=2)
    group.create_array("0", shape=(64, 64), chunks=(32, 32), dtype=">f4")
    assert (
        kernel_levels(cf.plan(plan_pyramid(tmp_path / "a" / "0", tmp_path / "b", 2).request))
        is None
    )


HOLES = [1.0, np.nan, 3.0, 4.0]
BOTH = [np.inf, -np.inf, 3.0, 4.0]


def told(data, op, **given) -> list[str]:
    run = cf.submit(zarr.create_array({}, data=np.array(data)), op, **given)
    run.result()
    return [line for line in run.remarks() if "NaN" in line]


@pytest.mark.unoptimised
@pytest.mark.parametrize("op", ["sum", "mean", "std", "min", "minmax", "norm2"])
def test_elements_that_are_nan_are_told(op: str):
    since = f"{op} is NaN because the data contain NaN; skipna=True ignores them"
    assert told(HOLES, op) == [since]
    assert told(HOLES, op, skipna=True) == []


@pytest.mark.unoptimised
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


@pytest.mark.unoptimised
def test_what_may_be_of_infinities_is_told_so():
    data = np.array([HOLES, BOTH])
    assert told(data, ["sum", "max"], axis=1) == [
        "max is NaN because the data contain NaN; skipna=True ignores them",
        "sum is NaN, perhaps because the data contain NaN; skipna=True ignores them",
    ]


@pytest.mark.unoptimised
def test_times_and_missing_values_are_told_too():
    assert told(np.array([1, "NaT"], "M8[s]"), "mean")
    packed = zarr.create_array({}, data=np.array([1, 2], "i2"), attributes={"_FillValue": 2})
    run = cf.submit(packed, "mean", mask_and_scale=True)
    run.result()
    assert list(run.remarks())
