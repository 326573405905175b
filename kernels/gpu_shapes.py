"""The shapes of kernels that suit GPUs."""

from __future__ import annotations

from dataclasses import replace

from chunkfold.kernels.accumulator import Accumulator
from chunkfold.kernels.bake_inputs import lanes_readable
from chunkfold.kernels.bake_positions import has_positions
from chunkfold.kernels.device import Device
from chunkfold.kernels.shapes import MOST_GROUPS
from chunkfold.kernels.tuning import Loads, Tuning
from chunkfold.kernels.work_groups import local_tables, work_group_size

_FLAT = {1: (16, 4), 2: (8, 8), 4: (4, 8), 8: (4, 4)}
"""Width and loads in flight by the element's bytes, of reductions that have much to do for each.
Others, as sums and extremes, need but `_FEW`, and twice as many work-items. The best of 40
shapes, or within 4%, for sums, extremes, variances and first indices on an H200."""
_FEW = 2
_LIGHT_STATE_BYTES = 16
"""State up to which elements of 8 bytes come by two loads of 16. By two of 32, where an H100 read
4 GiB, norms of int64 ran at 0.8 of the speed of sums, logsumexp at 0.7; by one of 32 minmax of
float64 at 0.6: not where it read 1 GiB or less, so that no measurement settles it. Those of more
state were up to 1.4 times as fast with loads of 32 and half as many work-items, positions 1.2
times."""
_ROWS = {1: (2, 16, 2), 2: (4, 4, 4), 4: (4, 4, 2), 8: (2, 4, 2)}
"""Lanes, width and unroll by the element's bytes: the best of sweeps over sums, extremes, variances
and ten statistics at once on an H200, with 8 groups a compute unit."""
_BYTES_IN_FLIGHT = 64
"""Of columns whose sums are exact, for each work-item."""
_FLAT_LOCAL, _ROWS_LOCAL = 512, 256
"""Work-items of a group; with `_FEW` loads in flight twice the first."""
_STAGED_RUNS, _STAGED = 128, 32
"""Runs that a group stages, and elements of each at a time (kernels/staged.clh): all of them are in
flight, with which variances were up to 1.6 times as fast on an H100 as with a fourth."""
_STAGED_STATE_BYTES = 16
"""State of an element above which short runs of 2 and 4 bytes an element are staged. On an H100
variances of rows of 64 float32 were 2.4 times as fast so, ten statistics 5 times; sums and extremes
took up to twice as long, as did float64 in rows of less than 32, exact sums about the same."""


def gpu_shapes(device: Device, accumulator: Accumulator, variant: str) -> tuple[Tuning, ...]:
    """Return the tunings that suit a GPU, equals as far as the table knows."""
    itemsize = max(accumulator.itemsizes)

    def loads(local_size: int, lanes: int, width: int, unroll: int) -> Loads:
        size = work_group_size(device, accumulator, variant, local_size)
        return Loads(size, lanes, width, unroll)

    few = max(1, 4 // itemsize)
    width, many = _FLAT.get(itemsize, (1, 4))
    small = accumulator.state_bytes <= _LIGHT_STATE_BYTES
    light = itemsize == 8 and small and not has_positions(accumulator)
    swept = Tuning(
        variant=variant,
        groups=min(MOST_GROUPS, 8 * device.compute_units),
        flat=loads(*_few_loads(itemsize, width, light=light)),
        rows=loads(_ROWS_LOCAL, *_ROWS.get(itemsize, (1, 1, 2))),
        columns=Loads(min(128, device.max_work_group_size), few, few, 8),
        short_rows=_staged_rows(device, accumulator),
        strip=False,
        aligned=itemsize in _FLAT,
        tile=1,
        height=1,
        local_tables=local_tables(device, accumulator),
    )
    if not accumulator.exact:
        # One state instead of one a lane leaves rows registers for accumulators of many or wide
        # fields.
        flat = swept.flat if light else loads(_FLAT_LOCAL, 1, width, many)
        return swept, replace(swept, flat=flat, rows=replace(swept.rows, lanes=1))
    # Compilers are slow on exact sums, and there is little to settle: of what was swept on the same
    # device, one of these was the best or within 5% of it.
    squares = any(field.limbs and field.limbs.power != 1 for field in accumulator.sums.values())
    width, unroll = (8, 1) if squares or itemsize <= 2 else (4, 2)
    same = loads(_ROWS_LOCAL, 1, width, unroll)
    columns = replace(swept.columns, unroll=min(16, max(1, _BYTES_IN_FLIGHT // itemsize)))
    return (replace(swept, flat=same, rows=same, columns=columns, aligned=True),)


def _few_loads(itemsize: int, width: int, *, light: bool) -> tuple[int, int, int, int]:
    """Return work-items, lanes, width and loads in flight, where there is little to do for each."""
    if light:
        return 2 * _FLAT_LOCAL, 1, width // 2, _FEW
    return _FLAT_LOCAL if itemsize == 8 else 2 * _FLAT_LOCAL, 1, width, _FEW


def _staged_rows(device: Device, accumulator: Accumulator) -> Loads | None:
    """Return how a GPU stages runs, of which each item folds its own; None if it should not."""
    itemsize = max(accumulator.itemsizes)
    size = min(_STAGED_RUNS, device.max_work_group_size)
    several = len(accumulator.stored) > 1 or bool(accumulator.tables)
    light = accumulator.exact or accumulator.state_bytes <= _STAGED_STATE_BYTES
    fits = lanes_readable(accumulator) and size * (_STAGED + 1) * itemsize <= device.local_bytes
    if several or light or not fits or itemsize not in (2, 4) or size < _STAGED:
        return None
    return Loads(size, lanes=1, width=1, unroll=_STAGED)
