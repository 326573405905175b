"""How folds by key are laid over a device: pure functions of its memory and what there is."""

from __future__ import annotations

from dataclasses import dataclass, replace

from chunkfold.kernels.device.device import Device
from chunkfold.kernels.program.keyed_shared import WINDOWS, Shared
from chunkfold.kernels.program.options import Tuning

_TOGETHER = 4
"""Elements that a work-item takes together: CHF_TOGETHER in kernels/cl/keyed/tables.clh."""
_MOST_SPAN = 1 << 21
"""Elements of a work-group at most, where it has a table of its own: the fewer there are, the more
bits digits have."""
_MOST_BITS, _SUM_BITS = 50, 62
"""Bits of a digit, which a double has beside its rounder; of a sum of digits."""
_CROWDED = 16 << 10
"""Bytes of local memory beyond which a GPU has few work-groups at a time."""
_SPARE = 1 << 10
"""Bytes of local memory that are left to the compiler."""
_STREAM_BYTES = 256 << 20
"""Bytes of the accumulators that work-items have of their own."""
_GPU_LOCAL = 512
"""Work-items of a group on a GPU, which share a table."""
MOST_OUTPUTS = 256
"""Outputs beyond which a table for each does not pay."""


@dataclass(frozen=True)
class TablePlan:
    """How a box's elements are added up in tables."""

    local: bool
    """Whether tables are in local memory, else in global."""
    windows: int
    """Digits of each exact sum."""
    bits: int
    """Bits of a digit."""
    parts: int
    """Work-groups of each output."""
    span: int
    """Elements of each."""


def table_plan(
    device: Device, tuning: Tuning, shared: Shared, keys: int, outputs: int, reduces: int
) -> TablePlan:
    """Return how the sums of a box with `outputs` times `reduces` elements are added up by key."""
    size = tuning.rows.local_size
    windows = local_windows(device, shared, keys)
    each = _TOGETHER * size
    wanted = max(1, tuning.groups // outputs, -(-reduces // _MOST_SPAN))
    span = -(-reduces // (wanted * each)) * each
    parts = -(-reduces // span)
    most = (span if windows else reduces) * shared.doubles
    bits = min(_MOST_BITS, _SUM_BITS - most.bit_length())
    return TablePlan(bool(windows), windows or WINDOWS, bits, parts, span)


def table_tuning(device: Device, tuning: Tuning) -> Tuning:
    """Return a tuning whose work-groups are as large as suits shared tables."""
    if device.kind == "cpu":
        return tuning
    size = min(_GPU_LOCAL, device.max_work_group_size)
    return replace(tuning, rows=replace(tuning.rows, local_size=size))


def local_windows(device: Device, shared: Shared, keys: int) -> int:
    """Return how many digits fit local memory; 0 if not enough for ordinary values."""
    room = device.local_bytes - _SPARE
    least = shared.digits if shared.exact else 1
    for windows in range(WINDOWS if shared.exact else 1, least - 1, -1):
        needed = keys * shared.key_bytes(windows)
        if needed <= (room if windows == least else min(room, _CROWDED)):
            return windows
    return 0


def stream_splits(tuning: Tuning, nbytes: int, keys: int, outputs: int) -> int:
    """Return how many work-items may share an output, each with accumulators of `nbytes`."""
    items = tuning.groups * (1 if tuning.strip else tuning.rows.local_size)
    room = _STREAM_BYTES // (max(1, nbytes) * keys * outputs)
    return max(1, min(-(-items // outputs), room))


def stream_plan(keys: int, reduces: int, splits: int) -> tuple[int, int]:
    """Return how many of `splits` work-items share an output's elements, and how many each has.

    To merge accumulators costs as much as to fold so many elements.
    """
    wanted = max(1, min(splits, -(-reduces // (4 * keys))))
    span = -(-reduces // wanted)
    return -(-reduces // span), span
