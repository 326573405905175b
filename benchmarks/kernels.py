"""Kernels alone: GB/s of each reduction on each device, beside the peers a user could pick.

Every row's contenders run in turn, round by round, so that noise meets all of them; medians are
printed, and ratios within the row.

    python benchmarks/kernels.py [--device SPEC] [--mib 512] [--rounds 9] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyopencl as cl
import pyopencl.array
from pyopencl.reduction import ReductionKernel

from chunkfold.kernels import Device, Fold, OpenedDevice, as_monoid, bind, box, choose, devices

CASES = [
    ("sum", "float32"),
    ("sum", "float64"),
    ("sum", "int32"),
    ("sum", "int64"),
    ("sum", "int8"),
    ("sum", "float16"),
    ("min", "float32"),
    ("max", "int32"),
    ("mean", "float32"),
    ("sum min max mean", "float32"),
]
Timed = Callable[[], object]


def ours(opened: OpenedDevice, ops: list[str], array: np.ndarray, buffer: cl.Buffer) -> Timed:
    """Fold the whole buffer and read the partial back."""
    bound = bind([as_monoid(op) for op in ops], [array.dtype])
    fold = Fold(opened, bound.accumulator, choose(opened.device, bound.accumulator))
    whole = box(array.shape, (0,))

    def run() -> object:
        fold.add([buffer], whole)
        return fold.finish()

    return run


def reduction_kernel(opened: OpenedDevice, op: str, array: np.ndarray, buffer: cl.Buffer) -> Timed:
    """Pyopencl's own reduction, in the accumulator that ours has."""
    ctype = {"f": "double", "i": "long"}[array.dtype.kind]
    element = {"f4": "float", "f8": "double", "i4": "int", "i8": "long", "i1": "char"}
    stored = element[array.dtype.str[1:]]
    out = {"double": np.float64, "long": np.int64}[ctype]
    neutral, expression = {
        "sum": ("0", "a+b"),
        "min": ("INFINITY", "min(a,b)"),
        "max": ("-2147483648", "max(a,b)"),
    }[op]
    kernel = ReductionKernel(
        opened.context,
        out,
        neutral=neutral,
        reduce_expr=expression,
        map_expr=f"({ctype})x[i]",
        arguments=f"__global const {stored} *x",
    )
    queue = opened.queue()
    view = cl.array.Array(queue, array.shape, array.dtype, data=buffer)
    return lambda: kernel(view, queue=queue).get()


def torch_sum(op: str, array: np.ndarray) -> Timed | None:
    """Torch's reduction of the same values in its own device memory, where torch has a GPU."""
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available() or op not in ("sum", "min", "max", "mean"):
        return None
    values = torch.from_numpy(array).cuda()
    return lambda: getattr(values, op)().item()


def cupy_sum(op: str, array: np.ndarray) -> Timed | None:
    """CuPy with CUB, where there is a GPU."""
    try:
        import cupy
    except ImportError:
        return None
    values = cupy.asarray(array)
    return lambda: getattr(values, op)().item()


def measure(contenders: dict[str, Timed], rounds: int) -> dict[str, float]:
    """Return each contender's median seconds over interleaved rounds, after two to warm up."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds + 2):
        for name, run in contenders.items():
            began = time.perf_counter()
            run()
            if number >= 2:
                times[name].append(time.perf_counter() - began)
    return {name: statistics.median(values) for name, values in times.items()}


def bench(device: Device, mib: int, rounds: int) -> Iterator[dict[str, object]]:
    """Measure every case on a device."""
    opened = OpenedDevice(device)
    for ops, dtype in CASES:
        count = (mib << 20) // np.dtype(dtype).itemsize
        array = np.resize(np.random.default_rng(0).integers(0, 100, 1 << 24).astype(dtype), count)
        shared = device.unified_memory
        flags = cl.mem_flags.USE_HOST_PTR if shared else cl.mem_flags.COPY_HOST_PTR
        buffer = cl.Buffer(opened.context, cl.mem_flags.READ_ONLY | flags, hostbuf=array)
        first = ops.split()[0]
        contenders: dict[str, Timed | None] = {
            "chunkfold": ours(opened, ops.split(), array, buffer)
        }
        if shared:
            contenders["numpy"] = lambda a=array, o=ops: [getattr(np, op)(a) for op in o.split()]
        if " " not in ops:
            if first != "mean" and dtype != "float16":
                contenders["ReductionKernel"] = reduction_kernel(opened, first, array, buffer)
            if device.kind == "gpu":
                contenders |= {"torch": torch_sum(first, array), "cupy": cupy_sum(first, array)}
        seconds = measure({n: run for n, run in contenders.items() if run}, rounds)
        rates = {name: array.nbytes / value / 1e9 for name, value in seconds.items()}
        yield {"device": device.spec, "ops": ops, "dtype": dtype} | rates


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device")
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    peers = ("chunkfold", "numpy", "ReductionKernel", "torch", "cupy")
    print(f"GB/s, {options.mib} MiB, medians of {options.rounds} interleaved rounds")
    print(f"{'device':24}{'ops':20}{'dtype':10}" + "".join(f"{peer:>17}" for peer in peers))
    for device in devices(options.device or "all"):
        for row in bench(device, options.mib, options.rounds):
            cells = "".join(f"{row[p]:17.1f}" if p in row else f"{'-':>17}" for p in peers)
            print(f"{row['device']:24}{row['ops']:20}{row['dtype']:10}{cells}", flush=True)
            rows.append(row)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
