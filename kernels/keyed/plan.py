"""How sums by key are laid over a device: pure functions of its memory and the numbers of things."""

from __future__ import annotations

from dataclasses import dataclass

from chunkfold.kernels.device import Device
from chunkfold.kernels.keyed.sums import WINDOWS, Sums
from chunkfold.kernels.tuning import Tuning

_TOGETHER = 4
"""Elements that a work-item takes together: CHF_TOGETHER in kernels/keyed/tables.clh."""
_MOST_SPAN = 1 << 21
"""Elements of a work-group at most, where it has a table of its own: the fewer there are, the more
bits digits have."""
_MOST_BITS, _SUM_BITS = 50, 62
"""Bits of a digit, which a double has beside its rounder; of a sum of digits."""
_CROWDED = 16 << 10
"""Bytes of local memory beyond which a GPU has few work-groups at a time."""
_SPARE = 1 << 10
"""Bytes of local memory that are left to the compiler."""
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
    device: Device, tuning: Tuning, sums: Sums, keys: int, outputs: int, reduces: int
) -> TablePlan:
    """Return how the sums of a box with `outputs` times `reduces` elements are added up by key."""
    size = tuning.rows.local_size
    windows = local_windows(device, sums, keys)
    each = _TOGETHER * size
    wanted = max(1, tuning.groups // outputs, -(-reduces // _MOST_SPAN))
    span = -(-reduces // (wanted * each)) * each
    parts = -(-reduces // span)
    most = (span if windows else reduces) * sums.doubles
    bits = min(_MOST_BITS, _SUM_BITS - most.bit_length())
    return TablePlan(bool(windows), windows or WINDOWS, bits, parts, span)


def local_windows(device: Device, sums: Sums, keys: int) -> int:
    """Return how many digits fit local memory; 0 if not enough for ordinary values."""
    room = device.local_bytes - _SPARE
    least = sums.digits
    for windows in range(WINDOWS if sums.exact else 1, max(least, 1) - 1, -1):
        needed = keys * sums.key_bytes(windows)
        if needed <= (room if windows == max(least, 1) else min(room, _CROWDED)):
            return windows
    return 0


def stream_plan(tuning: Tuning, keys: int, outputs: int, reduces: int, splits: int) -> tuple[int, int]:
    """Return how many work-items share an output, each with accumulators of its own, and their span.

    To merge accumulators costs as much as to fold so many elements.
    """
    items = tuning.groups * (1 if tuning.strip else tuning.rows.local_size)
    wanted = min(-(-items // outputs), splits, -(-reduces // (4 * keys)))
    span = -(-reduces // max(1, wanted))
    return -(-reduces // span), span
