"""What exact sums cost a whole job: the same reductions in both modes, in turns, on one cluster.

python benchmarks/exact_job.py [--gib 2] [--pairs 20] [--device SPEC] [--data zstd]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import chunkfold as cf
from benchmarks.job import DATASETS, write
from chunkfold.cluster import connect

REDUCTIONS = [("sum", None), ("mean", 0), ("std", 0)]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gib", type=float, default=2.0)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--device", default=None)
    parser.add_argument("--data", default="", help="only data sets whose name has this")
    options = parser.parse_args()
    print(f"medians of {options.pairs} interleaved pairs, {options.gib} GiB float32")
    print(f"{'':28}{'':22}{'fast, s':>10}{'exact, s':>10}{'exact / fast':>14}")
    with (
        tempfile.TemporaryDirectory(prefix="chunkfold-bench-") as folder,
        cf.LocalOpenCLCluster(options.device, dashboard_address=None) as cluster,
        connect(cluster.scheduler_address) as client,
    ):
        for name, layout in DATASETS.items():
            if options.data not in name:
                continue
            path = Path(folder) / f"{name}.zarr"
            write(path, options.gib, layout)
            for op, axis in REDUCTIONS:
                times: dict[str, list[float]] = {"fast": [], "exact": []}
                for number in range(options.pairs + 1):
                    for mode, kept in times.items():
                        began = time.perf_counter()
                        cf.reduce(path, op, axis=axis, mode=mode, client=client)
                        if number:
                            kept.append(time.perf_counter() - began)
                fast, exact = (statistics.median(kept) for kept in times.values())
                ratio = statistics.median(
                    [b / a for a, b in zip(times["fast"], times["exact"], strict=True)]
                )
                where = "all" if axis is None else f"axis {axis}"
                print(f"{path.stem:28}{f'{op}, {where}':22}{fast:10.2f}{exact:10.2f}{ratio:14.3f}",
                      flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
