"""The programs that fold boxes into an accumulator on a device."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from chunkfold.kernels.accumulator.accumulator import COUNTS, Accumulator
from chunkfold.kernels.device.device import Device
from chunkfold.kernels.fold.keyed.keyed_box import KeyedBox
from chunkfold.kernels.fold.keyed.keyed_plan import column_jobs, local_tables, way_of
from chunkfold.kernels.fold.launch_plan import planned_launches
from chunkfold.kernels.fold.shapes import most_splits
from chunkfold.kernels.geometry import BY_KEY, Box
from chunkfold.kernels.listing.program_listing import Program
from chunkfold.kernels.program.device_context import program_options, program_source, seen_by
from chunkfold.kernels.program.options import Tuning
from chunkfold.kernels.program.shared_layout import shared_of, split_shareable, with_components


def programs(
    device: Device,
    accumulator: Accumulator,
    tuning: Tuning,
    boxes: Iterable[Box | KeyedBox],
    keys: int = 1,
) -> list[Program]:
    """Return the programs whose kernels fold some boxes: each once, those of passes last.

    `keys` is of those that are folded by key.

    Raises
    ------
    DeviceError
        If the device lacks what the accumulator needs.
    """
    uses = {use for part in boxes for use in _uses(device, part, accumulator, tuning, keys)}
    ordered = sorted(uses, key=lambda use: (use[0], str(use[1])))
    found = [_program(device, file, of, used) for file, used, of in ordered]
    passes = dict.fromkeys([*(of for _, _, of in ordered), accumulator])
    if any(of.entries for of in passes):  # to the passes they are sums, each of an output
        passes[COUNTS] = None
    found += [_program(device, "passes.cl", of, tuning) for of in passes]
    return list(dict.fromkeys(found))


def _uses(
    device: Device, part: Box | KeyedBox, accumulator: Accumulator, tuning: Tuning, keys: int
) -> Iterator[tuple[str, Tuning, Accumulator]]:
    """Yield the kernel files that fold a box, their tunings, and what they fold into."""
    if isinstance(part, Box):
        for file, used in launched(part, accumulator, tuning):
            yield file, used, accumulator
        return
    for file, of in launched_by_key(device, accumulator, tuning, part, keys):
        yield file, tuning.for_box(part.elements), of


def launched(part: Box, accumulator: Accumulator, tuning: Tuning) -> Iterator[tuple[str, Tuning]]:
    """Yield the kernel files whose kernels fold a box, and their tunings."""
    tuning = tuning.for_box(part)
    if part.elements and part.kernel == "flat":
        yield "flat.cl", tuning
    elif part.elements:
        splits = most_splits(tuning, part.outputs, accumulator.nbytes)
        for one in planned_launches(tuning, part, splits, tables=bool(accumulator.entries)):
            yield one.where[0], one.tuning or tuning


def _program(device: Device, file: str, accumulator: Accumulator, tuning: Tuning) -> Program:
    whole = seen_by(file, accumulator)
    source = program_source(device, file, whole, tuning)
    return Program(f"{file} of {whole.origins}", source, program_options(device, file, tuning))


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
