"""Exact reductions of floats beside fast ones and the read ceiling: GB/s of data in place.

python benchmarks/exact.py [--device SPEC] [--mib 256] [--rounds 5]
"""

from __future__ import annotations

import argparse

import numpy as np

from chunkfold.kernels import DeviceContext, devices
from chunkfold.kernels.bench.measure import best_read
from chunkfold.kernels.bench.peers import device_copy, ours, repeated
from chunkfold.kernels.bench.timing import medians

OPS = ["sum", "mean", "sumsq", "var"]
_PATTERN = 1 << 20


def ordinary(rng: np.random.Generator, dtype: str) -> np.ndarray:
    """Like temperatures: N(280, 15)."""
    return (280 + 15 * rng.standard_normal(_PATTERN)).astype(dtype)


def wild(rng: np.random.Generator, dtype: str) -> np.ndarray:
    """Of both signs, over forty powers of ten."""
    scales = 10.0 ** rng.uniform(-20, 20, _PATTERN)
    return (rng.standard_normal(_PATTERN) * scales).astype(dtype)


def layouts(count: int) -> list[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    """Return name, shape and reduced axes of arrays of about `count` elements."""
    return [
        ("whole", (count,), (0,)),
        ("first axis", (512, count // 512), (0,)),
        ("last axis", (count // 1440, 1440), (1,)),
        ("middle kept", (64, count // 64 // 1440, 1440), (0, 2)),
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="all")
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    print(
        f"{'device':14}{'dtype':9}{'data':10}{'layout':13}{'op':7}{'ceiling':>9}{'fast':>9}"
        f"{'exact':>9}{'of ceiling':>12}{'of fast':>9}"
    )
    for device in devices(options.device):
        opened = DeviceContext(device)
        for dtype in ("float32", "float64"):
            count = options.mib * 2**20 // np.dtype(dtype).itemsize
            for made in (ordinary, wild):
                pattern = made(rng, dtype)
                for layout, shape, axes in layouts(count)[: 1 if made is wild else None]:
                    array = repeated(pattern, shape)
                    buffer = device_copy(opened, array)
                    ceiling = best_read(opened, buffer, array.nbytes)
                    for op in OPS:
                        contenders = {
                            "ceiling": ceiling,
                            "fast": ours(opened, op, array, buffer, axes),
                            "exact": ours(opened, op, array, buffer, axes, exact=True),
                        }
                        seconds = medians(contenders, options.rounds)
                        rates = {name: array.nbytes / s / 1e9 for name, s in seconds.items()}
                        print(
                            f"{device.spec:14}{dtype:9}{made.__name__:10}{layout:13}{op:7}"
                            f"{rates['ceiling']:9.1f}{rates['fast']:9.1f}{rates['exact']:9.1f}"
                            f"{rates['exact'] / rates['ceiling']:12.3f}"
                            f"{rates['exact'] / rates['fast']:9.2f}",
                            flush=True,
                        )


if __name__ == "__main__":
    main()
