"""The programs that fold boxes into an accumulator on a device."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from chunkfold.kernels.accumulator.accumulator import COUNTS, Accumulator
from chunkfold.kernels.device.device import Device
from chunkfold.kernels.fold.launch_plan import planned_launches
from chunkfold.kernels.fold.shapes import most_splits
from chunkfold.kernels.geometry import Box
from chunkfold.kernels.listing.listing import Program
from chunkfold.kernels.program.device_context import program_options, program_source, seen_by
from chunkfold.kernels.program.options import Tuning


def programs(
    device: Device, accumulator: Accumulator, tuning: Tuning, boxes: Iterable[Box]
) -> list[Program]:
    """Return the programs whose kernels fold some boxes: each once, those of passes last.

    Raises
    ------
    DeviceError
        If the device lacks what the accumulator needs.
    """
    folds = {use for part in boxes for use in launched(part, accumulator, tuning)}
    files = [*sorted(folds, key=str), ("passes.cl", tuning)]
    found = [_program(device, file, accumulator, used) for file, used in files]
    if accumulator.entries:  # to the passes they are sums, each of an output of its own
        found.append(_program(device, "passes.cl", COUNTS, tuning))
    return list(dict.fromkeys(found))


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
