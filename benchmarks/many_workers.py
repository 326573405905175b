"""Measure the cost of many workers to a Dask scheduler: its messages and its time for each block.

python benchmarks/many_workers.py [--workers 1 8 64 128] [--tasks 1000]

Blocks have one chunk of 4 KiB, so that workers have little to do: they share one process and one
CPU device. The scheduler has a process of its own, whose time is taken: it does not depend on what
else runs here as the rate does.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import functools
import inspect
import logging
import multiprocessing
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import zarr
from distributed import Client, Worker

import chunkfold as cf
from chunkfold.cluster.local_cluster import calm_dask
from chunkfold.planning import blocks, planner
from chunkfold.worker.worker_device import RESOURCE, DevicePlugin


class SchedulerCounts(NamedTuple):
    """Counts of a scheduler, from its beginning on."""

    taken: Counter[str]
    """Messages and requests that came, by what they are for."""
    sent: int
    """Messages that it sent, without answers to requests."""
    seconds: float
    """Its process's own time."""


class WorkersRow(NamedTuple):
    """The cost of a block with so many workers."""

    workers: int
    messages: float
    """Taken and sent by the scheduler."""
    scheduler_ms: float
    """Milliseconds of the scheduler's process."""
    client_ms: float
    """Milliseconds of the process that called, with planning and finishing."""
    rate: float
    """Blocks a second, where all share this machine."""
    idle: float
    """The part of a core that the scheduler takes while nothing runs."""
    taken: dict[str, float]
    """Messages that it took, by what they are for: most first."""


def count_messages(dask_scheduler: Any) -> None:
    """Count what a scheduler takes from now on. Runs in it."""
    taken = dask_scheduler.chunkfold_taken = collections.Counter()

    def counted(name: str, handler: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(handler)
        def passed(*given: Any, **named: Any) -> Any:
            taken[name] += 1
            return handler(*given, **named)

        @functools.wraps(handler)
        async def awaited(*given: Any, **named: Any) -> Any:
            taken[name] += 1
            return await handler(*given, **named)

        return awaited if inspect.iscoroutinefunction(handler) else passed

    for handlers in (dask_scheduler.stream_handlers, dask_scheduler.handlers):
        for name, handler in handlers.items():
            handlers[name] = counted(name, handler)


def scheduler_counts(dask_scheduler: Any) -> tuple[dict[str, int], int, float]:
    """Return what is counted. Runs in the scheduler."""
    comms = [*dask_scheduler.stream_comms.values(), *dask_scheduler.client_comms.values()]
    sent = sum(comm.message_count for comm in comms)
    return dict(dask_scheduler.chunkfold_taken), sent, time.process_time()


def counts_of(client: Client) -> SchedulerCounts:
    """Ask the scheduler."""
    taken, sent, seconds = client.run_on_scheduler(scheduler_counts)
    return SchedulerCounts(Counter(taken), sent, seconds)


def run_workers(address: str, count: int) -> None:
    """Join a scheduler with so many workers of this one process, which share a CPU device."""
    device = cf.devices("cpu")[0]

    async def joined() -> None:
        workers = [
            Worker(
                address,
                nthreads=2,
                name=f"worker-{number}",
                resources={RESOURCE: 2},
                plugins={DevicePlugin(device, 2, frozenset())},
                dashboard=False,
            )
            for number in range(count)
        ]
        await asyncio.gather(*workers)
        await asyncio.gather(*(worker.finished() for worker in workers))

    logging.getLogger("distributed").setLevel(logging.ERROR)
    calm_dask()
    asyncio.run(joined())


@contextlib.contextmanager
def simulated(folder: Path, count: int) -> Iterator[Client]:
    """Yield a client of a scheduler in a process of its own, with workers in another."""
    file = folder / f"scheduler-{count}.json"
    command = [str(Path(sys.executable).parent / "dask"), "scheduler", "--host", "127.0.0.1"]
    options = ["--port", "0", "--no-dashboard", "--scheduler-file", str(file)]
    scheduler = subprocess.Popen([*command, *options], stderr=subprocess.DEVNULL)
    workers: multiprocessing.Process | None = None
    try:
        for _ in range(600):
            if file.exists():
                break
            time.sleep(0.1)
        with Client(scheduler_file=str(file), set_as_default=False) as client:
            client.run_on_scheduler(count_messages)
            address = client.scheduler_info()["address"]
            spawned: Any = multiprocessing.get_context("spawn")
            workers = spawned.Process(target=run_workers, args=(address, count), daemon=True)
            assert workers is not None
            workers.start()
            client.wait_for_workers(count, timeout=300)
            yield client
    finally:
        if workers is not None:
            workers.kill()
            workers.join(60)
        scheduler.terminate()
        scheduler.wait(60)


def crowd(folder: Path, tasks: int, counts: Sequence[int], rounds: int = 3) -> Iterator[WorkersRow]:
    """Measure blocks of one chunk of 4 KiB with so many workers; medians of rounds."""
    array = zarr.create_array(
        str(folder / "crowd"), shape=(tasks * 1024,), chunks=(1024,), dtype="i4", compressors=None
    )
    array[:] = 1
    planner.LEAF_BYTES, blocks.BLOCK_BYTES = 4096, (4096, 4096)
    for count in counts:
        with simulated(folder, count) as client:
            idle_s = 5.0
            cf.reduce(folder / "crowd", client=client)  # kernels are built and kept
            before = counts_of(client)
            time.sleep(idle_s)
            idle = (counts_of(client).seconds - before.seconds) / idle_s
            found = []
            for _ in range(rounds):
                before, mine, began = counts_of(client), time.process_time(), time.perf_counter()
                run = cf.submit(folder / "crowd", client=client)
                assert run.result(600) == tasks * 1024
                seconds, own = time.perf_counter() - began, time.process_time() - mine
                after, done = counts_of(client), len(run.plan.blocks)
                assert done >= tasks - 1, done
                taken = after.taken - before.taken
                handled = taken.total() + after.sent - before.sent
                found.append(
                    (
                        handled / done,
                        1e3 * (after.seconds - before.seconds) / done,
                        1e3 * own / done,
                        done / seconds,
                    )
                )
            medians = map(statistics.median, zip(*found, strict=True))
            each = {name: number / done for name, number in taken.most_common(8)}
            yield WorkersRow(count, *medians, idle, each)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 8, 64, 128])
    parser.add_argument("--tasks", type=int, default=1000)
    options = parser.parse_args()
    print(f"{'workers':>7} {'messages a block':>16} {'scheduler ms a block':>20} "
          f"{'client ms a block':>17} {'blocks/s here':>13} {'idle':>6}")  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="chunkfold-bench-") as folder:
        for row in crowd(Path(folder), options.tasks, options.workers):
            print(f"{row.workers:>7} {row.messages:>16.1f} {row.scheduler_ms:>20.2f} "
                  f"{row.client_ms:>17.2f} {row.rate:>13.0f} {row.idle:>6.1%}",
                  flush=True)  # fmt: skip
        told = ", ".join(f"{name} {number:.2f}" for name, number in row.taken.items())
        print(f"of these it took, with {row.workers} workers: {told}")


if __name__ == "__main__":
    main()
