"""What a reduction waits for before its first fold: choosing its kernels, and building them.

Cold, with no verdict and no compiled kernel on disk, then warm: both in new processes that share a
cache. Seconds, without imports.

python benchmarks/builds.py [--device SPEC] [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

from chunkfold.kernels import DeviceContext, as_monoid, bind, choose, devices

OPS = ["sum", "max", "var", "sum+min+max+mean+std", "nanmean+nanmin+nanmax+nanstd+nanargmin"]
KERNELS = ["flat", "rows", "columns", "short_rows"]


def prepare(spec: str, op: str, kernel: str) -> list[float]:
    """Choose a tuning for an exact reduction of float32, and build what it launches."""
    (device, *_) = devices(spec)
    opened = DeviceContext(device)
    bound = bind([as_monoid(name) for name in op.split("+")], [np.dtype("f4")], exact=True)
    accumulator = bound.accumulator.for_outputs(1 if kernel == "flat" else 1000)
    began = time.perf_counter()
    tuning = choose(device, accumulator, kernels=(kernel,))
    chosen = time.perf_counter()
    for file in (f"{tuning.fold(kernel)}.cl", "passes.cl"):
        opened.program(file, accumulator, tuning)
    return [chosen - began, time.perf_counter() - chosen]


def prepared(spec: str, op: str, kernel: str, cache: str) -> list[float]:
    """Do so in a new process that keeps what it finds out in a folder."""
    words = [sys.executable, __file__, "--device", spec, "--one", op, kernel]
    folders = {"CHUNKFOLD_CACHE": cache, "XDG_CACHE_HOME": cache}
    done = subprocess.run(words, env=os.environ | folders, capture_output=True, check=True)
    seconds: list[float] = json.loads(done.stdout)
    return seconds


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", nargs=2, metavar=("OP", "KERNEL"), help="print one, as JSON")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(prepare(options.device, *options.one)))
        return
    print(f"{'':64}{'cold':>15}{'warm':>15}")
    print(f"{'device':14}{'kernel':12}{'op':41}" + f"{'choice':>8}{'build':>7}" * 2)
    for device in devices(options.device):
        for kernel in KERNELS:
            for op in OPS:
                rounds = []
                for _ in range(options.rounds):
                    with tempfile.TemporaryDirectory() as cache:
                        cold, warm = (prepared(device.spec, op, kernel, cache) for _ in range(2))
                    rounds.append([*cold, *warm])
                medians = [statistics.median(column) for column in zip(*rounds, strict=True)]
                figures = "".join(f"{s:8.2f}{t:7.2f}" for s, t in (medians[:2], medians[2:]))
                print(f"{device.spec:14}{kernel:12}{op:41}{figures}", flush=True)


if __name__ == "__main__":
    main()
