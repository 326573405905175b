"""The whole job: chunkfold beside its floor and its peers, on the same data and cores.

The floor is plain threads, one a core, that know which chunks there are, read and decode them into
a buffer that they use again, and, on CPUs, let NumPy add them up; it uses no zarr and nothing of
chunkfold.

    python benchmarks/ingest.py [--gib 2] [--rounds 5] [--device SPEC] [--only TEXT]
"""

from __future__ import annotations

import argparse
import itertools
import mmap
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import zarr
from distributed import Client, LocalCluster
from numcodecs import zstd
from peers import NAMES, peers

import chunkfold as cf
from chunkfold.cluster.joining import connect

PLANE = (721, 1440)
CORES = len(os.sched_getaffinity(0))


@dataclass(frozen=True)
class Dataset:
    """How temperatures are stored, and what is asked of them."""

    name: str
    layout: dict
    op: str = "sum"
    axis: int | None = None


LARGE = {"chunks": (8, *PLANE)}
SMALL = {"chunks": (1, 181, 1440)}
TILES = {"chunks": (8, 181, 180)}
DATASETS = (
    Dataset("zstd, 33 MB chunks", LARGE),
    Dataset("zstd, 1 MB chunks", SMALL),
    Dataset("uncompressed, 33 MB chunks", LARGE | {"compressors": None}),
    Dataset("zstd, shards of 1 MB chunks", SMALL | {"shards": (8, 724, 1440)}),
    Dataset("zstd, 1 MB tiles", TILES),
    Dataset("uncompressed, 1 MB tiles", TILES | {"compressors": None}),
    Dataset("zstd, 33 MB chunks, mean over axis 0", LARGE, "mean", 0),
    Dataset("zstd, 1 MB chunks, mean over axis 0", SMALL, "mean", 0),
    Dataset("zstd, 33 MB chunks, std over axis 0", LARGE, "std", 0),
)
Timed = Callable[[], object]


def write(path: Path, gib: float, layout: dict, step: float) -> zarr.Array:
    """Write temperatures, rounded to a step: of 0.01 K zstd shrinks them by half, of 1 K more.

    Of 0 they are not rounded: zstd takes little off them, and is soon done with small chunks.
    """
    days = max(8, int(gib * 2**30 / (4 * np.prod(PLANE))) // 8 * 8)
    made = zarr.create_array(str(path), shape=(days, *PLANE), dtype="float32", **layout)

    def fill(start: int) -> None:
        values = np.random.default_rng(start).normal(280, 15, (8, *PLANE))
        made[start : start + 8] = np.rint(values / step) * step if step else values

    with ThreadPoolExecutor(CORES) as threads:
        list(threads.map(fill, range(0, days, 8)))
    return made


Chunk = tuple[str, int, int]
"""Its file, its offset there, and its bytes."""


def chunks_in(array: zarr.Array, file: Path) -> Iterator[Chunk]:
    """Yield every chunk of a file."""
    size = file.stat().st_size
    if not array.shards:
        yield str(file), 0, size
        return
    inner = np.prod([a // b for a, b in zip(array.shards, array.chunks, strict=True)])
    with file.open("rb") as opened:
        opened.seek(size - 4 - 16 * int(inner))
        index = np.frombuffer(opened.read(16 * int(inner)), "<u8").reshape(-1, 2)
    yield from ((str(file), *place) for place in index[index[:, 1] != 2**64 - 1].tolist())


def at_a_page(nbytes: int) -> np.ndarray:
    """Return memory, uint8, that the kernel copies files into fast on any processor."""
    return np.frombuffer(mmap.mmap(-1, nbytes), np.uint8)


def floor(array: zarr.Array, chunks: list[Chunk], axis: int | None, *, adds: bool = True) -> None:
    """Read, decode and, on CPUs, reduce with threads that do nothing else."""
    raw, decoded = not array.compressors, int(np.prod(array.chunks)) * 4

    def share(number: int) -> None:
        out, stored = at_a_page(decoded), at_a_page(decoded + decoded // 8).data
        for file, offset, size in chunks[number::CORES]:
            memory = out.data if raw else stored[:size]
            descriptor = os.open(file, os.O_RDONLY)
            os.preadv(descriptor, [memory], offset)
            os.close(descriptor)
            if not raw:
                zstd.decompress(memory, out)
            values = out.view("f4")
            if adds and axis is None:
                np.sum(values)
            elif adds:
                np.sum(values.reshape(array.chunks), axis=axis)

    threads = [threading.Thread(target=share, args=(number,)) for number in range(CORES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def times_of(
    contenders: dict[str, Timed],
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
    before: Timed = lambda: None,
) -> dict[str, list[float]]:
    """Run contenders in turn, the first round to warm them up; `before` each is not timed."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for number, (name, run) in itertools.product(range(rounds + 1), contenders.items()):
        before()
        began = clock()
        run()
        if number:
            times[name].append(clock() - began)
    return times


def bench(dataset: Dataset, path: Path, options: argparse.Namespace, clients: dict) -> None:
    """Print one dataset's row."""
    array = write(path, options.gib, dataset.layout, options.step)
    op, axis = dataset.op, dataset.axis
    files = sorted(file for file in (path / "c").rglob("*") if file.is_file())
    chunks = [chunk for file in files for chunk in chunks_in(array, file)]

    def ours(mode: str) -> Timed:
        return lambda: cf.reduce(path, op, axis=axis, mode=mode, client=clients["chunkfold"])

    others = peers(path, op, axis, CORES, clients["dask"]) if clients["dask"] else {}
    times = times_of(
        {
            "floor": lambda: floor(array, chunks, axis, adds=clients["adds"]),
            "fast": ours("fast"),
            "exact": ours("exact"),
        }
        | others,
        options.rounds,
    )
    rates = {n: array.nbytes / statistics.median(t) / 1e9 for n, t in times.items()}
    shares = {
        f"{mode}/floor": statistics.median(
            a / b for a, b in zip(times["floor"], times[mode], strict=True)
        )
        for mode in ("fast", "exact")
    }
    slower = statistics.median(a / b for a, b in zip(times["exact"], times["fast"], strict=True))
    ahead = rates["fast"] / rates.get("dask workers", np.nan)
    order = ("floor", "fast", "exact", *(NAMES if clients["dask"] else ()))
    figures = (*(rates.get(n, np.nan) for n in order), *shares.values(), slower, ahead)
    cells = "".join(f"{n:>16.2f}" for n in figures)
    print(f"{dataset.name:38}{cells}", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gib", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--step", type=float, default=0.01, help="kelvins data are rounded to; 0: not"
    )
    parser.add_argument("--device", default=None)
    parser.add_argument("--only", default="", help="datasets whose names have this in them")
    parser.add_argument("--no-peers", action="store_true", help="the floor and this only")
    options = parser.parse_args()
    gpu = cf.devices(options.device)[0].kind == "gpu"  # which adds up by itself
    print(f"GB/s of decoded bytes, {options.gib} GiB float32, {CORES} cores, medians of "
          f"{options.rounds} interleaved rounds; shares of the floor are of pairs")  # fmt: skip
    others = () if options.no_peers else NAMES
    names = ("floor", "fast", "exact", *others, "fast/floor", "exact/floor", "time exact/fast",
             "fast/dask")  # fmt: skip
    print(f"{'':38}" + "".join(f"{name:>16}" for name in names))
    with ExitStack() as opened:
        enter = opened.enter_context
        device_cluster = enter(cf.LocalOpenCLCluster(options.device, dashboard_address=None))
        ours, theirs = enter(connect(device_cluster.scheduler_address)), None
        if others:
            plain = LocalCluster(n_workers=CORES, threads_per_worker=1, dashboard_address=None)
            theirs = enter(Client(enter(plain), set_as_default=False))
        for dataset in DATASETS:
            if options.only in dataset.name:
                with tempfile.TemporaryDirectory(prefix="chunkfold-bench-") as folder:
                    path = Path(folder) / "t.zarr"
                    clients = {"chunkfold": ours, "dask": theirs, "adds": not gpu}
                    bench(dataset, path, options, clients)


if __name__ == "__main__":
    main()
