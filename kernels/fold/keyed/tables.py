"""Fold by key in tables that work-items share: sums as integers, and extremes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from chunkfold.kernels.accumulator.partial import Partial, Wide
from chunkfold.kernels.accumulator.sums import expanded
from chunkfold.kernels.fold.fold import Fold
from chunkfold.kernels.fold.keyed.groups import Groups, renamed
from chunkfold.kernels.fold.keyed.layout import KeyedBox
from chunkfold.kernels.fold.keyed.plan import table_plan, table_tuning
from chunkfold.kernels.fold.launch import Input
from chunkfold.kernels.fold.shapes import each_shape
from chunkfold.kernels.program.device_context import device_errors
from chunkfold.kernels.program.keyed_shared import shared_of
from chunkfold.kernels.program.options import Tuning

_SAMPLE = 1 << 16
"""Elements that are looked at to find out how large they are."""
_LOOKS = 64
"""Work-groups that look at them, at most."""
_LEAST_TOP = np.array([-900], np.int32)
"""CHF_LEAST_TOP in kernels/cl/keyed/digits.clh."""


class Tables:
    """Adds up by key what are sums, in tables that work-items share."""

    def __init__(self, of: Groups, tuning: Tuning, numbers: Sequence[int]) -> None:
        self._of, self._numbers = of, numbers
        self._shared = shared_of(of.accumulator, numbers)
        tuning = table_tuning(of.opened.device, tuning)
        self.fold = Fold(of.opened, self._shared.accumulator, tuning, of.entries, of.queue, 1)
        flags = cl.mem_flags.READ_WRITE
        nbytes = 8 * self._shared.words * of.entries
        with device_errors(of.opened.device, f"allocating {nbytes} bytes of sums"):
            self._words = cl.Buffer(of.opened.context, flags, nbytes)
            self._tops = cl.Buffer(of.opened.context, flags, 4 * max(1, len(self._shared.exact)))
            cl.enqueue_fill_buffer(of.queue, self._words, np.zeros(1, np.int64), 0, nbytes)

    def add(
        self, inputs: Sequence[Input], keys: Input, layout: KeyedBox, wait_for: Sequence[cl.Event]
    ) -> cl.Event:
        """Enqueue the sums of a box: a look at how large elements are, sums, and their settling."""
        of, fold, box = self._of, self.fold, layout.elements
        device, launch = of.opened.device, fold.launcher.launch
        plan = table_plan(device, fold.tuning, self._shared, of.keys, box.outputs, box.reduces)
        size = fold.tuning.rows.local_size
        geo = of.geometry(box)
        held = fold.held(1)
        place: dict[str, Any] = {
            "outputs": box.outputs,
            "reduces": box.reduces,
            "offset": box.offset,
            "index": box.index,
        }
        if self._shared.exact:
            every = max(1, box.elements // _SAMPLE) | 1
            with device_errors(device, "clearing exponents"):
                nbytes = 4 * len(self._shared.exact)
                cl.enqueue_fill_buffer(of.queue, self._tops, _LEAST_TOP, 0, nbytes)
            groups = max(1, min(_LOOKS, _SAMPLE // size, -(-box.elements // size)))
            launch(
                ("keyed/global.cl", "look_keyed"), (groups, size), inputs, wait_for,
                geo=geo, every=every, tops=self._tops, **place,
            )  # fmt: skip
        local: dict[str, Any] = {}
        if plan.local:
            nbytes = of.keys * self._shared.key_bytes(plan.windows)
            local["table"] = cl.LocalMemory(-(-nbytes // 8) * 8)
        where = ("keyed/local.cl", "add_local") if plan.local else ("keyed/global.cl", "add_global")
        event = launch(
            where, (plan.parts * box.outputs, size), inputs, wait_for,
            key=keys, geo=geo, key_geo=of.geometry(layout.keys), keys=of.keys, span=plan.span,
            parts=plan.parts, windows=plan.windows, bits=plan.bits, tops=self._tops,
            sums=self._words, tables=held["tables"], seen=held["seen"], **place, **local,
        )  # fmt: skip
        launch(
            ("keyed/global.cl", "settle_keyed"), each_shape(fold.tuning, of.entries),
            entries=of.entries, bits=plan.bits, tops=self._tops, sums=self._words,
            tables=held["tables"], acc=held["acc"], acc_n=held["acc_n"], fresh=held["fresh"],
        )  # fmt: skip
        fold.took(box)
        return event

    def finish(self) -> Partial:
        """Read the sums back, in the form of the accumulator that they belong to."""
        partial = renamed(self.fold.finish(), self._numbers)
        arrays, wide = dict(partial.arrays), {}
        for name, field in self._of.accumulator.sums.items():
            if not field.terms or name not in arrays:
                continue
            assert field.limbs is not None
            tables = arrays.pop(name)
            terms, fits = expanded(tables, field.limbs)
            for number, term in enumerate(terms):
                arrays[f"{name}{number}"] = np.where(fits, term, 0)
            at = np.flatnonzero(~fits)
            if at.size:
                wide[name] = Wide(at, tables[at])
        return Partial(arrays, wide)
