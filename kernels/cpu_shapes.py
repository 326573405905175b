"""The shapes of kernels that suit CPUs."""

from __future__ import annotations

from chunkfold.kernels.accumulator import Accumulator
from chunkfold.kernels.bake_inputs import lanes_readable
from chunkfold.kernels.bake_turns import long_run
from chunkfold.kernels.device import Device
from chunkfold.kernels.shapes import MOST_GROUPS
from chunkfold.kernels.tuning import TURNED, Loads, Tuning
from chunkfold.kernels.work_groups import work_group_size

_TILE_BYTES = 64 << 10
"""Accumulators that a CPU's work-item keeps for columns: less was slower, more no faster, with
Intel's runtime and with PoCL 3.1."""
_EXACT_TILE_BYTES = 16 << 10
"""The same of exact sums, whose sums on a grid are as much again."""
_EXACT_BATCH = 4
"""Vectors that are looked at together whether exact sums of them fit a grid."""
_BATCH_BYTES = 64
"""Of a CPU's loads, before it looks whether the run ends."""
_SMALL_STATE_BYTES = 8
"""State of an element, such as a sum's or an extreme's; those of more have more to do for each."""
_WIDE_COLUMN_STATE_BYTES = {4: 52, 8: 24, 16: 0}
"""State of an element up to which a CPU folds 16 columns at once, and above which 8, by the
element's bytes; of narrower ones always 16. Registers hold no more: with 8, ten statistics of
float64 were 2.2 times as fast with PoCL 3.1, 1.1 times with Intel's runtime; those of float32 1.2
times with Intel's, 0.95 with PoCL."""
_ROW_LANES = 8
"""Of a CPU. With runs of 64 and 1,440 elements, 16 were up to 40% slower, 4 seldom faster."""


def cpu_shapes(device: Device, accumulator: Accumulator, variant: str) -> tuple[Tuning, ...]:
    """Return the tunings that suit a CPU, equals as far as the table knows."""
    # One work-item streams like a thread. Vectors of 8 or 16 elements reached the memory's speed
    # with both PoCL 3.1 and Intel's runtime; 16 were 20% faster for some reductions, slower for
    # others, and always faster for bytes. Exact sums are bound by arithmetic: 8 were as fast as 16,
    # or faster.
    bytewise = min(accumulator.itemsizes) == 1
    widths = (16,) if bytewise else (8,) if accumulator.exact else (8, 16)
    return tuple(_cpu_tuning(device, accumulator, variant, lanes) for lanes in widths)


def _cpu_tuning(device: Device, accumulator: Accumulator, variant: str, lanes: int) -> Tuning:
    size = 1 if variant == "tree" else work_group_size(device, accumulator, variant, 64)
    # Lanes are gathered at the end of each run, so those of rows, which may be short, are few.
    few = min(lanes, _ROW_LANES)
    tile_bytes = _EXACT_TILE_BYTES if accumulator.exact else _TILE_BYTES
    column_lanes = _column_lanes(accumulator)
    in_flight, height = _rows_of_columns(accumulator)
    return Tuning(
        variant=variant,
        groups=min(MOST_GROUPS, 4 * device.compute_units),
        flat=Loads(size, lanes, lanes, _in_a_batch(accumulator, lanes)),
        rows=Loads(size, few, few, _EXACT_BATCH if accumulator.exact else 1),
        columns=Loads(1, column_lanes, column_lanes, in_flight),
        short_rows=TURNED if lanes_readable(accumulator) and not accumulator.tables else None,
        strip=True,
        aligned=False,
        tile=max(1, tile_bytes // (column_lanes * max(1, accumulator.state_bytes))),
        height=height,
        # One work-item needs none of its own; what several share is no faster there.
        local_tables=False,
        long_run=long_run(accumulator),
    )


def _column_lanes(accumulator: Accumulator) -> int:
    """Return the neighbouring columns that a CPU folds at once."""
    most = _WIDE_COLUMN_STATE_BYTES.get(max(accumulator.itemsizes), accumulator.state_bytes)
    return 8 if accumulator.exact or accumulator.state_bytes > most else 16


def _in_a_batch(accumulator: Accumulator, lanes: int) -> int:
    """Return the loads of a run that are unrolled on a CPU.

    A loop around one of 16 bytes cost a fourth of the speed of sums and extremes, with Intel's
    runtime and with PoCL 3.1; nothing around one of 64, or where more is done with them.
    """
    if accumulator.exact:
        return _EXACT_BATCH
    if accumulator.state_bytes > _SMALL_STATE_BYTES:
        return 1
    return max(1, _BATCH_BYTES // (lanes * min(accumulator.itemsizes)))


def _rows_of_columns(accumulator: Accumulator) -> tuple[int, int]:
    """Return the rows of columns that are unrolled on a CPU, and those folded of a vector in turn.

    The latter hide what it costs to load its states. Searches for bins hide it too: 16 rows of 80
    bins were slower than 2. Compilers begin all that is unrolled at once: of ten statistics 16 rows
    left the registers, and took a third longer than 8 that 2 were unrolled of.
    """
    if accumulator.tables and not accumulator.exact:
        return 2, 2
    light = accumulator.exact or accumulator.state_bytes <= _SMALL_STATE_BYTES
    return (8 if light else 2), 8
