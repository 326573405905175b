"""A device that this process owns: its context, its queues, its programs."""

from __future__ import annotations

import hashlib
import re
import threading
import warnings
from collections import deque
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import pyopencl as cl
from pyopencl.characterize import has_src_build_cache

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.cache.caches import keep_launchers_in_memory
from chunkfold.kernels.cache.entries import drop, read_entry, write_entry
from chunkfold.kernels.cache.folders import cache_folder
from chunkfold.kernels.device.callers_queue import CallersQueue, runs_here
from chunkfold.kernels.device.device import Device
from chunkfold.kernels.device.host import all_devices, handle_of
from chunkfold.kernels.errors import BuildError, DeviceError, DeviceMemoryError
from chunkfold.kernels.opencl.opencl_code import library
from chunkfold.kernels.program.assemble import assemble, located, nameless
from chunkfold.kernels.program.build_options import build_options, division, language_pragmas
from chunkfold.kernels.program.header import divides, needs_fp64
from chunkfold.kernels.program.options import KEYED, Tuning

_KEPT = 4
"""Buffers kept that nobody has."""
_NO_MEMORY = (
    cl.status_code.MEM_OBJECT_ALLOCATION_FAILURE,
    cl.status_code.OUT_OF_RESOURCES,
    cl.status_code.OUT_OF_HOST_MEMORY,
)
"""Status codes of devices without memory; some drivers call other failures so, too."""

# Compilers chatter when all is well; when it is not, their log is in the BuildError.
warnings.filterwarnings("ignore", category=cl.CompilerWarning)


class DeviceContext:
    """One device, one context. Programs are built once and kept.

    Raises
    ------
    DeviceError
        If the device is not there or cannot be opened.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        keep_launchers_in_memory()
        self.handle = handle_of(device)
        with device_errors(device, "opening the device"):
            self.context = cl.Context([self.handle])
        self.landings: deque[Any] = deque()
        """Memory for results that nobody has: see `fold.readback`."""
        self.places: deque[Any] = deque(maxlen=_KEPT)
        """Buffers for results that nobody has: see `fold.readback`."""
        self._programs: dict[object, cl.Program] = {}
        self._lock = threading.Lock()

    @cached_property
    def takes_pointers(self) -> bool:
        """True if kernels take pointers to any host memory: fine-grained system SVM."""
        try:
            able = self.handle.svm_capabilities
        except cl.Error:  # before OpenCL 2.0
            return False
        return bool(able & cl.device_svm_capabilities.FINE_GRAIN_SYSTEM)

    def queue(self, *, here: bool = False) -> cl.CommandQueue:
        """Return a new in-order queue with profiling.

        `here`: what is enqueued runs on the thread that does so, if the device can: it returns when
        that is done, whenever that is. For threads that others watch over.
        """
        with device_errors(self.device, "making a queue"):
            if here and runs_here(self.device):
                return CallersQueue(self.context, self.handle)
            return cl.CommandQueue(
                self.context, self.handle, cl.command_queue_properties.PROFILING_ENABLE
            )

    def program(self, kernel_file: str, accumulator: Accumulator, tuning: Tuning) -> cl.Program:
        """Build a kernel file for a reduction and a tuning, or return it built before.

        Raises
        ------
        BuildError
            If it does not build.
        """
        accumulator = seen_by(kernel_file, accumulator)
        key = (kernel_file, accumulator, tuning.options(kernel_file), build_options(self.device))
        with self._lock:
            if key not in self._programs:
                self._programs[key] = self._build(kernel_file, accumulator, tuning)
            return self._programs[key]

    def standalone(self, *kernel_files: str, options: tuple[str, ...] = ()) -> cl.Program:
        """Build kernel files that are of no reduction, as one; or return them built before.

        Raises
        ------
        BuildError
            If it does not build.
        """
        key = (kernel_files, options, build_options(self.device))
        with self._lock:
            if key not in self._programs:
                source = "\n".join(map(library, kernel_files))
                self._programs[key] = self._built(source, (*build_options(self.device), *options))
            return self._programs[key]

    def _build(self, kernel_file: str, accumulator: Accumulator, tuning: Tuning) -> cl.Program:
        source = program_source(self.device, kernel_file, accumulator, tuning)
        return self._built(source, program_options(self.device, kernel_file, tuning))

    def _built(self, source: str, options: tuple[str, ...]) -> cl.Program:
        try:
            return built(self.context, self.handle, source, options, cache_folder("programs"))
        except cl.RuntimeError as error:
            raise BuildError(_log(str(error), source)) from error


def seen_by(kernel_file: str, accumulator: Accumulator) -> Accumulator:
    """Return what a kernel file is compiled for, to fold into an accumulator."""
    return accumulator.for_passes() if kernel_file == "passes.cl" else accumulator


def program_options(device: Device, kernel_file: str, tuning: Tuning) -> tuple[str, ...]:
    """Return the compiler's options for a kernel file on a device."""
    on_cpu = f"-DCHF_CPU={int(device.kind == 'cpu')}"
    return (*build_options(device), *tuning.options(kernel_file), on_cpu)


def program_source(
    device: Device, kernel_file: str, accumulator: Accumulator, tuning: Tuning
) -> str:
    """Return the text that is compiled for a reduction on a device.

    Raises
    ------
    DeviceError
        If the reduction needs float64 and the device has none, or more constants than it has room.
    """
    if accumulator.constant_bytes > device.constant_bytes:
        raise DeviceError(
            f"{accumulator.origins} needs {accumulator.constant_bytes:,} bytes of constants, but "
            f"{device} has {device.constant_bytes:,}; use fewer edges, or smaller arrays"
        )
    lacks = device.lacks("fp64") if needs_fp64(accumulator) else None
    if lacks:
        able = [str(other) for other in all_devices() if other.fp64]
        raise DeviceError(
            f"{accumulator.origins} of {', '.join(accumulator.stored)} needs float64, which "
            f"{device} lacks ({lacks}); "
            f"{'these have it: ' + '; '.join(able) if able else 'no device here has it'}"
        )
    halves = (accumulator.tables or kernel_file in KEYED) and device.lacks("int64_atomics")
    return (
        language_pragmas(device, tuning.variant)
        + (division(device) if divides(accumulator) else "")
        + ("#define CHF_INT64_ATOMICS 0\n" if halves else "")
        + assemble(kernel_file, accumulator)
    )


def _log(text: str, source: str) -> str:
    """Take the compiler's own words out of what pyopencl makes of them, with true line numbers.

    NVIDIA's compiler ignores `#line` and counts from the start of the source.
    """
    _, found, log = text.partition("Build on <")
    log = log.partition("\n")[2] if found else text
    own = log.partition("\n(options:")[0].strip()
    return re.sub(r"<kernel>:(\d+)", lambda m: located(source, int(m[1])), own)


class device_errors:  # noqa: N801 # a context, as those of contextlib are called
    """Turn OpenCL's errors into DeviceError with device, what was being done, and code.

    Every launch goes through it, and a generator would take longer.
    """

    __slots__ = ("_device", "_doing")

    def __init__(self, device: Device, doing: str) -> None:
        self._device, self._doing = device, doing

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, cl.Error):
            raise failure(self._device, self._doing, getattr(error, "code", 0)) from error
        if isinstance(error, MemoryError):  # pyopencl raises its own subclass of cl.Error and this
            raise DeviceMemoryError(
                f"{self._device} ran out of memory while {self._doing}: {error}"
            ) from error


def failure(device: Device, doing: str, status: int) -> DeviceError:
    """Return the error for what a device did when a command ended by an OpenCL status code."""
    kind = DeviceMemoryError if status in _NO_MEMORY else DeviceError
    return kind(f"{device} failed while {doing}: {status_text(status)}")


def status_text(status: int) -> str:
    """Name an OpenCL status code.

    >>> status_text(-5)
    'OUT_OF_RESOURCES (-5)'
    """
    codes: Any = cl.status_code
    return f"{codes.to_string(status, '%d')} ({status})"


def built(
    context: cl.Context, handle: cl.Device, source: str, options: Sequence[str], folder: Path
) -> cl.Program:
    """Build a program for a device, from the binary kept in a folder if there is one.

    Raises
    ------
    pyopencl.RuntimeError
        If it does not build.
    """
    if has_src_build_cache(handle):  # the driver keeps what it built itself
        return _from_source(context, handle, source, options)
    path = folder / _key(handle, source, options)
    binary = read_entry(path)
    if binary is not None:
        try:
            kept: cl.Program = cl.Program(context, [handle], [binary])
            return _built(kept, handle, options)
        except cl.Error:
            drop(path, "is not taken by the driver")
    program = _from_source(context, handle, source, options)
    binaries: Any = program.get_info(cl.program_info.BINARIES)
    (binary,) = binaries
    if binary:
        write_entry(path, binary)
    return program


def _from_source(
    context: cl.Context, handle: cl.Device, source: str, options: Sequence[str]
) -> cl.Program:
    return _built(cl.Program(context, source), handle, options)


def _built(program: Any, handle: cl.Device, options: Sequence[str]) -> cl.Program:
    # False: not in pyopencl's own cache, which its annotations forget.
    made: cl.Program = program.build(list(options), devices=[handle], cache_dir=False)
    return made


def _key(handle: cl.Device, source: str, options: Sequence[str]) -> str:
    """Digest of all that decides what is built."""
    platform = handle.platform
    parts = [
        (platform.vendor, platform.name, platform.version),
        (handle.vendor, handle.name, handle.version, handle.driver_version),
        cl.VERSION,
        list(options),
        nameless(source),
    ]
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]
