"""A short measurement that settles which of several tunings folds a reduction fastest."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence

import numpy as np
import pyopencl as cl

from chunkfold.kernels.binding.samples import inputs_of
from chunkfold.kernels.errors import ChunkfoldError
from chunkfold.kernels.fold.fold import Fold
from chunkfold.kernels.geometry import FOLDS, SHORT_RUN, Box, box
from chunkfold.kernels.program.device_context import DeviceContext
from chunkfold.kernels.tuning.trial import TrialRequest

_FEW_BYTES = 4 << 20
"""Bytes that fit a CPU's cache: threads that read also fold so many at a time."""
_MANY_BYTES = {"cpu": 64 << 20}
"""Bytes beyond all but the largest caches, by kind of device."""
_GPU_BYTES = 256 << 20
_LONG_S = 2e-3
"""A fold of a few bytes that takes longer is bound by arithmetic: more bytes would tell no more."""
_OUTPUTS = 256
"""Outputs of folds whose kernel is not for one output."""
_WARM_S = 0.1
"""Work before the measurement, in seconds: an idle GPU's clock is a sixth of a busy one's, and what
is bound by arithmetic then seems slower than it is."""
_ROUNDS = 5
_MARGIN = 1.05
"""Ratio to the rate of the table's first that another must exceed, because of noise."""


def measure_rates(opened: DeviceContext, request: TrialRequest) -> Sequence[float]:
    """Return the bytes per second that each tuning folds; empty for a single one.

    A CPU folds half of the bytes from memory, and half from a cache. One that fails has rate 0.
    """
    kernels = [name for name in request.kernels if name in FOLDS]
    if len(request.tunings) == 1 or not kernels:
        return ()
    folds: dict[int, Fold] = {}
    kernel = kernels[0]
    outputs = 1 if kernel == "flat" else _OUTPUTS
    for number, tuning in enumerate(request.tunings):
        try:
            folds[number] = Fold(opened, request.accumulator, tuning, outputs)
            device_seconds(folds[number], *_data(folds[number], kernel, 1 << 16))  # builds
        except ChunkfoldError:
            folds.pop(number, None)
    if not folds:
        return [0.0] * len(request.tunings)
    few, kind = _data(next(iter(folds.values())), kernel, _FEW_BYTES), request.device.kind
    samples = [(few, _FEW_BYTES)]
    if max(device_seconds(fold, *few) for fold in folds.values()) < _LONG_S:
        nbytes = min(_MANY_BYTES.get(kind, _GPU_BYTES), request.device.max_alloc_bytes // 4)
        many = _data(next(iter(folds.values())), kernel, nbytes)
        samples = [*(samples if kind == "cpu" else ()), (many, nbytes)]
    until = time.monotonic() + _WARM_S
    while time.monotonic() < until:
        for (data, _), fold in itertools.product(samples, folds.values()):
            device_seconds(fold, *data)
    seconds_per_byte = dict.fromkeys(folds, 0.0)
    for data, nbytes in samples:
        rounds = [
            {number: device_seconds(fold, *data) for number, fold in folds.items()}
            for _ in range(_ROUNDS)
        ]
        # The best of each: what else the machine does only takes time.
        for number in folds:
            best = min(taken[number] for taken in rounds)
            seconds_per_byte[number] += best / nbytes / len(samples)
    return [
        1 / seconds_per_byte[number] if number in folds else 0.0
        for number in range(len(request.tunings))
    ]


def fastest_first(rates: Sequence[float]) -> list[int]:
    """Return the numbers of tunings, the fastest first; the table's first has a margin.

    >>> fastest_first([100, 104]), fastest_first([100, 106]), fastest_first([0, 1])
    ([0, 1], [1, 0], [1, 0])
    """
    handicapped = [rate * (1 if number else _MARGIN) for number, rate in enumerate(rates)]
    return sorted(range(len(rates)), key=lambda number: -handicapped[number])


def _data(fold: Fold, kernel: str, nbytes: int) -> tuple[list[cl.Buffer], Box]:
    """Return buffers of small numbers, `nbytes` for all inputs together, and a box for a kernel."""
    accumulator, context = fold.accumulator, fold.opened.context
    each = max(1, nbytes // accumulator.element_bytes // fold.outputs)
    count = each * fold.outputs
    pattern = np.arange(1 << 12) * 37 % 101
    flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
    buffers = [
        cl.Buffer(context, flags, hostbuf=np.resize(elements, count))
        for elements in inputs_of(accumulator, [pattern] * len(accumulator.stored))
    ]
    run = min(each, SHORT_RUN)
    laid = {
        "flat": box((count,), (0,)),
        "rows": box((fold.outputs, each), (1,)),
        "short_rows": box((each // run, fold.outputs, run), (0, 2)),
        "columns": box((each, fold.outputs), (0,)),
    }
    return buffers, laid[kernel]


def device_seconds(fold: Fold, buffers: Sequence[cl.Buffer], whole: Box) -> float:
    """Fold a box; return the seconds of the first pass, by the device's clock."""
    before = _run_ns(fold, whole)
    fold.add(buffers, whole)
    fold.read_back()
    return max(_run_ns(fold, whole) - before, 1) / 1e9


def _run_ns(fold: Fold, whole: Box) -> int:
    times = fold.profile().get((f"fold_{fold.tuning.fold(whole.kernel)}", 0))
    return 0 if times is None else times.run_ns
