"""GPUs beside what else they could do: GB/s of elements, medians of rounds.

`jobs` are whole reductions of arrays in the page cache, on one GPU and on two, beside threads
that do nothing else and beside kvikio with CuPy, all in turn; `decoded` are those of compressed
ones, `decoding` is that alone, of chunks in a device's memory, beside nvCOMP. `flat` and `axes` are
sums of data in a device's memory, `labels` sums of such data by label, beside torch and CuPy, by
each one's own clock of the device. Each row is a data set of its own, made and removed behind it.

    python benchmarks/gpu.py [--rows GROUP|ROW,...] [--gib 8] [--rounds 5] [--gpus 1,2]
        [--minutes 8] [--device gpu] [--folder DIR] [--json FILE] [--plot FILE]
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
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import h5py
import keyed
import numpy as np
import pyopencl as cl
import zarr
from cases import FLAT, LONG, Case, Layout, arrays_of, prepared
from gpu_clocks import event_seconds, own_seconds, torch_and_cupy
from gpu_decoding import CODECS, ENCODERS, NVCOMP, nvcomp_decoding, ours_decoding

import chunkfold as cf
from chunkfold.kernels import Device, DeviceContext, as_monoid, bind, devices
from chunkfold.kernels.bench.peers import device_copy
from chunkfold.kernels.feed.commands import UNKNOWN, Runs
from chunkfold.kernels.feed.feeder import Feeder
from chunkfold.workflows.terminal.plots import bar_chart, check_plot

MIB = 1 << 20
Way = Callable[[], object]
Rates = dict[str, float | None]
"""GB/s by way; None where it is not here."""
NO_PEERS: Rates = {"torch": None, "CuPy": None}
KVIKIO = "kvikio and CuPy"
THREADS = "threads that read and upload"


@dataclass(frozen=True)
class Bench:
    """What is measured with."""

    found: Sequence[Device]
    client: Callable[[int, int], Any]
    """Of a cluster of so many devices with so many processes each."""
    options: argparse.Namespace

    @property
    def nbytes(self) -> int:
        """Of a row's elements, about."""
        return int(self.options.gib * (1 << 30))

    @cached_property
    def opened(self) -> DeviceContext:
        """The first device."""
        return DeviceContext(self.found[0])


@dataclass(frozen=True)
class Job:
    """An array on disk, and what is asked of it."""

    chunk: tuple[int, ...]
    how: str | None = None
    """One of `CODECS`, or HDF5 without filters; None: neither."""
    asked: tuple[tuple[str, dict[str, Any]], ...] = (("sum", {}),)
    """Names, which begin with the reduction's, and arguments; `by` says how many groups."""
    shard: tuple[int, ...] | None = None

    def rates(self, bench: Bench) -> Rates:
        """Measure all ways, in turn."""
        folder = Path(tempfile.mkdtemp(dir=bench.options.folder))
        try:
            path, nbytes = made(folder, self, bench.options.gib)
            ways = self.ways(path, bench)
            times: dict[str, list[float]] = {way: [] for way in ways}
            for round_ in range(bench.options.rounds + 1):
                for way, call in ways.items():
                    began = time.perf_counter()
                    call()
                    if round_:
                        times[way].append(time.perf_counter() - began)
        finally:
            shutil.rmtree(folder)
        medians = {way: statistics.median(taken) for way, taken in times.items()}
        rates: Rates = {way: nbytes / seconds / 1e9 for way, seconds in medians.items()}
        return rates if self.how else {KVIKIO: None} | rates

    def ways(self, path: str, bench: Bench) -> dict[str, Way]:
        """Return what can be timed."""
        ways: dict[str, Way] = {}
        for gpus in bench.options.gpus:
            some, suffix = bench.found[:gpus], f", {gpus} GPUs" * (gpus > 1)
            if self.how is None:
                ways[THREADS + suffix] = bare(path, some)
            for count in bench.options.workers:
                if not count and gpus > 1:
                    continue  # this process has one device
                client = bench.client(gpus, count) if count else None
                for asked, words in self.asked:
                    op, _, _ = asked.partition(" ")
                    if groups := words.get("by"):
                        rows = zarr.open_array(path, mode="r").shape[0]
                        words = words | {"by": np.arange(rows) % groups}  # noqa: PLW2901
                    ways[f"chunkfold {asked}, {count or 'in'} process{suffix}"] = (
                        lambda client=client, op=op, words=words: cf.reduce(
                            path, op, client=client, **words
                        )
                    )
        return ways | (kvikio_ways(path) if self.how is None else {})


@dataclass(frozen=True)
class Resident:
    """A sum of an array that is in the device's memory."""

    layout: Layout
    dtype: str = "float32"

    def rates(self, bench: Bench) -> Rates:
        """Measure by each one's own clock of the device."""
        opened, rounds = bench.opened, bench.options.rounds
        case, seconds = Case("sum", self.layout, self.dtype), {}
        for mode in ("fast", "exact") if np.dtype(self.dtype).kind == "f" else ("exact",):
            ours = prepared(opened, replace(case, exact=mode == "exact"), bench.nbytes)
            ours()  # the first time it compiles
            seconds[f"chunkfold {mode}"] = own_seconds(ours.fold, ours, rounds)
        (array,) = arrays_of(case, bench.nbytes)
        peers = torch_and_cupy()
        if peers is not None:
            torch, cupy = peers
            tensor, axes = torch.from_numpy(array).cuda(), self.layout[1]
            values = cupy.from_dlpack(tensor)
            calls = {"torch": lambda: tensor.sum(axes), "CuPy": lambda: values.sum(axes)}
            seconds |= event_seconds(calls, rounds)
        rates: Rates = {way: array.nbytes / taken / 1e9 for way, taken in seconds.items()}
        return rates if peers is not None else rates | NO_PEERS


@dataclass(frozen=True)
class Labelled:
    """Exact sums by label of values in the device's memory; labels are read beside them."""

    dtype: str
    groups: int
    runs: bool

    def rates(self, bench: Bench) -> Rates:
        """Measure by each one's own clock of the device."""
        opened, rounds = bench.opened, bench.options.rounds
        array = keyed.values(bench.nbytes // np.dtype(self.dtype).itemsize, self.dtype)
        keys = keyed.labels(array.size, self.groups, runs=self.runs)
        bound = bind([as_monoid("sum")], [array.dtype], exact=True, keyed=True)
        buffer = device_copy(opened, array)
        own = keyed.seconds_by_label(opened, bound, buffer, keys, self.groups, rounds)
        buffer.release()
        peers = keyed.peers(array, keys, self.groups, rounds)
        seconds = {"chunkfold exact": own} | peers
        rates: Rates = {way: array.nbytes / taken / 1e9 for way, taken in seconds.items()}
        return rates if peers else rates | NO_PEERS


@dataclass(frozen=True)
class Decoding:
    """Chunks that are in the device's memory, and are decoded there, and nothing else."""

    how: str
    nbytes: int
    count: int

    def rates(self, bench: Bench) -> Rates:
        """Measure on the host's clock, with what is read back."""
        few = [noise((self.nbytes // 4,), seed).tobytes() for seed in range(min(32, self.count))]
        frames = [ENCODERS[self.how](one) for one in few]
        calls = {
            "chunkfold": ours_decoding(bench.opened, self.how, frames, self.count, self.nbytes)
        }
        if self.how in NVCOMP:
            calls |= nvcomp_decoding(NVCOMP[self.how], frames, self.count)
        rates: Rates = {"nvCOMP": None}
        for name, call in calls.items():
            call()
            seconds = []
            for _ in range(bench.options.rounds):
                began = time.perf_counter()
                call()
                seconds.append(time.perf_counter() - began)
            rates[name] = self.count * self.nbytes / statistics.median(seconds) / 1e9
        return rates


EITHER: tuple[tuple[str, dict[str, Any]], ...] = (
    ("sum decoded by the device", {"decode": "device"}),
    ("sum decoded by the host", {"decode": "host"}),
)
PLANE: Layout = ((-1, 4096), (0,))
GROUPS: dict[str, dict[str, Job | Resident | Labelled | Decoding]] = {
    "jobs": {
        "64MB": Job((16, 1024, 1024), asked=(("sum", {}), ("sum fast", {"mode": "fast"}))),
        "8MB": Job((2, 1024, 1024)),
        "1MB": Job((1, 512, 512)),
        "axis0": Job(
            (16, 1024, 1024),
            asked=(
                ("sum", {}),
                ("mean", {"axis": 0}),
                ("std", {"axis": 0}),
                ("min", {"axis": 0}),
            ),
        ),
        "months": Job(
            (16, 1024, 1024),
            asked=(("mean", {"axis": 0, "by": 12}), ("std", {"axis": 0, "by": 12})),
        ),
        "hdf5-1MB": Job((1, 512, 512), "HDF5"),
    },
    "decoded": {
        "zstd-1MB": Job((1, 512, 512), "zstd", (*EITHER, ("mean", {"axis": 0}))),
        "zstd-8MB": Job((2, 1024, 1024), "zstd", EITHER),
        "zstd-64MB": Job((16, 1024, 1024), "zstd", EITHER),
        "zstd-shards": Job((1, 512, 512), "zstd", EITHER, shard=(16, 1024, 1024)),
        "blosc-lz4-1MB": Job((1, 512, 512), "blosc-lz4", EITHER),
        "blosc-zstd-1MB": Job((1, 512, 512), "blosc-zstd", EITHER),
    },
    "decoding": {
        "zstd 2048 x 1 MB": Decoding("zstd", 1 << 20, 2048),
        "zstd 512 x 1 MB": Decoding("zstd", 1 << 20, 512),
        "zstd 16 x 64 MB": Decoding("zstd", 64 << 20, 16),
        "lz4 2048 x 1 MB": Decoding("lz4", 1 << 20, 2048),
        "blosc-lz4 2048 x 1 MB": Decoding("blosc-lz4", 1 << 20, 2048),
        "blosc-zstd 2048 x 1 MB": Decoding("blosc-zstd", 1 << 20, 2048),
    },
    "flat": {
        f"flat-{dtype}": Resident(FLAT, dtype) for dtype in ("float32", "float64", "int32", "int64")
    },
    "axes": {
        f"{len(shape)}d-axis{axis}": Resident((shape, (axis,)))
        for shape, _ in (PLANE, LONG)
        for axis in range(len(shape))
    },
    "labels": {
        f"labels-{groups}-{'runs' if runs else 'random'}-{dtype}": Labelled(dtype, groups, runs)
        for groups in (10_000, 1_000_000)
        for runs in (False, True)
        for dtype in ("float64", "int64")
    },
}


def main() -> None:
    """Print a table, and write what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", default=",".join(GROUPS), help="groups, or rows of them")
    parser.add_argument("--gib", type=float, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--gpus", type=_numbers, default="1,2", help="devices that share a job")
    parser.add_argument(
        "--workers", type=_numbers, default="0,1,4", help="processes of a GPU; 0: this one"
    )
    parser.add_argument(
        "--minutes", type=float, default=8, help="of a group: later rows of it are left out"
    )
    parser.add_argument("--device", default="gpu")
    parser.add_argument("--folder", default=tempfile.gettempdir())
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    if options.plot:
        check_plot(options.plot)
    found = devices(options.device)
    for gpus in [n for n in options.gpus if n > len(found)]:
        print(f"left out: {gpus} GPUs, for there are {len(found)}", file=sys.stderr)
        options.gpus.remove(gpus)
    measured: dict[str, Rates] = {}
    with ExitStack() as stack:

        @cache
        def client(gpus: int, count: int) -> Any:
            return stack.enter_context(cluster(found[:gpus], count))

        bench = Bench(found, client, options)
        for rows in chosen(options.rows.split(",")):
            began = time.monotonic()
            for name, row in rows.items():
                if time.monotonic() - began > 60 * options.minutes:
                    print(f"left out: {name}, for time is up", file=sys.stderr)
                    continue
                measured[name] = row.rates(bench)
                for way, rate in measured[name].items():
                    told = "not here" if rate is None else f"{rate:.2f}"
                    print(f"{name:32}{way:44}{told:>10}", flush=True)
                if options.json:
                    about = {"device": str(found[0]), "gib": options.gib, "GB/s": measured}
                    options.json.write_text(json.dumps(about, indent=1))
    if options.plot:
        bars = {
            name: {way: rate for way, rate in rates.items() if rate is not None}
            for name, rates in measured.items()
        }
        bar_chart(options.plot, bars, highlight="chunkfold", line=THREADS, unit="GB/s")


def _numbers(text: str) -> list[int]:
    return [int(one) for one in text.split(",")]


def chosen(names: Sequence[str]) -> Iterator[dict[str, Job | Resident | Labelled | Decoding]]:
    """Yield the rows of each group that are named, themselves or by their group.

    Raises
    ------
    SystemExit
        If a name is neither a group's nor a row's.
    """
    known = {*GROUPS, *(name for rows in GROUPS.values() for name in rows)}
    if unknown := set(names) - known:
        raise SystemExit(f"there are no rows {sorted(unknown)}; there are {sorted(known)}")
    for group, rows in GROUPS.items():
        yield {name: row for name, row in rows.items() if group in names or name in names}


def made(folder: Path, row: Job, gib: float) -> tuple[str, int]:
    """Write float32 noise, chunk by chunk; return its path and its bytes."""
    unit = row.shard or row.chunk
    count = int(gib * (1 << 30) // (int(np.prod(unit)) * 4))
    across = 2048 // unit[1]
    count -= count % across**2
    shape = (count // across**2 * unit[0], across * unit[1], across * unit[2])
    few = [noise(unit, seed) for seed in range(min(count, 32))]
    places = [(n // across**2, n // across % across, n % across) for n in range(count)]
    if row.how == "HDF5":
        with h5py.File(folder / "x.h5", "w") as file:
            written = file.create_dataset("x", shape, "f4", chunks=row.chunk).id
            for n, place in enumerate(places):
                first = tuple(a * b for a, b in zip(place, unit, strict=True))
                written.write_direct_chunk(first, few[n % len(few)])
        return f"{folder}/x.h5/x", int(np.prod(shape)) * 4
    path = folder / "x.zarr"
    array = zarr.create_array(
        path,
        shape=shape,
        chunks=row.chunk,
        shards=row.shard,
        dtype="f4",
        compressors=CODECS[row.how] if row.how else None,
        fill_value=0,
    )
    zarr.config.set({"async.concurrency": 16})
    whole = tuple(slice(0, n) for n in unit)
    array[whole] = few[0]
    (first,) = [one for one in path.rglob("*") if one.is_file() and one.name != "zarr.json"]
    stored: list[bytes] = []
    for one in few:
        array[whole] = one
        stored.append(first.read_bytes())

    def write(n: int) -> None:
        target = path / "c" / "/".join(map(str, places[n]))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(stored[n % len(stored)])

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(write, range(count)))
    return str(path), int(np.prod(shape)) * 4


def noise(shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Return float32 values of two decimals, as measurements have them."""
    values = np.random.default_rng(seed).normal(280, 15, shape)
    return (np.rint(values * 100) / 100).astype("f4")


@contextmanager
def cluster(some: Sequence[Device], count: int) -> Iterator[Any]:
    """Start so many processes for each device."""
    with (
        cf.LocalOpenCLCluster(some, workers_per_device=count, dashboard_address=None) as started,
        started.get_client() as client,
    ):
        yield client


def chunk_files(path: str) -> list[str]:
    """Return the files of chunks."""
    each = (str(one) for one in Path(path).rglob("*") if one.is_file() and one.name != "zarr.json")
    return sorted(each)


def bare(path: str, some: Sequence[Device], threads: int = 12) -> Way:
    """Return threads that bring all files to the devices, and do nothing with them."""
    files = chunk_files(path)
    size = Path(files[0]).stat().st_size
    per = max(1, 256 * MIB // size)
    shares = []
    for opened in map(DeviceContext, some):
        feeder = Feeder(opened, threads)
        for _ in range(3):  # so many take turns at its threads
            buffer = cl.Buffer(opened.context, cl.mem_flags.READ_WRITE, per * size)
            shares.append((feeder, buffer))

    def share(number: int) -> None:
        feeder, buffer = shares[number]
        mine = files[number * len(files) // len(shares) : (number + 1) * len(files) // len(shares)]
        for at in range(0, len(mine), per):
            names = mine[at : at + per]
            n = np.arange(len(names))
            runs = np.column_stack([n, 0 * n, n * size, 0 * n + size])
            known = np.tile([size, UNKNOWN, 1], (len(names), 1))
            feeder.feed(Runs(names, known, runs), buffer)

    def run() -> int:
        running = [threading.Thread(target=share, args=(n,)) for n in range(len(shares))]
        for one in running:
            one.start()
        for one in running:
            one.join()
        return 0

    return run


@cache
def kvikio_and_cupy() -> tuple[Any, Any] | None:
    """Return both; None, and say why, where one is not installed."""
    try:
        import cupy
        import kvikio.defaults
    except ImportError as error:
        print(f"left out: {KVIKIO} ({error.name} is not installed)", file=sys.stderr)
        return None
    return kvikio, cupy


def kvikio_ways(path: str) -> dict[str, Way]:
    """Return kvikio, which reads, and CuPy, which folds; nothing where they are not."""
    if (found := kvikio_and_cupy()) is None:
        return {}
    kvikio, cupy = found
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

    return {KVIKIO: run}


if __name__ == "__main__":
    main()
