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
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyopencl as cl

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.accumulator.partial import Partial
from chunkfold.kernels.binding.law_samples import InputArrays
from chunkfold.kernels.binding.laws import try_laws
from chunkfold.kernels.binding.samples import inputs_of
from chunkfold.kernels.device.device import Device
from chunkfold.kernels.errors import BuildError, DeviceError, DeviceMemoryError
from chunkfold.kernels.fold.combine import Combiner
from chunkfold.kernels.fold.fold import Fold
from chunkfold.kernels.fold.keyed.keyed_box import keyed_box
from chunkfold.kernels.fold.keyed.keyed_fold import KeyedFold
from chunkfold.kernels.fold.selection import RankSelection
from chunkfold.kernels.geometry import BY_KEY, CHOOSE, Box, box
from chunkfold.kernels.program.device_context import DeviceContext
from chunkfold.kernels.program.options import Tuning
from chunkfold.kernels.tuning.autotuning import fastest_first, measure_rates
from chunkfold.kernels.tuning.trial import TRIAL_DEADLINE_S, TrialRequest, Verdict
from chunkfold.kernels.tuning.trial_answers import COUNT, Answers, mismatch_in_order, samples

if TYPE_CHECKING:
    from chunkfold.kernels.tuning.decode_request import DecodeRequest

_BY_KEY = (((COUNT,), (0,)), ((206, 5), (0,)), ((5, 206), (1,)))
"""Shapes and what is reduced by key."""
_KEYS = 3
_KEPT = (53, 19)
"""Elements of each output that are kept, and outputs."""
_GAPS = (8, 1)
"""Index strides that let rows of 7 or fewer not merge: they are folded one after another."""
_WAYS = {
    "flat": (
        [box((COUNT,), (0,))],
        [box((386,), (0,)), box((COUNT - 386,), (0,), offset=386, index=386)],
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
"""Errors of launches with work-groups that are too large for a kernel."""
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
            answers.write(json.dumps(_answer(request)) + "\n")
            answers.flush()
            signal.alarm(0)
    except BrokenPipeError:
        pass  # nobody is there to hear the answer
    finally:
        shutil.rmtree(sys.argv[1], ignore_errors=True)


def _answer(request: TrialRequest | DecodeRequest) -> dict[str, Any] | None:
    if isinstance(request, TrialRequest):
        return asdict(_verdict(request))
    try:
        rates = request.answered(_opened(request.device))
    except DeviceError:
        return None
    return None if rates is None else asdict(rates)


def _next_request() -> TrialRequest | DecodeRequest | None:
    try:
        request: TrialRequest | DecodeRequest = pickle.load(sys.stdin.buffer)
    except EOFError:
        return None
    return request


@cache
def _opened(device: Device) -> DeviceContext:
    """Keep a device, and what was built: many reductions have the same passes."""
    return DeviceContext(device)


def _verdict(request: TrialRequest) -> Verdict:
    """Try the fastest tuning first."""
    try:
        opened = _opened(request.device)
    except DeviceError as error:
        short = isinstance(error, DeviceMemoryError)
        return Verdict(usable=False, reason=str(error), lasting=False, memory=short)
    rates = measure_rates(opened, request)
    for number in fastest_first(rates) or [0]:
        verdict = _verdict_of(opened, request, request.tunings[number])
        if verdict.usable or verdict.local_limit or verdict.unlawful:
            return replace(verdict, chosen=number, rates=rates)
    return verdict


def _verdict_of(opened: DeviceContext, request: TrialRequest, tuning: Tuning) -> Verdict:
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
        found = Verdict(usable=False, reason=str(error), local_limit=limit)
        short = isinstance(error, DeviceMemoryError) and not too_large
        return replace(found, lasting=not short, memory=short)


def _local_limit(opened: DeviceContext, request: TrialRequest, tuning: Tuning) -> int:
    """Return the work-items that the tightest kernel allows if they are fewer than asked, else 0.

    For launches that were refused: NVIDIA's driver says 256 of kernels that it runs with 1,024.
    """
    info = cl.kernel_work_group_info
    limits: list[int] = []
    # Programs behind one that failed may not build.
    with contextlib.suppress(DeviceError, cl.Error):
        for file, accumulator in request.programs:
            program = opened.program(file, accumulator, tuning)
            for kernel in program.all_kernels():
                fixed: Any = kernel.get_work_group_info(info.COMPILE_WORK_GROUP_SIZE, opened.handle)
                limit: Any = kernel.get_work_group_info(info.WORK_GROUP_SIZE, opened.handle)
                if limit < fixed[0]:
                    limits.append(limit)
    return min(limits, default=0)


def _compare(opened: DeviceContext, request: TrialRequest, tuning: Tuning) -> Verdict:
    """Fold the same data in several ways; all must agree, and with NumPy where that is exact."""
    for values, rounds in samples(request.accumulator):
        inputs = inputs_of(request.accumulator, values)
        sample = _Sample(values, [_uploaded(opened, one) for one in inputs], rounds)
        ways = (_mismatch, _mismatch_by_key, _mismatch_of_choice)
        mismatch = next(filter(None, (way(opened, request, tuning, sample) for way in ways)), "")
        if mismatch:
            return Verdict(usable=False, reason=mismatch)
    return Verdict(usable=True, reason="it built and ran right")


class _Sample(NamedTuple):
    """Elements that are folded in all ways."""

    values: InputArrays
    buffers: list[cl.Buffer]
    """Buffers of each input, as it is stored."""
    rounds: bool
    """True: fields that round are compared, too."""


def _uploaded(opened: DeviceContext, array: np.ndarray) -> cl.Buffer:
    flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
    return cl.Buffer(opened.context, flags, hostbuf=array)


def _mismatch(opened: DeviceContext, request: TrialRequest, tuning: Tuning, sample: _Sample) -> str:
    """Fold all elements into one output; return a description of a mismatch, or ''."""
    accumulator = request.accumulator
    if accumulator.in_order:
        return mismatch_in_order(opened, accumulator, tuning, sample.values, sample.buffers)
    ways = [boxes for kernel in request.kernels for boxes in _WAYS.get(kernel, ())]
    if accumulator.uses_index:  # which gaps move
        ways = [
            boxes
            for boxes in ways
            if all(dim.index_stride == dim.stride for part in boxes for dim in part.reduced)
        ]
    if not ways:
        return ""
    answers, buffers = Answers(accumulator, sample.values), sample.buffers
    first = done = _folded(opened, accumulator, tuning, buffers, ways[0])
    for boxes in ways:
        done = first if boxes is ways[0] else _folded(opened, accumulator, tuning, buffers, boxes)
        mismatch = answers.mismatch(done, first, rounds=sample.rounds)
        if mismatch:
            return mismatch
    if "flat" not in request.kernels:
        return ""
    # Threads that read fold on such a queue.
    queue, boxes = opened.queue(here=True), _WAYS["flat"][0]
    done = _folded(opened, accumulator, tuning, buffers, boxes, queue)
    return answers.mismatch(done, first, rounds=sample.rounds)


def _mismatch_by_key(
    opened: DeviceContext, request: TrialRequest, tuning: Tuning, sample: _Sample
) -> str:
    """Fold elements by key, a few outputs of each; return a description of a mismatch, or ''."""
    accumulator = request.accumulator
    ways = [(way, local) for way in BY_KEY for local in (True, False) if way in request.kernels]
    ways = [(way, local) for way, local in ways if local or way == BY_KEY[0]]
    for shape, axes in _BY_KEY if ways else ():
        layout = keyed_box(shape, axes, axes)
        kept = [axis for axis in range(len(shape)) if axis not in axes]
        rows = np.arange(math.prod(shape)).reshape(shape).transpose(*kept, *axes)
        rows = rows.reshape(layout.outputs, -1)
        # Runs of a key, neighbours of several, and some that have none.
        number = np.arange(rows.shape[1])
        keys = np.where(number % 64 < 40, number // 64, number) % (_KEYS + 1) - (number % 101 == 0)
        buffer = _uploaded(opened, keys.astype(np.int32))
        groups = [row[keys == key] for key in range(_KEYS) for row in rows]
        answers = Answers(accumulator, sample.values, groups)
        for way, local in ways:
            fold = KeyedFold(
                opened, accumulator, tuning, _KEYS, layout.outputs, way=way, local=local
            )
            fold.add(sample.buffers, buffer, layout)
            done = fold.read_back()
            mismatch = answers.mismatch(done, done, rounds=sample.rounds)
            if mismatch:
                return f"{mismatch}, of {shape} by key along {axes}"
    return ""


def _mismatch_of_choice(
    opened: DeviceContext, request: TrialRequest, tuning: Tuning, sample: _Sample
) -> str:
    """Choose among elements by their ranks; return a description of a mismatch, or ''."""
    if CHOOSE not in request.kernels:
        return ""
    depth, outputs = _KEPT
    part, accumulator, queue = box(_KEPT, ()), request.accumulator, opened.queue()
    each = Fold(opened, accumulator, tuning, part.outputs, queue)
    each.add(sample.buffers, part)
    (keys,) = each.read_back().arrays.values()
    kept = RankSelection(opened, accumulator, tuning, outputs, depth, queue)
    kept.add(sample.buffers, part, [(0, 0, depth)])
    ranks = np.arange(2 * outputs).reshape(outputs, 2) * 7 % depth
    ordered = np.sort(keys.reshape(_KEPT), axis=0)
    both = np.stack([ranks, np.minimum(ranks + 1, depth - 1)], axis=2)
    wanted = ordered[both, np.arange(outputs)[:, None, None]]
    same = np.array_equal(kept.chosen(ranks), wanted)
    return "" if same else "elements of some ranks differ from NumPy's"


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
    several = [fold.read_back() for fold in folds.values()]
    outputs = [one.part(slice(n, n + 1)) for one in several for n in range(one.outputs)]
    return Combiner(opened, accumulator, tuning).combine(outputs)


if __name__ == "__main__":
    main()
