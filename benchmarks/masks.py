"""Masks and weights beside the plain mean, end to end: ratios of neighbours in time.

python benchmarks/masks.py [--mib 384] [--rounds 5] [--only TEXT] [--mode exact]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from ingest import LARGE, PLANE, SMALL, TILES, write

import chunkfold as cf

LAYOUTS: Mapping[str, dict[str, Any]] = {
    "zstd, 33 MB chunks": LARGE,
    "zstd, 1 MB chunks": SMALL,
    "zstd, 1 MB tiles": TILES,
    "uncompressed, 33 MB chunks": LARGE | {"compressors": None},
    "uncompressed, 1 MB chunks": SMALL | {"compressors": None},
}
_LATITUDES = np.cos(np.linspace(-np.pi / 2, np.pi / 2, PLANE[0]))[:, None]
_MASK = np.random.default_rng(0).random(PLANE) < 0.7
CASES: Mapping[str, tuple[str, dict[str, Any]]] = {
    "plain": ("mean", {}),
    "mask": ("mean", {"where": _MASK}),
    "weights": ("mean", {"weights": _LATITUDES}),
    "both": ("mean", {"where": _MASK, "weights": _LATITUDES}),
}
Spent = tuple[float, float]
"""Seconds by the clock, and of processors."""


def spent(run: Callable[[], object]) -> Spent:
    """Return what a call takes."""
    wall, cpu = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - wall, time.process_time() - cpu


def bench(path: Path, rounds: int, mode: str) -> dict[str, list[Spent]]:
    """Run the cases in turn; the first round warms them up."""
    found: dict[str, list[Spent]] = {name: [] for name in CASES}
    for number in range(rounds + 1):
        for name, (op, given) in CASES.items():
            one = spent(lambda op=op, given=given: cf.reduce(path, op, mode=mode, **given))
            if number:
                found[name].append(one)
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mib", type=float, default=384)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="layouts whose names have this in them")
    parser.add_argument("--mode", default="exact")
    options = parser.parse_args()
    print(f"{options.mib:g} MiB float32, {options.mode}, in this process, medians of "
          f"{options.rounds} interleaved rounds: speed as a share of the plain mean's, by the "
          "clock (and by seconds of processors)")  # fmt: skip
    print(f"{'':30}{'plain, MB/s':>14}" + "".join(f"{name:>18}" for name in list(CASES)[1:]))
    for layout, given in LAYOUTS.items():
        if options.only not in layout:
            continue
        with tempfile.TemporaryDirectory(prefix="chunkfold-bench-") as folder:
            array = write(Path(folder) / "t.zarr", options.mib / 1024, given, 0.01)
            found = bench(Path(folder) / "t.zarr", options.rounds, options.mode)
            rate = array.nbytes / statistics.median(wall for wall, _ in found["plain"]) / 1e6
            cells = []
            for name in list(CASES)[1:]:
                pairs = list(zip(found["plain"], found[name], strict=True))
                wall, cpu = (statistics.median(a[n] / b[n] for a, b in pairs) for n in (0, 1))
                cells.append(f"{wall:.2f} ({cpu:.2f})")
            print(f"{layout:30}{rate:14.0f}" + "".join(f"{c:>18}" for c in cells), flush=True)


if __name__ == "__main__":
    main()
