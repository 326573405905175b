"""The contenders of the benchmarks: ways to reduce an array, with chunkfold and without."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pyopencl as cl

from chunkfold.kernels.bench.timing import Timed
from chunkfold.kernels.binding.binding import bind
from chunkfold.kernels.catalogue.named import as_monoid
from chunkfold.kernels.errors import BuildError
from chunkfold.kernels.fold.fold import Fold
from chunkfold.kernels.fold.staging import page_aligned
from chunkfold.kernels.geometry import Box, box
from chunkfold.kernels.ladder import Rung, RungFold
from chunkfold.kernels.program.device_context import DeviceContext, device_errors
from chunkfold.kernels.tuning.tuning_choice import choose, try_tunings

_CACHED_BYTES = 256 << 10
"""Bytes of a run that stays in a cache; it is folded many times, so that reading costs little."""
_LEAST_REPEATS = 16
_SLIDE = 64
"""Elements between the begins of runs in a cache."""
_EXPRESSIONS = {"sum": ("0", "a+b"), "min": (None, "min(a,b)"), "max": (None, "max(a,b)")}


def repeated(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Repeat values until they fill an array, as `np.resize` does, at the start of a page.

    Intel's runtime copies what starts elsewhere into small pages, and reads those at 0.85 of the
    rate.
    """
    array = page_aligned(math.prod(shape) * values.itemsize).view(values.dtype)
    for start in range(0, array.size, values.size):
        piece = array[start : start + values.size]
        piece[:] = values[: piece.size]
    return np.asarray(array.reshape(shape))


def device_copy(opened: DeviceContext, array: np.ndarray) -> cl.Buffer:
    """Return a buffer of an array, in place if the device shares memory with the host."""
    shared = opened.device.unified_memory
    flags = cl.mem_flags.USE_HOST_PTR if shared else cl.mem_flags.COPY_HOST_PTR
    with device_errors(opened.device, f"allocating {array.nbytes} bytes"):
        return cl.Buffer(opened.context, cl.mem_flags.READ_ONLY | flags, hostbuf=array)


def ours(
    opened: DeviceContext,
    op: str,
    array: np.ndarray,
    buffer: cl.Buffer,
    axes: tuple[int, ...] = (0,),
    *,
    exact: bool = False,
) -> Timed:
    """Fold the whole buffer with the production kernels and read the partial back.

    `op` may be several, joined by "+", folded in one pass.
    """
    bound = bind(
        [as_monoid(name) for name in op.split("+")],
        [array.dtype],
        exact=exact,
        fp64=opened.device.fp64,
    )
    whole = box(array.shape, axes)
    accumulator = bound.accumulator.for_outputs(whole.outputs)
    tuning = choose(opened.device, accumulator, kernels=(whole.kernel,))
    return folding(Fold(opened, accumulator, tuning, outputs=whole.outputs), buffer, whole)


def in_cache(opened: DeviceContext, op: str, array: np.ndarray, buffer: cl.Buffer) -> Timed | None:
    """Fold as many elements with the same loops and loads, of a few that stay in a cache.

    So fast is the arithmetic by itself, or faster. None if the array is not much larger than those
    few, or the device's compiler does not survive it.
    """
    count = _CACHED_BYTES // array.itemsize
    repeats = array.size // count
    if repeats < _LEAST_REPEATS:
        return None
    # Each run begins a little behind the one before, or all would be one element over and over.
    strides = (_SLIDE, 1)
    whole = box((repeats, count), (0, 1), strides=strides, index_strides=strides)
    bound = bind(
        [as_monoid(name) for name in op.split("+")], [array.dtype], fp64=opened.device.fp64
    )
    flat = choose(opened.device, bound.accumulator, kernels=("flat",))
    wanted = replace(flat, rows=flat.flat)
    (tuning,), verdict = try_tunings(opened.device, bound.accumulator, wanted, kernels=("rows",))
    if not verdict.usable:
        return None
    return folding(Fold(opened, bound.accumulator, tuning), buffer, whole)


def rung(
    opened: DeviceContext, step: Rung, op: str, array: np.ndarray, buffer: cl.Buffer
) -> Timed | str:
    """Fold the whole buffer with a rung of the ladder; or say why it cannot be."""
    bound = bind([as_monoid(op)], [array.dtype], fp64=opened.device.fp64)
    reason = step.why_not(opened.device, bound.accumulator)
    if reason:
        return reason
    try:
        fold = RungFold(opened, bound.accumulator, step, array.size)
        opened.program(step.file, bound.accumulator, fold.tuning)
    except BuildError as error:
        return f"does not build: {str(error).splitlines()[0]}"
    return folding(fold, buffer, box(array.shape, (0,)))


def folding(fold: Fold, buffer: cl.Buffer, whole: Box) -> Timed:
    """Fold a box of a buffer, and read the partial back."""

    def run() -> object:
        fold.add([buffer], whole)
        return fold.read_back()

    return run


def numpy_of(op: str, array: np.ndarray) -> Timed | None:
    """NumPy, on one core, on the host's copy; None where it has no such function."""
    found = [getattr(np, name, None) for name in op.split("+")]
    functions = [one.reduce if isinstance(one, np.ufunc) else one for one in found]
    if None in functions:
        return None

    def run() -> object:
        with np.errstate(over="ignore"):  # it adds halves as halves
            return [function(array) for function in functions if function]

    return run


def reduction_kernel(
    opened: DeviceContext, op: str, array: np.ndarray, buffer: cl.Buffer
) -> Timed | None:
    """`pyopencl.reduction.ReductionKernel`, in the accumulator that ours has.

    None where it has no counterpart: other ops, halves; or if mako is not installed.
    """
    names = {"f4": "float", "f8": "double", "i4": "int", "i8": "long", "i1": "char", "u1": "uchar",
             "i2": "short", "u2": "ushort", "u4": "uint", "u8": "ulong"}  # fmt: skip
    stored = names.get(array.dtype.str[1:])
    if op not in _EXPRESSIONS or stored is None:
        return None
    try:
        from pyopencl.reduction import ReductionKernel
    except ImportError:
        return None

    kind = np.dtype({"f": "f8", "i": "i8", "u": "u8"}[array.dtype.kind])
    ctype = names[kind.str[1:]]
    limits: Any = np.finfo(kind) if kind.kind == "f" else np.iinfo(kind)
    neutral, expression = _EXPRESSIONS[op]
    if neutral is None:
        ends = {"f": ("INFINITY", "-INFINITY"), "i": ("LONG_MAX", "LONG_MIN"),
                "u": (str(limits.max) + "UL", "0")}[kind.kind]  # fmt: skip
        neutral = ends[op == "max"]
    kernel = ReductionKernel(
        opened.context,
        kind.type,
        neutral=neutral,
        reduce_expr=expression,
        map_expr=f"({ctype})x[i]",
        arguments=f"__global const {stored} *x",
    )
    queue = opened.queue()
    view = cl.array.Array(queue, array.shape, array.dtype, data=buffer)
    call: Any = kernel
    return lambda: call(view, queue=queue).get()
