"""Reductions along axes: GB/s in every layout, beside the read ceiling and NumPy.

One statistic, four and ten in one pass.

python benchmarks/axes.py [--device SPEC] [--rounds 7]
"""

from __future__ import annotations

import argparse

import numpy as np

from chunkfold.kernels import OpenedDevice, devices
from chunkfold.kernels.bench.measure import best_read
from chunkfold.kernels.bench.peers import ours, placed, repeated
from chunkfold.kernels.bench.timing import medians

LAYOUTS = [
    ((1 << 26,), (0,)),
    ((512, 360, 360), (0,)),
    ((64, 720, 1440), (1,)),
    ((64, 720, 1440), (2,)),
    ((64, 720, 1440), (0, 2)),
    ((1 << 24, 4), (0,)),
    ((1 << 20, 64), (1,)),
]
OPS = {
    "sum": ["sum"],
    "max": ["max"],
    "four": ["sum", "mean", "min", "max"],
    "ten": ["sum", "mean", "min", "max", "var", "std", "sumsq", "norm1", "norm2", "count_nonzero"],
}
UNNAMED = {
    "sumsq": lambda array, axis: np.square(array).sum(axis),
    "norm1": lambda array, axis: np.abs(array).sum(axis),
    "norm2": lambda array, axis: np.sqrt(np.square(array).sum(axis)),
}
"""What NumPy has no function for, that takes several axes."""


def in_numpy(names: list[str], array: np.ndarray, axes: tuple[int, ...]) -> list[np.ndarray]:
    """Reduce one statistic after the other, on one core."""
    return [UNNAMED.get(name, getattr(np, name, None))(array, axis=axes) for name in names]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="all")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    print(
        f"{'device':14}{'shape':18}{'axes':8}{'op':6}{'GB/s':>8}{'ceiling':>9}{'NumPy':>8}{'share':>7}"
    )
    for device in devices(options.device):
        opened = OpenedDevice(device)
        for shape, axes in LAYOUTS:
            array = repeated(np.arange(1 << 20, dtype="f4"), shape)
            buffer = placed(opened, array)
            ceiling = best_read(opened, buffer, array.nbytes)
            for label, names in OPS.items():
                seconds = medians(
                    {
                        "ours": ours(opened, "+".join(names), array, buffer, axes),
                        "ceiling": ceiling,
                        "numpy": lambda: in_numpy(names, array, axes),  # noqa: B023
                    },
                    options.rounds,
                )
                rates = [
                    array.nbytes / seconds[name] / 1e9 for name in ("ours", "ceiling", "numpy")
                ]
                print(
                    f"{device.spec:14}{'x'.join(map(str, shape)):18}{axes!s:8}{label:6}"
                    f"{rates[0]:8.1f}{rates[1]:9.1f}{rates[2]:8.1f}{rates[0] / rates[1]:7.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
