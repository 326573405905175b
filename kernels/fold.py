"""The multi-pass driver: fold buffers into accumulators that stay on the device, then finish."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from chunkfold.kernels.accumulator import COUNTS, Accumulator
from chunkfold.kernels.errors import DeviceError
from chunkfold.kernels.geometry import Box
from chunkfold.kernels.launch import Launcher
from chunkfold.kernels.opened import OpenedDevice, device_errors
from chunkfold.kernels.partial import (
    Partial,
    pack,
    table_counts,
    unpack,
    with_tables,
    zero_partial,
)
from chunkfold.kernels.profile import Profile, merged
from chunkfold.kernels.shapes import ColumnShape, column_shape, most_splits, pass_span, row_shape
from chunkfold.kernels.signature import Signature, signature
from chunkfold.kernels.variant import Tuning

_COUNTERS = np.zeros(2, np.uint64)
"""Elements and accumulators that kernels have seen, to begin with."""


def _aligned(nbytes: int) -> int:
    return (nbytes + 7) // 8 * 8


class Fold:
    """Folds any number of buffers into one partial of `outputs` accumulators per slot.

    Buffers are folded in the order given, on one in-order queue; nothing waits for the host
    until `finish`. Not for use by several threads at once.
    """

    def __init__(
        self,
        opened: OpenedDevice,
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
        self.launcher = Launcher(opened.device, queue or opened.queue())
        self.splits = splits or most_splits(tuning, outputs, accumulator.nbytes)
        self._kernels: dict[tuple[str, str, Tuning], tuple[cl.Kernel, Signature]] = {}
        self._words: dict[bytes, cl.Buffer] = {}
        self._targets: dict[int, cl.Buffer] = {}
        """What passes write to, by accumulators per output."""
        self._acc = self._buffer(self.splits)
        # Some drivers report a launch as complete that never ran: kernels count along.
        self._seen = self._counters()
        self._due = [0, 0]
        self._used = 0
        """Splits that hold something; the accumulators of others are undefined."""
        entries = accumulator.entries
        # To the passes a table's counters are sums, each of an output of its own.
        self._tables = (
            Fold(opened, COUNTS, tuning, outputs * entries, self.launcher.queue, self.splits)
            if entries
            else None
        )

    def add(
        self, inputs: Sequence[cl.Buffer], box: Box, wait_for: Sequence[cl.Event] = ()
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
        if box.flat:
            event = self._add_flat(inputs, box, wait_for)
        elif box.upright:
            event = self._add_columns(inputs, box, wait_for)
        else:
            event = self._add_rows(inputs, box, wait_for)
        self._due[0] += box.elements
        self.launcher.queue.flush()  # so that whoever polls the event sees it end
        return event

    def finish(self) -> Partial:
        """Run the passes, read the partial back, and start anew from zero.

        Raises
        ------
        DeviceError
            If anything enqueued so far failed.
        """
        if not self._used or not self.outputs:
            return zero_partial(self.accumulator, self.outputs)
        used, self._used = self._used, 0
        partial = self._passes(self._acc, used, self.splits * self.outputs)
        if self._tables is None:
            return partial
        return with_tables(self.accumulator, partial, self._tables.finish())

    def combine(self, partials: Sequence[Partial]) -> Partial:
        """Combine partials of `outputs` accumulators each with the op, on the device."""
        accumulator, splits = self.accumulator, len(partials)
        if not self.outputs:
            return zero_partial(accumulator, 0)
        raw = pack(accumulator, partials)
        with device_errors(self.opened.device, "uploading partials"):
            flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
            source = cl.Buffer(self.opened.context, flags, hostbuf=raw if raw.size else _COUNTERS)
        scalars = self._passes(source, splits, splits * self.outputs)
        if self._tables is None:
            return scalars
        counts = self._tables.combine([table_counts(accumulator, partial) for partial in partials])
        return with_tables(accumulator, scalars, counts)

    def profile(self) -> Profile:
        """Return the times of every launch that `finish` or `combine` has proved done."""
        own = self.launcher.profile()
        return own if self._tables is None else merged([own, self._tables.profile()])

    def _held(self, splits: int) -> dict[str, Any]:
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
            "seen": self._seen,
        }

    def zeroed(self, splits: int) -> cl.Buffer:
        """Return the accumulators, of which the first `splits` hold something, if only zero."""
        self._fill_zero(splits)
        self._used = max(self._used, splits)
        return self._acc

    def _fill_zero(self, splits: int) -> None:
        """Make those of the first `splits` zero that hold nothing yet."""
        missing = (splits - self._used) * self.outputs
        if missing > 0:
            size = self.tuning.column_size
            self._launch(
                ("passes.cl", "fill_zero"),
                (-(-missing // size), size),
                acc=self._acc,
                acc_n=self.splits * self.outputs,
                begin=self._used * self.outputs,
                count=missing,
            )

    def _add_flat(
        self, inputs: Sequence[cl.Buffer], box: Box, wait_for: Sequence[cl.Event]
    ) -> cl.Event:
        tuning = self.tuning
        chunk = tuning.width * tuning.unroll * tuning.local_size
        groups = max(1, min(self.splits, -(-box.elements // chunk)))
        items = groups * tuning.local_size
        return self._launch(
            ("flat.cl", "fold_flat"),
            (groups, tuning.local_size),
            inputs,
            wait_for,
            begin=box.offset,
            end=box.offset + box.elements,
            # Strips are whole loads long, so that only the run's ends are folded one by one.
            strip=-(-box.elements // (items * tuning.width)) * tuning.width,
            index=box.index,
            **self._held(groups),
        )

    def _add_rows(
        self, inputs: Sequence[cl.Buffer], box: Box, wait_for: Sequence[cl.Event]
    ) -> cl.Event:
        tuning = self.tuning
        team, splits, span = row_shape(tuning, box, self.splits)
        jobs = splits * self.outputs
        return self._launch(
            ("rows.cl", "fold_rows"),
            (max(1, min(tuning.groups, -(-jobs * team // tuning.local_size))), tuning.local_size),
            inputs,
            wait_for,
            geo=self._upload_words(box),
            outputs=self.outputs,
            splits=splits,
            reduces=box.reduces,
            span=span,
            team=team,
            offset=box.offset,
            index=box.index,
            **self._held(splits),
        )

    def _add_columns(
        self, inputs: Sequence[cl.Buffer], box: Box, wait_for: Sequence[cl.Event]
    ) -> cl.Event:
        shape = column_shape(self.tuning, box, self.splits)
        main, rest = box.cut_rows(shape.fold)
        event = self._add_wide(inputs, main, shape, wait_for)
        return event if rest is None else self._add_columns(inputs, rest, wait_for)

    def _add_wide(
        self,
        inputs: Sequence[cl.Buffer],
        box: Box,
        shape: ColumnShape,
        wait_for: Sequence[cl.Event],
    ) -> cl.Event:
        size = shape.tuning.column_size
        return self._launch(
            ("columns.cl", "fold_columns"),
            (-(-shape.jobs // size), size),
            inputs,
            wait_for,
            tuning=shape.tuning,
            geo=self._upload_words(box),
            outputs=self.outputs,
            reduces=box.reduces,
            fold=shape.fold,
            span=-(-box.reduces // (shape.fold * shape.blocks)),
            blocks=shape.blocks,
            offset=box.offset,
            index=box.index,
            **self._held(shape.fold * shape.blocks),
        )

    def _passes(self, source: cl.Buffer, splits: int, held: int) -> Partial:
        """Fold `splits` accumulators per output into one, pass by pass, between buffers.

        `held` is the number of accumulators that `source` has room for.
        """
        tuning = self.tuning
        columns = self.outputs >= 2 * tuning.column_size * self.opened.device.compute_units
        for number in itertools.count(1):
            span = pass_span(tuning, splits)
            left = -(-splits // span)
            if left not in self._targets:
                self._targets[left] = self._buffer(left)
            target = self._targets[left]
            if columns:
                name, size = "pass_columns", tuning.column_size
                groups = -(-left * self.outputs // size)
            else:
                name, size = "pass_rows", tuning.local_size
                groups = left * self.outputs
            event = self._launch(
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
                seen=self._seen,
            )
            self._due[1] += splits * self.outputs
            if left == 1:
                return self._read(target, event)
            source, splits, held = target, left, left * self.outputs
        raise AssertionError("unreachable")

    def _read(self, source: cl.Buffer, written: cl.Event) -> Partial:
        """Read back what the last pass wrote: the partial, and behind it the counters.

        What is read is waited for first. A read that waits itself has no deadline; one that is
        polled for took 0.36 ms more on an H200, where this one takes 0.01.
        """
        nbytes = self.accumulator.scalar_bytes * self.outputs
        raw = np.empty(_aligned(nbytes) + _COUNTERS.nbytes, np.uint8)
        self.launcher.wait(written, "the last pass")
        with device_errors(self.opened.device, "reading a partial back"):
            cl.enqueue_copy(self.launcher.queue, raw, source, is_blocking=True)
        self._check(raw[_aligned(nbytes) :].view(np.uint64))
        return unpack(self.accumulator, raw[:nbytes], self.outputs)

    def _check(self, seen: np.ndarray) -> None:
        for counted, due, what in zip(
            seen.tolist(), self._due, ("elements", "accumulators"), strict=True
        ):
            if counted != due % 2**64:
                self.launcher.profile()  # a launch that failed says more
                raise DeviceError(
                    f"{self.opened.device} reports no error, but its kernels folded {counted:,} "
                    f"{what} of {due:,}"
                )

    def _counters(self) -> cl.Buffer:
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        with device_errors(self.opened.device, "allocating counters"):
            return cl.Buffer(self.opened.context, flags, hostbuf=_COUNTERS)

    def _buffer(self, splits: int) -> cl.Buffer:
        nbytes = self.accumulator.scalar_bytes * splits * self.outputs
        size = _aligned(nbytes) + _COUNTERS.nbytes
        with device_errors(self.opened.device, f"allocating {size} bytes of accumulators"):
            return cl.Buffer(self.opened.context, cl.mem_flags.READ_WRITE, size)

    def _upload_words(self, box: Box) -> cl.Buffer:
        words = box.words()
        key = words.tobytes()
        if key not in self._words:
            flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
            with device_errors(self.opened.device, "uploading a box's geometry"):
                self._words[key] = cl.Buffer(self.opened.context, flags, hostbuf=words)
        return self._words[key]

    def _launch(
        self,
        where: tuple[str, str],
        shape: tuple[int, int],
        inputs: Sequence[cl.Buffer] = (),
        wait_for: Sequence[cl.Event] = (),
        *,
        number: int = 0,
        tuning: Tuning | None = None,
        **values: Any,
    ) -> cl.Event:
        """Launch a kernel, named by file and name, over work-groups, given by number and size."""
        kernel, takes = self._kernel(*where, tuning or self.tuning)
        arguments = (*inputs, *takes.arguments(values))
        return self.launcher.launch(kernel, number, *shape, *arguments, wait_for=wait_for)

    def _kernel(self, kernel_file: str, name: str, tuning: Tuning) -> tuple[cl.Kernel, Signature]:
        """Return this fold's own kernel object: their arguments are not thread-safe."""
        key = (kernel_file, name, tuning)
        if key not in self._kernels:
            program = self.opened.program(kernel_file, self.accumulator, tuning)
            with device_errors(self.opened.device, f"making kernel {name}"):
                kernel = cl.Kernel(program, name)
            takes = signature(kernel_file, name)
            takes.prepare(kernel, len(self.accumulator.stored))
            self._kernels[key] = kernel, takes
        return self._kernels[key]
