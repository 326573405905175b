"""The programs that fold by key, and the accumulators that each is for."""

from __future__ import annotations

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.device.device import Device
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
    """Return the kernel files that one of `BY_KEY` launches, each with what it folds into."""
    shared, own = components_by_way(device, accumulator, tuning, way)
    found: list[tuple[str, Accumulator]] = []
    if shared:
        tables = shared_of(device, accumulator, shared).accumulator
        found += [("keyed/local.cl", tables), ("keyed/global.cl", tables)]
    if own:
        alone = with_components(accumulator, own)
        found += [("keyed/private.cl", alone), ("keyed/columns.cl", alone)]
    return found
