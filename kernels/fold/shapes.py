"""Lay a box over a device's work-items: pure integer functions of tuning and geometry."""

from __future__ import annotations

import math
from dataclasses import dataclass

from chunkfold.kernels.geometry import Box
from chunkfold.kernels.program.options import Loads, Tuning

CPU_ACCUMULATORS = 1 << 16
"""Accumulators beyond the outputs' own that a CPU keeps, at most."""
SPLIT_BYTES = 64 << 20
"""Bytes that all of them hold, at most."""
MOST_GROUPS = 8 << 10
"""Work-groups of a launch, at most: 8 for each of a thousand compute units."""
_LEAST_PASS = 16
"""Accumulators that a pass folds into one, at least."""
_TEAM_LOADS = 16
"""Loads of a run that each work-item of a team takes, at least ..."""
_LEAST_TEAM, _LEAST_LOADS = 4, 4
"""... but neighbours that read neighbouring memory are at least so many, if so many loads are left
for each of them."""
_ROWS_IN_FLIGHT = 4
"""Times that a GPU's work-item goes through its unrolled rows, at least."""


@dataclass(frozen=True)
class ColumnShape:
    """The shape of `fold_columns` over a box."""

    tuning: Tuning
    fold: int
    """Rows side by side."""
    blocks: int
    """Runs of wide rows that different work-items fold."""
    jobs: int
    """Work-items."""


def most_splits(tuning: Tuning, outputs: int, nbytes: int) -> int:
    """Return how many accumulators of `nbytes` each output has on the device."""
    room = max(1, SPLIT_BYTES // (max(outputs, 1) * max(nbytes, 1)))
    if outputs == 1:
        return min(tuning.groups, room)
    items = CPU_ACCUMULATORS if tuning.strip else tuning.groups * tuning.rows.local_size
    return max(1, min(items // max(outputs, 1), room))


def split_bytes(outputs: int, nbytes: int) -> int:
    """Return what all of them hold at most, whatever the tuning."""
    return min(SPLIT_BYTES, MOST_GROUPS * nbytes) if outputs == 1 else SPLIT_BYTES


def team_size(tuning: Tuning, run: int) -> int:
    """Return how many work-items share a run of neighbouring elements.

    The whole group, or a power of two that divides it.
    """
    loads = tuning.rows
    wanted = run // max(tuning.team_elements, _TEAM_LOADS * loads.width)
    least = min(_LEAST_TEAM, run // (_LEAST_LOADS * loads.width))
    wanted = max(wanted, least, 1)
    if wanted >= loads.local_size:
        return loads.local_size
    team = 1 << (wanted.bit_length() - 1)
    return math.gcd(team, loads.local_size)


def row_shape(tuning: Tuning, box: Box, splits: int) -> tuple[int, int, int]:
    """Lay `fold_rows` over a box: work-items of a team, splits of an output, positions of a split.

    Several teams share an output where outputs alone do not fill the device. On a CPU they also do
    where an output's runs lie apart: outputs are then taken in memory's order, run after run.
    """
    run = box.reduced[-1].size if box.reduced else 1
    team = team_size(tuning, run)
    teams = tuning.groups * (tuning.rows.local_size // team)
    wanted = min(teams // box.outputs, -(-box.elements_per_output // (team * tuning.rows.width)))
    runs = box.elements_per_output // run
    if tuning.strip and wanted <= 1 < runs:
        each = -(-runs // min(splits, runs))
        return team, -(-runs // each), each * run
    used = max(1, min(splits, wanted))
    return team, used, -(-box.elements_per_output // used)


def short_row_shape(tuning: Tuning, loads: Loads, box: Box, splits: int) -> tuple[int, int, int]:
    """Lay `fold_short_rows` over a box: work-groups, blocks of an output's runs, runs of each."""
    row, runs = box.kept[-1], box.elements_per_output // box.reduced[-1].size
    bundles = box.outputs // row.size * -(-row.size // (loads.lanes * loads.local_size))
    blocks = max(1, min(tuning.groups // bundles, splits, runs))
    jobs = bundles * blocks
    return min(tuning.groups, jobs) if tuning.strip else jobs, blocks, -(-runs // blocks)


def column_shape(tuning: Tuning, box: Box, splits: int, *, tables: bool = False) -> ColumnShape:
    """Lay `fold_columns` over a box, so that narrow and short ones fill vectors and device too.

    Where columns have `tables`, vectors do not cross from one folded row to the next.
    """
    column = box.kept[-1]
    if tuning.columns.lanes > 1 and not in_vectors(tuning, box):
        tuning = tuning.narrow()
    tile = tuning.columns.lanes * tuning.tile
    items = tuning.groups * (1 if tuning.strip else tuning.rows.local_size)
    fold = (
        _tile_fold(tuning, box) if tuning.strip and tile > 1 else _narrow_fold(tuning, box, items)
    )
    if tables and column.size % tuning.columns.lanes:
        fold = 1
    fold = max(1, min(fold, splits))
    across = box.outputs // column.size * -(-fold * column.size // tile)
    blocks = max(1, min(-(-items // across), splits // fold, box.elements_per_output // fold))
    return ColumnShape(tuning, fold, blocks, blocks * across)


def in_vectors(tuning: Tuning, box: Box) -> bool:
    """Return whether columns are neighbours, and vectors of them are aligned as loads need.

    Where rows side by side need not follow each other, no vector crosses from one to the next.
    """
    column, lanes = box.kept[-1], tuning.columns.lanes
    if column.stride != 1 or (not tuning.strip and column.size % lanes and not _follow(box)):
        return False
    strides = [dim.stride for dim in (*box.kept[:-1], *box.reduced)]
    return not tuning.aligned or all(n % lanes == 0 for n in (box.offset, *strides))


def _narrow_fold(tuning: Tuning, box: Box, items: int) -> int:
    """Return how many rows make work-items enough, each with rows enough to keep in flight."""
    rows = box.reduced[-1].size if box.reduced else 1
    wanted = items * tuning.columns.lanes // box.outputs
    return min(wanted, rows // (_ROWS_IN_FLIGHT * tuning.columns.unroll))


def _tile_fold(tuning: Tuning, box: Box) -> int:
    """Return how many narrow rows fill a tile, and whole vectors, if they follow each other."""
    if not _follow(box):
        return 1
    column, row = box.kept[-1], box.reduced[-1]
    step = tuning.columns.lanes // math.gcd(column.size, tuning.columns.lanes)
    most = tuning.columns.lanes * tuning.tile // column.size
    return min(most, row.size) // step * step


def _follow(box: Box) -> bool:
    """Return whether each row begins where the one before ends, in memory and by the index."""
    if not box.reduced:
        return False
    column, row = box.kept[-1], box.reduced[-1]
    other_strides = tuple(column.size * stride for stride in column.other_strides)
    return (row.stride, row.index_stride, row.other_strides) == (
        column.size,
        column.size * column.index_stride,
        other_strides,
    )


def each_shape(tuning: Tuning, count: int) -> tuple[int, int]:
    """Return groups, and work-items of one, of kernels that treat `count` things one by one."""
    size = tuning.columns.local_size
    groups = -(-count // size)
    return (min(groups, tuning.groups) if tuning.strip else groups), size


def pass_span(tuning: Tuning, splits: int) -> int:
    """Return how many accumulators a pass folds into one.

    One pass, where a work-group has not more than a few to each item; else two.
    """
    if splits <= tuning.rows.local_size * _LEAST_PASS:
        return splits
    return max(tuning.rows.local_size * _LEAST_PASS, math.isqrt(splits))
