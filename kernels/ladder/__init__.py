"""The ladder: the kernels of the reduction tutorials, each right for every length and monoid.

After Harris, "Optimizing Parallel Reduction in CUDA" (2007), and the OpenCL samples that followed.
They teach, and are measured to compare with the production kernels; nothing else uses them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyopencl as cl

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.device.device import Device
from chunkfold.kernels.fold.fold import Fold
from chunkfold.kernels.fold.launch import Input
from chunkfold.kernels.geometry import Box
from chunkfold.kernels.program.device_context import DeviceContext
from chunkfold.kernels.program.options import Loads, Tuning
from chunkfold.kernels.tuning.variant import why_not
from chunkfold.kernels.tuning.work_groups import work_group_size

_LOCAL = 256


@dataclass(frozen=True)
class Rung:
    """One kernel of the ladder."""

    number: int
    kernel: str
    what: str
    elements: int = 1
    """Elements that each work-item folds before the tree; 0 if as many as there are."""
    variant: str = "tree"
    """The production variant whose built-ins it needs, if not `tree`."""

    @property
    def file(self) -> str:
        """Its source."""
        return f"ladder/{self.number:02d}_{self.kernel}.cl"

    def why_not(self, device: Device, accumulator: Accumulator) -> str | None:
        """Say why it cannot run for an accumulator on a device; None if it can."""
        if self.kernel == "async_copy" and (
            len(accumulator.stored) > 1 or accumulator.stored[0] == "float16"
        ):
            return "async_work_group_copy takes one input, and no halves"
        if accumulator.tables:
            return "a rung folds scalars, not tables"
        return why_not(device, accumulator, self.variant)


LADDER = (
    Rung(1, "interleaved", "interleaved addressing, divergent"),
    Rung(2, "dense", "interleaved addressing, dense work-items"),
    Rung(3, "sequential", "sequential addressing"),
    Rung(4, "first_op", "first op on load", elements=2),
    Rung(5, "unrolled_last", "last sub-group unrolled", elements=2),
    Rung(6, "unrolled", "fully unrolled", elements=2),
    Rung(7, "cascaded", "many elements a work-item", elements=0),
    Rung(8, "serial_spans", "serial spans of four", elements=4),
    Rung(9, "work_group", "work-group built-in", variant="work_group"),
    Rung(10, "sub_group", "sub-group built-in", variant="sub_group"),
    Rung(11, "async_copy", "rung 3 with async_work_group_copy"),
)
"""Every rung, from the slowest idea up."""


class RungFold(Fold):
    """Folds one flat box with a rung's kernel, and its accumulators with the production passes."""

    def __init__(
        self, opened: DeviceContext, accumulator: Accumulator, rung: Rung, count: int
    ) -> None:
        device = opened.device
        size = work_group_size(device, accumulator, rung.variant, _LOCAL)
        # Every rung starts from a power of two; the built-ins could do without.
        loads = Loads(1 << (size.bit_length() - 1), lanes=1, width=1, unroll=1)
        tuning = Tuning(
            variant=rung.variant,
            groups=8 * device.compute_units,
            flat=loads,
            rows=loads,
            columns=replace(loads, local_size=min(128, device.max_work_group_size)),
            short_rows=None,
            strip=False,
            aligned=False,
            tile=1,
            height=1,
            local_tables=False,
        )
        each = rung.elements * loads.local_size
        groups = max(1, -(-count // each)) if each else tuning.groups
        self.rung = rung
        super().__init__(opened, accumulator, replace(tuning, groups=groups))

    def _add_flat(
        self, inputs: Sequence[Input], box: Box, wait_for: Sequence[cl.Event]
    ) -> cl.Event:
        assert box.offset == 0, "a rung folds whole buffers"
        assert not self._used, "and writes every accumulator anew: finish comes between two"
        held = self.held(self.splits)
        return self.launcher.launch(
            (self.rung.file, self.rung.kernel),
            (self.splits, self.tuning.flat.local_size),
            inputs,
            wait_for,
            n=box.elements,
            **{name: held[name] for name in ("acc", "acc_n", "seen")},
        )


__all__ = ["LADDER", "Rung", "RungFold"]
