"""List and explain the kernels of a plan on a device of this host."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from chunkfold.errors import DeviceError
from chunkfold.kernels import Accumulator, Box, Device, KeyedBox, all_devices, box, devices
from chunkfold.kernels.fold.programs import programs
from chunkfold.kernels.geometry import FOLDS
from chunkfold.kernels.listing.program_listing import Program, listing
from chunkfold.kernels.tuning.reasons import Reason, explained, explained_by_key
from chunkfold.kernels.tuning.tuning_choice import TuningChoice, chosen
from chunkfold.planning.blocks import Block
from chunkfold.planning.folding import Folding, RolledUp
from chunkfold.planning.plan import Plan
from chunkfold.planning.work import Work
from chunkfold.reading.box_kernels import boxes_of, kernels_of, secondary_kernels, secondary_window
from chunkfold.reading.reads import (
    FoldInput,
    OutputBox,
    Read,
    fold_input_of,
    reads_of,
    shares_of,
)
from chunkfold.reading.tile_leaves import Missed

_MOST = 64
"""Most windows, and most reads of a window, that are looked at."""


@dataclass(frozen=True)
class _Look:
    """The boxes of a question that one choice of kernels folds."""

    name: str
    question: Folding
    choice: TuningChoice
    boxes: tuple[Box | KeyedBox, ...]


def source_of(plan: Plan, device: Device | str | None) -> str:
    """Return the source of a plan's programs; parameters as `Plan.source`."""
    on, found = _device(plan, device), list[Program]()
    first = Work.of("", plan)
    looks = list(_looks(plan, first, on))
    for look in looks:
        question, tuning = look.question, look.choice.tuning
        found += programs(on, question.folded, tuning, look.boxes, question.groups)
    folded = {look.question.folded for look in looks}
    for accumulator in (one for one in _combined(first) if folded and one not in folded):
        tuning = chosen(on, accumulator, plan.options.variant, FOLDS[:1]).tuning
        found += programs(on, accumulator, tuning, ())
    # Passes are those of all kernels, and stand behind them.
    found.sort(key=lambda program: program.title.startswith("passes"))
    return listing(list(dict.fromkeys(found)))


def explained_for(plan: Plan, device: Device | str | None) -> list[Reason]:
    """Return how a device folds the reads of a plan, and why; parameters as `Plan.explain`."""
    on = _device(plan, device)
    found = [Reason("device", str(on), "it was named" if device else "it is the first of the plan")]
    used, because = plan.device_decoding
    if because:
        found.append(Reason("decoding", f"on the {'device' if used else 'host'}", because))
    looks = list(_looks(plan, Work.of("", plan), on))
    for one in plan.asked_plans:
        own = _of_question(plan, one) if plan.request.secondary else []
        for look in (look for look in looks if look.name == one.request.question):
            own += _of_look(look, on)
        found += dict.fromkeys(own)
    return found


def _combined(first: Work) -> Iterator[Accumulator]:
    """Yield the accumulators in which partials of all questions are combined."""
    for question in first.questions:
        yield question.accumulator
        if isinstance(question, RolledUp):
            yield question.roll_up.form


def _of_question(plan: Plan, one: Plan) -> list[Reason]:
    """Return the heading of a question; `plan` is that of all."""
    question, name = one.questions[0], one.request.question
    if not isinstance(question, RolledUp):
        return [Reason("question", name, "each fold takes in what is read")]
    finer = plan.all_plans[question.roll_up.finer].request.question
    return [
        Reason(
            "question", name, f"made of the partials of {finer}: no kernel reads elements for it"
        )
    ]


def _of_look(look: _Look, device: Device) -> Iterator[Reason]:
    """Yield how boxes are folded, and why."""
    question, choice = look.question, look.choice
    folded, keyed = question.folded, question.keys is not None
    if question.preaggregation is not None:
        then, what = ("put into groups", "labels") if keyed else ("weighed", "weights")
        yield Reason("rows", f"are folded first, and then {then}", f"{what} lack some axes")
    yield from explained(choice, folded, [one for one in look.boxes if isinstance(one, Box)])
    for one in look.boxes:
        if isinstance(one, KeyedBox):
            yield from explained_by_key(device, folded, choice, one, question.groups)


def _device(plan: Plan, device: Device | str | None) -> Device:
    """Return the given device, or the first one that the plan would use.

    Raises
    ------
    DeviceError
        If it is no device of this host.
    """
    found = device if isinstance(device, Device) else devices(device)[0]
    if device is None and plan.device is not None:
        found = plan.device
    own = {(one.host, one.boot) for one in all_devices()}
    if (found.host, found.boot) not in own:
        raise DeviceError(
            f"{found} is a device of host {found.host}, whose compiler is missing on this host: "
            "name a device of this host"
        )
    return found


def _looks(plan: Plan, first: Work, device: Device) -> Iterator[_Look]:
    """Yield the choices of kernels on a device, as its blocks make them."""
    buffer_bytes = min(plan.scan.leaf_bytes, device.max_alloc_bytes)
    for one, question in zip(plan.all_plans, first.questions, strict=True):
        if isinstance(question, RolledUp):
            continue
        secondary = partial(_secondary_kinds, first.alone(question))
        kinds = _kinds if question is first.first else secondary
        for kernels, boxes in kinds(plan, first, buffer_bytes).items():
            choice = chosen(device, question.folded, first.scan.variant, kernels)
            yield _Look(one.request.question, question, choice, tuple(boxes))


_Kinds = dict[frozenset[str], dict[Box | KeyedBox, None]]
"""Boxes of all shapes that are read, by the kernels that are tried together for them."""


def _kinds(plan: Plan, work: Work, buffer_bytes: int) -> _Kinds:
    """Return the boxes of the first question."""
    found: _Kinds = {}
    for output_box in itertools.islice(_output_boxes(plan, work, buffer_bytes), _MOST):
        kernels = kernels_of(work, output_box, buffer_bytes)
        boxes: Sequence[Box | KeyedBox] = boxes_of(work, output_box, buffer_bytes) or [
            _folded(read.fold_input) for read in _reads(work, output_box, buffer_bytes)
        ]
        found.setdefault(kernels, {}).update(dict.fromkeys(boxes))
    if plan.scan.unstored:  # one fill value is folded, and then squared
        found.setdefault(frozenset({"flat"}), {})[box((1,), (0,))] = None
    return found


def _secondary_kinds(work: Work, plan: Plan, first: Work, buffer_bytes: int) -> _Kinds:
    """Return the boxes of a secondary question."""
    found: _Kinds = {}
    layout = work.first.layout
    for output_box in itertools.islice(_output_boxes(plan, first, buffer_bytes), _MOST):
        for read in _reads(first, output_box, buffer_bytes):
            number, part = layout.tile_and_part(first.first.layout.numbers(*read.leaf))
            window = secondary_window(work, number, layout.outputs_of(read.within))
            fold_input = fold_input_of(work.first, layout.leaf(number, part), read.within)
            kernels = secondary_kernels(work, window, buffer_bytes)
            found.setdefault(kernels, {})[_folded(fold_input)] = None
    return found


def _output_boxes(plan: Plan, work: Work, buffer_bytes: int) -> Iterator[OutputBox]:
    """Yield the boxes of outputs of the first and the last block: others have the same shapes."""
    ends: Sequence[Block] = [*plan.blocks[:1], *plan.blocks[1:][-1:]]
    for block in ends:
        missed: Missed = [set() for _ in work.scan.sources]
        for share in shares_of(work, plan.sent(block), buffer_bytes, missed):
            yield from share.output_boxes


def _reads(work: Work, output_box: OutputBox, buffer_bytes: int) -> Iterator[Read]:
    return itertools.islice(reads_of(work, output_box, buffer_bytes), _MOST)


def _folded(fold_input: FoldInput) -> Box | KeyedBox:
    """Return the box as kernels fold it: of rows, by key, or of elements."""
    if fold_input.preaggregated is not None:
        return fold_input.preaggregated.box
    return fold_input.box if fold_input.keyed is None else fold_input.keyed[0]
