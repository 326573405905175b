"""Expressions of xarray's by Dask alone, and under `chunkfold.accelerate`, in one process.

    python benchmarks/accelerate.py [--mib 64 512] [--rounds 5] [--only TEXT] [--questions]

Each expression runs in turn without and with it, warm; medians. `--questions` has the groups and
the median of benchmarks/questions.py, on its stores.
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import xarray as xr
from ingest import LARGE, SMALL, write
from questions import QUESTIONS

import chunkfold as cf

CHUNKS = (24, 181, 360)
EXPRESSIONS: Mapping[str, Callable[[xr.Dataset], Any]] = {
    "mean": lambda ds: ds.t.mean(),
    "mean over time": lambda ds: ds.t.mean("time"),
    "mean over space": lambda ds: ds.t.mean(("lat", "lon")),
    "mean over time, packed": lambda ds: ds.packed.mean("time"),
    "computed, mean": lambda ds: (ds.t * 2).mean(),
    "computed, mean over time": lambda ds: (ds.t * 2).mean("time"),
    "computed, max over time, packed": lambda ds: (ds.packed - 273.15).max("time"),
    "computed, mean of squares": lambda ds: (ds.t**2).mean(),
    "computed, mean of some": lambda ds: ds.t.where(ds.t > 280).mean(),
    "computed, days over time": lambda ds: (ds.t > 290).sum("time"),
    "computed, sum of two squares over time": lambda ds: (ds.t**2 + ds.packed**2).sum("time"),
    "sum": lambda ds: ds.t.sum(),
    "max over time": lambda ds: ds.t.max("time"),
    "std over time": lambda ds: ds.t.std("time"),
    "count over time": lambda ds: ds.t.count("time"),
    "argmax over time": lambda ds: ds.t.argmax("time"),
    "months, mean": lambda ds: ds.t.groupby("time.month").mean(),
    "months, max": lambda ds: ds.t.groupby("time.month").max(),
    "resampled to months, mean": lambda ds: ds.t.resample(time="1MS").mean(),
    "windows of 7 times": lambda ds: ds.t.coarsen(time=7, boundary="trim").mean(),
    "median over time": lambda ds: ds.t.chunk(time=-1).median("time"),
    "p10 and p90 over time": lambda ds: ds.t.chunk(time=-1).quantile([0.1, 0.9], "time"),
}


def written(path: Path, mib: float) -> xr.Dataset:
    """Write `t` of so many MiB, compressed, and the same packed; open both."""
    steps = math.ceil(mib * 2**20 / 4 / (721 * 1440))
    rng = np.random.default_rng(0)
    values = rng.normal(280, 10, (steps, 721, 1440)).astype("f4").round(1)
    values[rng.integers(0, steps, (721, 1440)), np.arange(721)[:, None], np.arange(1440)] = np.nan
    dims = ("time", "lat", "lon")
    time = np.array("2001-01-01", "M8[ns]") + np.arange(steps) * np.timedelta64(5, "D")
    ds = xr.Dataset({"t": (dims, values), "packed": (dims, values)}, {"time": time})
    packed = {"dtype": "i2", "scale_factor": 0.01, "add_offset": 280.0, "_FillValue": -32768}
    ds.to_zarr(path, encoding={"t": {"chunks": CHUNKS}, "packed": {"chunks": CHUNKS, **packed}})
    return xr.open_zarr(path)


def seconds(run: Callable[[], object]) -> tuple[float, float]:
    """Return how long something took, and the processor's time, which others lengthen less."""
    began, before = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - began, time.process_time() - before


def pair(run: Callable[[], object], rounds: int) -> tuple[Any, Any, bool]:
    """Return both times without and with it, medians, and if anything was computed here."""
    lines: list[str] = []
    with cf.accelerate(verbose=lines.append):
        run()
    run()
    alone, accelerated = [], []
    for _ in range(rounds):
        alone.append(seconds(run))
        with cf.accelerate():
            accelerated.append(seconds(run))
    here = any("computed here" in line for line in lines)
    without, beside = (
        [statistics.median(one) for one in zip(*each, strict=True)] for each in (alone, accelerated)
    )
    return without, beside, here


def of_xarray(folder: Path, mib: float) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the expressions."""
    ds = written(folder / "t.zarr", mib)
    for name, made in EXPRESSIONS.items():
        yield name, lambda made=made: made(ds).compute()


def of_questions(folder: Path, mib: float) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the groups and the median of questions.py, as Dask and flox have them."""
    layouts = {"zstd, 33 MB chunks": LARGE, "zstd, 1 MB chunks": SMALL,
               "uncompressed": LARGE | {"compressors": None}}  # fmt: skip
    for number, (layout, stored) in enumerate(layouts.items()):
        path = folder / f"{number}.zarr"
        steps = write(path, mib / 1024, stored, 0.01).shape[0]
        array = da.from_zarr(path)
        for one in QUESTIONS:
            if one.peer is not None:
                yield f"{layout}, {one.name}", lambda ask=one, a=array, n=steps: ask.peer(a, n)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mib", type=float, nargs="+", default=[64, 512])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="rows whose names have this in them")
    parser.add_argument("--questions", action="store_true")
    options = parser.parse_args()
    print("| expression | MiB | Dask, s | accelerated, s | ratio | of CPU times | computed here |")
    print("|---|---|---|---|---|---|---|")
    for mib in options.mib:
        with tempfile.TemporaryDirectory(prefix="chunkfold-bench-") as folder:
            if options.questions:
                rows = of_questions(Path(folder), mib)
            else:
                rows = of_xarray(Path(folder), mib)
            for name, run in rows:
                if options.only in name:
                    alone, own, here = pair(run, options.rounds)
                    print(f"| {name} | {mib:g} | {alone[0]:.3f} | {own[0]:.3f} | "
                          f"{own[0] / alone[0]:.2f} | {own[1] / alone[1]:.2f} | "
                          f"{'yes' if here else 'no'} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
