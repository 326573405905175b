"""Texts that several parts of a baked header share."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import resources

from chunkfold.kernels.accumulator import Accumulator
from chunkfold.kernels.component import BoundField, Component
from chunkfold.kernels.dtypes import FIELD
from chunkfold.kernels.texts import COLLECTIVES, for_one

_WRITTEN = {"add": "a.{0} + b.{0}", "min": "min(a.{0}, b.{0})", "max": "max(a.{0}, b.{0})"}
_FLOAT_WRITTEN = _WRITTEN | {"min": "fmin(a.{0}, b.{0})", "max": "fmax(a.{0}, b.{0})"}


def library(name: str) -> str:
    """Return a kernel header, behind a directive that names it."""
    text = resources.files("chunkfold.kernels").joinpath(name).read_text()
    return f'#line 1 "{name}"\n{text}'


def named(accumulator: Accumulator) -> list[tuple[str, str, Component]]:
    """Return what kernels call each component, and the one that holds its state."""
    return [
        (f"c{number}", f"c{holder}", part)
        for number, (holder, part) in enumerate(
            zip(accumulator.holders, accumulator.components, strict=True)
        )
    ]


def op_text(field: BoundField) -> str:
    """Return a field's op as an expression of a and b."""
    written = _FLOAT_WRITTEN if field.dtype.startswith("float") else _WRITTEN
    return written[field.op].format(field.name) if field.op in COLLECTIVES else field.op


def assign(part: Component, target: str, dtype: str, what: str, text: str) -> str:
    """Assign a monoid's text to one value, with line numbers that are the text's own."""
    return f"""\
    {target} = ({FIELD[dtype]})(
#line 1 "{part.origin}: {what}"
{for_one(text)}
#line 1 "generated"
    );"""


def absent(accumulator: Accumulator, *, lanes: bool = False) -> str:
    """Return the condition under which an element is NaN or NaT, for one or for lanes.

    Lanes of float16 are looked at bit by bit, as in kernels/order.clh.
    """
    tests = []
    for n, name in enumerate(accumulator.value):
        if name == "time":
            tests.append(f"(x{n} == LONG_MIN)")
        elif lanes and name == "float16":
            tests.append(f"((CHF_AS(int, x{n}) & 0x7fffffff) > 0x7f800000)")
        elif name.startswith("complex"):
            tests.append(f"(x{n}.x != x{n}.x) | (x{n}.y != x{n}.y)")
        else:
            tests.append(f"(x{n} != x{n})")
    return " | ".join(tests)


def joined(lines: Iterable[str]) -> str:
    """Put lines below each other, but those that are empty."""
    return "\n".join(line for line in lines if line)
