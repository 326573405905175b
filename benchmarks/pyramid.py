"""Pyramids: all levels of an image from one read, beside two floors and what others do.

The floor is that of `ingest.py`: plain threads that read and decode every chunk once, let NumPy add
it up, and write nothing. The floor of writing computes as little, but encodes and writes as many
bytes as levels have, in the image's codec: every second element, every fourth, and so on. Dask's
arrays make each level of the one before, rounded, in one graph; ome-zarr and ngff-zarr, where they
are installed, are called as their pages have it, by the methods that are means of windows.

    python benchmarks/pyramid.py [--mib 1024] [--rounds 3] [--levels 5] [--only 2D] [--cpu]

With --cpu all run in this process, and rates are by its processor time, over all threads: of use
where others work on the machine.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import zarr
from ingest import CORES, chunks_in, floor, times_of
from numcodecs import zstd

import chunkfold as cf
from chunkfold.cluster.joining import connect
from chunkfold.workflows.images.pyramid import pyramid

EDGE = 1024
"""Of square chunks."""
LAYOUTS = {"uncompressed": {"compressors": None}, "zstd": {}}


def write(path: Path, mib: int, planes: int, layout: dict) -> zarr.Array:
    """Write an image of float32, of so many planes (0: it has two axes), smooth but for noise."""
    edge = int((mib * 2**20 / 4 / max(1, planes)) ** 0.5) // EDGE * EDGE
    shape = (planes, edge, edge) if planes else (edge, edge)
    chunks = (1, EDGE, EDGE) if planes else (EDGE, EDGE)
    group = zarr.open_group(str(path), mode="w")
    names = ("z", "y", "x")[-len(shape) :]
    made = group.create_array(
        "0", shape=shape, chunks=chunks, dtype="f4", dimension_names=names, **layout
    )

    def fill(place: tuple[int, ...]) -> None:
        at = tuple(slice(n * c, (n + 1) * c) for n, c in zip(place, chunks, strict=True))
        values = np.random.default_rng(hash(place) % 2**32).normal(280, 15, chunks)
        made[at] = np.rint(values * 10) / 10

    grid = [size // chunk for size, chunk in zip(shape, chunks, strict=True)]
    with ThreadPoolExecutor(CORES) as threads:
        list(threads.map(fill, np.ndindex(*grid)))
    return made


def by_dask(path: Path, out: Path, levels: int) -> None:
    """Make each level of the one before, in one graph, as users of Dask do."""
    level, stored = da.from_zarr(str(path)), []
    windows = {level.ndim - 2: 2, level.ndim - 1: 2}
    for number in range(1, levels + 1):
        level = da.coarsen(np.mean, level, windows, trim_excess=True)
        level = level.rechunk(tuple(min(EDGE, n) for n in level.shape))
        stored.append(level.to_zarr(str(out), component=str(number), compute=False))
    with dask.config.set(scheduler="threads", num_workers=CORES):
        dask.compute(*stored)


def written_floor(array: zarr.Array, chunks: list, out: Path, levels: int) -> None:
    """Read and decode every chunk, and write as many bytes as its levels have."""
    out.mkdir()
    raw, decoded = not array.compressors, int(np.prod(array.chunks)) * 4

    def share(number: int) -> None:
        memory = np.empty(decoded, np.uint8)
        for n, (file, offset, size) in enumerate(chunks[number::CORES]):
            with open(file, "rb") as opened:  # noqa: PTH123 # a text
                opened.seek(offset)
                if raw:
                    opened.readinto(memory)
                else:
                    zstd.decompress(opened.read(size), memory)
            plane = memory.view("f4").reshape(array.chunks[-2:])
            for level in range(1, levels + 1):
                own = np.ascontiguousarray(plane[:: 2**level, :: 2**level])
                kept = own.tobytes() if raw else zstd.compress(own, 0)
                (out / f"{number}-{n}-{level}").write_bytes(kept)

    with ThreadPoolExecutor(CORES) as threads:
        list(threads.map(share, range(CORES)))


def by_ome_zarr(path: Path, out: Path, levels: int) -> None:
    """Write an image and its levels, as its page on writing has it."""
    image = da.from_zarr(str(path))
    factors = [2**n for n in range(1, levels + 1)]
    with dask.config.set(scheduler="threads", num_workers=CORES):
        write_image(
            image, str(out), factors, axes="zyx"[-image.ndim :], method=scale.Methods.LOCAL_MEAN
        )


def by_ngff_zarr(path: Path, out: Path, levels: int) -> None:
    """Write an image and its levels, as its page on Python has it."""
    image = da.from_zarr(str(path))
    factors = [{"y": 2**n, "x": 2**n} for n in range(1, levels + 1)]
    with dask.config.set(scheduler="threads", num_workers=CORES):
        named = ngff_zarr.to_ngff_image(image, dims="zyx"[-image.ndim :])
        made = ngff_zarr.to_multiscales(
            named, factors, ngff_zarr.Methods.DASK_BIN_SHRINK, cache=False
        )
        ngff_zarr.to_ngff_zarr(str(out), made, version="0.5")


PEERS = {"dask": by_dask}
with suppress(ImportError):
    from ome_zarr import scale
    from ome_zarr.writer import write_image

    PEERS["ome-zarr"] = by_ome_zarr
with suppress(ImportError):
    import ngff_zarr

    PEERS["ngff-zarr"] = by_ngff_zarr


def contenders(path: Path, out: Path, levels: int, client: object) -> dict[str, Callable]:
    """Return what makes the levels, by name."""
    ours = partial(pyramid, path / "0", out, levels, client=client)
    return {
        "max": partial(ours, op="max", statistics=False),
        "mean, fast": partial(ours, statistics=False, mode="fast"),
        "mean, exact": partial(ours, statistics=False),
        "with statistics": partial(ours, statistics=True),
        **{name: partial(by, path / "0", out, levels) for name, by in PEERS.items()},
    }


def bench(
    name: str, planes: int, layout: dict, options: argparse.Namespace, client: object
) -> None:
    """Print one image's row."""
    with tempfile.TemporaryDirectory(prefix="chunkfold-bench-") as folder:
        path, out = Path(folder) / "image.zarr", Path(folder) / "out.zarr"
        array = write(path, options.mib, planes, layout)
        files = sorted(file for file in (path / "0" / "c").rglob("*") if file.is_file())
        chunks = [chunk for file in files for chunk in chunks_in(array, file)]
        made = contenders(path, out, options.levels, client)
        floors = {
            "floor": lambda: floor(array, chunks, None),
            "floor, written": lambda: written_floor(array, chunks, out, options.levels),
        }
        clock = time.process_time if options.cpu else time.perf_counter
        remove = partial(shutil.rmtree, out, ignore_errors=True)
        times = times_of({**floors, **made}, options.rounds, clock, before=remove)
        rates = {n: array.nbytes / statistics.median(t) / 1e9 for n, t in times.items()}
        for title, rate in rates.items():
            shares = [rate / rates[one] for one in floors]
            cells = "".join(f"{n:>16.2f}" for n in (rate, *shares))
            print(f"{name:20}{title:20}{cells}", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--levels", type=int, default=5)
    parser.add_argument("--device", default=None)
    parser.add_argument("--cpu", action="store_true", help="by processor time, in this process")
    parser.add_argument("--only", default="", help="images whose names have this in them")
    options = parser.parse_args()
    print(f"GB/s of decoded bytes, {options.mib} MiB float32, {options.levels} levels by 2 x 2, "
          f"{CORES} cores; shares of the floor, which writes nothing")  # fmt: skip
    heads = ("GB/s", "of the floor", "of it, written")
    print(f"{'':40}" + "".join(f"{name:>16}" for name in heads))
    with ExitStack() as opened:
        client = None
        if not options.cpu:
            cluster = cf.LocalOpenCLCluster(options.device, dashboard_address=None)
            client = opened.enter_context(connect(opened.enter_context(cluster).scheduler_address))
        for kind, layout in LAYOUTS.items():
            for name, planes in ((f"2D, {kind}", 0), (f"3D, {kind}", 16)):
                if options.only in name:
                    bench(name, planes, layout, options, client)


if __name__ == "__main__":
    main()
