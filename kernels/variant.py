"""The table of kernel variants: which shapes suit a device, best first."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace

from chunkfold.kernels.accumulator import Accumulator
from chunkfold.kernels.bake_inputs import lanes_readable
from chunkfold.kernels.device import POCL, Device
from chunkfold.kernels.dtypes import STORED
from chunkfold.kernels.errors import DeviceError
from chunkfold.kernels.shapes import MOST_GROUPS
from chunkfold.kernels.tuning import VARIANTS, Loads, Tuning

_COUNTER_BYTES = 4
"""Of a counter in local memory (kernels/tables.clh)."""
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
_BLOCK_LANES, _BLOCK_RUN = 8, 4
"""Runs of a block, and elements of each (kernels/blocks.clh)."""
_ROW_LANES = 8
"""Of a CPU. With runs of 64 and 1,440 elements, 16 were up to 40% slower, 4 seldom faster."""


def local_tables(device: Device, accumulator: Accumulator) -> bool:
    """Whether a work-group's counters fit local memory, and leave a quarter of it.

    Limbs stay in global memory: little is deposited in them.
    """
    size = _COUNTER_BYTES * accumulator.entries
    return not accumulator.exact and 0 < size <= device.local_bytes // 4 * 3


def work_group_size(
    device: Device, accumulator: Accumulator, variant: str, wanted: int, kernel_limit: int = 1 << 30
) -> int:
    """Return the largest usable work-group size up to `wanted`.

    min(kernel's limit, device's limits, what local memory holds), rounded down to the preferred
    multiple where that leaves anything, to a power of two for `tree`.
    """
    if accumulator.tables and "cl_khr_int64_base_atomics" not in device.extensions:
        return 1  # so that nothing shares a table
    # acc_t may be padded to the alignment of its widest field, and is never empty.
    scratch = (accumulator.item_bytes + 7) // 8 * 8 or 4
    tables = _COUNTER_BYTES * accumulator.entries if local_tables(device, accumulator) else 0
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


_GPU_FLAT = {1: (16, 4), 2: (8, 8), 4: (4, 8), 8: (4, 4)}
"""Width and loads in flight by the element's bytes, of reductions that have much to do for each.
Others, as sums and extremes, need but `_GPU_FEW`, and twice as many work-items. The best of 40
shapes, or within 4%, for sums, extremes, variances and first indices on an H200."""
_GPU_FEW = 2
_GPU_ROWS = {1: (2, 16, 2), 2: (4, 4, 4), 4: (4, 4, 2), 8: (2, 4, 2)}
"""Lanes, width and unroll by the element's bytes: the best of sweeps over sums, extremes, variances
and ten statistics at once on an H200, with 8 groups a compute unit."""
_GPU_BYTES_IN_FLIGHT = 64
"""Of columns whose sums are exact, for each work-item."""
_GPU_FLAT_LOCAL, _GPU_ROWS_LOCAL = 512, 256
"""Work-items of a group; with `_GPU_FEW` loads in flight twice the first."""


def _gpu(device: Device, accumulator: Accumulator, variant: str) -> tuple[Tuning, ...]:
    itemsize = max(_itemsizes(accumulator))

    def loads(local_size: int, lanes: int, width: int, unroll: int) -> Loads:
        size = work_group_size(device, accumulator, variant, local_size)
        return Loads(size, lanes, width, unroll)

    width, many = _GPU_FLAT.get(itemsize, (1, 4))
    swept = Tuning(
        variant=variant,
        groups=min(MOST_GROUPS, 8 * device.compute_units),
        flat=loads(2 * _GPU_FLAT_LOCAL, 1, width, _GPU_FEW),
        rows=loads(_GPU_ROWS_LOCAL, *_GPU_ROWS.get(itemsize, (1, 1, 2))),
        columns=_columns(min(128, device.max_work_group_size), max(1, 4 // itemsize), 8),
        short_rows=None,
        strip=False,
        aligned=itemsize in _GPU_FLAT,
        tile=1,
        height=1,
        local_tables=local_tables(device, accumulator),
    )
    if not accumulator.exact:
        # One state instead of one a lane leaves rows registers for accumulators of many or wide
        # fields.
        flat = loads(_GPU_FLAT_LOCAL, 1, width, many)
        return swept, replace(swept, flat=flat, rows=replace(swept.rows, lanes=1))
    # Compilers are slow on exact sums, and there is little to settle: of what was swept on the same
    # device, one of these was the best or within 5% of it.
    squares = any(field.limbs and field.limbs.degree > 1 for field in accumulator.sums.values())
    width, unroll = (8, 1) if squares or itemsize <= 2 else (4, 2)
    same = loads(_GPU_ROWS_LOCAL, 1, width, unroll)
    columns = replace(swept.columns, unroll=min(16, max(1, _GPU_BYTES_IN_FLIGHT // itemsize)))
    return (replace(swept, flat=same, rows=same, columns=columns, aligned=True),)


def _columns(local_size: int, lanes: int, unroll: int) -> Loads:
    return Loads(local_size, lanes, width=lanes, unroll=unroll)


def _cpu(device: Device, accumulator: Accumulator, variant: str) -> tuple[Tuning, ...]:
    # One work-item streams like a thread. Vectors of 8 or 16 elements reached the memory's speed
    # with both PoCL 3.1 and Intel's runtime; 16 were 20% faster for some reductions, slower for
    # others, and always faster for bytes. Exact sums are bound by arithmetic: 8 were as fast as 16,
    # or faster.
    bytewise = min(_itemsizes(accumulator)) == 1
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
        columns=_columns(1, column_lanes, in_flight),
        short_rows=_short_rows(accumulator),
        strip=True,
        aligned=False,
        tile=max(1, tile_bytes // (column_lanes * max(1, accumulator.state_bytes))),
        height=height,
        # One work-item needs none of its own; what several share is no faster there.
        local_tables=False,
    )


def _short_rows(accumulator: Accumulator) -> Loads | None:
    """Return how a CPU reads blocks of runs, which are turned as vectors: kernels/blocks.clh."""
    apt = lanes_readable(accumulator) and not accumulator.tables
    return Loads(1, _BLOCK_LANES, _BLOCK_LANES, _BLOCK_RUN) if apt else None


def _column_lanes(accumulator: Accumulator) -> int:
    """Return the neighbouring columns that a CPU folds at once."""
    most = _WIDE_COLUMN_STATE_BYTES.get(max(_itemsizes(accumulator)), accumulator.state_bytes)
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
    return max(1, _BATCH_BYTES // (lanes * min(_itemsizes(accumulator))))


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


def _itemsizes(accumulator: Accumulator) -> list[int]:
    return [STORED[name].itemsize for name in accumulator.stored]


Shape = Callable[[Device, Accumulator, str], tuple[Tuning, ...]]
_TABLE: dict[str, tuple[Shape, tuple[str, ...]]] = {
    "cpu": (_cpu, ("tree", "work_group", "sub_group")),
    "gpu": (_gpu, ("sub_group", "work_group", "tree")),
    "accelerator": (_gpu, ("sub_group", "work_group", "tree")),
}
"""Per kind of device: the shapes that suit it, of which a measurement chooses, and its variants,
best first."""


def why_not(device: Device, accumulator: Accumulator, variant: str) -> str | None:
    """Say why a variant cannot fold this accumulator on this device by rule; None if it can.

    What the device lacks comes first: nothing helps against that.
    """
    if variant == "tree":
        return None
    lacks = _lacks(device, variant)
    if lacks:
        return lacks
    if accumulator.exact:
        return f"{variant}_reduce_add rounds, which exact sums do not: use mode 'fast'"
    if not accumulator.collective:
        return f"{variant}_reduce_<op> exists for add, min and max only"
    return None


def _lacks(device: Device, variant: str) -> str | None:
    """Say what a device lacks for a variant with built-ins."""
    if variant == "work_group":
        features, collective = device.features, "__opencl_c_work_group_collective_functions"
        if (2, 0) <= device.version < (3, 0) or collective in features:
            return None
        return f"OpenCL {_dotted(device.version)} without {collective}"
    if device.version >= (3, 0) and "__opencl_c_subgroups" in device.features:
        return None if device.max_sub_groups else "it reports no sub-groups"
    if {"cl_khr_subgroups", "cl_intel_subgroups"} & device.extensions:
        return None
    return "it has neither __opencl_c_subgroups, cl_khr_subgroups nor cl_intel_subgroups"


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def language_options(device: Device) -> tuple[str, ...]:
    """Return the -cl-std option for a device: 3.0 where it is listed, 2.0 on 2.x, else none."""
    if device.version >= (3, 0) and (3, 0) in device.c_versions:
        return ("-cl-std=CL3.0",)
    if (2, 0) in device.c_versions:
        return ("-cl-std=CL2.0",)
    return ()


def build_options(device: Device) -> tuple[str, ...]:
    """Return what every program is compiled with; CHUNKFOLD_BUILD_OPTIONS adds to it."""
    # PoCL's compiler writes to standard error how many warnings there were, past every caller.
    quiet = ("-w",) if device.platform == POCL else ()
    return (
        *language_options(device),
        *quiet,
        *os.environ.get("CHUNKFOLD_BUILD_OPTIONS", "").split(),
    )


def language_pragmas(device: Device, variant: str) -> str:
    """Return the pragmas that a variant's built-ins need before OpenCL C 3.0."""
    if variant != "sub_group" or language_options(device) == ("-cl-std=CL3.0",):
        return ""
    names = [n for n in ("cl_khr_subgroups", "cl_intel_subgroups") if n in device.extensions]
    return "".join(f"#pragma OPENCL EXTENSION {name} : enable\n" for name in names)


def tiers(device: Device, accumulator: Accumulator) -> Iterator[tuple[Tuning, ...]]:
    """Yield the tunings to try on a device, best first; those of a tier are equals by the table.

    The last is the simplest there is.
    """
    shape, variants = _TABLE[device.kind]
    for variant in variants:
        if why_not(device, accumulator, variant) is None:
            yield shape(device, accumulator, variant)
    yield (shape(device, accumulator, "tree")[0].plain(),)


def forced(device: Device, accumulator: Accumulator, variant: str) -> tuple[Tuning, ...]:
    """Return the tunings of one variant, equals by the table.

    Raises
    ------
    DeviceError
        If the device cannot do it; the message says what it lacks.
    """
    if variant not in VARIANTS:
        raise DeviceError(f"no variant is called {variant!r}; there are: {', '.join(VARIANTS)}")
    reason = why_not(device, accumulator, variant)
    if reason:
        raise DeviceError(f"variant {variant!r} cannot be used on {device}: {reason}")
    return _TABLE[device.kind][0](device, accumulator, variant)
