"""Combine partials with the op: on the device, but tables of integers, which are added up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.accumulator.partial import (
    Partial,
    assembled,
    pack,
    packed_bytes,
    settled_partial,
)
from chunkfold.kernels.accumulator.sums import remade
from chunkfold.kernels.fold.launch import Launcher
from chunkfold.kernels.fold.passes import Passes
from chunkfold.kernels.fold.profile import Profile
from chunkfold.kernels.fold.staging import StagingBuffer
from chunkfold.kernels.program.device_context import DeviceContext
from chunkfold.kernels.program.options import Tuning

SLAB_BYTES = 16 << 20
"""Bytes of all partials that are combined at a time: large ones slab by slab of their outputs."""


class Combiner:
    """Combines partials that have the same outputs. Not for use by several threads at once."""

    def __init__(self, opened: DeviceContext, accumulator: Accumulator, tuning: Tuning) -> None:
        self._opened = opened
        self._accumulator = accumulator
        self._launcher = Launcher(opened, accumulator, tuning)
        self._passes: dict[int, Passes] = {}
        """By the outputs of a slab."""
        self._staging: StagingBuffer | None = None

    def combine(self, partials: Sequence[Partial]) -> Partial:
        """Combine one partial or more with the op.

        Raises
        ------
        DeviceError
            If the device fails.
        """
        first, outputs = partials[0], partials[0].outputs
        if len(partials) == 1 or not outputs:
            return first
        accumulator = self._accumulator
        arrays = {
            slot.name: _added([partial.arrays[slot.name] for partial in partials])
            for slot in accumulator.tables
        }
        count = sum(partial.count for partial in partials)
        if not accumulator.scalars:
            return settled_partial(accumulator, Partial(arrays, count=count))
        scalars = self._scalars(partials)
        whole = replace(scalars, arrays={**scalars.arrays, **arrays}, count=count)
        return settled_partial(accumulator, whole) if arrays else whole

    def profile(self) -> Profile:
        """Return the times of all launches since it was last asked."""
        return self._launcher.profile()

    def _scalars(self, partials: Sequence[Partial]) -> Partial:
        """Combine what is no table, slab by slab of the outputs."""
        accumulator, outputs = self._accumulator, partials[0].outputs
        each = max(1, SLAB_BYTES // (len(partials) * accumulator.scalar_bytes))
        if outputs <= each:
            return self._at_once(partials)
        slabs = [slice(at, min(at + each, outputs)) for at in range(0, outputs, each)]
        pieces = [((slab,), self._at_once([one.part(slab) for one in partials])) for slab in slabs]
        return assembled(accumulator, (outputs,), pieces)

    def _at_once(self, partials: Sequence[Partial]) -> Partial:
        accumulator, outputs, splits = self._accumulator, partials[0].outputs, len(partials)
        if outputs not in self._passes:
            self._passes[outputs] = Passes(self._launcher, outputs)
        nbytes = packed_bytes(accumulator, partials)
        staging = self._staged(nbytes)
        pack(accumulator, partials, staging.begin())
        source = staging.commit(nbytes).buffer
        # It has run when its results are here, so the staging memory is free again.
        count = sum(partial.count for partial in partials)
        scalars = self._passes[outputs].start(source, splits, splits * outputs, count)()
        return remade(accumulator, scalars, partials)

    def _staged(self, nbytes: int) -> StagingBuffer:
        if self._staging is None or self._staging.nbytes < nbytes:
            self._staging = StagingBuffer(self._opened, self._launcher.queue, nbytes)
        return self._staging


def _added(tables: Sequence[np.ndarray]) -> np.ndarray:
    """Add tables of counters, or of limbs, up: the host does that at its memory's speed."""
    whole: np.ndarray = tables[0] + tables[1]
    for one in tables[2:]:
        whole += one
    return whole
