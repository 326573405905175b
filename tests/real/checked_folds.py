"""Folds small inputs in many shapes; run under oclgrind, which watches every access.

With a kernel file as argument, runs that instead: over 64 items in groups of 16. With
"short_rows", folds those: of accumulators that have no tables, for which all else is folded.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyopencl as cl

from chunkfold.kernels import (
    Accumulator,
    Bound,
    Combiner,
    DeviceContext,
    Fold,
    all_devices,
    as_monoid,
    bind,
    box,
)
from chunkfold.kernels.accumulator.partial import zero_partial
from chunkfold.kernels.catalogue.histograms import histogram
from chunkfold.kernels.ladder import LADDER, RungFold
from chunkfold.kernels.program.options import Loads
from chunkfold.kernels.tuning.variant import forced

OPS = ["sum", "min", "max", "mean", "prod", "var", "norm2"]
EXACT = ["norm1", "var"]
FEW_BOXES = [((65,), (0,)), *(((5, 7, 3), axes) for axes in ((0,), (2,), (0, 2)))]
BOXES = [((n,), (0,)) for n in (1, 2, 65, 1031)] + [
    ((5, 7, 3), axes) for axes in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2))
]
SHORT_ROWS = [((8, 4), (1,)), ((19, 7), (1,)), ((2, 9, 5), (0, 2))]
EDGES = [1, 2, 4, 5, 7, 10]
_kept = []


def kept_for_good(make: type) -> Callable[..., cl.Buffer]:
    """Make buffers whose memory is never used again: oclgrind 21.10 takes what is written to a
    buffer at an address used before for uninitialized."""

    def made(*args: object, **kwargs: object) -> cl.Buffer:
        _kept.append(make(*args, **kwargs))
        return _kept[-1]

    return made


def filled_by_copy(
    queue: cl.CommandQueue, buffer: cl.Buffer, pattern: np.ndarray, offset: int, size: int
) -> cl.Event:
    """Fill a buffer: oclgrind 21.10 takes what clEnqueueFillBuffer writes for uninitialized."""
    values = np.tile(pattern, size // pattern.nbytes)
    return cl.enqueue_copy(queue, buffer, values, dst_offset=offset, is_blocking=True)


def fold_everything(opened: DeviceContext) -> int:
    """Fold every box in every shape that suits a device without built-ins; return how many."""
    monoids = [*(as_monoid(op) for op in OPS), histogram(EDGES)]
    single, double = (
        bind([as_monoid(op) for op in EXACT], [np.dtype(name)], exact=True)
        for name in ("float32", "float64")
    )
    integers = bind(monoids, [np.dtype("int32")])
    # Neighbours so far apart that limbs are needed, or all terms of an expansion.
    return (
        fold_boxes(opened, integers, integers.accumulator, BOXES)
        + fold_boxes(opened, double, double.accumulator, FEW_BOXES, (1e-20, 1, 1e15))
        + fold_boxes(opened, double, double.accumulator.for_outputs(2), FEW_BOXES[:2])
        + fold_boxes(opened, single, single.accumulator.for_outputs(2), FEW_BOXES, (1e-6, 1, 1e6))
    )


def fold_short_rows(opened: DeviceContext) -> int:
    """Fold boxes of short rows, of whole blocks and not; return how many."""
    done = 0
    for names, dtype, exact, scales in (
        (["min", "prod", "var"], "int32", False, (1,)),
        (["sum", "max"], "float16", False, (1,)),
        (EXACT, "float64", True, (1, 1e3)),
        (EXACT, "float32", True, (1e-6, 1, 1e6)),  # on no grid
    ):
        bound = bind([as_monoid(op) for op in names], [np.dtype(dtype)], exact=exact)
        accumulator = bound.accumulator.for_outputs(2)
        done += fold_boxes(opened, bound, accumulator, SHORT_ROWS, scales)
    bound = bind([as_monoid(op) for op in OPS], [np.dtype("int32")])
    staged = Loads(32, lanes=1, width=1, unroll=4)
    return done + fold_boxes(opened, bound, bound.accumulator, SHORT_ROWS, short_rows=staged)


def fold_boxes(
    opened: DeviceContext,
    bound: Bound,
    accumulator: Accumulator,
    boxes: list,
    scales: tuple[float, ...] = (1,),
    short_rows: Loads | None = None,
) -> int:
    """Fold boxes in every shape, of neighbours that differ by `scales`; return how many."""
    dtype = np.dtype(accumulator.stored[0])
    base = forced(opened.device, accumulator, "tree")[0]
    limit = opened.device.max_work_group_size
    done = 0
    for local in (1, min(16, limit)):
        for strip in (True, False):
            loads = Loads(local, lanes=2, width=4, unroll=2)
            tuning = replace(
                base,
                groups=3,
                flat=loads,
                rows=loads,
                columns=Loads(4, lanes=2, width=2, unroll=2),
                short_rows=short_rows or base.short_rows,
                strip=strip,
                aligned=not strip,
                tile=1 + strip,
                local_tables=not (strip or local == 1 or accumulator.exact),
            )
            for shape, axes in boxes:
                array = (np.arange(math.prod(shape)) * 37 % 11).astype(dtype).reshape(shape)
                array *= np.array(scales).astype(dtype)[np.arange(shape[-1]) % len(scales)]
                outputs = math.prod(n for axis, n in enumerate(shape) if axis not in axes)
                # oclgrind watches every byte of them, and limbs are many.
                splits = 2 if accumulator.exact else 64
                fold = Fold(opened, accumulator, tuning, outputs=outputs, splits=splits)
                flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
                buffer = cl.Buffer(opened.context, flags, hostbuf=array)
                fold.add([buffer], box(shape, axes))
                nothing = zero_partial(accumulator, outputs)
                combiner = Combiner(opened, accumulator, tuning)
                partial = combiner.combine([fold.read_back(), *[nothing] * min(splits, 20)])
                for statistic in bound.statistics:
                    got = statistic.finish(partial)
                    got = got["count"] if statistic.name == "histogram" else got
                    want = numpy_of(statistic.name, array, axes)
                    assert np.allclose(got, want, rtol=1e-4), (statistic.name, shape, axes)
                done += 1
    return done


def numpy_of(op: str, array: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Return NumPy's results, one per output."""
    if op == "histogram":
        kept = [axis for axis in range(array.ndim) if axis not in axes]
        rows = array.transpose(*kept, *axes).reshape(-1, math.prod(array.shape[a] for a in axes))
        return np.array([np.histogram(row, EDGES)[0] for row in rows])
    array = array.astype("f8")
    if op == "norm1":
        return np.abs(array).sum(axis=axes).ravel()
    if op == "norm2":
        return np.sqrt((array.astype("f8") ** 2).sum(axis=axes)).ravel()
    return np.asarray(getattr(np, op)(array, axis=axes)).ravel()


def climb_ladder(opened: DeviceContext) -> int:
    """Fold every length with every rung that needs no built-ins; return how many."""
    bound = bind([as_monoid(op) for op in ("sum", "argmin")], [np.dtype("int32")])
    done = 0
    for rung in LADDER:
        if rung.why_not(opened.device, bound.accumulator):
            continue
        for count in (1, 2, 65, 700):
            array = np.arange(count, dtype="i4") * 37 % 11
            fold = RungFold(opened, bound.accumulator, rung, count)
            flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
            fold.add([cl.Buffer(opened.context, flags, hostbuf=array)], box((count,), (0,)))
            partial = fold.read_back()
            for statistic in bound.statistics:
                got = statistic.finish(partial, (count,), (0,))
                assert got == getattr(np, statistic.name)(array), (rung, count)
            done += 1
    return done


def run_file(opened: DeviceContext, path: Path) -> None:
    """Run the first kernel of a file."""
    (kernel,) = cl.Program(opened.context, path.read_text()).build().all_kernels()
    data = np.ones(64, "i4")
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    buffer = cl.Buffer(opened.context, flags, hostbuf=data)
    queue = opened.queue()
    kernel(queue, (64,), (16,), buffer)
    queue.finish()


if __name__ == "__main__":
    cl.Buffer = kept_for_good(cl.Buffer)
    cl.enqueue_fill_buffer = filled_by_copy
    (device,) = [device for device in all_devices() if "Oclgrind" in device.name]
    opened = DeviceContext(device)
    if sys.argv[1:] == ["short_rows"]:
        print(f"folded {fold_short_rows(opened)} ways")
    elif len(sys.argv) > 1:
        run_file(opened, Path(sys.argv[1]))
    else:
        print(f"folded {fold_everything(opened)} ways, climbed {climb_ladder(opened)} rungs")
