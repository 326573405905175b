"""Sizes of work-groups, by the device's limits and local memory."""

from __future__ import annotations

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.device.device import Device

_COUNTER_BYTES = 4
"""Bytes of a counter in local memory (kernels/cl/tables.clh)."""


def fits_local_memory(device: Device, accumulator: Accumulator) -> bool:
    """Return True if a work-group's counters fit local memory, and leave a quarter of it.

    Limbs stay in global memory: little is deposited in them.
    """
    size = _COUNTER_BYTES * accumulator.entries
    adds = any(slot.field.adds for slot in accumulator.tables)  # of more bits
    return not accumulator.exact and not adds and 0 < size <= device.local_bytes // 4 * 3


def work_group_size(
    device: Device, accumulator: Accumulator, variant: str, wanted: int, kernel_limit: int = 1 << 30
) -> int:
    """Return the largest usable work-group size up to `wanted`.

    min(kernel's limit, device's limits, what local memory holds), rounded down to the preferred
    multiple where that leaves anything, to a power of two for `tree`.
    """
    # acc_t may be padded to the alignment of its widest field, and is never empty.
    scratch = (accumulator.item_bytes + 7) // 8 * 8 or 4
    tables = _COUNTER_BYTES * accumulator.entries if fits_local_memory(device, accumulator) else 0
    size = min(
        wanted,
        kernel_limit,
        device.max_work_group_size,
        device.max_work_item_size,
        max(1, (device.local_bytes - tables) // scratch),
    )
    if variant == "tree":
        return 1 << (size.bit_length() - 1)
    multiple = device.preferred_multiple
    return size // multiple * multiple or size
