"""Reductions of many shapes and dtypes: GB/s, beside the read ceiling and NumPy.

python benchmarks/axes.py [--device SPEC] [--rounds 7] [--mib 256] [--only PATTERN] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import re
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl
from cases import CASES, OPS, Case, arrays_of, prepared

from chunkfold.kernels import DeviceContext, devices
from chunkfold.kernels.bench.measure import best_read
from chunkfold.kernels.bench.timing import Timed, medians

UNNAMED: dict[str, Callable[..., Any]] = {
    "sumsq": lambda array, axis: np.square(array).sum(axis),
    "norm1": lambda array, axis: np.abs(array).sum(axis),
    "norm2": lambda array, axis: np.sqrt(np.square(array).sum(axis)),
    "dot": lambda array, other, axis: (array * other).sum(axis),
}
"""What NumPy has no function for, that takes several axes."""


def in_numpy(case: Case, arrays: Sequence[np.ndarray]) -> list[Any]:
    """Reduce one statistic after the other, on one core."""
    if case.op == "histogram":
        return [np.histogram(arrays[0], 80, (200, 360))]
    values = [case.packing.values(array) if case.packing else array for array in arrays]
    functions = [UNNAMED.get(name, getattr(np, name, None)) for name in OPS[case.op].split()]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # rows of NaN alone; sums of halves overflow
        return [function(*values, axis=case.layout[1]) for function in functions if function]


@lru_cache(maxsize=1)
def ceiling(opened: DeviceContext, buffer: cl.Buffer) -> Timed:
    """Return what reads a buffer fastest."""
    return best_read(opened, buffer, buffer.size // 64 * 64)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="all")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--only", default="", help="a regular expression that names match")
    parser.add_argument("--json", type=Path, help="append a line for each row to this file")
    options = parser.parse_args()
    nbytes = options.mib << 20
    print(f"{'device':14}{'case':48}{'GB/s':>8}{'ceiling':>9}{'NumPy':>8}{'share':>7}")
    for device in devices(options.device):
        opened = DeviceContext(device)
        for case in CASES:
            if not re.search(options.only, case.name):
                continue
            ours, arrays = prepared(opened, case, nbytes), arrays_of(case, nbytes)
            contenders: dict[str, Timed] = {
                "ours": ours,
                "ceiling": ceiling(opened, ours.buffers[0]),
                "numpy": lambda: in_numpy(case, arrays),  # noqa: B023
            }
            seconds = medians(contenders, options.rounds)
            read = dict.fromkeys(seconds, ours.nbytes) | {"ceiling": ours.buffers[0].size}
            rates = {name: read[name] / taken / 1e9 for name, taken in seconds.items()}
            print(
                f"{device.spec:14}{case.name:48}{rates['ours']:8.1f}{rates['ceiling']:9.1f}"
                f"{rates['numpy']:8.1f}{rates['ours'] / rates['ceiling']:7.2f}",
                flush=True,
            )
            if options.json:
                with options.json.open("a") as file:
                    row = {"device": device.spec, "case": case.name, "gb_per_s": rates}
                    file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
