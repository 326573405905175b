"""Folds small inputs in many shapes; run under oclgrind, which watches every access.

With a kernel file as argument, runs that instead: over 64 items in groups of 16.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyopencl as cl

from chunkfold.kernels import Fold, OpenedDevice, all_devices, as_monoid, bind, box
from chunkfold.kernels.histogram import histogram
from chunkfold.kernels.ladder import LADDER, RungFold
from chunkfold.kernels.partial import zero_partial
from chunkfold.kernels.variant import forced

OPS = ["sum", "min", "max", "mean", "prod", "var", "norm2"]
BOXES = [((n,), (0,)) for n in (1, 2, 65, 1031)] + [
    ((5, 7, 3), axes) for axes in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2))
]
EDGES = [1, 2, 4, 5, 7, 10]
_kept = []


def kept_for_good(make: type) -> Callable[..., cl.Buffer]:
    """Make buffers whose memory is never used again: oclgrind 21.10 takes what is written to a
    buffer at an address used before for uninitialized."""

    def made(*args: object, **kwargs: object) -> cl.Buffer:
        _kept.append(make(*args, **kwargs))
        return _kept[-1]

    return made


def fold_everything(opened: OpenedDevice) -> int:
    """Fold every box in every shape that suits a device without built-ins; return how many."""
    monoids = [*(as_monoid(op) for op in OPS), histogram(EDGES)]
    bound = bind(monoids, [np.dtype("int32")])
    base = forced(opened.device, bound.accumulator, "tree")[0]
    limit = opened.device.max_work_group_size
    done = 0
    for local in (1, 2, min(16, limit)):
        for strip in (True, False):
            width = {"lanes": 2, "width": 4, "unroll": 1 + (not strip), "aligned": not strip}
            columns = {"column_size": 4, "column_lanes": 2, "column_unroll": 2, "tile": 1 + strip}
            shape_of = {"local_size": local, "groups": 3, "strip": strip}
            tables = {"local_tables": not strip and local > 1}
            tuning = replace(base, **shape_of, **width, **columns, **tables)
            for shape, axes in BOXES:
                array = (np.arange(math.prod(shape), dtype="i4") * 37 % 11).reshape(shape)
                outputs = math.prod(n for axis, n in enumerate(shape) if axis not in axes)
                fold = Fold(opened, bound.accumulator, tuning, outputs=outputs)
                flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
                buffer = cl.Buffer(opened.context, flags, hostbuf=array)
                fold.add([buffer], box(shape, axes))
                nothing = zero_partial(bound.accumulator, outputs)
                partial = fold.combine([fold.finish(), *[nothing] * 20])
                for statistic in bound.statistics:
                    got = statistic.finish(partial.arrays)
                    got = got["count"] if statistic.name == "histogram" else got
                    want = numpy_of(statistic.name, array, axes)
                    assert np.allclose(got, want), (statistic.name, shape, axes)
                done += 1
    return done


def numpy_of(op: str, array: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Return NumPy's results, one per output."""
    if op == "histogram":
        kept = [axis for axis in range(array.ndim) if axis not in axes]
        rows = array.transpose(*kept, *axes).reshape(-1, math.prod(array.shape[a] for a in axes))
        return np.array([np.histogram(row, EDGES)[0] for row in rows])
    if op == "norm2":
        return np.sqrt((array.astype("f8") ** 2).sum(axis=axes)).ravel()
    return np.asarray(getattr(np, op)(array, axis=axes)).ravel()


def climb_ladder(opened: OpenedDevice) -> int:
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
            partial = fold.finish()
            for statistic in bound.statistics:
                got = statistic.finish(partial.arrays, (count,), (0,))
                assert got == getattr(np, statistic.name)(array), (rung, count)
            done += 1
    return done


def run_file(opened: OpenedDevice, path: Path) -> None:
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
    (device,) = [device for device in all_devices() if "Oclgrind" in device.name]
    opened = OpenedDevice(device)
    if len(sys.argv) > 1:
        run_file(opened, Path(sys.argv[1]))
    else:
        print(f"folded {fold_everything(opened)} ways, climbed {climb_ladder(opened)} rungs")
