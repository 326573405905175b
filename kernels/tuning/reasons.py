"""The reasons of choices: why a device folds boxes as it does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.accumulator.traits import Deposit
from chunkfold.kernels.device.device import Device
from chunkfold.kernels.fold.keyed.keyed_box import KeyedBox
from chunkfold.kernels.fold.keyed.keyed_plan import (
    MOST_OUTPUTS,
    column_jobs,
    local_tables,
    private_splits,
    way_of,
)
from chunkfold.kernels.fold.programs import components_by_way, launched
from chunkfold.kernels.geometry import Box
from chunkfold.kernels.program.shared_layout import shared_of, with_components
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


def explained_by_key(
    device: Device, accumulator: Accumulator, choice: TuningChoice, layout: KeyedBox, keys: int
) -> Iterator[Reason]:
    """Say how a box is folded by so many keys, and why."""
    tuning, outputs = choice.tuning, layout.outputs
    shared, own = components_by_way(device, accumulator, tuning, way_of(outputs))
    tables = shared_of(accumulator, shared)
    counters = [shared[n] for n, _ in tables.places[Deposit.COUNTER]]
    if counters:
        why = "work-items add to the same ones, in global memory"
        yield Reason(f"by label: {_fields(accumulator, counters)}", "counters that are shared", why)
    added = [n for n in shared if n not in counters]
    if added:
        local = local_tables(device, tuning, tables, keys)
        several = -(-keys // local.keys)
        where = "a table in global memory"
        if local.digits:
            where = "a table in local memory"
            if several > 1:
                where = (
                    f"{several} tables in local memory, and elements are read again for each table"
                )
        each = tables.key_bytes(local.digits or tables.ordinary_digits)
        why = (
            f"{each} bytes for each of {keys:,} labels; the device has {device.local_bytes:,} bytes"
        )
        yield Reason(f"by label: {_fields(accumulator, added)}", where, why)
    if not own:
        return
    alone = with_components(accumulator, own)
    splits = private_splits(device, tuning, alone.nbytes, keys, outputs)
    why = "work-items can share only counts, sums of integers and comparisons"
    if outputs > MOST_OUTPUTS:
        why = f"{outputs:,} outputs are more than {MOST_OUTPUTS}: each work-item has some of them"
    elif tuning.sharing == 1:
        why = "work-items are few"
    items = f"{splits:,} work-items at most, each with its own accumulators"
    each_has = f"{items}, for each output" if splits > 1 else "a work-item for each output"
    yield Reason(f"by label: {_fields(accumulator, own)}", each_has, why)
    if column_jobs(tuning, layout) is not None:
        vectors = f"{tuning.columns.lanes} outputs at once"
        yield Reason("by label: vectors", vectors, "neighbours in memory have the same label")


def _fields(accumulator: Accumulator, components: Iterable[int]) -> str:
    names = (field.name for n in components for field in accumulator.components[n].fields)
    return ", ".join(dict.fromkeys(names))
