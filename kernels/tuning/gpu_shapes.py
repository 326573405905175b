"""The shapes of kernels that suit GPUs."""

from __future__ import annotations

from dataclasses import replace

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.device.device import Device
from chunkfold.kernels.fold.shapes import MOST_GROUPS
from chunkfold.kernels.kinds import kinds_of
from chunkfold.kernels.kinds.position import only_positions
from chunkfold.kernels.opencl.inputs import lanes_readable
from chunkfold.kernels.opencl.opencl_code import defined
from chunkfold.kernels.program.options import Loads, Tuning
from chunkfold.kernels.tuning.work_groups import fits_local_memory, work_group_size

_FLAT = {1: (16, 4), 2: (8, 8), 4: (4, 8), 8: (4, 4)}
"""Width and loads in flight by the element's bytes, for reductions with much work for each element.
Others, such as sums and extremes, need only `_FEW`, and twice as many work-items."""
_FEW = 2
_LIGHT_STATE_BYTES = 16
"""State up to which elements of 8 bytes are read by two loads of 16 bytes. Others have loads of 32
and half as many work-items. Short measurements do not show the difference."""
_ROWS = {1: (2, 16, 2), 2: (4, 4, 4), 4: (4, 4, 2), 8: (2, 4, 2)}
"""Lanes, width and unroll by the element's bytes, with 8 groups a compute unit."""
_EXACT = {1: (8, 1), 2: (4, 4), 4: (8, 2), 8: (4, 2)}
"""Width and loads in flight of exact sums, by the element's bytes."""
_EXACT_SQUARES = (8, 1)
"""The same for sums with squares, but of elements of 4 bytes."""
_EXACT_COLUMNS = (8, 16)
"""Bytes of a load of columns of exact sums, and rows in flight."""
_EXACT_TEAM_ELEMENTS = 512
"""Elements of a run for each work-item at least: to merge exact sums takes long."""
_FLAT_LOCAL, _ROWS_LOCAL = 512, 256
"""Work-items of a group; with `_FEW` loads in flight twice the first."""
_STAGED_RUNS, _STAGED = 128, defined("tiling.clh", "CHF_STAGED")
"""Runs that a group stages, and elements of each at a time: all are in flight."""
_SHARING = 512
"""Work-items of a group that share tables by key."""
_STAGED_STATE_BYTES = 16
"""State of an element above which short runs of 2 and 4 bytes an element are staged."""


def gpu_shapes(device: Device, accumulator: Accumulator, variant: str) -> tuple[Tuning, ...]:
    """Return the tunings that suit a GPU, equals as far as the table knows."""
    itemsize = max(accumulator.itemsizes)

    def loads(local_size: int, lanes: int, width: int, unroll: int) -> Loads:
        size = work_group_size(device, accumulator, variant, local_size)
        most = f"{local_size} as swept, or what the device, local memory and {variant} allow"
        return Loads(size, lanes, width, unroll).because(local_size=most)

    of_bytes = f"the best of a sweep, of elements of {itemsize} bytes"
    few = max(1, 4 // itemsize)
    width, many = _FLAT.get(itemsize, (1, 4))
    small = accumulator.state_bytes <= _LIGHT_STATE_BYTES
    light = itemsize == 8 and small and not only_positions(kinds_of(accumulator))
    shape, flat_why = _few_loads(itemsize, width, light=light)
    short_rows, short_why = _staged_rows(device, accumulator)
    columns = Loads(min(128, device.max_work_group_size), few, few, 8).because(
        local_size="128 as swept, or what the device allows",
        lanes="loads of 4 bytes at least",
        unroll="rows in flight hide the memory's latency",
    )
    swept = Tuning(
        variant=variant,
        groups=min(MOST_GROUPS, 8 * device.compute_units),
        flat=loads(*shape).because(lanes=flat_why, unroll=flat_why),
        rows=loads(_ROWS_LOCAL, *_ROWS.get(itemsize, (1, 1, 2))).because(
            lanes=of_bytes, unroll=of_bytes
        ),
        columns=columns,
        short_rows=short_rows,
        strip=False,
        aligned=itemsize in _FLAT,
        tile=1,
        height=1,
        local_tables=fits_local_memory(device, accumulator),
        shared_by=min(_SHARING, device.max_work_group_size),
    ).because(
        groups=f"8 for each of {device.compute_units} compute units",
        strip="neighbouring work-items of a GPU read neighbouring memory",
        short_rows=short_why,
    )
    if not accumulator.exact:
        # One state instead of one a lane leaves rows registers for accumulators of many or wide
        # fields.
        one = "one state leaves registers for accumulators of many or wide fields"
        much = "much to do for each element: more in flight, and fewer work-items"
        many_loads = loads(_FLAT_LOCAL, 1, width, many).because(lanes=one, unroll=much)
        flat = swept.flat if light else many_loads
        rows = replace(swept.rows, lanes=1).because(lanes=one)
        return swept, replace(swept, flat=flat, rows=rows)
    # Compilers are slow on exact sums, and shapes differ little: there is one.
    exact = "the best of a sweep of exact sums, or within 5% of it"
    squares = any(field.limbs and field.limbs.power != 1 for field in accumulator.sums.values())
    apart = squares and itemsize != 4
    width, unroll = _EXACT_SQUARES if apart else _EXACT.get(itemsize, (4, 2))
    same = loads(_ROWS_LOCAL, 1, width, unroll).because(lanes=exact, unroll=exact)
    nbytes, in_flight = _EXACT_COLUMNS
    lanes = max(1, nbytes // itemsize)
    columns = replace(columns, lanes=lanes, width=lanes, unroll=in_flight).because(
        lanes=f"loads of {nbytes} bytes at least", unroll=f"{in_flight} rows in flight"
    )
    return (
        replace(
            swept,
            flat=same,
            rows=same,
            columns=columns,
            aligned=True,
            team_elements=_EXACT_TEAM_ELEMENTS,
        ),
    )


def _few_loads(itemsize: int, width: int, *, light: bool) -> tuple[tuple[int, int, int, int], str]:
    """Return work-items, lanes, width and loads in flight where there is little to do, and why."""
    if light:
        why = "little to do for elements of 8 bytes: loads of 16 bytes"
        return (2 * _FLAT_LOCAL, 1, width // 2, _FEW), why
    why = "little to do for each element: few loads in flight, and many work-items"
    return (_FLAT_LOCAL if itemsize == 8 else 2 * _FLAT_LOCAL, 1, width, _FEW), why


def _staged_rows(device: Device, accumulator: Accumulator) -> tuple[Loads | None, str]:
    """Return how a GPU stages runs, of which each item folds its own, None if not; and why."""
    itemsize = max(accumulator.itemsizes)
    size = min(_STAGED_RUNS, device.max_work_group_size)
    if len(accumulator.stored) > 1 or accumulator.tables:
        return None, "runs of several inputs, or with tables, are not staged"
    if accumulator.exact or accumulator.state_bytes <= _STAGED_STATE_BYTES:
        return None, "each element needs too little work for staging to pay"
    if not lanes_readable(accumulator) or itemsize not in (2, 4):
        return None, "only plain elements of 2 or 4 bytes are staged"
    if size < _STAGED or size * (_STAGED + 1) * itemsize > device.local_bytes:
        return None, "local memory, or the largest work-group, is too small for it"
    why = "each element needs much work: a group stages runs, an item folds each"
    loads = Loads(size, lanes=1, width=1, unroll=_STAGED)
    return loads.because(local_size=why, lanes=why, unroll="all that is staged is in flight"), why
