"""The launches that fold a box along its axes: pure functions of tuning and geometry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chunkfold.kernels.fold.shapes import column_shape, row_shape, short_row_shape
from chunkfold.kernels.geometry import Box
from chunkfold.kernels.program.options import Tuning


@dataclass(frozen=True)
class PlannedLaunch:
    """One launch."""

    where: tuple[str, str]
    """Kernel file and kernel."""
    shape: tuple[int, int]
    """Work-groups, and work-items of each."""
    box: Box
    splits: int
    """Accumulators of each output that it writes."""
    values: Mapping[str, int]
    """Arguments that no other kernel has."""
    tuning: Tuning | None = None
    """Where it is not the reduction's."""


def planned_launches(
    tuning: Tuning, box: Box, splits: int, *, tables: bool
) -> Sequence[PlannedLaunch]:
    """Return the launches that fold a box, of which each output has `splits` accumulators.

    `tables` says whether there are tables of counters. In the order given.
    """
    kernel = tuning.fold(box.kernel)
    if kernel == "rows":
        return [_rows(tuning, box, splits)]
    if kernel == "short_rows":
        return [_short_rows(tuning.for_runs(box.reduced[-1].size), box, splits)]
    return _columns(tuning, box, splits, tables=tables)


def _rows(tuning: Tuning, box: Box, splits: int) -> PlannedLaunch:
    size = tuning.rows.local_size
    team, used, span = row_shape(tuning, box, splits)
    groups = max(1, min(tuning.groups, -(-used * box.outputs * team // size)))
    values = {"splits": used, "span": span, "team": team}
    return PlannedLaunch(("rows.cl", "fold_rows"), (groups, size), box, used, values)


def _short_rows(tuning: Tuning, box: Box, splits: int) -> PlannedLaunch:
    loads = tuning.short_rows
    assert loads is not None
    groups, blocks, span = short_row_shape(tuning, loads, box, splits)
    values = {"span": span, "blocks": blocks}
    where = ("short_rows.cl", "fold_short_rows")
    return PlannedLaunch(where, (groups, loads.local_size), box, blocks, values, tuning)


def _columns(tuning: Tuning, box: Box, splits: int, *, tables: bool) -> Sequence[PlannedLaunch]:
    """Fold as many rows side by side as may be, and then those that are left over."""
    shape = column_shape(tuning, box, splits, tables=tables)
    main, rest = box.cut_rows(shape.fold)
    size = shape.tuning.columns.local_size
    values = {
        "fold": shape.fold,
        "span": -(-main.elements_per_output // (shape.fold * shape.blocks)),
        "blocks": shape.blocks,
    }
    groups = -(-shape.jobs // size)
    first = PlannedLaunch(
        ("columns.cl", "fold_columns"),
        (groups, size),
        main,
        shape.fold * shape.blocks,
        values,
        shape.tuning,
    )
    return [first, *(_columns(tuning, rest, splits, tables=tables) if rest else ())]
