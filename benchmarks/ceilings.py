"""What holds each reduction back on a device: reading memory, or its own arithmetic.

Every op folds many values, from memory, and then few, which stay in the device's cache: half of
these, and all. By the device's own clock; what the second half takes more is the rate without
memory, and without what a launch costs. An op that is not much faster there is held back by what
it does with elements.

    python benchmarks/ceilings.py [--device SPEC] [--mib 4096] [--cached-mib 40] [--below 0.85]
        [--dtype float32 --dtype ...]
"""

from __future__ import annotations

import argparse

import numpy as np
import pyopencl as cl

from chunkfold.kernels import DeviceContext, Fold, as_monoid, bind, box, choose, devices
from chunkfold.kernels.bench.peers import device_copy, repeated
from chunkfold.kernels.tuning.autotuning import device_seconds

DTYPES = ["float32", "float64", "float16", "int64", "int32", "int8", "complex64"]
OPS = ["sum", "prod", "min", "max", "minmax", "argmin", "mean", "var", "sumsq", "norm1", "norm2",
       "norminf", "logsumexp", "any", "count_nonzero", "bitwise_xor"]  # fmt: skip
OF_KIND = {"c": {"sum", "mean", "prod"}, "f": set(OPS) - {"bitwise_xor"}}
COLUMNS = ("memory", "of sum", "no memory", "share")


def seconds(fold: Fold, buffer: cl.Buffer, count: int, rounds: int) -> float:
    """Return the median time of a fold's first pass."""
    whole = box((count,), (0,))
    times = [device_seconds(fold, [buffer], whole) for _ in range(rounds + 2)]
    return float(np.median(times[2:]))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="gpu")
    parser.add_argument("--mib", type=int, default=4096)
    parser.add_argument("--cached-mib", type=int, default=40, help="what the cache holds")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--below", type=float, default=9.0, help="only ops below this share of sum")
    parser.add_argument("--dtype", action="append", choices=DTYPES, help="all by default")
    options = parser.parse_args()
    (device, *_) = devices(options.device)
    opened = DeviceContext(device)
    print(f"GB/s on {device}: of {options.mib} MiB in memory, and of {options.cached_mib} in cache")
    print(f"{'dtype':10} {'op':14}" + "".join(f"{name:>10}" for name in COLUMNS))
    best = 0.0
    for dtype in options.dtype or DTYPES:
        some = np.arange(1 << 15).astype(dtype)
        values = repeated(some, ((options.mib << 20) // some.itemsize,))
        buffer = device_copy(opened, values)
        few = (options.cached_mib << 20) // values.itemsize
        for op in OPS:
            if op not in OF_KIND.get(values.dtype.kind, OPS):
                continue
            bound = bind([as_monoid(op)], [values.dtype])
            fold = Fold(
                opened, bound.accumulator, choose(device, bound.accumulator, kernels=("flat",))
            )
            memory = values.nbytes / seconds(fold, buffer, values.size, options.rounds)
            best = best or memory  # the first is the sum of float32
            if memory / best > options.below:
                continue
            half, whole = (seconds(fold, buffer, n, 4 * options.rounds) for n in (few // 2, few))
            cached = few // 2 * values.itemsize / max(whole - half, 1e-9)
            print(
                f"{dtype:10} {op:14}{memory / 1e9:10.0f}{memory / best:10.2f}"
                f"{cached / 1e9:10.0f}{memory / cached:10.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
