"""The whole job: chunkfold beside its floor and beside dask.array, on the same data and cores.

The floor is two plain threads that read and decode whole chunks and let NumPy sum them.

    python benchmarks/job.py [--gib 1] [--rounds 5] [--device SPEC]
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dask.array
import numpy as np
import zarr
from distributed import Client, LocalCluster

import chunkfold as cf
from chunkfold.cluster import connect

DATASETS = {
    "zstd, 33 MB chunks": {"chunks": (8, 721, 1440)},
    "zstd, 1 MB chunks": {"chunks": (1, 181, 1440)},
    "uncompressed, 33 MB chunks": {"chunks": (8, 721, 1440), "compressors": None},
}
Timed = Callable[[], float]


def write(path: Path, gib: float, layout: dict) -> zarr.Array:
    """Write temperatures of a hundredth kelvin, which zstd shrinks by about half."""
    days = max(8, int(gib * 2**30 / (721 * 1440 * 4)) // 8 * 8)
    made = zarr.create_array(str(path), shape=(days, 721, 1440), dtype="float32", **layout)
    for start in range(0, days, 8):
        values = np.random.default_rng(start).normal(280, 15, (8, 721, 1440))
        made[start : start + 8] = np.rint(values * 100) / 100
    return made


def floor(array: zarr.Array) -> float:
    """Sum with two threads that do nothing but read, decode and add."""
    axes = [range(0, n, c) for n, c in zip(array.shape, array.chunks, strict=True)]
    boxes = [
        tuple(slice(s, s + c) for s, c in zip(start, array.chunks, strict=True))
        for start in np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 3).tolist()
    ]
    with ThreadPoolExecutor(2) as pool:
        return sum(pool.map(lambda where: float(np.sum(array[where], dtype="f8")), boxes))


def bench(array: zarr.Array, path: Path, clients: dict[str, Client], rounds: int) -> None:
    """Print one dataset's row."""
    whole = dask.array.from_zarr(str(path))
    contenders: dict[str, Timed] = {
        "floor": lambda: floor(array),
        "chunkfold": lambda: cf.reduce(path, client=clients["chunkfold"]),
        "dask.distributed": lambda: clients["dask"].compute(whole.sum(dtype="f8")).result(),
    }
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds + 1):
        for name, run in contenders.items():
            began = time.perf_counter()
            run()
            if number:
                times[name].append(time.perf_counter() - began)
    rates = {n: array.nbytes / statistics.median(t) / 1e9 for n, t in times.items()}
    share = rates["chunkfold"] / rates["floor"]
    ahead = rates["chunkfold"] / rates["dask.distributed"]
    row = "".join(f"{rate:18.2f}" for rate in rates.values())
    print(f"{path.stem:28}{row}{share:12.2f}{ahead:12.1f}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gib", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default=None)
    options = parser.parse_args()
    print(f"GB/s of decoded bytes, {options.gib} GiB float32 sum, {os.cpu_count()} cores, "
          f"medians of {options.rounds} interleaved rounds")  # fmt: skip
    names = ("floor", "chunkfold", "dask.distributed", "of floor", "times dask")
    print(f"{'':28}" + "".join(f"{n:>{18 if k < 3 else 12}}" for k, n in enumerate(names)))
    with (
        tempfile.TemporaryDirectory(prefix="chunkfold-bench-") as folder,
        cf.LocalOpenCLCluster(options.device, dashboard_address=None) as device_cluster,
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as plain,
        connect(device_cluster.scheduler_address) as ours,
        Client(plain, set_as_default=False) as theirs,
    ):
        for name, layout in DATASETS.items():
            path = Path(folder) / f"{name}.zarr"
            array = write(path, options.gib, layout)
            bench(array, path, {"chunkfold": ours, "dask": theirs}, options.rounds)


if __name__ == "__main__":
    main()
