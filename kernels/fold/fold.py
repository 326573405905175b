"""The multi-pass driver: fold buffers into accumulators that stay on the device, then finish."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from chunkfold.kernels.accumulator.accumulator import COUNTS, Accumulator
from chunkfold.kernels.accumulator.partial import (
    Partial,
    settled_partial,
    with_tables,
    zero_partial,
)
from chunkfold.kernels.errors import DeviceError
from chunkfold.kernels.exact.limbs import MOST_DEPOSITS
from chunkfold.kernels.fold.box_launches import BoxLaunches
from chunkfold.kernels.fold.launch import Input, Launcher
from chunkfold.kernels.fold.passes import Passes
from chunkfold.kernels.fold.profile import Profile, merged
from chunkfold.kernels.fold.shapes import each_shape, most_splits
from chunkfold.kernels.geometry import Box
from chunkfold.kernels.program.device_context import DeviceContext, device_errors
from chunkfold.kernels.program.options import Tuning

OutputRun = tuple[int, int, int]
"""Accumulators next to each other: the first one, where it goes, and how many."""


class Fold:
    """Folds any number of buffers into one partial of `outputs` accumulators per slot.

    Buffers are folded in the order given, on one in-order queue; nothing waits for the host
    until `finish`. Not for use by several threads at once.
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
        self.splits = splits or most_splits(tuning, outputs, accumulator.nbytes)
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
        self._launches = BoxLaunches(self.launcher, outputs, self.splits, tables=bool(entries))

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
        repeat = self._launches.repeat_of(box, fresh=fresh)
        if repeat is not None and (fresh or repeat.groups <= self._used):
            event = repeat.launch(inputs, wait_for)
            self._used = max(self._used, repeat.groups)
        else:
            event = self._launches.launch(inputs, box, self.held, wait_for)
        self.took(box)
        self.launcher.queue.flush()  # so that whoever polls the event sees it end
        return event

    def took(self, box: Box) -> None:
        """Account for a box that was launched to be folded into what `held` gave."""
        self._passes.expect(box.elements)
        self._count += box.reduces
        self._deposits += box.reduces * self.accumulator.deposits
        if self._deposits >= MOST_DEPOSITS:
            self._settle()

    def finish(self) -> Partial:
        """Run the passes, read the partial back, and start anew from zero.

        Exact sums that are expansions may have lost something: see `accumulator.sums.any_lost`.

        Raises
        ------
        DeviceError
            If anything enqueued so far failed.
        """
        return self._finishing()()

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
        nbytes = self.accumulator.nbytes
        with device_errors(self.opened.device, "copying accumulators"):
            for begin, to, count in runs:
                event: cl.Event = cl.enqueue_copy(
                    self.launcher.queue,
                    into,
                    self._acc,
                    byte_count=count * nbytes,
                    src_offset=begin * nbytes,
                    dst_offset=to * nbytes,
                )
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
            self._launches.forget()  # they would write to the partial
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
        """Whether launches find the accumulators where those before did."""
        tables = self._tables is None or self._tables._where_it_was
        return tables and self._passes.has(self.splits)

    def profile(self) -> Profile:
        """Return the times of every launch that `finish` has proved done."""
        own = self.launcher.profile()
        return own if self._tables is None else merged([own, self._tables.profile()])

    def _settle(self) -> None:
        """Propagate the carries of limbs, so that more can be added to them."""
        if self._tables is None or not self.accumulator.in_limbs:
            return
        count = self._used * self.outputs
        self.launcher.launch(
            ("passes.cl", "settle"),
            each_shape(self.tuning, count),
            tables=self._tables.zeroed(self._used),
            count=count,
        )
        self._deposits = 0

    @property
    def holds(self) -> bool:
        """Whether any accumulators may hold something."""
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
        if self.accumulator == COUNTS and self.tuning.strip:
            # A CPU's work-items are dear; on a GPU it is the other way round.
            with device_errors(self.opened.device, "clearing tables"):
                itemsize = self.accumulator.nbytes
                cl.enqueue_fill_buffer(
                    self.launcher.queue,
                    self._acc,
                    np.zeros(1, np.int64),
                    begin * itemsize,
                    count * itemsize,
                )
        else:
            self.launcher.launch(
                ("passes.cl", "fill_zero"),
                each_shape(self.tuning, count),
                acc=self._acc,
                acc_n=self.splits * self.outputs,
                begin=begin,
                count=count,
            )
