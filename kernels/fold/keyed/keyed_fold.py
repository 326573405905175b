"""Fold buffers by key into accumulators that stay on the device, then finish."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyopencl as cl

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.accumulator.partial import Partial, Wide
from chunkfold.kernels.accumulator.sums import Rounded, Rounding
from chunkfold.kernels.errors import DeviceError, MonoidError
from chunkfold.kernels.fold.keyed.context import KeyedContext
from chunkfold.kernels.fold.keyed.keyed_box import KeyedBox
from chunkfold.kernels.fold.keyed.keyed_plan import way_of
from chunkfold.kernels.fold.keyed.private import PrivateAccumulators
from chunkfold.kernels.fold.keyed.shared_tables import Tables
from chunkfold.kernels.fold.launch import Input
from chunkfold.kernels.fold.profile import Profile, merged
from chunkfold.kernels.fold.programs import components_by_way
from chunkfold.kernels.program.device_context import DeviceContext
from chunkfold.kernels.program.options import Tuning


class KeyedFold:
    """Folds buffers into one partial with an accumulator for each key and output.

    Accumulator (key, output) stands at key * outputs + output. Elements whose key is not in
    [0, keys) are left out. Buffers are folded in the order given, on one in-order queue; nothing
    waits for the host until `read_back`. Not for use by several threads at once.

    Sums are added up as integers, and extremes compared, in tables that work-items share: they are
    exact, and the same in any order. Where work-items are many, so are counters, positions and sums
    that may round. Everything else is folded by work-items with accumulators of their own.

    Parameters
    ----------
    accumulator
        Of `bind(..., keyed=True)`, and then `for_outputs(keys * outputs)` or `with_limbs()` of it.
    keys
        How many there are.
    outputs
        Outputs of each key.
    way
        One of `geometry.BY_KEY`; None: the outputs decide.
    local
        Whether tables are in local memory, where they fit.
    """

    def __init__(
        self,
        opened: DeviceContext,
        accumulator: Accumulator,
        tuning: Tuning,
        keys: int,
        outputs: int = 1,
        queue: cl.CommandQueue | None = None,
        *,
        way: str | None = None,
        local: bool = True,
    ) -> None:
        if not 0 < keys < 2**31:
            raise MonoidError(f"{keys:,} keys: there must be one at least, and fewer than 2**31")
        self._context = KeyedContext(opened, queue or opened.queue(), accumulator, keys, outputs)
        used = way or way_of(outputs)
        shared, others = components_by_way(opened.device, accumulator, tuning, used)
        self._ways: list[Tables | PrivateAccumulators] = []
        if shared:
            self._ways.append(Tables(self._context, tuning, shared, local=local))
        if others:
            self._ways.append(PrivateAccumulators(self._context, tuning, others))

    @property
    def accumulator(self) -> Accumulator:
        """The accumulator that is folded into."""
        return self._context.accumulator

    def add(
        self,
        inputs: Sequence[Input],
        keys: Input,
        layout: KeyedBox,
        wait_for: Sequence[cl.Event] = (),
        codes: np.ndarray | None = None,
    ) -> cl.Event | None:
        """Enqueue the fold of a box of aligned buffers; return its event (None if it is empty).

        `keys` holds int32, and `codes` the same on the host, if it has them: of keys that are known
        accumulators need not be made zero first. The buffers must stay as they are until the event
        is complete.

        Raises
        ------
        DeviceError
            If the device refuses a launch, the box has other outputs, or it has more integers than
            sums hold.
        """
        if not layout.elements.elements:
            return None
        if layout.outputs != self._context.outputs:
            raise DeviceError(
                f"a box of {layout.outputs} outputs cannot join {self._context.outputs}"
            )
        event = None
        for one in self._ways:
            event = one.add(inputs, keys, layout, wait_for, codes)
        self._context.queue.flush()
        return event

    def read_back(self) -> Partial:
        """Read the partial back, and start anew from zero.

        Exact sums that are expansions may have lost something: see `accumulator.sums.any_lost`.

        Raises
        ------
        DeviceError
            If anything enqueued so far failed.
        """
        arrays: dict[str, np.ndarray] = {}
        wide: dict[str, Wide] = {}
        for one in self._ways:
            partial = one.read_back()
            arrays |= partial.arrays
            wide |= partial.wide
        return Partial(
            {slot.name: arrays[slot.name] for slot in self._context.accumulator.slots}, wide
        )

    def rounded(self, how: Sequence[Rounding]) -> Rounded | Partial:
        """Round every result on the device, and start anew from zero; see `Fold.rounded`.

        Where work-items share tables the partial comes back.
        """
        (first, *others) = self._ways
        if others or not isinstance(first, PrivateAccumulators):
            return self.read_back()
        found = first.rounded(how)
        return Partial(found.arrays, found.wide) if isinstance(found, Partial) else found

    def profile(self) -> Profile:
        """Return the times of every launch that `read_back` has proved done."""
        return merged([one.fold.profile() for one in self._ways])
