"""Launches that fold boxes, prepared where the same box comes again and again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import pyopencl as cl

from chunkfold.kernels.fold.launch import Input, Launcher, Repeat, strided_inputs
from chunkfold.kernels.fold.launch_plan import PlannedLaunch, planned_launches
from chunkfold.kernels.geometry import Box
from chunkfold.kernels.program.options import Tuning

_Again = tuple[Box, bool]
"""A box, and whether no accumulator holds anything before it."""
Held = Callable[[int], dict[str, Any]]
"""Gives the arguments for accumulators of so many splits (`Fold.held`)."""
Laid = tuple[PlannedLaunch, "Tuning | None", cl.Buffer]
"""A launch, its tuning if it is not the reduction's, and the dims of its box on the device."""
_MOST_REPEATS = 8
"""Launches that are kept prepared."""


class BoxLaunches:
    """What folds boxes into accumulators that a fold has."""

    def __init__(self, launcher: Launcher, outputs: int, splits: int, *, tables: bool) -> None:
        self._launcher, self._tuning = launcher, launcher.tuning
        self._outputs, self._splits, self._tables = outputs, splits, tables
        self._seen: deque[_Again] = deque(maxlen=2 * _MOST_REPEATS)
        """What was folded last."""
        self._repeats: dict[_Again, Repeat] = {}
        """Launches for what comes again and again."""
        self._layouts: dict[Box, Sequence[Laid]] = {}
        """How boxes are folded along their axes."""

    def repeat_of(self, box: Box, *, fresh: bool) -> Repeat | None:
        """Return the prepared launch of a box, if there is one."""
        return self._repeats.get((box, fresh))

    def forget(self) -> None:
        """Drop prepared launches: accumulators are no longer where they were."""
        self._repeats.clear()

    def launch(
        self, inputs: Sequence[Input], box: Box, held: Held, wait_for: Sequence[cl.Event]
    ) -> cl.Event:
        """Enqueue what folds a box; return the event of the last launch."""
        if box.others or self._tuning.strided:
            box = box.of_inputs(len(inputs))
        launch = self._launch_flat if box.kernel == "flat" else self._launch_laid
        return launch(inputs, box, held, wait_for)

    def _launch_flat(
        self, inputs: Sequence[Input], box: Box, held: Held, wait_for: Sequence[cl.Event]
    ) -> cl.Event:
        loads = self._tuning.flat
        chunk = loads.width * loads.unroll * loads.local_size
        groups = max(1, min(self._splits, -(-box.elements // chunk)))
        items = groups * loads.local_size
        where, shape = ("flat.cl", "fold_flat"), (groups, loads.local_size)
        values = {
            "begin": box.offset,
            "end": box.offset + box.elements,
            # Strips are whole loads long, so that only the run's ends are folded one by one.
            "strip": -(-box.elements // (items * loads.width)) * loads.width,
            "index": box.index,
            **held(groups),
        }
        again = box, bool(values["fresh"])
        if box.others:
            given, tuning = strided_inputs(inputs, box, run=True), self._tuning.for_box(box)
            return self._launcher.launch(where, shape, given, wait_for, tuning=tuning, **values)
        room = len(self._repeats) < _MOST_REPEATS
        if room and again in self._seen and not (values["fresh"] and self._tables):
            self._repeats[again] = self._launcher.repeat(where, shape, inputs, **values)
        self._seen.append(again)
        return self._launcher.launch(where, shape, inputs, wait_for, **values)

    def _launch_laid(
        self, inputs: Sequence[Input], box: Box, held: Held, wait_for: Sequence[cl.Event]
    ) -> cl.Event:
        """Launch all that folds a box along its axes; return the event of the last."""
        for one, tuning, geometry in self._laid(box):
            event = self._launcher.launch(
                one.where,
                one.shape,
                strided_inputs(inputs, one.box) if box.others else inputs,
                wait_for,
                tuning=tuning,
                geo=geometry,
                outputs=self._outputs,
                reduces=one.box.reduces,
                offset=one.box.offset,
                index=one.box.index,
                **one.values,
                **held(one.splits),
            )
        return event

    def _laid(self, box: Box) -> Sequence[Laid]:
        """Return the launches that fold a box, their tunings and geometry: as of one before."""
        laid = self._layouts.get(box)
        if laid is None:
            tuning = self._tuning.for_box(box)
            launches = planned_launches(tuning, box, self._splits, tables=self._tables)
            own = tuning if box.others else None
            laid = [(one, one.tuning or own, self._launcher.geometry(one.box)) for one in launches]
            if len(self._layouts) < _MOST_REPEATS:
                self._layouts[box] = laid
        return laid
