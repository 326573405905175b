"""Compute levels of a pyramid on a device, and try on a few elements that they are right."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from weakref import WeakKeyDictionary

import numpy as np
import pyopencl as cl

from chunkfold.kernels.catalogue.window_modes import reduced_windows
from chunkfold.kernels.dtypes import STORED, literal
from chunkfold.kernels.errors import DeviceError
from chunkfold.kernels.fold.launch import Input
from chunkfold.kernels.fold.profile import LaunchTimes, PassName, PassTimes, Profile, pass_times
from chunkfold.kernels.fold.waiting import wait
from chunkfold.kernels.program.device_context import DeviceContext, device_errors

_ZEROS: Mapping[str, float | str] = MappingProxyType({"mean": 0, "min": "highest", "max": "lowest"})
"""What changes no state."""
OPS = tuple(_ZEROS)
"""What windows can become."""
_LANES, _ITEMS = 8, 64
"""Of a CPU's vectors; work-items of a GPU's work-group."""
_AXES = 3
"""The last axes, along which windows may be."""
_WIDEST = 16
"""Elements of a window along an axis, at most: a device is tried on some windows first."""
_EXACT_BITS = 53
"""Of a double, which sums of integers are divided as."""


@dataclass(frozen=True)
class Levels:
    """The levels to compute, and how: results have the dtype of the elements."""

    op: str
    """One of `OPS`."""
    dtype: str
    """Name of a dtype of integers of 32 bits at most, or float32."""
    factors: tuple[int, ...]
    """Elements of a level for one of the next, along each axis."""
    count: int
    """Number of levels."""

    @property
    def able(self) -> bool:
        """True if kernels compute them: windows along the last axes, sums that do not overflow."""
        dtype = np.dtype(self.dtype)
        floats = dtype == np.float32
        integers = dtype.kind in "iu" and dtype.itemsize <= 4
        return (
            self.op in OPS
            and (floats or integers)
            and all(by == 1 for by in self.factors[:-_AXES])
            and max(self.factors) <= _WIDEST
            and (floats or self.op != "mean" or self._sum_bits <= _EXACT_BITS)
        )

    @property
    def _sum_bits(self) -> int:
        elements = math.prod(self.factors) ** self.count
        return int(8 * np.dtype(self.dtype).itemsize + (elements - 1).bit_length())

    @property
    def state(self) -> np.dtype:
        """Dtype of what the next level is made of."""
        if self.op != "mean":
            return np.dtype(self.dtype)
        if self.dtype == "float32":
            return np.dtype(np.float64)
        return np.dtype(np.int32 if self._sum_bits < 32 else np.int64)

    def shapes(self, shape: Sequence[int]) -> list[tuple[int, ...]]:
        """Return the extents of each level, of elements of a shape: last windows may be shorter.

        >>> Levels("mean", "uint8", (1, 2, 2), 2).shapes((3, 5, 8))
        [(3, 3, 4), (3, 2, 2)]
        """
        found = [tuple(shape)]
        for _ in range(self.count):
            found.append(tuple(-(-n // by) for n, by in zip(found[-1], self.factors, strict=True)))
        return found[1:]

    def options(self, *, first: bool, lanes: int, items: int) -> list[str]:
        """Return what the kernel of the first level is compiled with, or of the others."""
        dtype = np.dtype(self.dtype)
        depth, height, width = self.windows
        given = {
            "ELEMENT": STORED[self.dtype].storage,
            "STATE": STORED[self.state.name].storage,
            "FLOATS": int(dtype.kind == "f"),
            "NOTHING": literal(_ZEROS[self.op], self.state.name).replace(" ", ""),
            "OP": OPS.index(self.op),
            "FIRST": int(first),
            "LANES": lanes,
            "TWICE": 2 * lanes,
            "ITEMS": items,
            "DEPTH": depth,
            "HEIGHT": height,
            "WIDTH": width,
        }
        return [f"-DCHF_{name}={value}" for name, value in given.items()]

    @property
    def windows(self) -> tuple[int, ...]:
        """Factors along the last axes."""
        return _last(self.factors)


class LevelsFold:
    """Makes the levels of one buffer after another. Not for use by several threads at once."""

    def __init__(self, opened: DeviceContext, levels: Levels, queue: cl.CommandQueue) -> None:
        self._opened, self._levels, self._queue = opened, levels, queue
        on_cpu = opened.device.kind == "cpu"
        self._lanes, self._items = (_LANES, 1) if on_cpu else (1, _ITEMS)
        self._kernels = [self._kernel(first=True), self._kernel(first=False)]
        self._buffers: dict[str, cl.Buffer] = {}
        self._profile: dict[PassName, PassTimes] = {}

    def made(
        self, elements: Input, shape: Sequence[int], wait_for: Sequence[cl.Event] = ()
    ) -> list[np.ndarray] | None:
        """Return the levels of elements in C order, of at least one, and wait for them.

        None if any result might not be that of exact arithmetic, rounded once.

        Raises
        ------
        DeviceError
            If the device fails.
        """
        shapes = self._levels.shapes(shape)
        sizes = [math.prod(one) for one in shapes]
        dtype, state = np.dtype(self._levels.dtype), self._levels.state
        results = np.empty(sum(sizes), dtype)
        seen = np.zeros(2, np.uint32)
        with device_errors(self._opened.device, "making levels"):
            into = self._buffer("results", results.nbytes)
            states = [self._buffer(f"states {n}", state.itemsize * sizes[0]) for n in range(2)]
            told = self._buffer("seen", seen.nbytes)
            cl.enqueue_copy(self._queue, told, seen, is_blocking=False)
            events, rows, at, source = [], 0, 0, elements
            for number, size in enumerate(sizes):
                target = states[number % 2]
                kernel, groups = self._given(number, shape, shapes, source, target, into, at, told)
                events.append(self._launch(kernel, groups, wait_for if not number else ()))
                rows, at, source = rows + groups, at + size, target
            cl.enqueue_copy(self._queue, results, into, is_blocking=False)
            arrived = cl.enqueue_copy(self._queue, seen, told, is_blocking=False)
            self._queue.flush()
        wait(self._opened.device, arrived, "making levels")
        if seen[1] != rows:
            raise DeviceError(
                f"{self._opened.device} reports no error, but its kernels made {seen[1]:,} rows "
                f"of levels of {rows:,}"
            )
        self._note(events)
        if seen[0]:
            return None
        ends = np.cumsum(sizes)[:-1]
        return [a.reshape(b) for a, b in zip(np.split(results, ends), shapes, strict=True)]

    def taken_profile(self) -> Profile:
        """Return the times of all launches since this was last asked."""
        found, self._profile = self._profile, {}
        return found

    def _kernel(self, *, first: bool) -> cl.Kernel:
        options = tuple(self._levels.options(first=first, lanes=self._lanes, items=self._items))
        with device_errors(self._opened.device, "making kernel fold_level"):
            return cl.Kernel(self._opened.standalone("levels.cl", options=options), "fold_level")

    def _given(
        self,
        number: int,
        shape: Sequence[int],
        shapes: Sequence[Sequence[int]],
        source: Input,
        target: cl.Buffer,
        into: cl.Buffer,
        at: int,
        told: cl.Buffer,
    ) -> tuple[cl.Kernel, int]:
        """Give a level's kernel its arguments; return it, and its work-groups: rows of results."""
        before, own = [shape, *shapes][number], shapes[number]
        kernel = self._kernels[number > 0]
        spans = [by ** (number + 1) for by in self._levels.windows]
        extents = [*_last(before), *_last(own), *_last(shape), *spans]
        numbers = [np.uint64(n) for n in (at, *extents)]
        last = np.uint32(number + 1 == len(shapes))
        kernel.set_args(source, target, into, *numbers, last, told)
        return kernel, math.prod(own[:-1])

    def _launch(self, kernel: cl.Kernel, groups: int, wait_for: Sequence[cl.Event]) -> cl.Event:
        event: cl.Event = cl.enqueue_nd_range_kernel(
            self._queue, kernel, (groups * self._items,), (self._items,), wait_for=list(wait_for)
        )
        return event

    def _buffer(self, name: str, nbytes: int) -> cl.Buffer:
        if name not in self._buffers or self._buffers[name].size < nbytes:
            flags = cl.mem_flags.READ_WRITE
            self._buffers[name] = cl.Buffer(self._opened.context, flags, max(1, nbytes))
        return self._buffers[name]

    def _note(self, events: Sequence[cl.Event]) -> None:
        for number, event in enumerate(events):
            clocks = event.profile
            times = LaunchTimes(clocks.queued, clocks.submit, clocks.start, clocks.end)
            name, known = ("fold_level", number), self._profile
            one = pass_times(times, name not in known)
            known[name] = known[name] + one if name in known else one


def _last(along: Sequence[int]) -> tuple[int, ...]:
    """Return numbers along the last three axes: 1 along those that are not there."""
    return (1,) * (_AXES - len(along)) + tuple(along[-_AXES:])


_TRIED_COLUMNS = 19
"""Windows along the last axis: two vectors of them, and some more."""
_known_levels: WeakKeyDictionary[DeviceContext, dict[Levels, bool]] = WeakKeyDictionary()


def makes_right(opened: DeviceContext, levels: Levels) -> bool:
    """Return whether a device computes the same levels as NumPy; the answer is cached."""
    known = _known_levels.setdefault(opened, {})
    if levels not in known:
        known[levels] = try_levels(opened, levels)
    return known[levels]


def try_levels(opened: DeviceContext, levels: Levels) -> bool:
    """Return whether a device computes levels of a few elements as NumPy does."""
    shape = [2 * by + 1 if by > 1 else 1 for by in levels.windows]
    shape[-1] = _TRIED_COLUMNS * levels.windows[-1] + 1
    image = (np.arange(np.prod(shape)) * 37 % 101).astype(levels.dtype).reshape(shape)
    # With as many axes as there are factors: those before the last three have one element.
    image = image.reshape(([1] * len(levels.factors) + shape)[-len(levels.factors) :])
    flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
    try:
        buffer = cl.Buffer(opened.context, flags, hostbuf=image)
        made = LevelsFold(opened, levels, opened.queue()).made(buffer, image.shape)
    except (DeviceError, cl.Error):  # it does not build, or is not run
        return False
    wanted = [by_numpy(image, levels, n) for n in range(1, levels.count + 1)]
    return made is not None and all(map(np.array_equal, made, wanted))


def by_numpy(image: np.ndarray, levels: Levels, number: int) -> np.ndarray:
    """Return a level of small whole numbers, of which sums and means are exact in float64."""
    functions = {"mean": np.add, "min": np.minimum, "max": np.maximum}
    windows = [by**number for by in levels.factors]
    done = reduced_windows(functions[levels.op], image.astype(np.float64), windows)
    if levels.op == "mean":
        done = done / reduced_windows(np.add, np.ones(image.shape), windows)
    dtype = np.dtype(levels.dtype)
    return (done if dtype.kind == "f" else np.rint(done)).astype(dtype)
