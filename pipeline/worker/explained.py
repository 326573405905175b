"""What a plan's kernels are on a device of this host: their programs, and why these."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chunkfold.errors import DeviceError
from chunkfold.kernels import Accumulator, Box, Device, all_devices, box, devices
from chunkfold.kernels.fold.programs import programs
from chunkfold.kernels.listing.listing import listing
from chunkfold.kernels.tuning.explained import Reason, explained
from chunkfold.kernels.tuning.tuning_choice import TuningChoice, chosen
from chunkfold.planning.blocks import Block
from chunkfold.planning.plan import Plan
from chunkfold.planning.work import Work
from chunkfold.reading.kinds_of_boxes import boxes_of, kernels_of
from chunkfold.reading.parts import Absent
from chunkfold.reading.reads import OutputBox, reads_of, shares_of

_MOST = 64
"""Windows, and pieces of one whose kinds are not known beforehand, that are looked at."""


@dataclass(frozen=True)
class _Look:
    """What is folded in one way."""

    accumulator: Accumulator
    choice: TuningChoice
    boxes: tuple[Box, ...]


def source_of(plan: Plan, device: Device | str | None) -> str:
    """List the programs of a plan's kernels; parameters as `Plan.source`."""
    on = _device(plan, device)
    found = [
        program
        for look in _looks(plan, on)
        for program in programs(on, look.accumulator, look.choice.tuning, look.boxes)
    ]
    # Passes are those of all kernels, and stand behind them.
    found.sort(key=lambda program: program.title.startswith("passes"))
    return listing(list(dict.fromkeys(found)))


def explained_for(plan: Plan, device: Device | str | None) -> list[Reason]:
    """Say how a device folds what a plan reads; parameters as `Plan.explain`."""
    on = _device(plan, device)
    found = [Reason("device", str(on), "it was named" if device else "it is the first of the plan")]
    for look in _looks(plan, on):
        found += explained(look.choice, look.accumulator, look.boxes)
    return list(dict.fromkeys(found))


def _device(plan: Plan, device: Device | str | None) -> Device:
    """Return the device to look at: the one given, else the first that the plan would use.

    Raises
    ------
    DeviceError
        If it is none of this host.
    """
    found = device if isinstance(device, Device) else devices(device)[0]
    if device is None and plan.device is not None:
        found = plan.device
    here = {(one.host, one.boot) for one in all_devices()}
    if (found.host, found.boot) not in here:
        raise DeviceError(
            f"{found} is a device of host {found.host}, whose compiler is not here: "
            "name a device of this host"
        )
    return found


def _looks(plan: Plan, device: Device) -> Iterator[_Look]:
    """Yield what a device folds in its own way, as blocks do that run on it."""
    work = Work.of("", plan)
    buffer_bytes = min(plan.leaf_bytes, device.max_alloc_bytes)
    for kernels, boxes in _kinds(plan, work, buffer_bytes).items():
        choice = chosen(device, work.folded, plan.options.variant, kernels)
        yield _Look(work.folded, choice, tuple(boxes))


def _kinds(plan: Plan, work: Work, buffer_bytes: int) -> dict[frozenset[str], dict[Box, None]]:
    """Return boxes of all kinds that are read, by the kernels that are tried together for them."""
    found: dict[frozenset[str], dict[Box, None]] = {}
    for output_box in itertools.islice(_output_boxes(plan, work, buffer_bytes), _MOST):
        kernels = kernels_of(work, output_box, buffer_bytes)
        boxes = boxes_of(work, output_box, buffer_bytes) or _read(work, output_box, buffer_bytes)
        found.setdefault(kernels, {}).update(dict.fromkeys(boxes))
    if plan.absent:  # of fill values one element is folded, and then squared
        found.setdefault(frozenset({"flat"}), {})[box((1,), (0,))] = None
    return found


def _output_boxes(plan: Plan, work: Work, buffer_bytes: int) -> Iterator[OutputBox]:
    """Yield the boxes of outputs of the first and the last block: others have their shapes."""
    ends: Sequence[Block] = [*plan.blocks[:1], *plan.blocks[1:][-1:]]
    for block in ends:
        missed: Absent = [set() for _ in work.sources]
        for share in shares_of(work, plan.sent(block), buffer_bytes, missed):
            yield from share.output_boxes


def _read(work: Work, output_box: OutputBox, buffer_bytes: int) -> list[Box]:
    reads = itertools.islice(reads_of(work, output_box, buffer_bytes), _MOST)
    each = [read.told for read in reads]
    return [told.box if told.rows is None else told.rows.box for told in each]
