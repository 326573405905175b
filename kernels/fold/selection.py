"""Keep what sorts like the elements on the device, and choose elements by their ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.fold.fold import Fold
from chunkfold.kernels.fold.launch import Input
from chunkfold.kernels.fold.waiting import wait
from chunkfold.kernels.geometry import Box, OutputRun
from chunkfold.kernels.program.device_context import DeviceContext, device_errors
from chunkfold.kernels.program.options import Tuning

_LANES = {4: 16, 8: 8}
"""Outputs of a vector on a CPU, by the bytes of a key."""
_ITEMS, _GROUPS = 64, 4096
"""Work-items of a GPU's work-group, and its work-groups at most."""


class RankSelection:
    """Keys of all elements of some outputs, a row of outputs for each, and what has which rank.

    Not for use by several threads at once.

    Parameters
    ----------
    accumulator
        Of one scalar, the least key of each output: a fold of one element for each output makes
        that element's key, or the greatest key of one that is ignored.
    outputs, depth
        How many there are, and elements of each.
    groups
        For each of the `depth` elements of an output, the number of its group, -1 of none; None:
        all are of one.
    """

    def __init__(
        self,
        opened: DeviceContext,
        accumulator: Accumulator,
        tuning: Tuning,
        outputs: int,
        depth: int,
        queue: cl.CommandQueue,
        groups: np.ndarray | None = None,
        count: int = 1,
    ) -> None:
        (slot,) = accumulator.slots
        self._opened, self._accumulator, self._tuning = opened, accumulator, tuning
        self._outputs, self._depth, self._queue = outputs, depth, queue
        self._dtype, self._groups = slot.dtype, count
        self._folds: dict[int, Fold] = {}
        """By the elements of a box."""
        codes = np.zeros(depth, np.int64) if groups is None else np.asarray(groups).reshape(-1)
        order = np.argsort(codes, kind="stable").astype(np.uint32)
        self._rows = order[int((codes < 0).sum()) :]
        self._starts = np.searchsorted(np.sort(codes[codes >= 0]), np.arange(count + 1))
        nbytes = max(self._dtype.itemsize, selection_bytes(outputs, depth, self._dtype.itemsize))
        with device_errors(opened.device, f"taking {nbytes:,} bytes for keys"):
            self._keys = cl.Buffer(opened.context, cl.mem_flags.READ_WRITE, nbytes)
            ignored = np.array([np.iinfo(self._dtype).max], self._dtype)
            # What is not stored, or cannot be read, is left ignored.
            cl.enqueue_fill_buffer(queue, self._keys, ignored, 0, nbytes)

    def add(
        self,
        inputs: Sequence[Input],
        box: Box,
        runs: Sequence[OutputRun],
        wait_for: Sequence[cl.Event] = (),
    ) -> cl.Event | None:
        """Enqueue that keys of a box are kept; return the event behind which its buffers are free.

        Parameters
        ----------
        box
            Of which every axis is kept: those that are reduced before those of outputs.
        runs
            Rows of the box that follow each other among all: the first one, which it is among
            all, and how many.

        Raises
        ------
        DeviceError
            If the device refuses it.
        """
        if not box.elements:
            return None
        if box.outputs not in self._folds:
            self._folds[box.outputs] = Fold(
                self._opened, self._accumulator, self._tuning, box.outputs, self._queue, splits=1
            )
        fold = self._folds[box.outputs]
        event = fold.add(inputs, box, wait_for)
        rows = [tuple(n * self._outputs for n in run) for run in runs]
        fold.copy_to(self._keys, [(begin, to, count) for begin, to, count in rows])
        return event

    def chosen(self, ranks: np.ndarray) -> np.ndarray:
        """Return the keys of some ranks, and those behind them: (groups * outputs, quantiles, 2).

        `ranks` count from 0, (groups * outputs, quantiles); where there are fewer elements the
        greatest key is returned.

        Raises
        ------
        DeviceError
            If the device fails.
        """
        opened, device = self._opened, self._opened.device
        count, quantiles = ranks.shape
        signed = np.dtype(f"i{self._dtype.itemsize}")
        most = int(np.diff(self._starts).max(initial=0))
        found = np.full((quantiles, 2, count), np.iinfo(self._dtype).max, self._dtype)
        if not count or not most:
            return found.transpose(2, 0, 1)
        flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
        lanes, groups, items = self._shape()
        options = [f"-DCHF_KEY={_opencl(self._dtype)}", f"-DCHF_COUNT={_opencl(signed)}"]
        options += [f"-DCHF_LANES={lanes}", f"-DCHF_COPIES={int(device.kind == 'cpu')}"]
        scratch = groups * most * lanes * self._dtype.itemsize if device.kind == "cpu" else 1
        with device_errors(device, "choosing elements by their ranks"):
            kernel = cl.Kernel(opened.standalone("choose.cl", options=tuple(options)), "choose")
            given = [
                self._rows,
                self._starts.astype(np.uint32),
                np.ascontiguousarray(ranks.T.astype(signed)),
            ]
            rows, starts, wanted = (cl.Buffer(opened.context, flags, hostbuf=x) for x in given)
            into = cl.Buffer(
                opened.context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=found
            )
            own = cl.Buffer(opened.context, cl.mem_flags.READ_WRITE, scratch)
            kernel.set_args(
                self._keys,
                rows,
                starts,
                np.uint64(self._outputs),
                np.uint32(self._groups),
                wanted,
                np.uint32(quantiles),
                into,
                own,
                np.uint64(most),
            )
            cl.enqueue_nd_range_kernel(self._queue, kernel, (groups * items,), (items,))
            event = cl.enqueue_copy(self._queue, found, into, is_blocking=False)
            self._queue.flush()
        wait(device, event, "choosing elements by their ranks")
        return found.transpose(2, 0, 1)

    def _shape(self) -> tuple[int, int, int]:
        """Return the lanes of a vector, work-groups, and the work-items of each."""
        device = self._opened.device
        jobs = self._groups * self._outputs
        if device.kind != "cpu":
            return 1, max(1, min(-(-jobs // _ITEMS), _GROUPS)), _ITEMS
        lanes = _LANES[self._dtype.itemsize] if self._outputs >= 16 else 1
        return lanes, max(1, min(device.compute_units * 4, -(-jobs // lanes))), 1


def selection_bytes(outputs: int, depth: int, itemsize: int) -> int:
    """Return the bytes of the keys of some outputs, which have so many elements each."""
    return outputs * depth * itemsize


def _opencl(dtype: np.dtype) -> str:
    name: dict[str, Any] = {"i4": "int", "u4": "uint", "i8": "long", "u8": "ulong"}
    return str(name[dtype.str[1:]])
