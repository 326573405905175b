"""Why a device folds boxes as it does: what is said by what decided it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.fold.programs import launched
from chunkfold.kernels.geometry import Box
from chunkfold.kernels.tuning.tuning_choice import TuningChoice


class Reason(NamedTuple):
    """One choice."""

    what: str
    choice: str
    why: str


def explained(choice: TuningChoice, accumulator: Accumulator, boxes: Iterable[Box]) -> list[Reason]:
    """Say how boxes are folded into an accumulator, and why, each thing once."""
    tuning = choice.tuning
    found = [
        Reason("variant", tuning.variant, tuning.why.get("variant", "")),
        Reason("tuning", str(tuning) if choice.rivals else "by table", choice.why),
        Reason("trusted", "yes", "it built and ran right on this device, in another process"),
        *(Reason("passed over", *failed) for failed in choice.passed_over),
        Reason("work-groups", f"{tuning.groups} at most", tuning.why.get("groups", "")),
        Reason("order", "strips" if tuning.strip else "grid stride", tuning.why.get("strip", "")),
    ]
    for part in boxes:
        found += _of_box(part, accumulator, choice)
    return list(dict.fromkeys(found))


def _of_box(part: Box, accumulator: Accumulator, choice: TuningChoice) -> Iterator[Reason]:
    kernel, why = part.kernel_because
    yield Reason("kernel", kernel, why)
    folded_by = choice.tuning.fold(kernel)
    if folded_by != kernel:
        yield Reason(kernel, f"as {folded_by}", choice.tuning.why.get(kernel, ""))
    for _, used in launched(part, accumulator, choice.tuning):
        loads = getattr(used, folded_by)
        several = "s" * (loads.lanes > 1), "s" * (loads.local_size > 1)
        for what, field, told in (
            ("vectors", "lanes", f"{loads.lanes} element{several[0]}, loads of {loads.width}"),
            ("in flight", "unroll", f"{loads.unroll} at a time"),
            ("work-group", "local_size", f"{loads.local_size} work-item{several[1]}"),
        ):
            yield Reason(f"{folded_by}: {what}", told, loads.why.get(field, ""))
