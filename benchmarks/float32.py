"""Means of float32 numbers near 280 by NumPy, Bottleneck, Dask and chunkfold, beside the true one.

    python benchmarks/float32.py [--count 50000000]

Bottleneck's rows need it installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import math

import dask.array as da
import numpy as np

import chunkfold as cf

_ROW = 500
"""Places of a map."""


def main() -> None:
    """Print a row for each way."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=50_000_000, help="numbers")
    count = parser.parse_args().count // _ROW * _ROW
    x = (280 + 15 * np.random.default_rng(0).standard_normal(count)).astype("f4")
    rows = {"true": math.fsum(x) / count, "NumPy": x.mean(), "chunkfold": cf.reduce(x, "mean")}
    if importlib.util.find_spec("bottleneck"):
        import bottleneck

        rows |= {"Bottleneck": bottleneck.nanmean(x), "Bottleneck, std": bottleneck.nanstd(x)}
    for chunk in (1_000_000, 10_000_000):
        rows[f"Dask, chunks of {chunk:,}"] = da.from_array(x, chunks=chunk).mean().compute()
    maps = x.reshape(-1, _ROW)
    by_place = {"NumPy": maps.mean(axis=0), "chunkfold": cf.reduce(maps, "mean", axis=0)}
    truth = maps.astype("f8").mean(axis=0)
    for name, value in rows.items():
        print(f"{name:28}{value:.8g}")
    for name, means in by_place.items():
        worst = np.abs(means - truth).argmax()
        print(f"{name + ', worst of ' + str(_ROW):28}{means[worst]:.8g}, true {truth[worst]:.8g}")


if __name__ == "__main__":
    main()
