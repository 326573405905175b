"""The child of `kernels.tuning.trial`: build, run, compare, answer with a line of JSON."""

from __future__ import annotations

import contextlib
import json
import math
import os
import pickle
import shutil
import signal
import sys
from dataclasses import asdict, replace
from functools import cache
from typing import Any

import numpy as np
import pyopencl as cl

from chunkfold.kernels.accumulator.accumulator import Accumulator, Slot
from chunkfold.kernels.accumulator.partial import Partial
from chunkfold.kernels.binding.laws import try_laws
from chunkfold.kernels.binding.reference import elements_of
from chunkfold.kernels.binding.samples import inputs_of
from chunkfold.kernels.device.device import Device
from chunkfold.kernels.errors import BuildError, DeviceError
from chunkfold.kernels.expressions.evaluate import evaluate
from chunkfold.kernels.expressions.nodes import BOOL, Node
from chunkfold.kernels.fold.combine import Combiner
from chunkfold.kernels.fold.fold import Fold
from chunkfold.kernels.geometry import Box, box
from chunkfold.kernels.program.device_context import DeviceContext
from chunkfold.kernels.program.options import Tuning
from chunkfold.kernels.tuning.autotuning import fastest_first, race
from chunkfold.kernels.tuning.trial import TRIAL_DEADLINE_S, Request, Verdict

_COUNT = 1031
"""A prime, so that no stage divides it."""
_GAPS = (8, 1)
"""Index strides that let rows of 7 or fewer not merge: they are folded one after another."""
_WAYS = {
    "flat": (
        [box((_COUNT,), (0,))],
        [box((386,), (0,)), box((_COUNT - 386,), (0,), offset=386, index=386)],
    ),
    "rows": (
        [box((7, 143), (1,)), box((2, 15), (1,), offset=1001, index=1001)],
        [box((13, 79), (1,)), box((2, 2), (1,), offset=1027, index=1027)],
        [
            box((147, 7), (0, 1), index_strides=_GAPS),
            box((2, 1), (0, 1), index_strides=_GAPS, offset=1029),
        ],
    ),
    "short_rows": (
        [box((65, 13), (1,)), box((31, 6), (1,), offset=845, index=845)],
        [box((15, 61), (1,)), box((29, 4), (1,), offset=915, index=915)],
    ),
    "columns": (
        [
            box((70, 7), (0,)),
            box((73, 7), (0,), offset=490, index=490),
            box((15, 2), (0,), offset=1001, index=1001),
        ],
        [box((79, 13), (0,)), box((2, 2), (0,), offset=1027, index=1027)],
    ),
}
"""Lists of boxes that cover all elements once, by the kernel that folds them."""
_TOO_LARGE = (cl.status_code.INVALID_WORK_GROUP_SIZE, cl.status_code.OUT_OF_RESOURCES)
"""How launches are refused of work-groups that are too large for a kernel."""
_ORPHAN_DEADLINE_S = round(TRIAL_DEADLINE_S + 30)
"""A parent would have ended it by then."""


def main() -> None:
    """Answer the requests on standard input until its end; remove the folder given."""
    # Compilers print to file descriptor 1; the verdicts go to a copy of it.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        while (request := _next_request()) is not None:
            signal.alarm(_ORPHAN_DEADLINE_S)
            answers.write(json.dumps(asdict(_verdict(request))) + "\n")
            answers.flush()
            signal.alarm(0)
    except BrokenPipeError:
        pass  # nobody is there to hear the answer
    finally:
        shutil.rmtree(sys.argv[1], ignore_errors=True)


def _next_request() -> Request | None:
    try:
        request: Request = pickle.load(sys.stdin.buffer)
    except EOFError:
        return None
    return request


@cache
def _opened(device: Device) -> DeviceContext:
    """Keep a device, and what was built: many reductions have the same passes."""
    return DeviceContext(device)


def _verdict(request: Request) -> Verdict:
    """Try the fastest tuning first."""
    try:
        opened = _opened(request.device)
    except DeviceError as error:
        return Verdict(usable=False, reason=str(error))
    rates = race(opened, request)
    for number in fastest_first(rates) or [0]:
        verdict = _verdict_of(opened, request, request.tunings[number])
        if verdict.usable or verdict.local_limit or verdict.unlawful:
            return replace(verdict, chosen=number, rates=rates)
    return verdict


def _verdict_of(opened: DeviceContext, request: Request, tuning: Tuning) -> Verdict:
    try:
        broken = try_laws(request.accumulator).broken
        if broken:
            return Verdict(usable=False, reason=broken, unlawful=True)
        return _compare(opened, request, tuning)
    except BuildError as error:
        return Verdict(usable=False, reason="it did not build", log=str(error))
    except DeviceError as error:
        too_large = getattr(error.__cause__, "code", 0) in _TOO_LARGE
        limit = _local_limit(opened, request, tuning) if too_large else 0
        return Verdict(usable=False, reason=str(error), local_limit=limit)


def _local_limit(opened: DeviceContext, request: Request, tuning: Tuning) -> int:
    """Return the work-items that the tightest kernel allows if they are fewer than asked, else 0.

    For launches that were refused: NVIDIA's driver says 256 of kernels that it runs with 1,024.
    """
    info = cl.kernel_work_group_info
    limits: list[int] = []
    # Those behind one that failed may not build.
    with contextlib.suppress(DeviceError, cl.Error):
        for file in request.files:
            program = opened.program(file, request.accumulator, tuning)
            for kernel in program.all_kernels():
                fixed: Any = kernel.get_work_group_info(info.COMPILE_WORK_GROUP_SIZE, opened.handle)
                limit: Any = kernel.get_work_group_info(info.WORK_GROUP_SIZE, opened.handle)
                if limit < fixed[0]:
                    limits.append(limit)
    return min(limits, default=0)


def _compare(opened: DeviceContext, request: Request, tuning: Tuning) -> Verdict:
    """Fold the same data in several ways; all must agree, and with NumPy where it can say."""
    accumulator = request.accumulator
    ways = [boxes for kernel in request.kernels for boxes in _WAYS[kernel]]
    if accumulator.uses_index:  # which gaps move
        ways = [
            boxes
            for boxes in ways
            if all(dim.index_stride == dim.stride for part in boxes for dim in part.reduced)
        ]
    flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
    spilling = _spilling(accumulator)
    for values in (*_samples(accumulator), *([spilling] if accumulator.exact else [])):
        buffers = [
            cl.Buffer(opened.context, flags, hostbuf=array)
            for array in inputs_of(accumulator, values)
        ]
        done = [_folded(opened, accumulator, tuning, buffers, boxes) for boxes in ways]
        if "flat" in request.kernels:  # as threads that read do, too
            queue, boxes = opened.queue(here=True), _WAYS["flat"][0]
            done.append(_folded(opened, accumulator, tuning, buffers, boxes, queue))
        for slot in accumulator.slots if values is not spilling else _exact_slots(accumulator):
            known = _known(slot, accumulator, values)
            answers = [way.arrays[slot.name] for way in done] + ([] if known is None else [known])
            want = answers[0]
            for got in answers:
                if not _same(want, got, exact=slot.field.limbs is not None):
                    return Verdict(
                        usable=False, reason=f"it is wrong: {slot.name} is {want[0]} or {got[0]}"
                    )
    return Verdict(usable=True, reason="it built and ran right")


def _folded(
    opened: DeviceContext,
    accumulator: Accumulator,
    tuning: Tuning,
    buffers: list[cl.Buffer],
    boxes: list[Box],
    queue: cl.CommandQueue | None = None,
) -> Partial:
    """Fold boxes, those of as many outputs together, and combine all outputs."""
    folds: dict[int, Fold] = {}
    for part in boxes:
        if part.outputs not in folds:
            folds[part.outputs] = Fold(opened, accumulator, tuning, part.outputs, queue)
        folds[part.outputs].add(buffers, part)
    several = [fold.finish() for fold in folds.values()]
    outputs = [one.part(slice(n, n + 1)) for one in several for n in range(one.outputs)]
    return Combiner(opened, accumulator, tuning).combine(outputs)


def _exact_slots(accumulator: Accumulator) -> list[Slot]:
    return [slot for slot in accumulator.slots if slot.field.limbs is not None]


def _same(want: np.ndarray, got: np.ndarray, *, exact: bool) -> bool:
    """Whether two ways agree: all bits of exact sums, and others but for the order of additions."""
    if want.dtype.kind == "f" and not exact:
        return np.allclose(want, got, rtol=1e-4, atol=0, equal_nan=True)
    # Terms of a packed array's sum are NaN where one of the samples stands for a missing value.
    return np.array_equal(want, got, equal_nan=want.dtype.kind == "f")


def _samples(accumulator: Accumulator) -> list[list[np.ndarray]]:
    """Small integers of both signs, and factors whose product stays finite; one row per input."""
    counts = np.arange(_COUNT)
    patterns = [counts * 37 % 101 - 50, 1 + (counts % 97 == 0)]
    return [[pattern + number for number in range(len(accumulator.stored))] for pattern in patterns]


def _spilling(accumulator: Accumulator) -> list[np.ndarray]:
    """Numbers so far apart that exact sums do not fit the terms that most data do; as above."""
    counts, rng = np.arange(_COUNT), np.random.default_rng(4)
    double = accumulator.value[0] in ("float64", "complex128")
    most = 12 if accumulator.value[0] == "float16" else 200 if double else 45
    if not accumulator.in_limbs:  # expansions hold 159 bits, and of squares twice as many are taken
        most = 12 if double else min(most, 24)
    far = np.ldexp(1 + counts % 7 / 8, rng.integers(-most, most, _COUNT))
    signed = np.where(counts % 3 == 0, -far, far)
    return [np.roll(signed, number) for number in range(len(accumulator.stored))]


def _element_of(tree: Node) -> Node | None:
    """Return the element of the first input if a tree is that, in whichever dtype."""
    while tree.op == "cast" and (tree.sources[0].dtype != BOOL or tree.sources[0].op == "input"):
        (tree,) = tree.sources
    return tree if tree.op == "input" and tree.arg == (0, "") else None


def _known(slot: Slot, accumulator: Accumulator, values: list[np.ndarray]) -> np.ndarray | None:
    """Return what NumPy makes of a plain sum, minimum or maximum of the first input."""
    value, element = accumulator.value[0], _element_of(slot.field.lift)
    plain = (
        slot.field.entries is None
        and not slot.term
        and (slot.field.limbs is None or slot.field.limbs.power == 1)
        and isinstance(slot.field.op, str)
    )
    if element is None or not plain or value in ("time", "bfloat16"):
        return None
    fold: Any = {"add": np.sum, "min": np.min, "max": np.max}[str(slot.field.op)]
    if slot.field.limbs is not None:
        fold = math.fsum
    if accumulator.components[slot.component].absent is not None:
        return None
    elements = elements_of(accumulator, inputs_of(accumulator, values))
    (lifted,) = evaluate([slot.field.lift], {element: elements[element]})
    known: np.ndarray = np.atleast_1d(fold(lifted.astype(slot.dtype)))
    return known.astype(slot.dtype)


if __name__ == "__main__":
    main()
