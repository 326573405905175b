"""Run kernels on the thread that enqueues them, where a runtime can: Intel's for CPUs does.

Threads that read and fold in turn have a core each. A runtime's own threads, woken for every piece,
take cores from those that read.

Source: Intel's extension `cl_intel_exec_by_local_thread`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pyopencl as cl

from chunkfold.kernels.device.device import Device
from chunkfold.kernels.device.loader import entry_point

_PROPERTY = 1 << 31  # CL_QUEUE_THREAD_LOCAL_EXEC_ENABLE_INTEL; pyopencl has no name for it
_PROFILING = int(cl.command_queue_properties.PROFILING_ENABLE)
_POINTER, _NUMBER, _SIZE = ctypes.c_void_p, ctypes.c_uint, ctypes.c_size_t
_ENQUEUE = (
    *(_POINTER, _POINTER, _NUMBER),  # queue, kernel, dimensions
    *3 * (ctypes.POINTER(_SIZE),),  # offset, work-items, work-items of a group
    *(_NUMBER, ctypes.POINTER(_POINTER), ctypes.POINTER(_POINTER)),  # events before; the event
)


class CallersQueue(cl.CommandQueue):
    """A queue whose commands run on the thread that enqueues them; with profiling.

    Raises
    ------
    pyopencl.Error
        If the device cannot: see `runs_here`.
    """

    def __init__(self, context: cl.Context, handle: cl.Device) -> None:
        properties: Any = _PROFILING | _PROPERTY
        super().__init__(context, handle, properties)

    def flush(self) -> None:
        """Do nothing: whatever was enqueued has run."""

    def run(
        self, kernel: cl.Kernel, items: int, size: int, wait_for: Sequence[cl.Event] = ()
    ) -> cl.Event:
        """Run a kernel that has its arguments, in work-groups of `size`; return its event.

        pyopencl would hold Python's lock for as long as the kernel runs.

        Raises
        ------
        pyopencl.Error
            If the device refuses the launch.
        """
        return self.prepare(kernel, items, size, wait_for)()

    def prepare(
        self, kernel: cl.Kernel, items: int, size: int, wait_for: Sequence[cl.Event] = ()
    ) -> Callable[[], cl.Event]:
        """Return what runs a kernel, as `run`, as often as it is called."""
        event = _POINTER()
        before = (_POINTER * len(wait_for))(*(one.int_ptr for one in wait_for))
        enqueue = partial(
            entry_point("clEnqueueNDRangeKernel", *_ENQUEUE),
            *(self.int_ptr, kernel.int_ptr, 1, None, _extent(items), _extent(size)),
            *(len(before), before or None, ctypes.byref(event)),
        )

        def run() -> cl.Event:
            if code := enqueue():
                raise cl.Error(cl._cl._ErrorRecord("clEnqueueNDRangeKernel", code, ""))
            assert event.value is not None
            return cl.Event.from_int_ptr(event.value, retain=False)

        return run


def _extent(size: int) -> Any:
    """Return a number as OpenCL takes it, along one dimension."""
    return (_SIZE * 1)(size)


def runs_here(device: Device) -> bool:
    """Return True if a device can run commands on the thread that enqueues them."""
    return "cl_intel_exec_by_local_thread" in device.extensions
