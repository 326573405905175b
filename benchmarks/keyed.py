"""Sums by label on a device beside cupy.bincount and torch.index_add_, and what memory allows.

GB/s of values, by each one's own clock of the device; labels (int32) are read beside them. Random
labels, and runs of 512 of the same.

    python benchmarks/keyed.py [--device SPEC] [--log2 28] [--op sum --op std ...] [--mode fast]
"""

from __future__ import annotations

import argparse

import numpy as np
import pyopencl as cl
from gpu_clocks import event_seconds, own_seconds, torch_and_cupy

from chunkfold.kernels import (
    Bound,
    Box,
    DeviceContext,
    Fold,
    KeyedFold,
    as_monoid,
    bind,
    box,
    choose,
    devices,
    keyed_box,
)
from chunkfold.kernels.bench.peers import device_copy

LABELS = (12, 100, 1_000, 4_000, 10_000, 1_000_000)
DTYPES = ("float32", "float64", "int32")
RUN = 512
_BLOCK = 1 << 22


def labels(count: int, groups: int, *, runs: bool) -> np.ndarray:
    """Return labels of so many elements, int32."""
    rng = np.random.default_rng(1)
    some = rng.integers(0, groups, _BLOCK // (RUN if runs else 1), dtype=np.int32)
    return np.resize(np.repeat(some, RUN) if runs else some, count)


def values(count: int, dtype: str) -> np.ndarray:
    """Return normal deviates; integers of the same spread."""
    some = np.random.default_rng(2).standard_normal(_BLOCK) * 1000
    return np.resize(some.astype(dtype), count)


def peers(array: np.ndarray, keys: np.ndarray, groups: int, rounds: int) -> dict[str, float]:
    """Return the seconds of torch and CuPy, if they are here; CuPy has float64 bins alone."""
    if (found := torch_and_cupy()) is None:
        return {}
    torch, cupy = found
    tensor, index = torch.from_numpy(array).cuda(), torch.from_numpy(keys).cuda()
    out = torch.zeros(groups, dtype=tensor.dtype, device="cuda")
    weights, bins = cupy.from_dlpack(tensor), cupy.from_dlpack(index)
    if array.dtype.kind != "f":
        weights = weights.astype("f8")
    calls = {
        "torch": lambda: out.index_add_(0, index, tensor),
        "CuPy": lambda: cupy.bincount(bins, weights=weights, minlength=groups),
    }
    return event_seconds(calls, rounds)


def seconds_by_label(
    opened: DeviceContext,
    bound: Bound,
    buffer: cl.Buffer,
    keys: np.ndarray,
    groups: int,
    rounds: int,
) -> float:
    """Return the seconds of a fold by label of what a buffer holds."""
    accumulator = bound.accumulator.for_outputs(groups)
    tuning = choose(opened.device, accumulator, kernels={"flat"})
    keyed, held = KeyedFold(opened, accumulator, tuning, groups), device_copy(opened, keys)

    def labelled() -> None:
        keyed.add([buffer], held, keyed_box(keys.shape, (0,)))
        keyed.read_back()

    labelled()  # the first time it compiles
    try:
        return own_seconds(keyed, labelled, rounds)
    finally:
        held.release()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="gpu")
    parser.add_argument("--log2", type=int, default=28, help="elements, as a power of two")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--op", action="append", help="sum by default")
    parser.add_argument("--mode", choices=("exact", "fast"), default="exact")
    parser.add_argument("--dtype", action="append", help=f"{', '.join(DTYPES)} by default")
    parser.add_argument("--labels", type=int, action="append", help=f"{LABELS} by default")
    parser.add_argument("--no-peers", action="store_true")
    options = parser.parse_args()
    (device, *_) = devices(options.device)
    opened, count = DeviceContext(device), 1 << options.log2
    print(f"GB/s of values, {count:,} of them by label on {device}")
    for dtype in options.dtype or DTYPES:
        array = values(count, dtype)
        buffer, whole = device_copy(opened, array), box((count,), (0,))
        for op in options.op or ["sum"]:
            monoids, exact = [as_monoid(op)], options.mode == "exact"
            bound = bind(monoids, [array.dtype], exact=exact, keyed=True)
            flat = bind(monoids, [array.dtype], exact=exact).accumulator
            fold = Fold(opened, flat, choose(device, flat, kernels={"flat"}))

            def unlabelled(
                fold: Fold = fold, buffer: cl.Buffer = buffer, whole: Box = whole
            ) -> None:
                fold.add([buffer], whole)
                fold.read_back()

            unlabelled()  # the first time it compiles
            rate = array.nbytes / own_seconds(fold, unlabelled, options.rounds) / 1e9
            share = array.itemsize / (array.itemsize + 4)
            print(f"{dtype} {op}: {rate:.0f} without labels, {rate * share:.0f} if they were read")
            for groups in options.labels or LABELS:
                for runs in (False, True):
                    keys = labels(count, groups, runs=runs)
                    own = seconds_by_label(opened, bound, buffer, keys, groups, options.rounds)
                    seconds = {"chunkfold": own}
                    if op == "sum" and not options.no_peers:
                        seconds |= peers(array, keys, groups, options.rounds)
                    cells = [f"{n} {array.nbytes / s / 1e9:8.1f}" for n, s in seconds.items()]
                    kind = f"runs of {RUN}" if runs else "random"
                    print(f"  {groups:9,} {kind:12} {'  '.join(cells)}", flush=True)
        buffer.release()


if __name__ == "__main__":
    main()
