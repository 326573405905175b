"""See that a monoid is one: op commutes and associates, zero is its identity, streams agree.

Tried on the device in three ways: triples of accumulators that a fold can reach, made of small
dyadic numbers, whose sums and products are exact in floats; the same of telling elements
(`law_samples.telling`), where what rounding makes of a few additions is let pass; and sequences of
these, folded in many orders and partitions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyopencl as cl

from chunkfold.kernels.accumulator import Accumulator
from chunkfold.kernels.component import Component
from chunkfold.kernels.launch import wait
from chunkfold.kernels.law_samples import (
    EACH,
    ENDS,
    SEQUENCE,
    SHORT,
    Rows,
    orders,
    sequences,
    small,
    telling,
)
from chunkfold.kernels.opened import OpenedDevice, device_errors
from chunkfold.kernels.partial import unpack
from chunkfold.kernels.signature import signature
from chunkfold.kernels.texts import COLLECTIVES
from chunkfold.kernels.tuning import Tuning

LAWS_FILE = "laws.cl"
_TRIPLES = 2048
_PLACES = ("a", "b", "c", "op(a, b)", "op(b, a)", "op(op(a, b), c)", "op(a, op(b, c))",
           "op(zero, a)", "op(a, zero)", "a by accumulate", "a by join",
           "a by join_alike")  # fmt: skip
_ORDER = (
    ("op is not commutative", "op(a, b)", "op(b, a)"),
    ("op is not associative", "op(op(a, b), c)", "op(a, op(b, c))"),
)
"""Laws that hold for named ops, however their sums are rounded."""
_IDENTITY = (
    ("zero is not op's identity", "op(zero, a)", "a"),
    ("zero is not op's identity", "op(a, zero)", "a"),
)
"""Laws that depend on what lift can reach: 0 is a maximum's identity where nothing is negative."""
_STREAMS = (
    ("accumulate and op disagree", "a by accumulate", "a"),
    ("accumulate.join and op disagree", "a by join", "a"),
    ("accumulate.join_alike and op disagree", "a by join_alike", "a"),
)
"""Laws of those that fold elements into a state of their own; `carry` is part of each step."""
_TRIPLE_STEPS = 8
"""Operations, at most, between two places of a triple: each may round."""
_EVERY = 16
"""Steps of a sequence of which one is looked at, for how large accumulators grow on the way."""
_SHOWN = 6
"""Elements of a sequence that a counter-example shows."""


@dataclass(frozen=True)
class Tried:
    """What came of trying the laws of a reduction."""

    broken: str = ""
    """Which law a component breaks, with the counter-example; empty if none was found."""
    unmoved: tuple[str, ...] = ()
    """Monoids with a component whose laws are not plain from the names of its ops, and which no
    element that was tried changes: that proves nothing."""


def try_laws(
    opened: OpenedDevice,
    accumulator: Accumulator,
    tuning: Tuning,
    data: Sequence[np.ndarray] | None = None,
) -> Tried:
    """Try the laws of the components whose laws are not known to hold.

    Parameters
    ----------
    data
        For each input as many elements as they stand in memory, of which none is missing; without
        them only those are tried that the monoid's own numbers suggest.

    Raises
    ------
    BuildError
        If the kernel does not build.
    DeviceError
        If the device fails.
    """
    parts = accumulator.components
    doubted = tuple(part for part in parts if part.rtol is not None and part.table is None)
    if not doubted:
        return Tried()
    tried = _Tried(opened, replace(accumulator, components=doubted), tuning)
    if data is None:
        tried = _Tried(opened, _of_values(tried.accumulator), tuning)
        broken = tried.triples(small(tried.accumulator), rounds=False)
        if broken:
            return Tried(broken)
    rows = telling(tried.accumulator, data)
    broken = tried.triples(rows, rounds=True) or tried.sequences(rows)
    return Tried(broken, tried.unmoved)


def _of_values(accumulator: Accumulator) -> Accumulator:
    """Return the accumulator of unpacked values: missing ones, which are NaN, are no samples."""
    packings, pairs = accumulator.packings, zip(accumulator.stored, accumulator.value, strict=True)
    stored = (pair[packing is not None] for pair, packing in zip(pairs, packings, strict=True))
    return replace(accumulator, stored=tuple(stored), packings=(None,) * len(packings))


class _Tried:
    """The components of an accumulator that are tried, and whether they ever moved."""

    def __init__(self, opened: OpenedDevice, accumulator: Accumulator, tuning: Tuning) -> None:
        self.accumulator = accumulator
        self._opened, self._tuning = opened, tuning
        self._moved = [False] * len(accumulator.components)

    @property
    def unmoved(self) -> tuple[str, ...]:
        """Monoids of components that no element has changed so far."""
        pairs = zip(self.accumulator.components, self._moved, strict=True)
        return tuple(
            dict.fromkeys(
                part.origin
                for part, moved in pairs
                if not moved and (part.state is not None or not _named(part))
            )
        )

    def triples(self, rows: Rows, *, rounds: bool) -> str:
        """Try triples of accumulators of these elements; say what is wrong."""
        count = len(rows[0])
        rng = np.random.default_rng(0)
        triples = rng.integers(0, (count + 1) ** 2, (_TRIPLES, 3), np.uint64)
        triples[: _TRIPLES // 2] %= count + 1  # half of them of single elements
        values = {"count": count, "triples": triples, "n": _TRIPLES}
        places = len(_PLACES)
        for part, fields in self._run("try_laws", rows, values, _TRIPLES, places):
            laws = (() if _named(part) else _ORDER) + _IDENTITY + (_STREAMS if part.state else ())
            largest = {name: _largest(array) for name, array in fields.items()}
            least, plain = part.rtol or 0.0, _is_plain(part)
            for law, left, right in laws:
                u, v = (
                    {name: array[_PLACES.index(place)] for name, array in fields.items()}
                    for place in (left, right)
                )
                differ = np.zeros(_TRIPLES, bool)
                for name, (one, other) in _pairs(u, v):
                    rounding = _TRIPLE_STEPS * _eps(one) if rounds or plain else 0.0
                    rtol = max(least, rounding)
                    differ |= _differ(one, other, rtol * largest[name])
                    if rounds and one.dtype.kind == "f":
                        differ &= np.isfinite(largest[name])
                found = np.flatnonzero(differ)
                if found.size:
                    return _counter_example(part, fields, law, left, right, int(found[0]))
        return ""

    def sequences(self, rows: Rows) -> str:
        """Fold sequences of these elements in many orders; say what is wrong."""
        elements = sequences(rows)
        return self._orders(elements, SHORT) or self._orders(elements, SEQUENCE)

    def _orders(self, elements: Rows, length: int) -> str:
        taken = orders(length)
        looks = 2 * (length // _EVERY)
        values = {"orders": taken, "elements": length, "every": _EVERY}
        for part, fields in self._run("try_orders", elements, values, len(taken), looks + 2):
            for first in range(0, len(taken), EACH):
                some = {name: array[:, first : first + EACH] for name, array in fields.items()}
                for way in range(looks, looks + 1 + bool(part.state)):
                    order = _other_result(part, some, looks, way, length)
                    if order is not None:
                        results = {n: (a[looks, 0], a[way, order]) for n, a in some.items()}
                        numbers = taken[first + order] & ~ENDS
                        how = "by accumulate, " if way > looks else ""
                        return _disagreement(part, elements[0][numbers], results, how)
        return ""

    def _run(
        self, kernel: str, rows: Rows, values: Mapping[str, object], items: int, each: int
    ) -> Iterator[tuple[Component, dict[str, np.ndarray]]]:
        """Run a kernel; yield each component and its fields, of shape (each, items)."""
        opened, accumulator = self._opened, self.accumulator
        raw = np.zeros(each * items * accumulator.scalar_bytes, np.uint8)
        program = opened.program(LAWS_FILE, accumulator, self._tuning)
        flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
        with device_errors(opened.device, "trying the laws of a monoid"):
            queue = opened.queue()

            def buffer(array: np.ndarray) -> cl.Buffer:
                return cl.Buffer(opened.context, flags, hostbuf=np.ascontiguousarray(array))

            inputs = [buffer(array) for array in rows]
            out = cl.Buffer(opened.context, cl.mem_flags.READ_WRITE, raw.nbytes)
            given = {
                name: buffer(value) if isinstance(value, np.ndarray) else value
                for name, value in values.items()
            }
            takes = signature(LAWS_FILE, kernel)
            built = cl.Kernel(program, kernel)
            takes.prepare(built, len(inputs))
            built(queue, (items,), None, *inputs, *takes.arguments({**given, "out": out}))
            event = cl.enqueue_copy(queue, raw, out, is_blocking=False)
            queue.flush()
        wait(opened.device, event, "the laws of a monoid")
        arrays = unpack(accumulator, raw, each * items).arrays
        for number, part in enumerate(accumulator.components):
            fields = {
                field.name: arrays[f"c{number}_{field.name}"].reshape(each, items)
                for field in part.fields
            }
            self._moved[number] |= _tells(fields)
            yield part, fields


def _other_result(
    part: Component, fields: Mapping[str, np.ndarray], plain: int, way: int, length: int
) -> int | None:
    """Return an order whose result, by one way, is not that of the first order, by op.

    Orders in which anything overflows are passed over.
    """
    largest = {name: _largest(array) for name, array in fields.items()}
    usable = np.logical_and.reduce([np.isfinite(one) for one in largest.values()])
    differ = np.zeros(usable.shape, bool)
    for name, array in fields.items():
        rtol = max(part.rtol or 0.0, length * _eps(array))
        most = rtol * np.maximum(largest[name], largest[name][0])
        differ |= _differ(array[plain, 0], array[way], most)
    found = np.flatnonzero(differ & usable & usable[0])
    return int(found[0]) if found.size else None


def _disagreement(
    part: Component,
    elements: np.ndarray,
    results: Mapping[str, tuple[np.generic, np.generic]],
    how: str,
) -> str:
    shown = ", ".join(map(str, elements[:_SHOWN]))
    one, other = (
        ", ".join(f"{name}={pair[side].item()!r}" for name, pair in results.items())
        for side in (0, 1)
    )
    return (
        f"monoid {part.origin!r}: its result depends on the order of elements: {len(elements):,} "
        f"of them (x is {shown}, ...) give ({one}) one after another, but ({other}) {how}in "
        "another order and in parts; mend them, or give rtol if rounding is all the difference"
    )


def _named(part: Component) -> bool:
    """Whether its ops commute and associate whatever elements are: `add`, `min`, `max`."""
    return all(field.op in COLLECTIVES for field in part.fields)


_BEYOND_PLAIN = re.compile(r"/|\b(?!(?:f?min|f?max|fma|fabs|wide|when)\b)\w+\s*\(")
"""What rounds otherwise than `+`, `-` and `*` do: a division, a function."""


def _tells(fields: Mapping[str, np.ndarray]) -> bool:
    """Whether accumulators differ enough to tell something: of zero and one other nothing is told.

    But where fields are integers there may be no others, as of truths.
    """
    floats = [array for array in fields.values() if array.dtype.kind == "f"]
    most = max(len(np.unique(array)) for array in floats or fields.values())
    return most > 2 or (most == 2 and not floats)


def _is_plain(part: Component) -> bool:
    """Whether its ops do nothing but add, subtract, multiply and compare."""
    return not any(_BEYOND_PLAIN.search(field.op) for field in part.fields)


def _pairs(
    u: Mapping[str, np.ndarray], v: Mapping[str, np.ndarray]
) -> Iterator[tuple[str, tuple[np.ndarray, np.ndarray]]]:
    return ((name, (u[name], v[name])) for name in u)


def _eps(values: np.ndarray) -> float:
    """Return what one rounding may change, relative; 0 of integers."""
    return float(np.finfo(values.dtype).eps) if values.dtype.kind == "f" else 0.0


def _largest(values: np.ndarray) -> np.ndarray:
    """Return the largest magnitude met on the way, as float64; NaN where one is NaN."""
    largest: np.ndarray = np.abs(values.astype(np.float64)).max(axis=0)
    return largest


def _differ(u: np.ndarray, v: np.ndarray, most: np.ndarray) -> np.ndarray:
    """Return where two differ by more than that; NaN equals NaN."""
    differ = np.asarray((u != v) & ~((u != u) & (v != v)))
    if u.dtype.kind == "f":
        with np.errstate(invalid="ignore", over="ignore"):
            differ &= ~(np.abs(u.astype(np.float64) - v.astype(np.float64)) <= most)
    return differ


def _counter_example(
    part: Component,
    fields: Mapping[str, np.ndarray],
    law: str,
    left: str,
    right: str,
    triple: int,
) -> str:
    def shown(place: str) -> str:
        row = _PLACES.index(place)
        return ", ".join(f"{name}={array[row, triple].item()!r}" for name, array in fields.items())

    used = sorted(set(re.findall(r"\b[abc]\b", f"{left} {right}")))
    known = "; ".join(f"{name} is ({shown(name)})" for name in used)
    return (
        f"monoid {part.origin!r}: {law}: where {known}, {left} is ({shown(left)}), but {right} is "
        f"({shown(right)}); mend them, or give rtol if rounding is all the difference"
    )
