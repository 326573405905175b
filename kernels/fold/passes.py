"""The passes: accumulators on the device, several per output, become one partial on the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyopencl as cl

from chunkfold.kernels.accumulator.accumulator import COUNTS
from chunkfold.kernels.accumulator.partial import Partial, unpack
from chunkfold.kernels.accumulator.sums import Rounded, Rounding
from chunkfold.kernels.errors import DeviceError
from chunkfold.kernels.fold.device_rounding import Rounder
from chunkfold.kernels.fold.launch import Input, Launcher
from chunkfold.kernels.fold.readback import landed, lent, shown
from chunkfold.kernels.fold.shapes import each_shape, pass_span
from chunkfold.kernels.geometry import OutputRun
from chunkfold.kernels.program.device_context import device_errors

_COPIED_BYTES = 64 << 10
"""Partials of no more are copied out of the memory that they arrive in."""
_COUNTERS = np.zeros(2, np.uint64)
"""Elements and accumulators that kernels have seen, to begin with."""


class Passes:
    """Folds scalar accumulators of `outputs` outputs, and counts what kernels have seen.

    Some drivers report a launch as complete that never ran: kernels count along on the device, in
    `seen`, and what they counted must be what was due.
    """

    def __init__(self, launcher: Launcher, outputs: int) -> None:
        self.launcher = launcher
        self.outputs = outputs
        self._device = launcher.opened.device
        self._context = launcher.opened.context
        self._due = [0, 0]
        self._buffers: dict[int, cl.Buffer] = {}
        """By accumulators per output."""
        with device_errors(self._device, "allocating counters"):
            flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
            self.seen = cl.Buffer(self._context, flags, hostbuf=_COUNTERS)

    def expect(self, elements: int) -> None:
        """Note that kernels were told to see so many more elements."""
        self._due[0] += elements

    def buffer(self, splits: int) -> cl.Buffer:
        """Return room for `splits` accumulators per output, and for the counters behind them.

        It is the same each time, until a partial stays in it.
        """
        if splits not in self._buffers:
            size = self._counters_at(splits) + _COUNTERS.nbytes
            with device_errors(self._device, f"allocating {size} bytes of accumulators"):
                self._buffers[splits] = (
                    lent(self.launcher.opened, size)
                    if splits == 1 and self._stays(size)
                    else cl.Buffer(self._context, cl.mem_flags.READ_WRITE, size)
                )
        return self._buffers[splits]

    def has(self, splits: int) -> bool:
        """Return whether the buffer of so many splits is still free for partials."""
        return splits in self._buffers

    def _stays(self, nbytes: int) -> bool:
        """Return whether the host reads partials from the buffers that passes write."""
        return self._device.unified_memory and nbytes > _COPIED_BYTES

    def copy(self, splits: int, into: cl.Buffer, runs: Sequence[OutputRun]) -> cl.Event:
        """Enqueue copies of accumulators in that room to a buffer; return the last.

        Raises
        ------
        DeviceError
            If the device refuses it.
        """
        acc, nbytes = self.buffer(splits), self.launcher.accumulator.nbytes
        with device_errors(self._device, "copying accumulators"):
            for begin, to, count in runs:
                event: cl.Event = cl.enqueue_copy(
                    self.launcher.queue,
                    into,
                    acc,
                    byte_count=count * nbytes,
                    src_offset=begin * nbytes,
                    dst_offset=to * nbytes,
                )
        return event

    def fill(self, splits: int, begin: int, count: int) -> None:
        """Make `count` accumulators in that room zero, from `begin` on."""
        launcher, acc = self.launcher, self.buffer(splits)
        if launcher.accumulator == COUNTS and launcher.tuning.strip:
            # To start a work-item costs more on a CPU; on a GPU it is the other way round.
            nbytes, zero = launcher.accumulator.nbytes, np.zeros(1, np.int64)
            with device_errors(self._device, "clearing tables"):
                cl.enqueue_fill_buffer(launcher.queue, acc, zero, begin * nbytes, count * nbytes)
            return
        launcher.launch(
            ("passes.cl", "fill_zero"),
            each_shape(launcher.tuning, count),
            acc=acc,
            acc_n=splits * self.outputs,
            begin=begin,
            count=count,
        )

    def start(
        self, source: Input, splits: int, held: int, count: int | np.ndarray
    ) -> Callable[[], Partial]:
        """Fold `splits` accumulators per output into one, pass by pass, between buffers.

        `held` is the number of accumulators that `source` has room for, `count` the partial's. What
        is returned waits for the passes and reads the partial back.

        Raises
        ------
        DeviceError
            If the device fails, or, while it is waited for, if its kernels have not seen all that
            they should.
        """
        return self._reading(*self._folded(source, splits, held), count)

    def rounded(
        self, source: Input, splits: int, held: int, count: int, how: Sequence[Rounding]
    ) -> Rounded | Partial:
        """Fold them, and read back what they are rounded to, or the partial; as `start`."""
        folded, event = self._folded(source, splits, held)
        queue, rounder = self.launcher.queue, Rounder(self.launcher, self.outputs, how)
        nbytes = rounder.nbytes + _COUNTERS.nbytes
        with device_errors(self._device, f"allocating {nbytes} bytes of results"):
            out = cl.Buffer(self._context, cl.mem_flags.READ_WRITE, nbytes)
        rounder.launch(folded, count, out)
        with device_errors(self._device, "copying counters"):
            event = cl.enqueue_copy(
                queue,
                out,
                folded,
                byte_count=_COUNTERS.nbytes,
                src_offset=self._counters_at(1),
                dst_offset=rounder.nbytes,
            )
        raw, arrived = self._bringing(out, nbytes, event)
        arrived()
        self._check(raw[rounder.nbytes :], self._due_now)
        return rounder.found(raw, count) or self._reading(folded, event, count)()

    def _folded(self, source: Input, splits: int, held: int) -> tuple[cl.Buffer, cl.Event]:
        """Launch the passes; return what the last one writes, and its event."""
        tuning = self.launcher.tuning
        if splits == 1 and held == self.outputs:
            assert not isinstance(source, cl.SVM)  # but a fold's own, with room for counters
            event = self.launcher.launch(
                ("passes.cl", "pass_settle"),
                each_shape(tuning, self.outputs),
                number=1,
                acc=source,
                outputs=self.outputs,
                seen=self.seen,
            )
            self._due[1] += self.outputs
            return source, event
        columns = self.outputs >= 2 * tuning.columns.local_size * self._device.compute_units
        number = 0
        while True:
            number += 1
            span = pass_span(tuning, splits)
            left = -(-splits // span)
            target = self.buffer(left)
            if columns:
                name, (groups, size) = "pass_columns", each_shape(tuning, left * self.outputs)
            else:
                name, size = "pass_rows", tuning.rows.local_size
                groups = left * self.outputs
            event = self.launcher.launch(
                ("passes.cl", name),
                (groups, size),
                number=number,
                source=source,
                source_n=held,
                splits=splits,
                outputs=self.outputs,
                span=span,
                out=target,
                out_splits=left,
                seen=self.seen,
            )
            self._due[1] += splits * self.outputs
            if left == 1:
                return target, event
            source, splits, held = target, left, left * self.outputs

    def _counters_at(self, splits: int) -> int:
        return -(-self.launcher.accumulator.scalar_bytes * splits * self.outputs // 8) * 8

    def _reading(
        self, source: cl.Buffer, written: cl.Event, count: int | np.ndarray
    ) -> Callable[[], Partial]:
        """Read back what the last pass writes: the partial, and behind it the counters.

        All that can be done before the device is, is.
        """
        accumulator, counters_at = self.launcher.accumulator, self._counters_at(1)
        raw, arrived = self._bringing(source, counters_at + _COUNTERS.nbytes, written, own=True)
        scalars = raw[: accumulator.scalar_bytes * self.outputs]
        partial = replace(unpack(accumulator, scalars, self.outputs), count=count)
        due = self._due_now

        def read() -> Partial:
            arrived()
            self._check(raw[counters_at:], due)
            return partial

        return read

    def _bringing(
        self, source: cl.Buffer, nbytes: int, written: cl.Event, *, own: bool = False
    ) -> tuple[np.ndarray, Callable[[], None]]:
        """Read bytes that a command writes; return where they will be, and what waits for them.

        `own`: the source is the room for accumulators.

        A read that waits itself has no deadline. Into pinned memory one follows the last pass by
        itself, at the link's speed; into other memory it is slower.
        """
        opened, queue = self.launcher.opened, self.launcher.queue
        if own and self._stays(nbytes):
            del self._buffers[1]  # the source, which is the partial's from now on
            there, event = shown(opened, queue, source, nbytes)
            return there, lambda: self.launcher.wait(event, "the last pass")
        small = nbytes <= _COPIED_BYTES
        if self._device.unified_memory:
            raw = np.empty(nbytes, np.uint8)

            def copy() -> None:
                self.launcher.wait(written, "the last pass")
                with device_errors(self._device, "reading a partial back"):
                    cl.enqueue_copy(queue, raw, source, is_blocking=True)

            return raw, copy
        there, event = landed(opened, queue, source, nbytes)
        raw = np.empty(nbytes, np.uint8) if small else there

        def land() -> None:
            self.launcher.wait(event, "the last pass")
            if raw is not there:
                raw[:] = there

        return raw, land

    @property
    def _due_now(self) -> np.ndarray:
        return np.array([number % 2**64 for number in self._due], np.uint64)

    def _check(self, seen: np.ndarray, due: np.ndarray) -> None:
        """See that kernels have counted what was due; `seen` are bytes."""
        if seen.tobytes() != due.tobytes():
            self._complain(seen.view(np.uint64), due)

    def _complain(self, seen: np.ndarray, expected: np.ndarray) -> None:
        self.launcher.profile()  # a launch that failed says more
        counts = zip(seen.tolist(), expected.tolist(), ("elements", "accumulators"), strict=True)
        for counted, due, what in counts:
            if counted != due:
                raise DeviceError(
                    f"{self._device} reports no error, but its kernels folded {counted:,} "
                    f"{what} of {due:,}"
                )
