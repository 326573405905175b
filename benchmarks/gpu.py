"""Jobs on GPUs beside threads that do nothing else, and beside kvikio with CuPy: GB/s of elements.

Each row is a data set of its own, made in the page cache and removed behind it; the ways of a row
take turns, round by round, and the medians are told.

    python benchmarks/gpu.py [--rows NAME,...] [--gib 8] [--rounds 3] [--folder DIR] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl
import zarr

import chunkfold as cf
from chunkfold.kernels import DeviceContext, devices
from chunkfold.kernels.feed.commands import UNKNOWN, Runs
from chunkfold.kernels.feed.feeder import Feeder

MIB = 1 << 20
Way = Callable[[], object]


@dataclass(frozen=True)
class Row:
    """A data set, and what is asked of it."""

    chunk: tuple[int, ...]
    codec: str | None = None
    asked: tuple[tuple[str, dict[str, Any]], ...] = (("sum", {}),)


ROWS = {
    "64MB": Row((16, 1024, 1024), asked=(("sum", {}), ("sum fast", {"mode": "fast"}))),
    "8MB": Row((2, 1024, 1024)),
    "1MB": Row((1, 512, 512)),
    "axis0": Row(
        (16, 1024, 1024), asked=(("sum", {}), ("mean", {"axis": 0}), ("std", {"axis": 0}))
    ),
    "zstd-1MB": Row((1, 512, 512), "zstd"),
    "blosc-1MB": Row((1, 512, 512), "blosc"),
}


def main() -> None:
    """Print a table, and write what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--gib", type=float, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", default="0,1,4", help="processes of a GPU; 0: this one")
    parser.add_argument("--device", default="gpu")
    parser.add_argument("--folder", default=tempfile.gettempdir())
    parser.add_argument("--json")
    options = parser.parse_args()
    found = []
    for name in options.rows.split(","):
        folder = Path(tempfile.mkdtemp(dir=options.folder))
        try:
            found += measured(name, ROWS[name], folder, options)
        finally:
            shutil.rmtree(folder)
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=1))


def measured(
    name: str, row: Row, folder: Path, options: argparse.Namespace
) -> list[dict[str, Any]]:
    """Measure all ways of a row, in turn."""
    path, nbytes = made(folder, row, options.gib)
    with ExitStack() as stack:
        ways: dict[str, Way] = {}
        if row.codec is None:
            ways["threads that read and upload"] = bare(path, options.device)
            ways |= kvikio_ways(path)
        for count in map(int, options.workers.split(",")):
            client = None if not count else stack.enter_context(cluster(count, options.device))
            for asked, words in row.asked:
                op, _, _ = asked.partition(" ")
                ways[f"chunkfold {asked}, {count or 'in'} process"] = (
                    lambda client=client, op=op, words=words: cf.reduce(
                        path, op, client=client, **words
                    )
                )
        times: dict[str, list[float]] = {way: [] for way in ways}
        answers = {way: np.asarray(call()) for way, call in ways.items()}  # warm
        for _ in range(options.rounds):
            for way, call in ways.items():
                began = time.perf_counter()
                call()
                times[way].append(time.perf_counter() - began)
    lines = []
    for way, taken in times.items():
        rate = nbytes / statistics.median(taken) / 1e9
        answer = float(answers[way].astype(np.float64).reshape(-1)[0]) if answers[way].size else 0.0
        lines.append({"row": name, "way": way, "GB/s": round(rate, 2), "first": answer})
        print(f"{name:10} {way:40} {rate:7.2f}  {answer:.9g}", flush=True)
    return lines


def made(folder: Path, row: Row, gib: float) -> tuple[str, int]:
    """Write float32 noise, chunk by chunk; return its path and its bytes."""
    chunk_bytes = int(np.prod(row.chunk)) * 4
    count = int(gib * (1 << 30) // chunk_bytes)
    across = 2048 // row.chunk[1]
    count -= count % across**2
    shape = (count // across**2 * row.chunk[0], across * row.chunk[1], across * row.chunk[2])
    compressors: Any = None
    if row.codec == "zstd":
        compressors = zarr.codecs.ZstdCodec()
    elif row.codec == "blosc":
        compressors = zarr.codecs.BloscCodec(cname="lz4", shuffle="shuffle")
    path = folder / "x.zarr"
    array = zarr.create_array(
        path, shape=shape, chunks=row.chunk, dtype="f4", compressors=compressors, fill_value=0
    )
    rng = np.random.default_rng(3)
    few = [rng.normal(280, 15, row.chunk).astype("f4") for _ in range(min(count, 32))]
    zarr.config.set({"async.concurrency": 16})
    array[: row.chunk[0], : row.chunk[1], : row.chunk[2]] = few[0]
    (first,) = [one for one in path.rglob("*") if one.is_file() and one.name != "zarr.json"]
    stored: list[bytes] = []
    for one in few:
        array[: row.chunk[0], : row.chunk[1], : row.chunk[2]] = one
        stored.append(first.read_bytes())

    def write(n: int) -> None:
        place = (n // across**2, n // across % across, n % across)
        target = path / "c" / "/".join(map(str, place))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(stored[n % len(stored)])

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(write, range(count)))
    return str(path), int(np.prod(shape)) * 4


@contextmanager
def cluster(count: int, device: str) -> Iterator[Any]:
    """Start so many processes for each device."""
    with (
        cf.LocalOpenCLCluster(
            device, workers_per_device=count, dashboard_address=None
        ) as made_here,
        made_here.get_client() as client,
    ):
        yield client


def chunk_files(path: str) -> list[str]:
    """Return the files of chunks."""
    each = (str(one) for one in Path(path).rglob("*") if one.is_file() and one.name != "zarr.json")
    return sorted(each)


def bare(path: str, spec: str, threads: int = 12) -> Way:
    """Return threads that bring all files to the device, and do nothing with them."""
    opened = DeviceContext(devices(spec)[0])
    files = chunk_files(path)
    each = 256 * MIB
    size = Path(files[0]).stat().st_size
    per = max(1, each // size)
    feeder, at_once = Feeder(opened, threads), 3
    buffers = [
        cl.Buffer(opened.context, cl.mem_flags.READ_WRITE, per * size) for _ in range(at_once)
    ]

    def share(number: int) -> None:
        mine = files[number * len(files) // at_once : (number + 1) * len(files) // at_once]
        for at in range(0, len(mine), per):
            names = mine[at : at + per]
            n = np.arange(len(names))
            runs = np.column_stack([n, 0 * n, n * size, 0 * n + size])
            known = np.tile([size, UNKNOWN, 1], (len(names), 1))
            feeder.feed(Runs(names, known, runs), buffers[number])

    def run() -> int:
        running = [threading.Thread(target=share, args=(n,)) for n in range(at_once)]
        for one in running:
            one.start()
        for one in running:
            one.join()
        return 0

    return run


def kvikio_ways(path: str) -> dict[str, Way]:
    """Return kvikio and CuPy, which reads and folds; nothing where they are not installed."""
    try:
        import cupy
        import kvikio
        import kvikio.defaults
    except ImportError as error:
        print(f"no kvikio here: {error}", file=sys.stderr)
        return {}
    kvikio.defaults.set({"num_threads": 16, "compat_mode": kvikio.CompatMode.ON})
    files = chunk_files(path)
    size = Path(files[0]).stat().st_size
    at_once = max(1, 256 * MIB // size)
    slots = [cupy.empty((at_once, size // 4), cupy.float32) for _ in range(2)]

    def run() -> float:
        total = cupy.zeros((), cupy.float64)
        for number, at in enumerate(range(0, len(files), at_once)):
            names, slot = files[at : at + at_once], slots[number % 2]
            handles = [kvikio.CuFile(name, "r") for name in names]
            reads = [one.pread(slot[n]) for n, one in enumerate(handles)]
            for one in reads:
                one.get()
            for one in handles:
                one.close()
            total += slot[: len(names)].sum(dtype=cupy.float64)
        return float(total.get())

    return {"kvikio and CuPy": run}


if __name__ == "__main__":
    main()
