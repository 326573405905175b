"""Pyramids: all levels of an image from one read, beside the floor of reading it, and Dask.

The floor is that of `ingest.py`: plain threads that read and decode every chunk once, let NumPy add
it up, and write nothing. Dask's arrays make each level of the one before, rounded, in one graph.

    python benchmarks/pyramid.py [--mib 1024] [--rounds 3] [--levels 5] [--device SPEC]
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import zarr
from ingest import CORES, chunks_in, floor, times_of

import chunkfold as cf
from chunkfold.cluster.joining import connect
from chunkfold.workflows.pyramid import pyramid

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
    shutil.rmtree(out, ignore_errors=True)
    level, stored = da.from_zarr(str(path)), []
    windows = {level.ndim - 2: 2, level.ndim - 1: 2}
    for number in range(1, levels + 1):
        level = da.coarsen(np.mean, level, windows, trim_excess=True)
        level = level.rechunk(tuple(min(EDGE, n) for n in level.shape))
        stored.append(level.to_zarr(str(out), component=str(number), compute=False))
    with dask.config.set(scheduler="threads", num_workers=CORES):
        dask.compute(*stored)


def contenders(path: Path, out: Path, levels: int, client: object) -> dict[str, Callable]:
    """Return what makes the levels, by name."""
    ours = partial(pyramid, path / "0", out, levels, overwrite=True, client=client)
    return {
        "max": partial(ours, op="max", statistics=False),
        "mean, fast": partial(ours, statistics=False, mode="fast"),
        "mean, exact": partial(ours, statistics=False),
        "with statistics": partial(ours, statistics=True),
        "dask": partial(by_dask, path / "0", out, levels),
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
        times = times_of({"floor": lambda: floor(array, chunks, None), **made}, options.rounds)
        rates = {n: array.nbytes / statistics.median(t) / 1e9 for n, t in times.items()}
        shares = [rates[n] / rates["floor"] for n in made]
        cells = "".join(f"{n:>16.2f}" for n in (*rates.values(), *shares))
        print(f"{name:24}{cells}", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--levels", type=int, default=5)
    parser.add_argument("--device", default=None)
    options = parser.parse_args()
    names = ["max", "mean, fast", "mean, exact", "with statistics", "dask"]
    print(f"GB/s of decoded bytes, {options.mib} MiB float32, {options.levels} levels by 2 x 2, "
          f"{CORES} cores; shares of the floor, which writes nothing")  # fmt: skip
    heads = ["floor", *names, *(f"{name[:10]}/floor" for name in names)]
    print(f"{'':24}" + "".join(f"{name:>16}" for name in heads))
    with (
        cf.LocalOpenCLCluster(options.device, dashboard_address=None) as cluster,
        connect(cluster.scheduler_address) as client,
    ):
        for kind, layout in LAYOUTS.items():
            bench(f"2D, {kind}", 0, layout, options, client)
            bench(f"3D, {kind}", 16, layout, options, client)


if __name__ == "__main__":
    main()
