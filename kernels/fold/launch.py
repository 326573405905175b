"""Launch kernels on a queue, and keep their events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyopencl as cl

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.device.callers_queue import CallersQueue
from chunkfold.kernels.errors import DeviceError
from chunkfold.kernels.fold.profile import (
    LaunchTimes,
    PassName,
    PassTimes,
    Profile,
    pass_times,
)
from chunkfold.kernels.fold.waiting import wait
from chunkfold.kernels.geometry import Box
from chunkfold.kernels.program.device_context import DeviceContext, device_errors, failure
from chunkfold.kernels.program.options import Tuning
from chunkfold.kernels.program.signature import Signature, input_types, signature

_CLOCKS = (
    cl.profiling_info.QUEUED,
    cl.profiling_info.SUBMIT,
    cl.profiling_info.START,
    cl.profiling_info.END,
)
Input: TypeAlias = "cl.Buffer | cl.SVM[Any]"  # which is no type when it runs
"""What kernels read: a buffer, or memory of the host's."""
KernelArgument: TypeAlias = "Input | np.uint64"
"""What kernels are given for inputs: these, and where elements of those behind the first are."""
_KEPT = 256
"""Events kept before finished ones are read off and dropped."""


class Launcher:
    """Launches a reduction's kernels on one queue and accounts for every launch.

    Not for use by several threads at once: neither are kernel objects.
    """

    def __init__(
        self,
        opened: DeviceContext,
        accumulator: Accumulator,
        tuning: Tuning,
        queue: cl.CommandQueue | None = None,
    ) -> None:
        self.opened = opened
        self.accumulator = accumulator
        self.tuning = tuning
        self.queue = queue or opened.queue()
        self._kernels: dict[object, tuple[cl.Kernel, Signature]] = {}
        self._geometry: dict[bytes, cl.Buffer] = {}
        self._pending: list[tuple[PassName, cl.Event]] = []
        self._profile: dict[PassName, PassTimes] = {}

    def launch(
        self,
        where: tuple[str, str],
        shape: tuple[int, int],
        inputs: Sequence[KernelArgument] = (),
        wait_for: Sequence[cl.Event] = (),
        *,
        number: int = 0,
        tuning: Tuning | None = None,
        **values: Any,
    ) -> cl.Event:
        """Enqueue a kernel, named by file and name, over work-groups, given by number and size.

        Parameters
        ----------
        number
            Of the pass.
        tuning
            Where it is not the reduction's.
        values
            The kernel's arguments behind its inputs, by name.

        Raises
        ------
        DeviceError
            If the device refuses the launch; names device, kernel, pass and code.
        """
        name, (groups, size) = where[1], shape
        kernel, takes = self._kernel(where, tuning)
        arguments = takes.arguments(values)
        with device_errors(self.opened.device, f"launching {name} in pass {number}"):
            kernel.set_args(*inputs, *arguments)
            event = self.enqueue(kernel, groups * size, size, wait_for)
        self.launched((name, number), event)
        return event

    def repeat(
        self,
        where: tuple[str, str],
        shape: tuple[int, int],
        inputs: Sequence[Input],
        **values: Any,
    ) -> Repeat:
        """Prepare launches like one with these inputs, which others may replace; as `launch`."""
        kernel, takes = self._made(where, self.tuning)
        with device_errors(self.opened.device, f"preparing {where[1]}"):
            kernel.set_args(*inputs, *takes.arguments(values))
        return Repeat(self, kernel, where[1], shape, inputs)

    def geometry(self, box: Box) -> cl.Buffer:
        """Return the dims of a box on the device, as kernels/cl/place.clh reads them."""
        words = box.words()
        key = words.tobytes()
        if key not in self._geometry:
            flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
            with device_errors(self.opened.device, "uploading a box's geometry"):
                self._geometry[key] = cl.Buffer(self.opened.context, flags, hostbuf=words)
        return self._geometry[key]

    def launched(self, name: PassName, event: cl.Event) -> None:
        """Account for a launch, once it has finished."""
        self._pending.append((name, event))
        if len(self._pending) > _KEPT:
            self._read_off()

    def enqueue(
        self, kernel: cl.Kernel, items: int, size: int, wait_for: Sequence[cl.Event]
    ) -> cl.Event:
        """Enqueue a kernel that has its arguments, in work-groups of `size`.

        Raises
        ------
        pyopencl.Error
            If the device refuses the launch.
        """
        if isinstance(self.queue, CallersQueue):
            return self.queue.run(kernel, items, size, wait_for)
        event: cl.Event = cl.enqueue_nd_range_kernel(
            self.queue, kernel, (items,), (size,), wait_for=list(wait_for)
        )
        return event

    def _kernel(self, where: tuple[str, str], tuning: Tuning | None) -> tuple[cl.Kernel, Signature]:
        key = where if tuning is None else (where, tuning)  # to hash a tuning takes its time
        if key not in self._kernels:
            self._kernels[key] = self._made(where, tuning or self.tuning)
        return self._kernels[key]

    def _made(self, where: tuple[str, str], tuning: Tuning) -> tuple[cl.Kernel, Signature]:
        kernel_file, name = where
        program = self.opened.program(kernel_file, self.accumulator, tuning)
        with device_errors(self.opened.device, f"making kernel {name}"):
            kernel = cl.Kernel(program, name)
        takes = signature(kernel_file, name)
        inputs = input_types(len(self.accumulator.stored), strided=tuning.strided)
        takes.prepare(kernel, inputs)
        return kernel, takes

    def wait(self, event: cl.Event, doing: str) -> None:
        """Wait for one command of this queue, whose launches were all before it.

        Raises
        ------
        DeviceError
            If a launch failed, or the deadline passed.
        """
        self.queue.flush()
        try:
            wait(self.opened.device, event, doing)
        except DeviceError:
            self._read_off()  # a failed launch before it says more
            raise

    def profile(self) -> Profile:
        """Return the times of launches that have finished since it was last asked.

        Raises
        ------
        DeviceError
            If one failed.
        """
        self._read_off()
        times, self._profile = self._profile, {}
        return times

    def _read_off(self) -> None:
        kept = []
        for name, event in self._pending:
            status = event.command_execution_status
            if status < 0:
                raise failure(self.opened.device, f"running {name[0]} of pass {name[1]}", status)
            if status != cl.command_execution_status.COMPLETE:
                kept.append((name, event))
                continue
            self._account(name, event)
        self._pending = kept

    def _account(self, name: PassName, event: cl.Event) -> None:
        with device_errors(self.opened.device, f"reading the times of {name[0]}"):
            asked: Any = event.get_profiling_info
            launch = LaunchTimes(*map(asked, _CLOCKS))
        before = self._profile.get(name)
        times = pass_times(launch, before is None)
        self._profile[name] = times if before is None else before + times


class Repeat:
    """A launch whose arguments behind its inputs were set once.

    Where a fold is short, what Python does for each launch matters.
    """

    __slots__ = ("_errors", "_inputs", "_kernel", "_launcher", "_name", "_run", "_shape", "groups")

    def __init__(
        self,
        launcher: Launcher,
        kernel: cl.Kernel,
        name: str,
        shape: tuple[int, int],
        inputs: Sequence[Input],
    ) -> None:
        self._launcher, self._kernel, self._name = launcher, kernel, (name, 0)
        self._inputs = list(inputs)
        """That it has."""
        self.groups = shape[0]
        self._shape = (shape[0] * shape[1], shape[1])
        self._errors = device_errors(launcher.opened.device, f"launching {name} again")
        queue = launcher.queue
        self._run = queue.prepare(kernel, *self._shape) if isinstance(queue, CallersQueue) else None

    def launch(self, inputs: Sequence[Input], wait_for: Sequence[cl.Event]) -> cl.Event:
        """Enqueue it; raises as `Launcher.launch`."""
        kernel = self._kernel
        with self._errors:
            for number, given in enumerate(inputs):
                if given is not self._inputs[number]:
                    kernel.set_arg(number, given)
                    self._inputs[number] = given
            if self._run is not None and not wait_for:
                event = self._run()
            else:
                event = self._launcher.enqueue(kernel, *self._shape, wait_for)
        self._launcher.launched(self._name, event)
        return event


def strided_inputs(inputs: Sequence[Input], box: Box, *, run: bool = False) -> list[KernelArgument]:
    """Return what kernels are given for inputs with strides of their own.

    Behind the buffer of each but the first there are three numbers: where the box begins in it, and
    two zeros. `run`: the box is one run, in which they tell where each of its elements is.
    """
    given: list[KernelArgument] = [inputs[0]]
    for number, buffer in enumerate(inputs[1:]):
        stride = box.reduced[0].other_strides[number] if run and box.reduced else 0
        at = (box.other_offsets[number] - box.offset * stride) % 2**64
        given += [buffer, np.uint64(at), np.uint64(stride), np.uint64(0)]
    return given
