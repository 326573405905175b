"""What many chunks cost: listing, planning, scheduling, and passing over those not stored.

python benchmarks/scale.py [--chunks 1000 100000 1000000] [--tasks 1000]
"""

from __future__ import annotations

import argparse
import pickle
import statistics
import tempfile
import threading
import time
import tracemalloc
from pathlib import Path

import numpy as np
import zarr

import chunkfold as cf
from chunkfold.cluster.joining import connect
from chunkfold.planning import blocks, planner
from chunkfold.planning.options import Options
from chunkfold.planning.plan import Plan
from chunkfold.planning.planner import make_plan
from chunkfold.planning.resolve import resolve
from chunkfold.planning.workers import Terms
from chunkfold.sources.chunk_index import Listing, list_objects
from chunkfold.sources.opening import open_source

CHUNK = (1, 512, 512)
LISTED = 20_000


def planned(chunks: int, stored: str, axis: int | None) -> tuple[float, float, Plan]:
    """Plan a mean over chunks of 1 MiB; return seconds, peak MB of memory, and the plan."""
    array = zarr.create_array(
        {}, shape=(chunks // 10, 5 * CHUNK[1], 2 * CHUNK[2]), chunks=CHUNK, dtype="f4"
    )
    source = open_source(array)
    request = resolve(source, Options("mean", axis=axis))
    grid = (chunks // 10, 5, 2)
    share = {"all": 1.0, "half": 0.5, "one in 1,000": 0.001}[stored]
    sizes = np.where(np.random.default_rng(0).random(grid) < share, 1 << 20, 0)
    given = (request, [Listing(sizes, 5)], Terms(workers=2, threads=2))
    make_plan(*given)
    began = time.perf_counter()
    plan = make_plan(*given)
    seconds = time.perf_counter() - began
    planning_caches_cleared()
    tracemalloc.start()
    make_plan(*given)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return seconds, peak / 1e6, plan


def planning_caches_cleared() -> None:
    """Forget the pieces of axes, so that their memory is counted."""
    from chunkfold.grid import _pieces, _touched

    _pieces.cache_clear()
    _touched.cache_clear()


def listing(folder: Path) -> float:
    """Return the microseconds that one stored chunk takes to be found on disk."""
    array = zarr.create_array(
        str(folder / "many"), shape=(LISTED,), chunks=(1,), dtype="i1", compressors=None
    )
    (folder / "many/c").mkdir()
    for number in range(LISTED):
        (folder / f"many/c/{number}").write_bytes(b"\1")
    began = time.perf_counter()
    found = list_objects(array)
    seconds = time.perf_counter() - began
    assert found is not None
    assert found.sizes.all()
    return 1e6 * seconds / LISTED


def passing_over(folder: Path, rounds: int = 5) -> str:
    """Time sums of arrays that have all of 1,000 chunks, and 1,000 of 1,000,000."""
    rng = np.random.default_rng(0)
    full = zarr.create_array(
        str(folder / "all"), shape=(100, 5 * CHUNK[1], 2 * CHUNK[2]), chunks=CHUNK, dtype="f4"
    )
    full[...] = np.rint(rng.normal(280, 15, full.shape) * 100) / 100
    files = sorted(file for file in (folder / "all/c").rglob("*") if file.is_file())
    grid = (100_000, 5, 2)
    middle, every = 500_000, 1_000_000
    chosen = {
        "in a row": np.arange(middle, middle + len(files)),
        "scattered": np.sort(rng.choice(every, len(files), replace=False)),
    }
    for name, numbers in chosen.items():
        shape = (grid[0], *full.shape[1:])
        made = zarr.create_array(str(folder / name), shape=shape, chunks=CHUNK, dtype="f4")
        places = np.transpose(np.unravel_index(numbers, grid)).tolist()
        for file, place in zip(files, places, strict=True):
            target = folder / name / made.metadata.encode_chunk_key(tuple(place))
            target.parent.mkdir(parents=True, exist_ok=True)
            target.hardlink_to(file)
    taken: dict[str, list[float]] = {"all": []} | {name: [] for name in chosen}
    with (
        cf.LocalOpenCLCluster(dashboard_address=None) as cluster,
        connect(cluster.scheduler_address) as client,
    ):
        for _ in range(rounds + 1):
            for name, times in taken.items():
                began = time.perf_counter()
                cf.reduce(folder / name, client=client)
                times.append(time.perf_counter() - began)
    seconds = {name: statistics.median(times[1:]) for name, times in taken.items()}
    others = ", ".join(f"{name} {seconds[name]:.2f} s" for name in chosen)
    return f"{seconds['all']:.2f} s where there are no others; of 1,000,000: {others}"


UNFINISHED = {"no-worker", "processing", "queued", "waiting"}


def scheduling(folder: Path, tasks: int) -> tuple[float, list[int], int]:
    """Return milliseconds a task, most tasks that the scheduler held at once, and the window.

    Of those tasks first the ones that are to be done; then also those whose results are there; then
    also those that were let go of, whose records Dask keeps to run them again if a worker dies.
    """
    array = zarr.create_array(
        str(folder / "small"), shape=(tasks * 1024,), chunks=(1024,), dtype="i4", compressors=None
    )
    array[:] = 1
    planner.LEAF_BYTES, blocks.BLOCK_BYTES = 4096, (4096, 4096)
    most, ended = [0, 0, 0], threading.Event()
    with (
        cf.LocalOpenCLCluster(dashboard_address=None) as cluster,
        connect(cluster.scheduler_address) as client,
    ):

        def watch() -> None:
            while not ended.wait(0.005):
                states = [task.state for task in list(cluster.scheduler.tasks.values())]
                unfinished = sum(state in UNFINISHED for state in states)
                alive = len(states) - states.count("released")
                most[:] = map(max, most, (unfinished, alive, len(states)))

        cf.reduce(folder / "small", selection=slice(0, 4096), client=client)
        threading.Thread(target=watch, daemon=True).start()
        began = time.perf_counter()
        run = cf.submit(folder / "small", client=client)
        assert run.result(600) == tasks * 1024
        seconds = time.perf_counter() - began
        ended.set()
        assert len(run.plan.blocks) >= tasks - 1, len(run.plan.blocks)
        window = 2 * run.plan.terms.workers * run.plan.threads
    return 1e3 * seconds / len(run.plan.blocks), most, window


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--chunks", type=int, nargs="*", default=[1000, 100_000, 1_000_000])
    parser.add_argument("--tasks", type=int, default=1000)
    options = parser.parse_args()
    print(f"{'chunks of 1 MiB':>16} {'stored':>13} {'axis':>5} {'leaves':>10} {'blocks':>7} "
          f"{'plan s':>7} {'peak MB':>8} {'largest task B':>15}")  # fmt: skip
    for chunks in options.chunks:
        for stored in ("all", "half", "one in 1,000"):
            for axis in (None, 0):
                seconds, peak, plan = planned(chunks, stored, axis)
                leaves = plan.layout.tiles * plan.layout.parts
                task = max(len(pickle.dumps(block)) for block in plan.blocks)
                print(f"{chunks:>16,} {stored:>13} {axis!s:>5} {leaves:>10,} "
                      f"{len(plan.blocks):>7,} {seconds:>7.3f} {peak:>8.1f} "
                      f"{task:>15,}")  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="chunkfold-bench-") as folder:
        print(f"listing: {listing(Path(folder)):.1f} us a stored chunk on a local disk")
        print(f"reading 1,000 chunks of 1 MiB: {passing_over(Path(folder))}")
        each, most, window = scheduling(Path(folder), options.tasks)
        print(f"scheduling: {each:.2f} ms a task of one 4 KiB chunk; of {options.tasks:,} the "
              f"scheduler held at most {most[0]} that were to be done (window {window}), {most[1]} "
              f"with those that had results, {most[2]:,} with records of the others")  # fmt: skip


if __name__ == "__main__":
    main()
