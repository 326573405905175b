"""`chunkfold worker`: join a scheduler with this host's devices."""

from __future__ import annotations

import asyncio
import math
import signal

import click

from chunkfold.cluster import chosen_devices, serve
from chunkfold.kernels import Device
from chunkfold.planning import THREADS
from chunkfold.workflows.cli import options
from chunkfold.workflows.style import err


@click.command()
@click.argument("scheduler")
@options.devices
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    default=THREADS,
    show_default=True,
    help="Blocks that a worker runs at once.",
)
@click.option(
    "--memory",
    type=click.FloatRange(min=0, min_open=True),
    help="GiB per worker.  [default: this host's, shared out]",
)
def command(scheduler: str, specs: tuple[str, ...], threads: int, memory: float | None) -> None:
    """Join the Dask scheduler at SCHEDULER with one worker per OpenCL device of this host.

    Runs until the scheduler goes away, or until SIGINT or SIGTERM.

    \b
    Examples:
      chunkfold worker tcp://10.0.0.1:8786
      chunkfold worker tcp://10.0.0.1:8786 --device gpu
    """
    found = chosen_devices(list(specs) or None)
    for device in found:
        err.print(f"worker for {device}, UUID {device.uuid}", markup=False)
    limit = None if memory is None or math.isnan(memory) else int(memory * 2**30)
    asyncio.run(_serve(scheduler, found, threads, limit))


async def _serve(scheduler: str, found: list[Device], threads: int, limit: int | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await serve(scheduler, found, threads=threads, memory_limit=limit, stop=stop)
