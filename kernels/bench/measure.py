"""The benchmarks: rows of GB/s, each with the read ceiling of the same rounds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources

import numpy as np
import pyopencl as cl

from chunkfold.kernels.bench.peers import (
    device_copy,
    in_cache,
    numpy_of,
    ours,
    reduction_kernel,
    repeated,
    rung,
)
from chunkfold.kernels.bench.timing import Timed, medians
from chunkfold.kernels.binding.binding import bind
from chunkfold.kernels.catalogue.named import as_monoid
from chunkfold.kernels.device.device import Device
from chunkfold.kernels.errors import DeviceError
from chunkfold.kernels.fold.waiting import wait
from chunkfold.kernels.ladder import LADDER
from chunkfold.kernels.program.build_options import language_options
from chunkfold.kernels.program.device_context import DeviceContext, device_errors

OURS, NUMPY, REDUCTION_KERNEL, CEILING = "chunkfold", "numpy", "ReductionKernel", "read ceiling"
IN_CACHE = "in a cache"
"""The row of our fold of elements in a cache: rates near it are bound by arithmetic."""
CROSSOVER_BYTES = (1 << 10, 1 << 26)
"""Least and most bytes at which a device is compared with NumPy."""
_PATTERN = 1 << 22


@dataclass(frozen=True)
class Row:
    """One reduction on one device, in one set of interleaved rounds."""

    device: str
    op: str
    dtype: str
    nbytes: int
    rates: dict[str, float]
    """Bytes per second of every contender, the read ceiling among them."""
    left_out: dict[str, str]
    """Contenders that could not take part, and why."""

    def share(self, name: str = OURS, of: str = CEILING) -> float:
        """Return a contender's share of a ceiling."""
        return self.rates[name] / self.rates[of]


def bench_kernels(
    device: Device, ops: Sequence[str], dtypes: Sequence[str], nbytes: int, rounds: int
) -> Iterator[Row]:
    """Measure production kernels and NumPy and pyopencl's own reduction, op by op.

    Raises
    ------
    DeviceError
        If the device cannot hold `nbytes` or lacks a dtype.
    MonoidError
        If there is no such op, or not for a dtype; found before anything is measured.
    """
    for op, dtype in itertools.product(ops, map(_measurable, dtypes)):
        bind([as_monoid(name) for name in op.split("+")], [dtype])
    opened = DeviceContext(device)
    for dtype in dtypes:
        array, buffer = _data(opened, dtype, nbytes)
        ceiling = best_read(opened, buffer, array.nbytes)
        for op in ops:
            contenders = {
                OURS: ours(opened, op, array, buffer),
                CEILING: ceiling,
                IN_CACHE: in_cache(opened, op, array, buffer),
                NUMPY: numpy_of(op, array),
                REDUCTION_KERNEL: reduction_kernel(opened, op, array, buffer),
            }
            yield _row(device, op, array, contenders, {}, rounds)


def bench_ladder(device: Device, op: str, dtype: str, nbytes: int, rounds: int) -> Row:
    """Measure every rung of the ladder and the production kernel; raises as `bench_kernels`."""
    opened = DeviceContext(device)
    array, buffer = _data(opened, dtype, nbytes)
    contenders: dict[str, Timed | None] = {}
    left_out = {}
    for step in LADDER:
        made = rung(opened, step, op, array, buffer)
        name = f"{step.number:2d} {step.what}"
        if isinstance(made, str):
            left_out[name] = made
        else:
            contenders[name] = made
    contenders[OURS] = ours(opened, op, array, buffer)
    contenders[REDUCTION_KERNEL] = reduction_kernel(opened, op, array, buffer)
    contenders[NUMPY] = numpy_of(op, array)
    contenders[CEILING] = best_read(opened, buffer, array.nbytes)
    return _row(device, op, array, contenders, left_out, rounds)


def crossover(device: Device, op: str, dtype: str, rounds: int) -> int | None:
    """Return the bytes from which a device is faster than NumPy, data in place; None if never."""
    opened = DeviceContext(device)
    least, (nbytes, most) = None, CROSSOVER_BYTES
    for size in (most >> halvings for halvings in range((most // nbytes).bit_length())):
        array, buffer = _data(opened, dtype, size)
        numpy = numpy_of(op, array)
        if numpy is None:
            return None
        seconds = medians({OURS: ours(opened, op, array, buffer), NUMPY: numpy}, rounds)
        if seconds[OURS] > seconds[NUMPY]:
            break
        least = array.nbytes
    return least


def _row(
    device: Device,
    op: str,
    array: np.ndarray,
    contenders: dict[str, Timed | None],
    left_out: dict[str, str],
    rounds: int,
) -> Row:
    seconds = medians({name: run for name, run in contenders.items() if run}, rounds)
    rates = {name: array.nbytes / value for name, value in seconds.items()}
    return Row(device.spec, op, array.dtype.name, array.nbytes, rates, left_out)


def best_read(opened: DeviceContext, buffer: cl.Buffer, nbytes: int) -> Timed:
    """Return the fastest of the read kernels, and of our own xor of 8-byte words.

    The latter is the most that a compiler made of reading on Intel's runtime.
    """
    kernels = dict(read_kernels(opened, buffer, nbytes))
    words = np.empty(nbytes // 8, np.uint64)  # never touched: it stands for the buffer's shape
    kernels["fold: xor"] = ours(opened, "bitwise_xor", words, buffer)
    seconds = medians(kernels, 3)
    return kernels[min(seconds, key=lambda name: seconds[name])]


def _data(opened: DeviceContext, dtype: str, nbytes: int) -> tuple[np.ndarray, cl.Buffer]:
    """Return small whole numbers in host memory, and a buffer of them."""
    device = opened.device
    if nbytes > device.max_alloc_bytes:
        raise DeviceError(
            f"{device} allows buffers of {device.max_alloc_bytes} bytes, not {nbytes}; measure less"
        )
    pattern = np.random.default_rng(0).integers(0, 100, _PATTERN).astype(_measurable(dtype))
    array = repeated(pattern, (nbytes // pattern.itemsize,))
    return array, device_copy(opened, array)


def _measurable(dtype: str) -> np.dtype:
    try:
        kind = np.dtype(dtype)
    except TypeError as error:
        raise DeviceError(f"dtype {dtype!r}: {error}") from None
    if kind.kind not in "iuf":
        raise DeviceError(f"dtype {dtype!r} is not measured: take an integer or a float")
    return kind


def read_kernels(
    opened: DeviceContext, buffer: cl.Buffer, nbytes: int
) -> Iterator[tuple[str, Timed]]:
    """Yield shapes of a kernel that reads the first `nbytes` of a buffer, by name.

    Raises
    ------
    DeviceError
        If the device refuses one.
    """
    device, queue = opened.device, opened.queue()
    text = resources.files("chunkfold.kernels").joinpath("cl/bench/read.cl").read_text()
    strip = device.kind == "cpu"
    locals_ = (1,) if strip else (256, 512, 1024)
    for local in locals_:
        if local > device.max_work_group_size:
            continue
        for width in (4, 8) if strip else (2,):
            options = [f"-DREAD_{k}={v}" for k, v in
                       (("LOCAL", local), ("WIDTH", width), ("STRIP", int(strip)))]  # fmt: skip
            with device_errors(device, "building the read kernel"):
                program = cl.Program(opened.context, text).build(
                    [*language_options(device), *options]
                )
            for groups in (4 * device.compute_units, 16 * device.compute_units):
                name = f"read: {groups} x {local} work-items, {width} ulongs a load"
                out = cl.Buffer(opened.context, cl.mem_flags.READ_WRITE, groups * local * 8)
                kernel = cl.Kernel(program, "read_all")

                def run(
                    kernel: cl.Kernel = kernel, items: int = groups * local, local: int = local,
                    count: int = nbytes // (8 * width), out: cl.Buffer = out,
                ) -> None:  # fmt: skip
                    event = kernel(queue, (items,), (local,), buffer, np.uint64(count), out)
                    queue.flush()
                    wait(device, event, "reading")

                yield name, run
