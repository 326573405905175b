"""Tiles that are finished where they are whole: which are, and that workers have such."""

from __future__ import annotations

from typing import Any

import pytest
import zarr

from chunkfold.planning.asking import asked
from chunkfold.planning.options import Options
from chunkfold.planning.plan import Plan
from chunkfold.planning.planner import make_plan
from chunkfold.planning.work import Work
from chunkfold.planning.workers import Terms

ROWS, SIDE, CHUNK = 512, 2048, (16, 1024, 1024)
GPU, CPU = frozenset({"gpu"}), frozenset({"cpu"})


def planned(
    op: Any = "mean", rows: int = ROWS, workers: int = 2, kinds: frozenset[str] = GPU, **given: Any
) -> Plan:
    """Plan a reduction of tiles that have a million outputs each: four, unless there are others."""
    dtype, chunks = given.pop("dtype_of", "f4"), given.pop("chunks", CHUNK)
    array = zarr.create_array({}, shape=(rows, SIDE, SIDE), chunks=chunks, dtype=dtype)
    terms = Terms(workers=workers, threads=2, readers=8, kinds=kinds)
    return make_plan(asked(array, Options(op, **{"axis": 0, **given})), (None,), terms)


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
    assert (Work.of("run", plan).finishing is not None) == finishes
    assert Work.in_graph("run", plan).finishing is None
