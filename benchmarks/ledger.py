"""Measure what a ledger costs and saves: seconds of runs with one and without, in turn.

Each with a new ledger, beside A against A: what noise makes of nothing. Then the same question
again, and after one more hundredth of rows.

    python benchmarks/ledger.py [--mib 2048] [--pairs 15] [--device SPEC] [--op OP --op OP ...]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import zarr

import chunkfold as cf

CODECS = {"uncompressed": None, "zstd": "auto"}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mib", type=int, default=2048)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--device")
    parser.add_argument("--op", action="append")
    options = parser.parse_args()
    ops = options.op or ["mean", "std"]
    print(f"{options.mib} MiB float32, chunks of 1 MiB, {', '.join(ops)}; seconds, medians")
    print(f"{'':14}{'without':>9}{'with':>9}{'ratio':>8}{'A/A':>8}{'again':>9}{'1% more':>9}")
    with tempfile.TemporaryDirectory(prefix="chunkfold-ledger-") as folder:
        for name, codec in CODECS.items():
            path = Path(folder, f"{name}.zarr")
            _write(path, options.mib, codec)
            print(f"{name:14}{_row(path, ops, options)}", flush=True)


def _write(path: Path, mib: int, codec: object) -> None:
    rng = np.random.default_rng(0)
    array = zarr.create_array(
        path, shape=(mib, 512, 512), chunks=(1, 512, 512), dtype="f4", compressors=codec
    )
    for begin in range(0, mib, 64):
        rows = min(64, mib - begin)
        array[begin : begin + rows] = np.round(rng.normal(280, 15, size=(rows, 512, 512)), 1)
    time.sleep(2.5)  # until chunks are old enough to be trusted


def _row(path: Path, ops: list[str], options: argparse.Namespace) -> str:
    runs: dict[str, list[float]] = {"without": [], "with": [], "again": []}
    for number in range(options.pairs + 1):
        with tempfile.TemporaryDirectory(prefix="chunkfold-kept-") as ledger:
            order = ["without", "with", "again"]
            for name in order[number % 3 :] + order[: number % 3]:
                seconds = _seconds(path, ops, ledger if name == "with" else None)
                if number:  # the first ones compile
                    runs[name].append(seconds)
    ratios = [b / a for a, b in zip(runs["without"], runs["with"], strict=True)]
    noise = [b / a for a, b in zip(runs["without"], runs["again"], strict=True)]
    with tempfile.TemporaryDirectory(prefix="chunkfold-kept-") as ledger:
        _seconds(path, ops, ledger)
        known = _seconds(path, ops, ledger)
        array = zarr.open_array(path)
        rows = array.shape[0]
        array.resize((rows + rows // 100, *array.shape[1:]))
        array[rows:] = 280
        time.sleep(2.5)
        more = _seconds(path, ops, ledger)
    a, b, ratio, none = map(statistics.median, (runs["without"], runs["with"], ratios, noise))
    return f"{a:9.3f}{b:9.3f}{ratio:8.3f}{none:8.3f}{known:9.3f}{more:9.3f}"


def _seconds(path: Path, ops: list[str], ledger: str | None) -> float:
    began = time.perf_counter()
    cf.reduce(path, ops, ledger=ledger)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
