"""Plan how folds by key are laid over a device: pure functions of its memory and the box."""

from __future__ import annotations

from dataclasses import dataclass

from chunkfold.kernels.device.device import Device
from chunkfold.kernels.fold.keyed.keyed_box import KeyedBox
from chunkfold.kernels.fold.shapes import in_vectors
from chunkfold.kernels.geometry import BY_KEY
from chunkfold.kernels.kinds.exact_digits import MOST_DIGITS
from chunkfold.kernels.opencl.opencl_code import defined
from chunkfold.kernels.program.options import Tuning
from chunkfold.kernels.program.shared_layout import SharedLayout

_TOGETHER = defined("keyed/span.clh", "CHF_TOGETHER")
"""Elements that a work-item takes together."""
_MOST_SPAN = 1 << 21
"""Elements of a work-group at most, where it has a table of its own: fewer elements leave more
bits for each digit."""
_MOST_BITS, _SUM_BITS = 50, 62
"""Bits that survive CHF_ROUNDER; bits of a sum of digits."""
_CROWDED = 16 << 10
"""Bytes of local memory up to which there are more digits than ordinary values need: with more a
GPU has few work-groups at a time."""
_SPARE = 1 << 10
"""Bytes of local memory that are left to the compiler."""
_MOST_TABLES = 2
"""Tables, one after another, for which elements are read again at most. With more of them it is as
quick to add to global memory."""
_PRIVATE_BYTES, _PRIVATE_SHARE = 256 << 20, 128
"""Bytes of the accumulators that work-items have of their own; and the part of a device's memory
that they may be, if it is the device's alone."""
_FOR_EACH, _FOR_EACH_OF_MANY = 4, 1
"""Elements that a work-item folds at least for each accumulator of its own, which is merged with
others in the end; those of many work-items are merged by many."""
MOST_OUTPUTS = 256
"""Outputs beyond which a table for each does not pay."""


@dataclass(frozen=True)
class LocalTables:
    """The tables that a work-group has in local memory at a time."""

    digits: int
    """Digits of each exact sum; 0 if there are no tables in local memory."""
    keys: int
    """Keys of each table."""


@dataclass(frozen=True)
class TablePlan:
    """The tables in which a box's elements are added up, and their work-groups."""

    local: bool
    """True if tables are in local memory, else they are in global."""
    digits: int
    """Digits of each exact sum."""
    bits: int
    """Bits of a digit."""
    work_groups: int
    """Work-groups of each output."""
    span: int
    """Elements of each."""


def table_plan(
    tuning: Tuning, shared: SharedLayout, digits: int, outputs: int, reduces: int
) -> TablePlan:
    """Return how the sums of a box with `outputs` times `reduces` elements are added up by key.

    `digits` fit local memory (`local_tables`).
    """
    size = tuning.sharing
    each = _TOGETHER * size
    wanted = max(1, tuning.groups // outputs, -(-reduces // _MOST_SPAN))
    span = -(-reduces // (wanted * each)) * each
    work_groups = -(-reduces // span)
    most = (span if digits else reduces) * shared.doubles
    bits = min(_MOST_BITS, _SUM_BITS - most.bit_length())
    return TablePlan(bool(digits), digits or MOST_DIGITS, bits, work_groups, span)


def shares_tables(outputs: int) -> bool:
    """Return whether so many outputs each have a table that work-items share."""
    return outputs <= MOST_OUTPUTS


def way_of(outputs: int) -> str:
    """Return which of `geometry.BY_KEY` folds boxes of so many outputs."""
    return BY_KEY[0] if shares_tables(outputs) else BY_KEY[1]


def local_tables(device: Device, tuning: Tuning, shared: SharedLayout, keys: int) -> LocalTables:
    """Return the tables of so many keys that fit local memory, one or several after each other.

    No digits, if those of ordinary values do not fit.
    """
    room = device.local_bytes - _SPARE
    least = shared.ordinary_digits if shared.exact else 1
    for digits in range(MOST_DIGITS if shared.exact else 1, least - 1, -1):
        needed = keys * shared.key_bytes(digits)
        if needed <= (room if digits == least else min(room, _CROWDED)):
            return LocalTables(digits, keys)
    tables = -(-keys * shared.key_bytes(least) // room)
    together = tuning.sharing > 1 and tables <= _MOST_TABLES
    return LocalTables(least if together else 0, -(-keys // tables))


def private_splits(device: Device, tuning: Tuning, nbytes: int, keys: int, outputs: int) -> int:
    """Return how many work-items may share an output, each with accumulators of `nbytes`."""
    items = tuning.groups * (1 if tuning.strip else tuning.rows.local_size)
    own = 0 if device.unified_memory else device.global_bytes // _PRIVATE_SHARE
    room = max(_PRIVATE_BYTES, own) // (max(1, nbytes) * keys * outputs)
    return max(1, min(-(-items // outputs), room))


def private_plan(tuning: Tuning, keys: int, reduces: int, splits: int) -> tuple[int, int]:
    """Return how many of `splits` work-items share an output's elements, and how many each has."""
    each = _FOR_EACH_OF_MANY if tuning.sharing > 1 else _FOR_EACH
    wanted = max(1, min(splits, -(-reduces // (each * keys))))
    span = -(-reduces // wanted)
    return -(-reduces // span), span


def column_jobs(tuning: Tuning, layout: KeyedBox) -> int | None:
    """Return in how many tiles neighbouring outputs are folded; None if they have no vectors.

    Those of a vector must be neighbours in memory and among the outputs, and have the same key.
    """
    kept = layout.elements.kept
    if not kept or kept[-1].output_stride != 1 or layout.keys.kept[-1].stride != 0:
        return None
    if not in_vectors(tuning, layout.elements):
        return None
    tile = tuning.columns.lanes * tuning.tile
    return layout.outputs // kept[-1].size * -(-kept[-1].size // tile)
