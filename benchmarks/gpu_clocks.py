"""Times by the clocks of devices: of folds, and of what torch and CuPy do where they are."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from chunkfold.kernels import Fold, KeyedFold
from chunkfold.kernels.bench.timing import Timed


def run_ns(fold: Fold | KeyedFold) -> int:
    """Return the nanoseconds of all passes of a fold until now."""
    return sum(launches.run_ns for launches in fold.profile().values())


def own_seconds(fold: Fold | KeyedFold, call: Timed, rounds: int) -> float:
    """Return the median seconds of a fold's passes, all of them."""
    times = []
    for _ in range(rounds):
        before = run_ns(fold)
        call()
        times.append(max(1, run_ns(fold) - before) / 1e9)
    return statistics.median(times)


@lru_cache
def _installed() -> tuple[Any, Any] | None:
    try:
        import cupy
        import torch
    except ImportError as error:
        why = f"{error.name} is not installed"
    else:
        if torch.cuda.is_available():
            return torch, cupy
        why = "torch finds no GPU"
    print(f"left out: torch and CuPy ({why})", file=sys.stderr)
    return None


def torch_and_cupy() -> tuple[Any, Any] | None:
    """Return torch and CuPy with the memory that they kept given back; None where one is not."""
    found = _installed()
    if found is not None:
        torch, cupy = found
        torch.cuda.empty_cache()
        cupy.get_default_memory_pool().free_all_blocks()
    return found


def event_seconds(calls: Mapping[str, Timed], rounds: int) -> dict[str, float]:
    """Return the median seconds of CUDA calls by CUDA's events, the launches' overhead left out."""
    import torch

    medians = {}
    for name, call in calls.items():
        call()  # the first time it may compile
        times = []
        for _ in range(rounds):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            call()
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end) / 1e3)
        medians[name] = statistics.median(times)
    return medians
