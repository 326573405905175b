"""Fold by key in tables that work-items share: sums as integers, extremes, counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from chunkfold.kernels.accumulator.accumulator import Slot
from chunkfold.kernels.accumulator.partial import Partial, Wide
from chunkfold.kernels.accumulator.sums import expanded
from chunkfold.kernels.accumulator.traits import Deposit
from chunkfold.kernels.errors import DeviceError
from chunkfold.kernels.fold.fold import Fold
from chunkfold.kernels.fold.keyed.context import KeyedContext, numbered_as
from chunkfold.kernels.fold.keyed.keyed_box import KeyedBox
from chunkfold.kernels.fold.keyed.keyed_plan import LocalTables, TablePlan, local_tables, table_plan
from chunkfold.kernels.fold.launch import Input, KernelArgument, strided_inputs
from chunkfold.kernels.fold.shapes import each_shape
from chunkfold.kernels.geometry import Box
from chunkfold.kernels.opencl.opencl_code import defined
from chunkfold.kernels.program.device_context import device_errors
from chunkfold.kernels.program.options import Tuning
from chunkfold.kernels.program.shared_layout import shared_of

_SAMPLE = 1 << 16
"""Elements that are looked at to find out how large they are."""
_SAMPLE_GROUPS = 64
"""Work-groups that look at them, at most."""
_MOST_ELEMENTS = 1 << 31
"""Elements whose 32-bit integers 64 bits hold the sum of."""
_LEAST_EXPONENT = np.array([defined("keyed/digits.clh", "CHF_LEAST_EXPONENT")], np.int32)


class Tables:
    """Folds by key into tables that work-items share: sums as integers, extremes, counters."""

    def __init__(
        self, of: KeyedContext, tuning: Tuning, numbers: Sequence[int], *, local: bool
    ) -> None:
        self._of, self._numbers = of, numbers
        self._shared = shared_of(of.accumulator, numbers)
        self.fold = Fold(of.opened, self._shared.accumulator, tuning, of.entries, of.queue, 1)
        self._tables = LocalTables(0, of.keys)
        if local:
            self._tables = local_tables(of.opened.device, tuning, self._shared, of.keys)
        flags = cl.mem_flags.READ_WRITE
        nbytes = 8 * self._shared.words * of.entries
        with device_errors(of.opened.device, f"allocating {nbytes} bytes of sums"):
            self._words = cl.Buffer(of.opened.context, flags, max(8, nbytes))
            self._exponents = cl.Buffer(
                of.opened.context, flags, 4 * max(1, len(self._shared.exact))
            )
            if nbytes:  # none where all are counters
                cl.enqueue_fill_buffer(of.queue, self._words, np.zeros(1, np.int64), 0, nbytes)

    def add(
        self,
        inputs: Sequence[Input],
        keys: Input,
        layout: KeyedBox,
        wait_for: Sequence[cl.Event],
        codes: np.ndarray | None = None,  # noqa: ARG002 # tables are small, and zero
    ) -> cl.Event:
        """Enqueue the fold of a box: sample how large elements are, fold, settle.

        Where there are positions, the first elements that have their extremes are found in between.
        """
        of, fold, box = self._of, self.fold, layout.elements
        if self._shared.places[Deposit.STATE] and box.elements_per_output >= _MOST_ELEMENTS:
            raise DeviceError(
                f"{box.elements_per_output:,} elements of an output are to be added up by key at "
                f"once: sums of integers hold fewer than {_MOST_ELEMENTS:,}; fold several boxes"
            )
        held, digits = fold.held(1), self._tables.digits
        plan = table_plan(fold.tuning, self._shared, digits, box.outputs, box.elements_per_output)
        elements: dict[str, Any] = {
            "tuning": fold.tuning.for_box(box) if box.other_offsets else None,
            "geo": fold.launcher.geometry(box),
            "outputs": box.outputs,
            "reduces": box.elements_per_output,
            "offset": box.offset,
            "index": box.index,
        }
        by_key = elements | {
            "key": keys,
            "key_geo": fold.launcher.geometry(layout.keys),
            "keys": of.keys,
            "span": plan.span,
            "words": self._words,
            "seen": held["seen"],
        }
        given = strided_inputs(inputs, box) if box.other_offsets else inputs
        shape = (plan.work_groups * box.outputs, fold.tuning.sharing)
        if self._shared.exact:
            self._sample(given, wait_for, box, elements)
        where, parts = self._parts(plan)
        for part in parts:
            event = fold.launcher.launch(
                where,
                shape,
                given,
                wait_for,
                work_groups=plan.work_groups,
                digits=plan.digits,
                bits=plan.bits,
                exponents=self._exponents,
                tables=held["tables"],
                **by_key,
                **part,
            )
        if self._shared.places[Deposit.INDEX]:
            event = fold.launcher.launch(
                ("keyed/global.cl", "find_indices"), shape, given, wait_for, **by_key
            )
            fold.looked_at(box)
        fold.launcher.launch(
            ("keyed/global.cl", "settle_keyed"),
            each_shape(fold.tuning, of.entries),
            entries=of.entries,
            bits=plan.bits,
            exponents=self._exponents,
            words=self._words,
            tables=held["tables"],
            acc=held["acc"],
            acc_n=held["acc_n"],
            fresh=held["fresh"],
        )
        fold.took(box)
        return event

    def _parts(self, plan: TablePlan) -> tuple[tuple[str, str], list[dict[str, Any]]]:
        """Return the kernel that adds elements to tables, and what is its own of each launch."""
        if not plan.local:
            return ("keyed/global.cl", "add_global"), [{}]
        keys, tables = self._of.keys, self._tables
        nbytes = max(8, -(-tables.keys * self._shared.key_bytes(plan.digits) // 8) * 8)
        table = {"table": cl.LocalMemory(nbytes)}
        if tables.keys == keys:
            return ("keyed/local.cl", "add_local"), [table]
        firsts = range(0, keys, tables.keys)
        return ("keyed/local.cl", "add_local_part"), [
            table | {"least": first, "some": min(tables.keys, keys - first)} for first in firsts
        ]

    def _sample(
        self,
        inputs: Sequence[KernelArgument],
        wait_for: Sequence[cl.Event],
        box: Box,
        elements: Mapping[str, Any],
    ) -> None:
        """Find out how large some elements are, which is where digits begin."""
        size = self.fold.tuning.sharing
        with device_errors(self._of.opened.device, "clearing exponents"):
            nbytes = 4 * len(self._shared.exact)
            cl.enqueue_fill_buffer(self._of.queue, self._exponents, _LEAST_EXPONENT, 0, nbytes)
        groups = max(1, min(_SAMPLE_GROUPS, _SAMPLE // size, -(-box.elements // size)))
        self.fold.launcher.launch(
            ("keyed/global.cl", "sample_exponents"),
            (groups, size),
            inputs,
            wait_for,
            every=max(1, box.elements // _SAMPLE) | 1,
            exponents=self._exponents,
            **elements,
        )

    def read_back(self) -> Partial:
        """Read the sums back, in the form of the accumulator that they belong to."""
        partial = numbered_as(self.fold.read_back(), self._numbers)
        arrays, wide = dict(partial.arrays), {}
        for number, part in zip(self._numbers, self._shared.accumulator.components, strict=True):
            field = self._of.accumulator.components[number].fields[0]
            if part.limbs and not field.limbs:  # it may round, so the nearest of its dtype is it
                name = Slot(number, field).name
                (nearest, *_), _ = expanded(arrays[name], part.limbs)
                arrays[name] = nearest.astype(field.dtype)
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
