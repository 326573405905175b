"""Fold by key with accumulators of each work-item's own: any reduction, without atomics."""

from __future__ import annotations

from collections.abc import Sequence

import pyopencl as cl

from chunkfold.kernels.accumulator.partial import Partial
from chunkfold.kernels.fold.fold import Fold, strided_inputs
from chunkfold.kernels.fold.keyed.context import KeyedContext, numbered_as
from chunkfold.kernels.fold.keyed.layout import KeyedBox
from chunkfold.kernels.fold.keyed.plan import column_jobs, private_plan, private_splits
from chunkfold.kernels.fold.launch import Input
from chunkfold.kernels.fold.shapes import each_shape
from chunkfold.kernels.program.options import Tuning
from chunkfold.kernels.program.shared_layout import with_components


class PrivateAccumulators:
    """Folds by key what any work-item can, with accumulators of its own for each key."""

    def __init__(self, of: KeyedContext, tuning: Tuning, numbers: Sequence[int]) -> None:
        self._of, self._numbers = of, numbers
        accumulator = with_components(of.accumulator, numbers)
        splits = private_splits(tuning, accumulator.nbytes, of.keys, of.outputs)
        self.fold = Fold(of.opened, accumulator, tuning, of.entries, of.queue, splits)

    def add(
        self, inputs: Sequence[Input], keys: Input, layout: KeyedBox, wait_for: Sequence[cl.Event]
    ) -> cl.Event:
        """Enqueue the fold of a box."""
        of, fold, box = self._of, self.fold, layout.elements
        splits, span = private_plan(of.keys, box.reduces, fold.splits)
        fold.zeroed(splits)
        tiles = column_jobs(fold.tuning, layout)
        if tiles is None:
            where, jobs = ("keyed/private.cl", "fold_private"), box.outputs
        else:
            where, jobs = ("keyed/columns.cl", "fold_private_columns"), tiles
        held = fold.held(splits)
        del held["fresh"]  # none is: all were made zero
        event = fold.launcher.launch(
            where,
            each_shape(fold.tuning, splits * jobs),
            strided_inputs(inputs, box) if box.others else inputs,
            wait_for,
            tuning=fold.tuning.for_box(box) if box.others else None,
            key=keys,
            geo=fold.launcher.geometry(box),
            key_geo=fold.launcher.geometry(layout.keys),
            outputs=box.outputs,
            reduces=box.reduces,
            keys=of.keys,
            span=span,
            splits=splits,
            offset=box.offset,
            index=box.index,
            **held,
        )
        fold.took(box)
        return event

    def finish(self) -> Partial:
        """Merge the accumulators of all work-items."""
        return numbered_as(self.fold.finish(), self._numbers)
