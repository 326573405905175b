"""The OpenCL C text of each operation, the same for a scalar and for vectors.

A text is made of the style, the node and the texts of its sources: `s`, `n` and the rest. `Style`
writes types, conversions and comparisons. A truth is an integer with all bits set or none, as in
OpenCL's vectors, also in scalars; it is as wide as the compared values. Signed integers are added,
subtracted and multiplied as unsigned, which wrap.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from chunkfold.kernels.expressions.nodes import BOOL, Node, size_of, unsigned
from chunkfold.kernels.expressions.style import ONE, Style


def wrapped(pattern: str) -> Callable[..., str]:
    """Return the text of arithmetic: of signed integers on the unsigned ones of the same bits."""

    def text(s: Style, n: Node, *given: str) -> str:
        if n.dtype.kind == "f":
            return pattern.format(*given)
        whole = unsigned(n.dtype)
        work = whole if n.dtype.itemsize >= 4 else np.dtype(np.uint32)
        if n.dtype.kind == "i":
            given = tuple(s.bits(whole, one) for one in given)
        if work != whole and "*" in pattern:  # a product of two ushorts overflows C's int
            given = tuple(s.to(work, one) for one in given)
        made = pattern.format(*given)
        if n.dtype.itemsize < 4:
            made = s.to(whole, made)
        return s.bits(n.dtype, made) if n.dtype.kind == "i" else made

    return text


def infix_code(sign: str) -> Callable[..., str]:
    """Return the text of an operator between two integers or floats."""

    def text(s: Style, n: Node, a: str, b: str) -> str:
        made = f"{a} {sign} {b}"
        return s.to(n.dtype, made) if n.dtype.itemsize < 4 and n.dtype != BOOL else made

    return text


def bitwise(sign: str) -> Callable[..., str]:
    """Return the text of an operator on bits, or on truths."""

    def text(s: Style, n: Node, a: str, b: str) -> str:
        if n.dtype == BOOL:
            size = size_of(n)
            a, b = (s.truth_as(size, size_of(x), t) for x, t in zip(n.sources, (a, b), strict=True))
            return s.to_signed(size, f"{a} {sign} {b}")
        made = f"{a} {sign} {b}"
        return s.to(n.dtype, made) if n.dtype.itemsize < 4 else made

    return text


def inverted(s: Style, n: Node, a: str) -> str:
    """Turn all bits around, or a truth."""
    if n.dtype == BOOL:
        return s.to_signed(size_of(n), f"~{a}")
    ones = s.number(f"({ONE.type(n.dtype)})CHF_ALL_BITS", n.dtype)
    return s.to(n.dtype, f"{a} ^ {ones}") if n.dtype.itemsize < 4 else f"{a} ^ {ones}"


def opaque(s: Style, n: Node, a: str) -> str:
    """Return the same value by an operation that compilers cannot remove."""
    none = s.number(f"({ONE.type(n.dtype)})CHF_NO_BITS", n.dtype)
    return s.to(n.dtype, f"{a} ^ {none}") if n.dtype.itemsize < 4 else f"{a} ^ {none}"


def comparison_code(sign: str) -> Callable[..., str]:
    """Return the text of a comparison, whose value is a truth."""

    def text(s: Style, n: Node, a: str, b: str) -> str:
        first, second = n.sources
        if first.dtype == BOOL:  # of truths, whose -1 is more than 0
            size = max(size_of(first), size_of(second))
            a = s.truth_as(size, size_of(first), a)
            b = s.truth_as(size, size_of(second), b)
            a, b = (b, a) if sign in ("<", ">", "<=", ">=") else (a, b)
            return s.compared(size, a, sign, b)
        return s.compared(first.dtype.itemsize, a, sign, b)

    return text


def call(name: str) -> Callable[..., str]:
    """Return the text of a call of one of OpenCL C's functions."""

    def text(_style: Style, _node: Node, *given: str) -> str:
        return f"{name}({', '.join(given)})"

    return text


def selected(s: Style, n: Node, c: str, yes: str, no: str) -> str:
    """Choose one of two values by a truth."""
    condition, first, second = n.sources
    size = size_of(n)
    mask = s.truth_as(size, size_of(condition), c)
    if n.dtype == BOOL:
        yes, no = s.truth_as(size, size_of(first), yes), s.truth_as(size, size_of(second), no)
    return s.chosen(mask, yes, no)


def min_or_max(name: str, sign: str) -> Callable[..., str]:
    """Return the text of a minimum or maximum that NaN wins."""

    def text(s: Style, n: Node, a: str, b: str) -> str:
        if n.dtype.kind != "f":
            return f"{name}({a}, {b})"
        size = n.dtype.itemsize
        first = f"{s.compared(size, a, sign, b)} | {s.compared(size, a, '!=', a)}"
        return s.chosen(s.to_signed(size, first), a, b)

    return text


def divided(s: Style, n: Node, a: str, b: str) -> str:
    """Divide floats; float32 by a macro, which rounds as the program's options say."""
    if n.dtype == np.float32:
        return f"{'CHF_QUOTIENTS' if s.lanes else 'CHF_QUOTIENT'}({a}, {b})"
    return f"{a} / {b}"


def root_code(s: Style, n: Node, a: str) -> str:
    """Take the square root; of float32 by a macro, which rounds as the program's options say."""
    if n.dtype == np.float32:
        return f"{'CHF_ROOTS' if s.lanes else 'CHF_ROOT'}({a})"
    return f"sqrt({a})"


def absolute_code(s: Style, n: Node, a: str) -> str:
    """Take the absolute value in the same dtype: that of the least integer is itself."""
    if n.dtype.kind == "f":
        return f"fabs({a})"
    return s.bits(n.dtype, f"abs({a})") if n.dtype.kind == "i" else a


def magnitude_code(_style: Style, n: Node, a: str) -> str:
    """Take the absolute value as an unsigned integer."""
    return f"abs({a})" if n.sources[0].dtype.kind == "i" else a


def shifted(sign: str) -> Callable[..., str]:
    """Return the text of a shift by fewer bits than there are."""

    def text(s: Style, n: Node, a: str, b: str) -> str:
        whole = unsigned(n.dtype)
        if sign == ">>":
            return s.to(n.dtype, f"{a} >> {b}")
        made = s.to(whole, f"{s.bits(whole, a)} << {s.bits(whole, b)}")
        return s.bits(n.dtype, made)

    return text


def converted_code(s: Style, n: Node, a: str) -> str:
    """Convert to another dtype: to integers towards 0, saturated, and NaN to 0."""
    (source,) = n.sources
    if source.dtype == BOOL:
        return s.to(n.dtype, f"-{a}")
    if n.dtype == BOOL:
        return s.compared(source.dtype.itemsize, a, "!=", s.number("0", source.dtype))
    if source.dtype.kind == "f" and n.dtype.kind != "f":
        lost = s.compared(source.dtype.itemsize, a, "!=", a)
        mask = s.truth_as(n.dtype.itemsize, source.dtype.itemsize, lost)
        return s.chosen(mask, s.number("0", n.dtype), s.saturated(n.dtype, a))
    return s.to(n.dtype, a)


def towards_zero_code(s: Style, n: Node, a: str) -> str:
    """Round an integer to a float, towards 0."""
    return s.towards_zero(n.dtype, a)


def bits_code(s: Style, n: Node, a: str) -> str:
    """Take the same bits for a value of another dtype."""
    return s.bits(n.dtype, a)


def is_nan(s: Style, n: Node, a: str) -> str:
    """Tell whether a float is no number."""
    return s.compared(n.sources[0].dtype.itemsize, a, "!=", a)
