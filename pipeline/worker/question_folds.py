"""The folds of one question on a device: of elements, by the keys of groups, or row by row.

And the keys, broadcast inputs and kept elements that they have on the device.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyopencl as cl

from chunkfold.boxes import Slices, place_key
from chunkfold.kernels import Accumulator, Box, DeviceContext, Fold, KeyedFold, Partial, Tuning
from chunkfold.kernels.fold.launch import Input
from chunkfold.kernels.fold.numbering import KERNELS, Numbering
from chunkfold.kernels.fold.profile import Profile, merged
from chunkfold.kernels.fold.selection import RankSelection
from chunkfold.kernels.geometry import CHOOSE
from chunkfold.kernels.program.device_context import device_errors
from chunkfold.kernels.program.shared_layout import with_components
from chunkfold.planning import group_keys
from chunkfold.planning.broadcast_inputs import BroadcastInput
from chunkfold.planning.folding import Folding
from chunkfold.planning.group_keys import Keys
from chunkfold.planning.in_memory import depth_of
from chunkfold.planning.preaggregation import Preaggregation
from chunkfold.planning.rows import MOST_OPEN, PreaggregatedRead
from chunkfold.planning.tile_finishing import Combine
from chunkfold.reading.reads import FoldInput
from chunkfold.worker.worker_device import WorkerDevice


class CodesBuffer(NamedTuple):
    """The groups' codes at a place on a device: int32, C-contiguous."""

    buffer: cl.Buffer
    codes: np.ndarray | None
    """The same on the host, if they are few."""


class DeviceCodes:
    """Codes of groups on a device: those of a place are uploaded once, while there is room."""

    def __init__(self, opened: DeviceContext, keys: group_keys.Keys) -> None:
        self._opened, self._keys = opened, keys
        self._uploaded: OrderedDict[tuple[tuple[int, int], ...], CodesBuffer] = OrderedDict()
        self._nbytes = 0

    def at(self, place: Slices) -> CodesBuffer:
        """Return the codes at a place.

        Raises
        ------
        DeviceError
            If the device has no room for them.
        """
        name = place_key(place)
        if name in self._uploaded:
            self._uploaded.move_to_end(name)
            return self._uploaded[name]
        codes = self._keys.at(place)
        while self._uploaded and self._nbytes + codes.nbytes > group_keys.DEVICE_KEYS_BYTES:
            # OpenCL keeps the memory until the launches that were given it are done.
            self._nbytes -= self._uploaded.popitem(last=False)[1].buffer.size
        buffer = _buffer(self._opened, codes, "keys")
        seen = codes if codes.nbytes <= group_keys.SEEN_BYTES else None
        self._uploaded[name] = CodesBuffer(buffer, seen)
        self._nbytes += codes.nbytes
        return self._uploaded[name]


class PreaggregatedFold:
    """Folds rows of elements, each alone, and joins them in the end: see `planning.rows`.

    Each box of rows has a fold of its own. If these are too many, all are ended and joined.
    """

    def __init__(
        self,
        worker_device: WorkerDevice,
        way: Preaggregation,
        tuning: Tuning,
        output_count: int,
        queue: cl.CommandQueue,
        combine: Combine,
    ) -> None:
        self._worker_device, self._way, self._tuning = worker_device, way, tuning
        self._output_count, self._queue, self._combine = output_count, queue, combine
        self._folds: dict[tuple[tuple[int, int], ...], tuple[Fold, Slices]] = {}
        self._joined: Partial | None = None
        """The partial of folds that were ended before."""
        self._profiles: list[Profile] = []

    @property
    def accumulator(self) -> Accumulator:
        """The accumulator of its partial."""
        return self._way.whole

    @property
    def nbytes(self) -> int:
        """Bytes of its accumulators on the device."""
        folds = (fold for fold, _ in self._folds.values())
        return sum(one.splits * one.outputs * one.accumulator.nbytes for one in folds)

    def add(
        self, inputs: Sequence[Input], rows: PreaggregatedRead, wait_for: Sequence[cl.Event] = ()
    ) -> cl.Event | None:
        """Enqueue the fold of a box; parameters, result and what is raised as of `Fold.add`."""
        key = place_key(rows.place)
        if key not in self._folds:
            if len(self._folds) == MOST_OPEN:
                self._joined = self._drain()
            self._folds[key] = self._begin(rows.box), rows.place
        given = [one for n, one in enumerate(inputs) if n != self._way.left_out]
        return self._folds[key][0].add(given, rows.box, wait_for)

    def read_back(self) -> Partial:
        """Read the partial back, and start anew from zero; raises as `Fold.read_back`."""
        partial, self._joined = self._drain(), None
        return partial

    def profile(self) -> Profile:
        """Return the times of every launch that `read_back` has proved done."""
        profiles, self._profiles = self._profiles, []
        return merged(profiles)

    def _begin(self, box: Box) -> Fold:
        folded = self._way.folded
        return Fold(self._worker_device.opened, folded, self._tuning, box.outputs, self._queue)

    def _drain(self) -> Partial:
        """End all folds; return their joined partial, with that of earlier ones."""
        done = [(place, fold.read_back()) for fold, place in self._folds.values()]
        self._profiles += [fold.profile() for fold, _ in self._folds.values()]
        self._folds.clear()
        found = self._way.joined(done, self._output_count, self._combine)
        if self._joined is None:
            return found
        return self._combine(self.accumulator, [self._joined, found])


QuestionFold = Fold | KeyedFold | PreaggregatedFold
"""A fold into some outputs: of elements, by the keys of groups, or row by row."""


class QuestionFolds:
    """Begins the folds of a question, and gives them keys, weights and masks."""

    def __init__(
        self,
        worker_device: WorkerDevice,
        question: Folding,
        variant: str | None,
        queue: cl.CommandQueue,
        combine: Combine,
    ) -> None:
        self._worker_device, self._queue, self._combine = worker_device, queue, combine
        self._question, self._variant = question, variant
        self._broadcast = [_uploaded(one, worker_device.opened) for one in question.broadcast]
        self._label_codes: DeviceCodes | None = None
        self._numbering: Numbering | None = None
        if isinstance(question.keys, Keys):
            self._label_codes = DeviceCodes(worker_device.opened, question.keys)
        elif question.keys is not None:
            numbering = question.keys.numbering
            assert numbering is not None
            tuning = worker_device.tuning(numbering, variant, KERNELS)
            self._numbering = Numbering(worker_device.opened, numbering, tuning, queue)

    def begin(self, accumulator: Accumulator, tuning: Tuning, output_count: int) -> QuestionFold:
        """Return a new fold into `output_count` outputs, of each group if there are groups."""
        question, opened, queue = self._question, self._worker_device.opened, self._queue
        # Limbs fold elements once more of which sums lost something: that is never by rows.
        is_refold = accumulator != question.accumulator
        if question.preaggregation is not None and not is_refold:
            return PreaggregatedFold(
                self._worker_device,
                question.preaggregation,
                tuning,
                output_count,
                queue,
                self._combine,
            )
        if question.keys is None:
            return Fold(opened, accumulator, tuning, output_count, queue)
        return KeyedFold(opened, accumulator, tuning, question.groups, output_count, queue)

    def rank_selections(self, output_count: int) -> dict[int, RankSelection]:
        """Return what keeps all elements of outputs, if ranks are chosen, by component of keys."""
        question, made = self._question, dict[int, RankSelection]()
        for number in {one.component for one in question.choosers}:
            keys = with_components(question.accumulator, (number,))
            made[number] = RankSelection(
                self._worker_device.opened,
                keys,
                self._worker_device.tuning(keys, self._variant, {"columns", CHOOSE}),
                output_count,
                depth_of(question.layout),
                self._queue,
                question.groups_of_kept,
                question.groups,
            )
        return made

    def with_chosen(self, partial: Partial, kept: Mapping[int, RankSelection]) -> Partial:
        """Return a partial with the chosen elements of each output, if elements were kept."""
        if not kept:
            return partial
        choosers = self._question.choosers
        found = {one.name: kept[one.component].chosen(one.wanted(partial)) for one in choosers}
        return replace(partial, chosen=found)

    def inputs(self, staged: Sequence[Input]) -> list[Input]:
        """Return all inputs of a fold: staged ones, then broadcast ones."""
        return [*staged, *self._broadcast]

    def add(
        self,
        fold: KeyedFold | PreaggregatedFold,
        inputs: Sequence[Input],
        fold_input: FoldInput,
        wait_for: Sequence[cl.Event],
    ) -> cl.Event | None:
        """Enqueue the fold of a box by key, or row by row; returns and raises as `Fold.add`."""
        if isinstance(fold, PreaggregatedFold):
            assert fold_input.preaggregated is not None
            return fold.add(inputs, fold_input.preaggregated, wait_for)
        assert fold_input.keyed is not None
        layout, place = fold_input.keyed
        codes = self._codes_of(inputs[0], fold_input.shape, place, wait_for)
        return fold.add(inputs, codes.buffer, layout, wait_for, codes=codes.codes)

    def _codes_of(
        self, elements: Input, shape: Sequence[int], place: Slices, wait_for: Sequence[cl.Event]
    ) -> CodesBuffer:
        if self._numbering is not None:
            return CodesBuffer(self._numbering.of(elements, shape, wait_for), None)
        assert self._label_codes is not None
        return self._label_codes.at(place)


def _uploaded(given: BroadcastInput, opened: DeviceContext) -> cl.Buffer:
    """Return a broadcast input on a device.

    Raises
    ------
    DeviceError
        If the device has no room for it.
    """
    values = np.ascontiguousarray(given.values)  # makes an array of one number
    return _buffer(opened, values, given.name)


def _buffer(opened: DeviceContext, values: np.ndarray, what: str) -> cl.Buffer:
    flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
    with device_errors(opened.device, f"uploading {values.nbytes:,} bytes of {what}"):
        return cl.Buffer(opened.context, flags, hostbuf=values)
