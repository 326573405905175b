"""The programs that fold by key, and the accumulators that each is for."""

from __future__ import annotations

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.device.device import Device
from chunkfold.kernels.fold.keyed.layout import KeyedBox
from chunkfold.kernels.fold.keyed.plan import column_jobs, local_tables, way_of
from chunkfold.kernels.geometry import BY_KEY
from chunkfold.kernels.program.options import Tuning
from chunkfold.kernels.program.shared_layout import shared_of, split_shareable, with_components


def components_by_way(
    device: Device, accumulator: Accumulator, tuning: Tuning, way: str
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return which components work-items share in tables, and which they have for themselves."""
    if way == BY_KEY[0]:
        return split_shareable(device, accumulator, many=tuning.sharing > 1)
    return (), tuple(range(len(accumulator.components)))


def keyed_programs(
    device: Device, accumulator: Accumulator, tuning: Tuning, way: str
) -> list[tuple[str, Accumulator]]:
    """Return the kernel files that one of `BY_KEY` may launch, each with what it folds into."""
    shared, own = components_by_way(device, accumulator, tuning, way)
    found: list[tuple[str, Accumulator]] = []
    if shared:
        tables = shared_of(accumulator, shared).accumulator
        found += [("keyed/local.cl", tables), ("keyed/global.cl", tables)]
    if own:
        alone = with_components(accumulator, own)
        found += [("keyed/private.cl", alone), ("keyed/columns.cl", alone)]
    return found


def launched_by_key(
    device: Device, accumulator: Accumulator, tuning: Tuning, layout: KeyedBox, keys: int
) -> list[tuple[str, Accumulator]]:
    """Return the kernel files that fold a box by so many keys, each with what it folds into."""
    shared, own = components_by_way(device, accumulator, tuning, way_of(layout.outputs))
    found: list[tuple[str, Accumulator]] = []
    if shared:
        tables = shared_of(accumulator, shared)
        if local_tables(device, tuning, tables, keys).digits:
            found.append(("keyed/local.cl", tables.accumulator))
        found.append(("keyed/global.cl", tables.accumulator))
    if own:
        file = "keyed/private.cl" if column_jobs(tuning, layout) is None else "keyed/columns.cl"
        found.append((file, with_components(accumulator, own)))
    return found
