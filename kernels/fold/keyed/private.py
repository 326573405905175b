"""Fold by key with accumulators of each work-item's own: any reduction, without atomics."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyopencl as cl

from chunkfold.kernels.accumulator.partial import Partial
from chunkfold.kernels.accumulator.sums import Rounded, Rounding
from chunkfold.kernels.fold.fold import Fold
from chunkfold.kernels.fold.keyed.context import KeyedContext, numbered_as
from chunkfold.kernels.fold.keyed.keyed_box import KeyedBox, keys_of_rows, runs_of_keys
from chunkfold.kernels.fold.keyed.keyed_plan import column_jobs, private_plan, private_splits
from chunkfold.kernels.fold.launch import Input, strided_inputs
from chunkfold.kernels.fold.shapes import each_shape
from chunkfold.kernels.program.device_context import device_errors
from chunkfold.kernels.program.options import Tuning
from chunkfold.kernels.program.shared_layout import with_components

_ANY = np.zeros(1, np.uint32)
"""An order of rows that is not used."""


class PrivateAccumulators:
    """Folds by key what any work-item can, with accumulators of its own for each key."""

    def __init__(self, of: KeyedContext, tuning: Tuning, numbers: Sequence[int]) -> None:
        self._of, self._numbers = of, numbers
        accumulator = with_components(of.accumulator, numbers)
        splits = private_splits(of.opened.device, tuning, accumulator.nbytes, of.keys, of.outputs)
        self.fold = Fold(of.opened, accumulator, tuning, of.entries, of.queue, splits)
        self._begun = np.zeros(of.keys, bool)
        """Keys whose accumulators of the first split hold something, if only zero."""

    def add(
        self,
        inputs: Sequence[Input],
        keys: Input,
        layout: KeyedBox,
        wait_for: Sequence[cl.Event],
        codes: np.ndarray | None = None,
    ) -> cl.Event:
        """Enqueue the fold of a box."""
        of, fold, box = self._of, self.fold, layout.elements
        splits, span = private_plan(fold.tuning, of.keys, box.elements_per_output, fold.splits)
        tiles = column_jobs(fold.tuning, layout)
        if tiles is None:
            where, jobs = ("keyed/private.cl", "fold_private"), box.outputs
        else:
            where, jobs = ("keyed/columns.cl", "fold_private_columns"), tiles
        stores = tiles is not None and splits == 1
        row = None if tiles is None else keys_of_rows(codes, layout.keys)
        order = None if row is None else _together(row)
        runs = None
        if row is not None and stores:
            runs = runs_of_keys(row if order is None else row[order], of.keys)
        fresh = self._begin(runs, splits)
        held = fold.held(splits)
        del held["fresh"]  # which is of all keys
        if tiles is not None:
            held["fresh"] = self._uploaded(fresh.view(np.uint8))
            held["order"] = self._uploaded(_ANY if order is None else order)
            held["ordered"] = order is not None
        event = fold.launcher.launch(
            where,
            each_shape(fold.tuning, splits * jobs),
            strided_inputs(inputs, box) if box.other_offsets else inputs,
            wait_for,
            tuning=fold.tuning.for_box(box) if box.other_offsets else None,
            key=keys,
            geo=fold.launcher.geometry(box),
            key_geo=fold.launcher.geometry(layout.keys),
            outputs=box.outputs,
            reduces=box.elements_per_output,
            keys=of.keys,
            span=span,
            splits=splits,
            offset=box.offset,
            index=box.index,
            **held,
        )
        fold.took(box)
        return event

    def read_back(self) -> Partial:
        """Merge the accumulators of all work-items."""
        self._complete()
        return numbered_as(self.fold.read_back(), self._numbers)

    def rounded(self, how: Sequence[Rounding]) -> Rounded | Partial:
        """Merge them, and round what comes of it: see `Fold.rounded`; of all components."""
        self._complete()
        return self.fold.rounded(how)

    def _complete(self) -> None:
        if self.fold.holds:
            self._fill(~self._begun)
        self._begun[:] = False

    def _begin(self, runs: np.ndarray | None, splits: int) -> np.ndarray:
        """Return the keys of a box that are fresh; see that accumulators of others hold something.

        `runs` are in how many runs each key is; None: nobody knows.
        """
        met = np.ones(self._of.keys, bool) if runs is None else runs > 0
        missing = met & ~self._begun
        fresh = missing & (False if runs is None else runs == 1)
        if runs is None and not self.fold.holds:
            self.fold.zeroed(splits)
        else:
            self._fill(missing & ~fresh)
        self._begun |= met
        return fresh

    def _fill(self, chosen: np.ndarray) -> None:
        """Make the accumulators of some keys zero."""
        bounds = np.flatnonzero(np.diff(chosen, prepend=False, append=False))
        for first, behind in bounds.reshape(-1, 2).tolist():
            self.fold.fill(first * self._of.outputs, (behind - first) * self._of.outputs)

    def _uploaded(self, array: np.ndarray) -> cl.Buffer:
        flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
        with device_errors(self._of.opened.device, "uploading how rows are taken by key"):
            return cl.Buffer(self._of.opened.context, flags, hostbuf=array)


def _together(row: np.ndarray) -> np.ndarray | None:
    """Return the order of rows in which those of a key follow each other: uint32.

    None if they do as they are.
    """
    order = np.argsort(row, kind="stable").astype(np.uint32)
    changes = np.count_nonzero(np.diff(row))
    return order if np.count_nonzero(np.diff(row[order])) < changes else None
