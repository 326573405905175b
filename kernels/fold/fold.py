"""The multi-pass driver: fold buffers into accumulators that stay on the device, then finish."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import pyopencl as cl

from chunkfold.kernels.accumulator.accumulator import COUNTS, Accumulator
from chunkfold.kernels.accumulator.partial import (
    Partial,
    settled_partial,
    with_tables,
    zero_partial,
)
from chunkfold.kernels.accumulator.sums import Rounded, Rounding
from chunkfold.kernels.errors import DeviceError
from chunkfold.kernels.exact.limbs import MOST_DEPOSITS
from chunkfold.kernels.fold.launch import Input, Launcher, Repeat, strided_inputs
from chunkfold.kernels.fold.launch_plan import PlannedLaunch, planned_launches
from chunkfold.kernels.fold.passes import Passes
from chunkfold.kernels.fold.profile import Profile, merged
from chunkfold.kernels.fold.shapes import each_shape, most_splits
from chunkfold.kernels.geometry import Box, OutputRun
from chunkfold.kernels.program.device_context import DeviceContext
from chunkfold.kernels.program.options import Tuning

_Again = tuple[Box, bool]
"""A box, and whether no accumulator holds anything before it."""
_MOST_REPEATS = 8
"""Launches that are kept prepared."""


class Fold:
    """Folds any number of buffers into one partial of `outputs` accumulators per slot.

    Buffers are folded in the order given, on one in-order queue; nothing waits for the host
    until `read_back`. Not for use by several threads at once.
    """

    def __init__(
        self,
        opened: DeviceContext,
        accumulator: Accumulator,
        tuning: Tuning,
        outputs: int = 1,
        queue: cl.CommandQueue | None = None,
        splits: int | None = None,
    ) -> None:
        self.opened = opened
        self.accumulator = accumulator
        self.tuning = tuning
        self.outputs = outputs
        self.launcher = Launcher(opened, accumulator, tuning, queue)
        most = 1 if accumulator.in_order else most_splits(tuning, outputs, accumulator.nbytes)
        self.splits = splits or most
        self._seen: deque[_Again] = deque(maxlen=2 * _MOST_REPEATS)
        """What was folded last."""
        self._repeats: dict[_Again, Repeat] = {}
        """Launches for what comes again and again."""
        self._layouts: dict[Box, Sequence[Laid]] = {}
        """How boxes are folded along their axes."""
        self._passes = Passes(self.launcher, outputs)
        self._passes.buffer(self.splits)  # fails here, if it does
        self._used = 0
        """Splits that hold something; the accumulators of others are undefined."""
        self._count = 0
        """Elements folded into each output."""
        self._deposits = 0
        """At most so many since carries were propagated, into the tables of one output."""
        entries = accumulator.entries
        # To the passes a table's counters are sums, each of an output of its own.
        self._tables = (
            Fold(opened, COUNTS, tuning, outputs * entries, self.launcher.queue, self.splits)
            if entries
            else None
        )

    def add(
        self, inputs: Sequence[Input], box: Box, wait_for: Sequence[cl.Event] = ()
    ) -> cl.Event | None:
        """Enqueue the fold of a box of aligned buffers; return its event (None if it is empty).

        The buffers must stay as they are until the event is complete.

        Raises
        ------
        DeviceError
            If the device refuses a launch.
        """
        if not box.elements:
            return None
        if box.outputs != self.outputs:
            raise DeviceError(f"a box of {box.outputs} outputs cannot join {self.outputs}")
        fresh = not self._used
        repeat = self._repeats.get((box, fresh))
        if repeat is not None and (fresh or repeat.groups <= self._used):
            event = repeat.launch(inputs, wait_for)
            self._used = max(self._used, repeat.groups)
        else:
            if box.other_offsets or self.tuning.strided:
                box = box.of_inputs(len(inputs))
            add = self._add_flat if box.kernel == "flat" else self._add_laid
            event = add(inputs, box, wait_for)
        self.took(box)
        self.launcher.queue.flush()  # so that whoever polls the event sees it end
        return event

    def took(self, box: Box) -> None:
        """Account for a box that was launched to be folded into what `held` gave."""
        self._passes.expect(box.elements)
        self._count += box.elements_per_output
        self._deposits += box.elements_per_output * self.accumulator.deposits
        if self._deposits >= MOST_DEPOSITS:
            self._settle()

    def looked_at(self, box: Box) -> None:
        """Account for a box whose elements another launch looks at, and counts."""
        self._passes.expect(box.elements)

    def read_back(self) -> Partial:
        """Run the passes, read the partial back, and start anew from zero.

        Exact sums that are expansions may have lost something: see `accumulator.sums.any_lost`.

        Raises
        ------
        DeviceError
            If anything enqueued so far failed.
        """
        return self._finishing()()

    def rounded(self, how: Sequence[Rounding]) -> Rounded | Partial:
        """Round all results on the device; if it cannot, read the partial back, as `read_back`."""
        if self._used and self.outputs and self._tables is None:
            source, used, count = self._acc, self._used, self._count
            self._used = self._count = self._deposits = 0
            return self._passes.rounded(source, used, self.splits * self.outputs, count, how)
        return self.read_back()

    def copy_to(self, into: cl.Buffer, runs: Sequence[OutputRun]) -> cl.Event:
        """Enqueue copies of accumulators to a buffer, and start anew from zero; return the last.

        For one accumulator of each output, as a fold of one split has, without tables.

        Raises
        ------
        DeviceError
            If the device refuses it.
        """
        assert self.splits == 1
        assert self._tables is None
        event = self._passes.copy(self.splits, into, runs)
        self._used = self._count = self._deposits = 0
        return event

    def _finishing(self) -> Callable[[], Partial]:
        """Start the passes; return what waits for them and reads the partial back."""
        if not self._used or not self.outputs:
            return lambda: zero_partial(self.accumulator, self.outputs)
        if self._used == 1:  # else those of splits are added first
            self._settle()
        used, count = self._used, self._count
        self._used = self._count = self._deposits = 0
        scalars = self._passes.start(self._acc, used, self.splits * self.outputs, count)
        tables = None if self._tables is None else self._tables._finishing()
        if not self._where_it_was:
            self._repeats.clear()  # they would write to the partial
        if tables is None:
            return scalars

        def finish() -> Partial:
            partial = with_tables(self.accumulator, scalars(), tables())
            return partial if used == 1 else settled_partial(self.accumulator, partial)

        return finish

    @property
    def _acc(self) -> cl.Buffer:
        return self._passes.buffer(self.splits)

    @property
    def _where_it_was(self) -> bool:
        """Return whether the accumulators are still in the buffers of the launches before."""
        tables = self._tables is None or self._tables._where_it_was
        return tables and self._passes.has(self.splits)

    def profile(self) -> Profile:
        """Return the times of launches that `read_back` proved done since it was last asked."""
        own = self.launcher.profile()
        return own if self._tables is None else merged([own, self._tables.profile()])

    def _settle(self) -> None:
        """Propagate the carries of limbs, so that more can be added to them."""
        if self._tables is None or not self.accumulator.in_limbs:
            return
        count = self._used * self.outputs
        where, shape = ("passes.cl", "settle"), each_shape(self.tuning, count)
        self.launcher.launch(where, shape, tables=self._tables.zeroed(self._used), count=count)
        self._deposits = 0

    @property
    def holds(self) -> bool:
        """True if any accumulators may hold something."""
        return self._used > 0

    def held(self, splits: int) -> dict[str, Any]:
        """Return the arguments for accumulators that a launch writes: the first `splits`."""
        fresh = self._used == 0
        if not fresh:
            self._fill_zero(splits)
        self._used = max(self._used, splits)
        return {
            "acc": self._acc,
            "acc_n": self.splits * self.outputs,
            "fresh": int(fresh),
            # Unused, where there are none.
            "tables": self._acc if self._tables is None else self._tables.zeroed(splits),
            "seen": self._passes.seen,
        }

    def zeroed(self, splits: int) -> cl.Buffer:
        """Return the accumulators, of which the first `splits` hold something, if only zero."""
        self._fill_zero(splits)
        self._used = max(self._used, splits)
        return self._acc

    def _fill_zero(self, splits: int) -> None:
        """Make those of the first `splits` zero that hold nothing yet."""
        if splits > self._used:
            self.fill(self._used * self.outputs, (splits - self._used) * self.outputs)

    def fill(self, begin: int, count: int) -> None:
        """Make `count` accumulators from `begin` on zero."""
        self._passes.fill(self.splits, begin, count)

    def _add_flat(
        self, inputs: Sequence[Input], box: Box, wait_for: Sequence[cl.Event]
    ) -> cl.Event:
        loads = self.tuning.flat
        chunk = loads.width * loads.unroll * loads.local_size
        groups = max(1, min(self.splits, -(-box.elements // chunk)))
        items = groups * loads.local_size
        where, shape = ("flat.cl", "fold_flat"), (groups, loads.local_size)
        values = {
            "begin": box.offset,
            "end": box.offset + box.elements,
            # Strips are whole loads long, so that only the run's ends are folded one by one.
            "strip": -(-box.elements // (items * loads.width)) * loads.width,
            "index": box.index,
            **self.held(groups),
        }
        again = box, bool(values["fresh"])
        if box.other_offsets:
            given, tuning = strided_inputs(inputs, box, run=True), self.tuning.for_box(box)
            return self.launcher.launch(where, shape, given, wait_for, tuning=tuning, **values)
        room = len(self._repeats) < _MOST_REPEATS
        if room and again in self._seen and not (values["fresh"] and self._tables):
            self._repeats[again] = self.launcher.repeat(where, shape, inputs, **values)
        self._seen.append(again)
        return self.launcher.launch(where, shape, inputs, wait_for, **values)

    def _add_laid(
        self, inputs: Sequence[Input], box: Box, wait_for: Sequence[cl.Event]
    ) -> cl.Event:
        """Launch all that folds a box along its axes; return the event of the last."""
        for one, tuning, geometry in self._laid(box):
            event = self.launcher.launch(
                one.where,
                one.shape,
                strided_inputs(inputs, one.box) if box.other_offsets else inputs,
                wait_for,
                tuning=tuning,
                geo=geometry,
                outputs=self.outputs,
                reduces=one.box.elements_per_output,
                offset=one.box.offset,
                index=one.box.index,
                **one.values,
                **self.held(one.splits),
            )
        return event

    def _laid(self, box: Box) -> Sequence[Laid]:
        """Return the launches that fold a box, their tunings and geometry: as of one before."""
        laid = self._layouts.get(box)
        if laid is None:
            tuning = self.tuning.for_box(box)
            launches = planned_launches(tuning, box, self.splits, tables=self._tables is not None)
            own = tuning if box.other_offsets else None
            laid = [(one, one.tuning or own, self.launcher.geometry(one.box)) for one in launches]
            if len(self._layouts) < _MOST_REPEATS:
                self._layouts[box] = laid
        return laid


Laid = tuple[PlannedLaunch, "Tuning | None", cl.Buffer]
"""A launch, its tuning if it is not the reduction's, and the dims of its box on the device."""
