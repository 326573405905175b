"""The shapes of kernels that suit CPUs."""

from __future__ import annotations

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.device.device import Device
from chunkfold.kernels.fold.shapes import MOST_GROUPS
from chunkfold.kernels.opencl.inputs import lanes_readable
from chunkfold.kernels.program.options import STREAMS, TURNED, Loads, Tuning
from chunkfold.kernels.program.transpose import long_run
from chunkfold.kernels.tuning.work_groups import work_group_size

_TILE_BYTES = 64 << 10
"""Bytes of accumulators that a CPU's work-item keeps for columns."""
_EXACT_TILE_BYTES = 16 << 10
"""The same for exact sums, whose sums on a grid need as much again."""
_EXACT_BATCH = 4
"""Vectors that are tested together for exact sums that fit a grid."""
_BATCH_BYTES = 64
"""Bytes of a CPU's loads between two tests for the end of a run."""
_SMALL_STATE_BYTES = 8
"""State of an element of sums and extremes; larger states take more work for each element."""
_WIDE_COLUMN_STATE_BYTES = {4: 52, 8: 24, 16: 0}
"""State of an element up to which a CPU folds 16 columns at once, and above which 8, by the
element's bytes; narrower elements always 16. Registers hold no more."""
_ROW_LANES = 8
"""Most lanes of a CPU's rows."""


def cpu_shapes(device: Device, accumulator: Accumulator, variant: str) -> tuple[Tuning, ...]:
    """Return the tunings that suit a CPU, equals as far as the table knows."""
    # One work-item streams like a thread; vectors of 8 or 16 elements reach the memory's speed.
    widths: tuple[int, ...]
    if min(accumulator.itemsizes) == 1:
        widths, why = (16,), "of bytes, vectors of 16 are always faster than of 8"
    elif accumulator.exact:
        widths, why = (8,), "arithmetic bounds exact sums: 8 are as fast as 16"
    else:
        widths, why = (8, 16), "8 or 16 reach the memory's speed"
    return tuple(_cpu_tuning(device, accumulator, variant, lanes, why) for lanes in widths)


def _cpu_tuning(
    device: Device, accumulator: Accumulator, variant: str, lanes: int, why: str
) -> Tuning:
    size, sized = 1, STREAMS
    if variant != "tree":
        size = work_group_size(device, accumulator, variant, 64)
        sized = "built-ins are for several: up to 64, as the device and local memory allow"
    # Lanes are gathered at the end of each run, so those of rows, which may be short, are few.
    few = min(lanes, _ROW_LANES)
    tile_bytes = _EXACT_TILE_BYTES if accumulator.exact else _TILE_BYTES
    column_lanes, columns_why = _column_lanes(accumulator)
    in_flight, height, flight_why = _rows_of_columns(accumulator)
    batch, batch_why = _in_a_batch(accumulator, lanes)
    short_rows, short_why = _short_rows(accumulator)
    return Tuning(
        variant=variant,
        groups=min(MOST_GROUPS, 4 * device.compute_units),
        flat=Loads(size, lanes, lanes, batch).because(
            local_size=sized, lanes=why, unroll=batch_why
        ),
        rows=Loads(size, few, few, _EXACT_BATCH if accumulator.exact else 1).because(
            local_size=sized,
            lanes=f"{why}; of rows {_ROW_LANES} at most, since lanes are put together at each end",
            unroll="exact sums look at several loads together"
            if accumulator.exact
            else "a row may end with any load",
        ),
        columns=Loads(1, column_lanes, column_lanes, in_flight).because(
            local_size=STREAMS,
            lanes=columns_why,
            unroll=flight_why,
        ),
        short_rows=short_rows,
        strip=True,
        aligned=False,
        tile=max(1, tile_bytes // (column_lanes * max(1, accumulator.state_bytes))),
        height=height,
        # One work-item needs none of its own; what several share is no faster there.
        local_tables=False,
        long_run=long_run(accumulator),
    ).because(
        groups=f"4 for each of {device.compute_units} compute units",
        strip="a CPU reads ahead of each work-item's own strip",
        short_rows=short_why,
    )


def _short_rows(accumulator: Accumulator) -> tuple[Loads | None, str]:
    """Return how a CPU reads short runs, None if as others; and why."""
    if accumulator.tables:
        return None, "lanes that are runs have no separate tables"
    if not lanes_readable(accumulator):
        return None, "elements are made values one by one, not in vectors"
    return TURNED, "lanes that are runs need not be put together"


def _column_lanes(accumulator: Accumulator) -> tuple[int, str]:
    """Return the neighbouring columns that a CPU folds at once, and why."""
    if accumulator.exact:
        return 8, "registers hold the exact sums of 8 columns"
    state, itemsize = accumulator.state_bytes, max(accumulator.itemsizes)
    if state > _WIDE_COLUMN_STATE_BYTES.get(itemsize, state):
        return 8, f"registers do not hold 16 columns of {state} bytes of state each"
    return 16, f"registers hold 16 columns of {state} bytes of state each"


def _in_a_batch(accumulator: Accumulator, lanes: int) -> tuple[int, str]:
    """Return the loads of a run that are unrolled on a CPU, and why.

    A loop around few bytes costs more than the arithmetic of sums and extremes.
    """
    if accumulator.exact:
        return _EXACT_BATCH, "exact sums look at several loads together"
    if accumulator.state_bytes > _SMALL_STATE_BYTES:
        return 1, "the work for each load costs more than the loop"
    loads = max(1, _BATCH_BYTES // (lanes * min(accumulator.itemsizes)))
    return loads, f"a loop costs nothing around {_BATCH_BYTES} bytes"


def _rows_of_columns(accumulator: Accumulator) -> tuple[int, int, str]:
    """Return the rows of columns that are unrolled on a CPU, those folded in turn, and why.

    The latter hide the cost of loading states, as searches for bins do. Compilers begin all that is
    unrolled at once, so that many rows of large states leave the registers.
    """
    if accumulator.tables and not accumulator.exact:
        return 2, 2, "searches for bins take longer than to load states"
    if accumulator.exact or accumulator.state_bytes <= _SMALL_STATE_BYTES:
        return 8, 8, "each row needs little work, so registers hold many"
    return 2, 8, "each row needs much work, so registers hold few"
