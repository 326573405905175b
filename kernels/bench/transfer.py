"""Rates of uploads to a device, in each way, and of folds behind them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyopencl as cl

from chunkfold.kernels.bench.peers import device_copy, folding, repeated
from chunkfold.kernels.bench.timing import Timed, medians
from chunkfold.kernels.binding.binding import bind
from chunkfold.kernels.catalogue.named import as_monoid
from chunkfold.kernels.device.device import Device
from chunkfold.kernels.fold.fold import Fold
from chunkfold.kernels.fold.staging import pinned
from chunkfold.kernels.fold.waiting import wait
from chunkfold.kernels.geometry import box
from chunkfold.kernels.program.device_context import DeviceContext, device_errors
from chunkfold.kernels.tuning.tuning_choice import choose

IN_PLACE = "in place"
Move = Callable[[], cl.Buffer]
"""Uploads the host's memory, waits, and returns the buffer."""


@dataclass(frozen=True)
class Transfer:
    """One device's rates, bytes per second, in one set of interleaved rounds."""

    device: str
    nbytes: int
    moved: dict[str, float]
    """Rates of uploads, by way."""
    folded: dict[str, float]
    """Rates of uploads and sums, by way; and of sums of elements in the device's memory."""
    used: str
    """The way that reductions use."""


def bench_transfer(device: Device, nbytes: int, rounds: int) -> Transfer:
    """Measure every way from host memory to a device.

    Raises
    ------
    DeviceError
        If the device cannot hold `nbytes`.
    """
    opened = DeviceContext(device)
    memory = repeated(np.arange(1024, dtype=np.float32), (nbytes // 4,))
    with device_errors(device, f"pinning {memory.nbytes} bytes"):
        fast = pinned(opened, opened.queue(), memory.nbytes)
    fast[:] = memory.view(np.uint8)
    moves = {
        "pageable": _copied(opened, memory),
        "pinned": _copied(opened, fast),
        "mapped": _mapped(opened, memory),
        "zero copy": _shown(opened, memory),
    }
    accumulator = bind([as_monoid("sum")], [memory.dtype], fp64=device.fp64).accumulator
    fold = Fold(opened, accumulator, choose(device, accumulator, kernels=("flat",)))
    whole = box(memory.shape, (0,))

    def folded(move: Move) -> Timed:
        def run() -> object:
            return folding(fold, move(), whole)()

        return run

    contenders: dict[str, Timed] = {f"move {name}": move for name, move in moves.items()}
    contenders |= {f"fold {name}": folded(move) for name, move in moves.items()}
    there = device_copy(opened, memory)
    contenders[f"fold {IN_PLACE}"] = folding(fold, there, whole)
    seconds = medians(contenders, rounds)
    rates = {name: memory.nbytes / value for name, value in seconds.items()}
    # Nothing moves where a buffer is only a view.
    shown = "zero copy" if device.unified_memory else ""
    return Transfer(
        device.spec,
        memory.nbytes,
        {name: rates[f"move {name}"] for name in moves if name != shown},
        {name: rates[f"fold {name}"] for name in (*moves, IN_PLACE)},
        "zero copy" if device.unified_memory else "pinned",
    )


def _copied(opened: DeviceContext, memory: np.ndarray) -> Move:
    """Copy from memory as it is into the device's."""
    queue, buffer = opened.queue(), _room(opened, memory.nbytes)

    def move() -> cl.Buffer:
        with device_errors(opened.device, "uploading"):
            event = cl.enqueue_copy(queue, buffer, memory, is_blocking=False)
            queue.flush()
        wait(opened.device, event, "uploading")
        return buffer

    return move


def _mapped(opened: DeviceContext, memory: np.ndarray) -> Move:
    """Return a move that maps the device's memory, copies into it, and unmaps it."""
    queue, buffer = opened.queue(), _room(opened, memory.nbytes)
    flags: Any = cl.map_flags.WRITE_INVALIDATE_REGION

    def move() -> cl.Buffer:
        with device_errors(opened.device, "mapping a buffer"):
            seen, event = cl.enqueue_map_buffer(
                queue, buffer, flags, 0, memory.shape, memory.dtype, is_blocking=False
            )
            queue.flush()
            wait(opened.device, event, "mapping a buffer")
            seen[:] = memory
            event = seen.base.release(queue)
            queue.flush()
        wait(opened.device, event, "unmapping a buffer")
        return buffer

    return move


def _shown(opened: DeviceContext, memory: np.ndarray) -> Move:
    """Make a buffer over the memory, anew each time: it is to show what the memory holds then."""
    flags = cl.mem_flags.READ_ONLY | cl.mem_flags.USE_HOST_PTR

    def move() -> cl.Buffer:
        with device_errors(opened.device, "showing memory"):
            return cl.Buffer(opened.context, flags, hostbuf=memory)

    return move


def _room(opened: DeviceContext, nbytes: int) -> cl.Buffer:
    with device_errors(opened.device, f"allocating {nbytes} bytes"):
        return cl.Buffer(opened.context, cl.mem_flags.READ_ONLY, nbytes)
