"""Fold buffers by key into accumulators that stay on the device, then finish."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyopencl as cl

from chunkfold.kernels.accumulator import Accumulator
from chunkfold.kernels.errors import DeviceError, MonoidError
from chunkfold.kernels.fold import Fold
from chunkfold.kernels.geometry import Box
from chunkfold.kernels.keyed.layout import KeyedBox
from chunkfold.kernels.keyed.plan import (
    MOST_OUTPUTS,
    stream_plan,
    stream_splits,
    table_plan,
    table_tuning,
)
from chunkfold.kernels.keyed.shared import divided, shared_of, some_of
from chunkfold.kernels.launch import Input
from chunkfold.kernels.opened import OpenedDevice, device_errors
from chunkfold.kernels.partial import Partial, Wide
from chunkfold.kernels.profile import Profile, merged
from chunkfold.kernels.shapes import each_shape
from chunkfold.kernels.sums import expanded
from chunkfold.kernels.tuning import Tuning

_SAMPLE = 1 << 16
"""Elements that are looked at to find out how large they are."""
_LOOKS = 64
"""Work-groups that look at them, at most."""
_LEAST_TOP = np.array([-900], np.int32)
"""CHF_LEAST_TOP in kernels/keyed/digits.clh."""


class KeyedFold:
    """Folds buffers into one partial with an accumulator for each key and output.

    Accumulator (key, output) stands at key * outputs + output. Elements whose key is not in
    [0, keys) are left out. Buffers are folded in the order given, on one in-order queue; nothing
    waits for the host until `finish`. Not for use by several threads at once.

    Sums are added up as integers, and extremes compared, in tables that work-items share: they are
    exact, and the same in any order. Everything else is folded by work-items that have accumulators
    of their own.

    Parameters
    ----------
    accumulator
        Of `bind(..., keyed=True)`, in the form `for_outputs(keys * outputs)`, or `with_limbs()`.
    keys
        How many there are.
    outputs
        Outputs of each key.
    """

    def __init__(
        self,
        opened: OpenedDevice,
        accumulator: Accumulator,
        tuning: Tuning,
        keys: int,
        outputs: int = 1,
        queue: cl.CommandQueue | None = None,
    ) -> None:
        if not 0 < keys < 2**31:
            raise MonoidError(f"{keys:,} keys: there must be one at least, and fewer than 2**31")
        self.accumulator = accumulator
        self.keys, self.outputs = keys, outputs
        shared, others = divided(opened.device, accumulator)
        if outputs > MOST_OUTPUTS:
            shared, others = (), tuple(range(len(accumulator.components)))
        self._queue = queue or opened.queue()
        self._geo: dict[bytes, cl.Buffer] = {}
        self._opened = opened
        self._parts: list[Tables | Streams] = []
        if shared:
            self._parts.append(Tables(self, tuning, shared))
        if others:
            self._parts.append(Streams(self, tuning, others))

    def add(
        self,
        inputs: Sequence[Input],
        keys: Input,
        layout: KeyedBox,
        wait_for: Sequence[cl.Event] = (),
    ) -> cl.Event | None:
        """Enqueue the fold of a box of aligned buffers; return its event (None if it is empty).

        `keys` holds int32. The buffers must stay as they are until the event is complete.

        Raises
        ------
        DeviceError
            If the device refuses a launch, or the box has other outputs.
        """
        if not layout.elements.elements:
            return None
        if layout.outputs != self.outputs:
            raise DeviceError(f"a box of {layout.outputs} outputs cannot join {self.outputs}")
        event = None
        for one in self._parts:
            event = one.add(inputs, keys, layout, wait_for)
        self._queue.flush()
        return event

    def finish(self) -> Partial:
        """Read the partial back, and start anew from zero.

        Raises
        ------
        DeviceError
            If anything enqueued so far failed.

        Exact sums that are expansions may have lost something: see `kernels.sums.any_lost`.
        """
        arrays: dict[str, np.ndarray] = {}
        wide: dict[str, Wide] = {}
        for one in self._parts:
            partial = one.finish()
            arrays |= partial.arrays
            wide |= partial.wide
        return Partial({slot.name: arrays[slot.name] for slot in self.accumulator.slots}, wide)

    def profile(self) -> Profile:
        """Return the times of every launch that `finish` has proved done."""
        return merged([one.fold.profile() for one in self._parts])

    @property
    def opened(self) -> OpenedDevice:
        """The device."""
        return self._opened

    @property
    def queue(self) -> cl.CommandQueue:
        """What everything is enqueued on."""
        return self._queue

    def geometry(self, box: Box) -> cl.Buffer:
        """Return a box's dims on the device."""
        words = box.words()
        key = words.tobytes()
        if key not in self._geo:
            flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
            with device_errors(self._opened.device, "uploading a box's geometry"):
                self._geo[key] = cl.Buffer(self._opened.context, flags, hostbuf=words)
        return self._geo[key]


class Streams:
    """Folds by key what any work-item can, with accumulators of its own for each key."""

    def __init__(self, of: KeyedFold, tuning: Tuning, numbers: Sequence[int]) -> None:
        self._of, self._numbers = of, numbers
        accumulator = some_of(of.accumulator, numbers)
        splits = stream_splits(tuning, accumulator.nbytes, of.keys, of.outputs)
        self.fold = Fold(of.opened, accumulator, tuning, of.keys * of.outputs, of.queue, splits)

    def add(
        self, inputs: Sequence[Input], keys: Input, layout: KeyedBox, wait_for: Sequence[cl.Event]
    ) -> cl.Event:
        """Enqueue the fold of a box."""
        of, fold, box = self._of, self.fold, layout.elements
        splits, span = stream_plan(of.keys, box.reduces, fold.splits)
        fold.zeroed(splits)
        shape = each_shape(fold.tuning, splits * box.outputs)
        held = fold.held(splits)
        del held["fresh"]
        fold.took(box)
        return fold.launcher.launch(
            ("keyed/streams.cl", "fold_streams"),
            shape,
            inputs,
            wait_for,
            key=keys,
            geo=of.geometry(box),
            key_geo=of.geometry(layout.keys),
            outputs=box.outputs,
            reduces=box.reduces,
            keys=of.keys,
            span=span,
            splits=splits,
            offset=box.offset,
            index=box.index,
            **held,
        )

    def finish(self) -> Partial:
        """Merge the accumulators of all work-items."""
        return renamed(self.fold.finish(), self._numbers)


class Tables:
    """Adds up by key what are sums, in tables that work-items share."""

    def __init__(self, of: KeyedFold, tuning: Tuning, numbers: Sequence[int]) -> None:
        self._of, self._numbers = of, numbers
        self._shared = shared_of(of.accumulator, numbers)
        self._entries = of.keys * of.outputs
        tuning = table_tuning(of.opened.device, tuning)
        self.fold = Fold(of.opened, self._shared.accumulator, tuning, self._entries, of.queue, 1)
        flags = cl.mem_flags.READ_WRITE
        nbytes = 8 * self._shared.words * self._entries
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
            ("keyed/global.cl", "settle_keyed"), each_shape(fold.tuning, self._entries),
            entries=self._entries, bits=plan.bits, tops=self._tops, sums=self._words,
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


def renamed(partial: Partial, numbers: Sequence[int]) -> Partial:
    """Give the slots of an accumulator of some components the names that they have in the whole."""

    def name(own: str) -> str:
        number, _, rest = own[1:].partition("_")
        return f"c{numbers[int(number)]}_{rest}"

    arrays = {name(own): array for own, array in partial.arrays.items()}
    wide = {name(own): rows for own, rows in partial.wide.items()}
    return replace(partial, arrays=arrays, wide=wide)
