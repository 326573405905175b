"""A device's read ceiling: the best that kernels which only read can do."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources

import numpy as np
import pyopencl as cl

from chunkfold.kernels.bench.timing import Timed
from chunkfold.kernels.fold.waiting import wait
from chunkfold.kernels.program.build_options import language_options
from chunkfold.kernels.program.device_context import DeviceContext, device_errors


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
