"""Round exact sums on the device: results come back, not the several doubles that each is of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyopencl as cl

from chunkfold.kernels.accumulator.sums import Rounded, Rounding
from chunkfold.kernels.exact.limbs import FORMATS
from chunkfold.kernels.fold.launch import Launcher
from chunkfold.kernels.program.device_context import device_errors

_ITEMS = 64
"""Work-items of a work-group."""
_TOLD = np.zeros(2, np.uint32)
"""Outputs that are left to the host, and results that are NaN although there are elements."""
_TYPES = {2: "ushort", 4: "uint", 8: "ulong"}


class Rounder:
    """Rounds what settled accumulators hold: of so many outputs, to several statistics' results."""

    def __init__(self, launcher: Launcher, outputs: int, how: Sequence[Rounding]) -> None:
        self._launcher, self._outputs, self._how = launcher, outputs, how
        sizes = [-(-np.dtype(one.dtype).itemsize * outputs // 8) * 8 for one in how]
        self._places = [sum(sizes[:n]) for n in range(len(sizes))]
        self._told_at = sum(sizes)
        self.nbytes = self._told_at + len(how) * _TOLD.nbytes
        """Bytes of results, and of what is told of them."""

    def launch(self, source: cl.Buffer, count: int, out: cl.Buffer) -> None:
        """Enqueue what writes results to a buffer; `count` is of outputs without counts.

        Raises
        ------
        DeviceError
            If the device refuses it.
        """
        launcher = self._launcher
        order = [slot.name for slot in launcher.accumulator.scalars]
        with device_errors(launcher.opened.device, "rounding exact sums"):
            size = self.nbytes - self._told_at
            cl.enqueue_fill_buffer(launcher.queue, out, _TOLD, self._told_at, size)
            for number, one in enumerate(self._how):
                program = launcher.opened.standalone("rounding.cl", options=self._options(one))
                kernel = cl.Kernel(program, "round_sums")
                squares, counts = one.squares or one.sum, one.count or f"{one.sum}0"
                found = [f"{one.sum}0", f"{squares}0", counts]
                slots = [np.uint64(order.index(name)) for name in found]
                places = [self._places[number], self._told_at + number * _TOLD.nbytes]
                kernel.set_args(
                    source, np.uint64(self._outputs), *slots, np.uint64(count),
                    np.float64(one.ddof), out, *map(np.uint64, places),
                )  # fmt: skip
                items = -(-self._outputs // _ITEMS) * _ITEMS
                event = launcher.enqueue(kernel, items, _ITEMS, ())
                launcher.launched(("round_sums", number), event)

    def found(self, raw: np.ndarray, count: int | np.ndarray) -> Rounded | None:
        """Return the results in what was written; None if any is left to the host."""
        told = raw[self._told_at : self.nbytes].view(_TOLD.dtype).reshape(-1, len(_TOLD)).tolist()
        if any(left for left, _ in told):
            return None
        values = {}
        for one, at in zip(self._how, self._places, strict=True):
            dtype = np.dtype(one.dtype)
            values[one.name] = raw[at : at + self._outputs * dtype.itemsize].view(dtype)
        nan = {one.name: odd for one, (_, odd) in zip(self._how, told, strict=True)}
        return Rounded(values, nan, count)

    def _options(self, one: Rounding) -> tuple[str, ...]:
        sums, form = self._launcher.accumulator.sums, FORMATS[one.dtype]
        given = {
            "RESULT": _TYPES[np.dtype(one.dtype).itemsize],
            "DIGITS": form.precision,
            "TOP": form.top,
            "KEPT": sums[one.sum].terms,
            "SQUARES": sums[one.squares].terms if one.squares else 0,
            "DIVIDED": int(one.divided),
            "ROOT": int(one.root),
            "COUNTED": int(one.count is not None),
        }
        return tuple(f"-DCHF_{name}={value}" for name, value in given.items())
