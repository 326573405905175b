"""`chunkfold worker`: join a scheduler with this host's devices."""

from __future__ import annotations

import asyncio
import math
import signal

import click

from chunkfold.cluster.joining import serve
from chunkfold.cluster.local_cluster import chosen_devices
from chunkfold.near_cores import cores_text
from chunkfold.planning.workers import THREADS, Post, posts
from chunkfold.workflows.cli import common_options
from chunkfold.workflows.cli.numbers import Positive, Whole
from chunkfold.workflows.terminal.consoles import err


@click.command()
@click.argument("scheduler")
@common_options.devices
@common_options.tls
@click.option(
    "--threads",
    type=Whole(min=1),
    default=THREADS,
    show_default=True,
    help="Blocks that a worker runs at once.",
)
@click.option(
    "--memory",
    type=Positive(),
    help="Memory per worker, in GiB.  [default: an equal share of this host's]",
)
@click.option(
    "--workers-per-device",
    type=Whole(min=1),
    help="Processes per device: they share a GPU, or have a part of a CPU each.  [default: one "
    "per 8 cores, of a GPU 4 at most]",
)
def worker_command(
    scheduler: str,
    specs: tuple[str, ...],
    threads: int,
    memory: float | None,
    workers_per_device: int | None,
) -> None:
    """Join the Dask scheduler at SCHEDULER with workers for each OpenCL device of this host.

    It runs until the scheduler ends, or until SIGINT or SIGTERM. If this host reports which cores
    are near a GPU, its workers use only these, and only cores that this process may use (taskset,
    Slurm, a container). With DASK_CHUNKFOLD__WORKERS__NEAR_CORES=false they use all.

    \b
    Examples:
      chunkfold worker tcp://10.0.0.1:8786
      chunkfold worker tcp://10.0.0.1:8786 --device gpu
      DASK_CHUNKFOLD__WORKERS__NEAR_CORES=false chunkfold worker tcp://10.0.0.1:8786
      chunkfold worker tls://10.0.0.1:8786 --tls-ca-file ca.pem --tls-cert w.pem --tls-key w.key
    """
    limit = None if memory is None or math.isnan(memory) else int(memory * 2**30)
    manned = posts(chosen_devices(list(specs) or None), workers_per_device, limit)
    for post in manned:
        kept = f", on cores {cores_text(post.cores)}" if post.cores else ""
        err.print(f"worker {post.name} for {post.device}{kept}", markup=False)
    asyncio.run(_serve(scheduler, manned, threads))


async def _serve(scheduler: str, manned: list[Post], threads: int) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await serve(scheduler, manned, threads=threads, stop=stop)
