"""See that a monoid is one: op commutes and associates, zero is its identity, streams agree.

Tried on the device, on accumulators that a fold can reach: zero, single elements, and what op makes
of two of them. Elements are small dyadic numbers, whose sums and products are exact in floats.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyopencl as cl

from chunkfold.kernels.accumulator import Accumulator
from chunkfold.kernels.component import Component
from chunkfold.kernels.launch import wait
from chunkfold.kernels.opened import OpenedDevice, device_errors
from chunkfold.kernels.partial import unpack
from chunkfold.kernels.samples import inputs_of
from chunkfold.kernels.signature import signature
from chunkfold.kernels.texts import COLLECTIVES
from chunkfold.kernels.tuning import Tuning

LAWS_FILE = "laws.cl"
_TRIPLES = 2048
_FLOATS = (-2.5, -1.0, 0.0, 0.25, 1.0, 3.0, 7.0, 96.0)
_INTEGERS = (-100, -3, -1, 0, 1, 2, 7, 111)
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


def broken_law(opened: OpenedDevice, accumulator: Accumulator, tuning: Tuning) -> str:
    """Return which law a component breaks, with the counter-example; "" if none was found.

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
        return ""
    arrays = _tried(opened, _of_values(replace(accumulator, components=doubted)), tuning)
    for number, part in enumerate(doubted):
        fields = {
            field.name: arrays[f"c{number}_{field.name}"].reshape(len(_PLACES), _TRIPLES)
            for field in part.fields
        }
        named = all(field.op in COLLECTIVES for field in part.fields)
        laws = (() if named else _ORDER) + _IDENTITY + (_STREAMS if part.state else ())
        for law, left, right in laws:
            found = _difference(part, fields, _PLACES.index(left), _PLACES.index(right))
            if found is not None:
                return _counter_example(part, fields, law, left, right, found)
    return ""


def _of_values(accumulator: Accumulator) -> Accumulator:
    """Return the accumulator of unpacked values: missing ones, which are NaN, are no samples."""
    packings, pairs = accumulator.packings, zip(accumulator.stored, accumulator.value, strict=True)
    stored = (pair[packing is not None] for pair, packing in zip(pairs, packings, strict=True))
    return replace(accumulator, stored=tuple(stored), packings=(None,) * len(packings))


def _tried(
    opened: OpenedDevice, accumulator: Accumulator, tuning: Tuning
) -> Mapping[str, np.ndarray]:
    samples = _samples(accumulator)
    count = len(samples[0])
    rng = np.random.default_rng(0)
    triples = rng.integers(0, (count + 1) ** 2, (_TRIPLES, 3), np.uint64)
    outputs = len(_PLACES) * _TRIPLES
    raw = np.zeros(outputs * accumulator.scalar_bytes, np.uint8)
    program = opened.program(LAWS_FILE, accumulator, tuning)
    flags = cl.mem_flags
    with device_errors(opened.device, "trying the laws of a monoid"):
        queue = opened.queue()
        buffers = [
            cl.Buffer(opened.context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=array)
            for array in (*samples, triples)
        ]
        out = cl.Buffer(opened.context, flags.READ_WRITE, raw.nbytes)
        values = {"count": count, "triples": buffers[-1], "n": _TRIPLES, "out": out}
        kernel, takes = cl.Kernel(program, "try_laws"), signature(LAWS_FILE, "try_laws")
        takes.prepare(kernel, len(samples))
        kernel(queue, (_TRIPLES,), None, *buffers[:-1], *takes.arguments(values))
        event = cl.enqueue_copy(queue, raw, out, is_blocking=False)
        queue.flush()
    wait(opened.device, event, "the laws of a monoid")
    return unpack(accumulator, raw, outputs).arrays


def _samples(accumulator: Accumulator) -> list[np.ndarray]:
    """Return sample elements of each input; inputs differ."""
    values = [
        np.roll(np.array(_FLOATS if "float" in name or "complex" in name else _INTEGERS), number)
        for number, name in enumerate(accumulator.stored)
    ]
    return inputs_of(accumulator, values)


def _difference(
    part: Component, fields: Mapping[str, np.ndarray], left: int, right: int
) -> int | None:
    """Return the first triple for which two places differ by more than the tolerance."""
    unlike = np.zeros(_TRIPLES, bool)
    for values in fields.values():
        u, v = values[left], values[right]
        differ = (u != v) & ~((u != u) & (v != v))
        if values.dtype.kind == "f" and part.rtol:
            with np.errstate(invalid="ignore"):
                differ &= ~(np.abs(u - v) <= part.rtol * np.maximum(np.abs(u), np.abs(v)))
        unlike |= differ
    found = np.flatnonzero(unlike)
    return int(found[0]) if found.size else None


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
