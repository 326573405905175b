"""Flat reductions on a GPU beside torch and CuPy with CUB: wall time, and the devices' own clocks.

Each takes its turn, round by round, on the same values in device memory.

    python benchmarks/gpu_peers.py [--device SPEC] [--gib 4] [--rounds 15]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

from chunkfold.kernels import DeviceContext, Fold, KeyedFold, as_monoid, bind, box, choose, devices
from chunkfold.kernels.bench.peers import folding, placed, reduction_kernel
from chunkfold.kernels.bench.timing import medians

DTYPES = ["float32", "float64", "int32", "int64"]


def torch_event_seconds(call: Callable[[], object], rounds: int) -> float:
    """Return the median seconds of a CUDA call by CUDA's events, the launch's overhead left out."""
    import torch

    times = []
    for _ in range(rounds):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
    return float(np.median(times))


def own_seconds(fold: Fold | KeyedFold, call: Callable[[], object], rounds: int) -> float:
    """Return the median seconds of a fold's passes, all of them, by the device's clock."""
    times = []
    for _ in range(rounds):
        before = _run_ns(fold)
        call()
        times.append((_run_ns(fold) - before) / 1e9)
    return float(np.median(times))


def _run_ns(fold: Fold | KeyedFold) -> int:
    return sum(launches.run_ns for launches in fold.profile().values())


def main() -> None:
    """Print the table."""
    import cupy
    import torch

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="gpu")
    parser.add_argument("--gib", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    (device, *_) = devices(options.device)
    opened, nbytes = DeviceContext(device), options.gib << 30
    print(f"TB/s, sum of {options.gib} GiB on {device}; wall time, and (device time)")
    for dtype in DTYPES:
        array = np.resize(np.arange(1 << 22).astype(dtype), nbytes // np.dtype(dtype).itemsize)
        buffer = placed(opened, array)
        tensor = torch.from_numpy(array).cuda()
        cupy_array = cupy.from_dlpack(tensor)
        bound = bind([as_monoid("sum")], [array.dtype])
        fold = Fold(opened, bound.accumulator, choose(device, bound.accumulator))
        ours = folding(fold, buffer, box(array.shape, (0,)))
        peer = reduction_kernel(opened, "sum", array, buffer)
        assert peer is not None, "ReductionKernel needs mako"
        wall = medians(
            {
                "chunkfold": ours,
                "torch": lambda tensor=tensor: tensor.sum().item(),
                "cupy": lambda values=cupy_array: values.sum().item(),
                "ReductionKernel": peer,
            },
            options.rounds,
            settled=True,
        )
        own = {
            "chunkfold": own_seconds(fold, ours, options.rounds),
            "torch": torch_event_seconds(lambda tensor=tensor: tensor.sum(), options.rounds),
            "cupy": torch_event_seconds(lambda values=cupy_array: values.sum(), options.rounds),
        }
        cells = [
            f"{name} {nbytes / seconds / 1e12:.2f}"
            + (f" ({nbytes / own[name] / 1e12:.2f})" if name in own else "")
            for name, seconds in wall.items()
        ]
        print(f"{dtype:9}", "  ".join(cells), flush=True)
        del tensor, cupy_array
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
