"""Combine partials with the op, on the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from chunkfold.kernels.accumulator.accumulator import COUNTS, Accumulator
from chunkfold.kernels.accumulator.partial import (
    Partial,
    assembled,
    pack,
    packed_bytes,
    settled_partial,
    table_counts,
    with_tables,
)
from chunkfold.kernels.accumulator.sums import remade
from chunkfold.kernels.fold.launch import Launcher
from chunkfold.kernels.fold.passes import Passes
from chunkfold.kernels.fold.profile import Profile, merged
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
        # To the passes a table's counters are sums, each of an output of its own.
        self._tables = Combiner(opened, COUNTS, tuning) if accumulator.entries else None

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
        each = max(1, SLAB_BYTES // (len(partials) * self._accumulator.nbytes))
        if outputs <= each:
            return self._at_once(partials)
        slabs = [slice(at, min(at + each, outputs)) for at in range(0, outputs, each)]
        whole = assembled(
            self._accumulator,
            (outputs,),
            [((slab,), self._at_once([one.part(slab) for one in partials])) for slab in slabs],
        )
        return replace(whole, count=sum(partial.count for partial in partials))

    def profile(self) -> Profile:
        """Return the times of all launches."""
        own = self._launcher.profile()
        return own if self._tables is None else merged([own, self._tables.profile()])

    def _at_once(self, partials: Sequence[Partial]) -> Partial:
        accumulator, outputs, splits = self._accumulator, partials[0].outputs, len(partials)
        if outputs not in self._passes:
            self._passes[outputs] = Passes(self._launcher, outputs)
        nbytes = max(1, packed_bytes(accumulator, partials))  # no buffer is empty
        staging = self._staged(nbytes)
        pack(accumulator, partials, staging.begin())
        source = staging.commit(nbytes).buffer
        # It has run when its results are here, so the staging memory is free again.
        count = sum(partial.count for partial in partials)
        scalars = self._passes[outputs].start(source, splits, splits * outputs, count)()
        if self._tables is None:
            return remade(accumulator, scalars, partials)
        counts = self._tables.combine([table_counts(accumulator, partial) for partial in partials])
        joined = settled_partial(accumulator, with_tables(accumulator, scalars, counts))
        return remade(accumulator, joined, partials)

    def _staged(self, nbytes: int) -> StagingBuffer:
        if self._staging is None or self._staging.nbytes < nbytes:
            self._staging = StagingBuffer(self._opened, self._launcher.queue, nbytes)
        return self._staging
