"""Meanings: for each operation its dtypes, NumPy's value, and the OpenCL C text that has it.

One row an operation. The text is the same for a scalar and for vectors: `Style` says how types,
conversions and comparisons are written for either. A truth is held as OpenCL's vectors have it, an
integer of which all bits are set or none, in scalars too; it is as wide as what was compared.

Integers wrap as NumPy's do, which C leaves undefined for signed ones: these are added, subtracted
and multiplied as unsigned. `quotient` rounds towards 0, is not asked for by 0, and shifts are by
fewer bits than there are (`functions` sees to that). Conversions of floats to integers saturate,
and NaN gives 0, also in NumPy's value here. `min` and `max` let NaN win, `fmin` and `fmax` drop it.

`opaque` is what it is given; compilers cannot tell. Those of Intel and NVIDIA make wrong code of
the minimum or maximum of integers that are turned around, as -x and ~x are (`functions.guarded`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from chunkfold.kernels.expressions.nodes import BOOL, Node
from chunkfold.kernels.expressions.style import ONE, Style

Value = Any
"""An array or a scalar of NumPy's."""
INTEGERS, FLOATS, REALS = "iu", "f", "iuf"


@dataclass(frozen=True)
class Meaning:
    """What one operation means."""

    arity: int
    kinds: str
    """NumPy's kinds of the sources, which all have one dtype unless `mixed`."""
    numpy: Callable[..., Value]
    """Given the node and its sources' values."""
    text: Callable[..., str]
    """Given the style, the node and its sources' texts."""
    gives: str = "same"
    """Its dtype: "same" as the sources', "bool", or "any", which the node decides."""
    mixed: bool = False
    """Whether sources may have different dtypes."""
    repeats: bool = False
    """Whether the text has a source more than once, which is then to be a name."""
    ulp: tuple[float, float] = (0.0, 0.0)
    """Error that OpenCL allows for float32 and float64, in units of the last place."""
    without_fp64: float = 0.0
    """That of float32 on devices without float64, where others round correctly."""

    def error(self, dtype: np.dtype, *, fp64: bool = True) -> float:
        """Return the error of a value; `fp64`: every device has float64."""
        return max(self.ulp[dtype == np.float64], 0.0 if fp64 else self.without_fp64)


def size_of(one: Node) -> int:
    """Return the bytes of a node's value; of a truth, those of the integer that holds it."""
    if one.dtype != BOOL:
        return one.dtype.itemsize
    if one.op in ("input", "field", "constant", "lookup") or not one.sources:
        return 1
    if one.op == "select":
        return max(map(size_of, one.sources[1:]))
    return max(map(size_of, one.sources))


def unsigned(dtype: np.dtype) -> np.dtype:
    """Return the unsigned integer dtype of the same size."""
    return np.dtype(f"u{dtype.itemsize}")


def signed(dtype: np.dtype) -> np.dtype:
    """Return the signed integer dtype of the same size."""
    return np.dtype(f"i{dtype.itemsize}")


# Texts. `s` is the style, `n` the node, the rest its sources' texts.


def _wrapped(pattern: str) -> Callable[..., str]:
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


def _infix(sign: str) -> Callable[..., str]:
    def text(s: Style, n: Node, a: str, b: str) -> str:
        made = f"{a} {sign} {b}"
        return s.to(n.dtype, made) if n.dtype.itemsize < 4 and n.dtype != BOOL else made

    return text


def _bitwise(sign: str) -> Callable[..., str]:
    def text(s: Style, n: Node, a: str, b: str) -> str:
        if n.dtype == BOOL:
            size = size_of(n)
            a, b = (s.truth_as(size, size_of(x), t) for x, t in zip(n.sources, (a, b), strict=True))
            return s.to_signed(size, f"{a} {sign} {b}")
        made = f"{a} {sign} {b}"
        return s.to(n.dtype, made) if n.dtype.itemsize < 4 else made

    return text


def _invert(s: Style, n: Node, a: str) -> str:
    if n.dtype == BOOL:
        return s.to_signed(size_of(n), f"~{a}")
    ones = s.number(f"({ONE.type(n.dtype)})CHF_ALL_BITS", n.dtype)
    return s.to(n.dtype, f"{a} ^ {ones}") if n.dtype.itemsize < 4 else f"{a} ^ {ones}"


def _opaque(s: Style, n: Node, a: str) -> str:
    none = s.number(f"({ONE.type(n.dtype)})CHF_NO_BITS", n.dtype)
    return s.to(n.dtype, f"{a} ^ {none}") if n.dtype.itemsize < 4 else f"{a} ^ {none}"


def _compare(sign: str) -> Callable[..., str]:
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


def _call(name: str) -> Callable[..., str]:
    def text(_style: Style, _node: Node, *given: str) -> str:
        return f"{name}({', '.join(given)})"

    return text


def _select(s: Style, n: Node, c: str, yes: str, no: str) -> str:
    condition, first, second = n.sources
    size = size_of(n)
    mask = s.truth_as(size, size_of(condition), c)
    if n.dtype == BOOL:
        yes, no = s.truth_as(size, size_of(first), yes), s.truth_as(size, size_of(second), no)
    return s.chosen(mask, yes, no)


def _min_or_max(name: str, sign: str) -> Callable[..., str]:
    def text(s: Style, n: Node, a: str, b: str) -> str:
        if n.dtype.kind != "f":
            return f"{name}({a}, {b})"
        size = n.dtype.itemsize
        first = f"{s.compared(size, a, sign, b)} | {s.compared(size, a, '!=', a)}"
        return s.chosen(s.to_signed(size, first), a, b)

    return text


def _divided(s: Style, n: Node, a: str, b: str) -> str:
    if n.dtype == np.float32:
        return f"{'CHF_QUOTIENTS' if s.lanes else 'CHF_QUOTIENT'}({a}, {b})"
    return f"{a} / {b}"


def _root(s: Style, n: Node, a: str) -> str:
    if n.dtype == np.float32:
        return f"{'CHF_ROOTS' if s.lanes else 'CHF_ROOT'}({a})"
    return f"sqrt({a})"


def _abs(s: Style, n: Node, a: str) -> str:
    if n.dtype.kind == "f":
        return f"fabs({a})"
    return s.bits(n.dtype, f"abs({a})") if n.dtype.kind == "i" else a


def _magnitude(_style: Style, n: Node, a: str) -> str:
    return f"abs({a})" if n.sources[0].dtype.kind == "i" else a


def _shift(sign: str) -> Callable[..., str]:
    def text(s: Style, n: Node, a: str, b: str) -> str:
        whole = unsigned(n.dtype)
        if sign == ">>":
            return s.to(n.dtype, f"{a} >> {b}")
        made = s.to(whole, f"{s.bits(whole, a)} << {s.bits(whole, b)}")
        return s.bits(n.dtype, made)

    return text


def _cast(s: Style, n: Node, a: str) -> str:
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


def _towards_zero(s: Style, n: Node, a: str) -> str:
    return s.towards_zero(n.dtype, a)


def _bitcast(s: Style, n: Node, a: str) -> str:
    return s.bits(n.dtype, a)


def _is_nan(s: Style, n: Node, a: str) -> str:
    return s.compared(n.sources[0].dtype.itemsize, a, "!=", a)


# NumPy's values.


def _of(function: Callable[..., Value]) -> Callable[..., Value]:
    def value(n: Node, *given: Value) -> Value:
        del n
        return function(*given)

    return value


def _cast_value(n: Node, a: Value) -> Value:
    if np.asarray(a).dtype.kind == "f" and n.dtype.kind in "iu":
        limits, array = np.iinfo(n.dtype), np.asarray(a)
        least, most = float(limits.min), float(limits.max)  # the latter may be one too many
        inside = (array >= least) & (array < most)
        whole = np.where(inside, array, 0).astype(n.dtype)
        found = np.where(array >= most, limits.max, np.where(array < least, limits.min, whole))
        return np.where(array != array, 0, found).astype(n.dtype)
    return np.asarray(a).astype(n.dtype)


def _quotient_value(n: Node, a: Value, b: Value) -> Value:
    floor = np.floor_divide(a, b)
    odd = ((np.asarray(a) < 0) != (np.asarray(b) < 0)) & (floor * b != a)
    return (floor + odd).astype(n.dtype)


def _high_product(n: Node, a: Value, b: Value) -> Value:
    """Return the upper half of products, by digits of half as many bits."""
    bits, wide = 8 * n.dtype.itemsize, {1: "i2", 2: "i4", 4: "i8"}.get(n.dtype.itemsize)
    if wide is not None:
        wide = wide.replace("i", n.dtype.kind)
        return (np.multiply(a, b, dtype=wide) >> bits).astype(n.dtype)
    product = np.asarray(a).astype(object) * np.asarray(b).astype(object)
    return np.asarray(product >> bits).astype(n.dtype)


def _towards_zero_value(n: Node, a: Value) -> Value:
    """Round integers to floats, and take one step back where that went away from zero."""
    near = np.asarray(a).astype(n.dtype)
    far = np.abs(near.astype(np.longdouble)) > np.abs(np.asarray(a).astype(np.longdouble))
    return np.where(far, np.nextafter(near, n.dtype.type(0)), near)


def _lookup_value(n: Node, index: Value) -> Value:
    raw, default = n.arg
    table = np.frombuffer(raw, n.dtype)
    inside = (index >= 0) & (index < len(table))
    return np.where(inside, table[np.where(inside, index, 0)], np.frombuffer(default, n.dtype)[0])


def _search_value(n: Node, key: Value, *_: Value) -> Value:
    table = np.frombuffer(n.arg[0], n.sources[0].dtype)
    return np.searchsorted(table, key, side="right").astype(n.dtype) - n.dtype.type(1)


def _fused(n: Node, a: Value, b: Value, c: Value) -> Value:
    """Round a * b + c in the widest float that NumPy has, and then once more.

    Of float32 that is what devices do; of float64 it may differ from them by the last bit.
    """
    return (np.multiply(a, b, dtype=np.longdouble) + c).astype(n.dtype)


def _function(name: str, function: Any, ulp: tuple[float, float], arity: int = 1) -> Meaning:
    return Meaning(arity, FLOATS, _of(function), _call(name), ulp=ulp)


def _comparison(sign: str, function: Any) -> Meaning:
    return Meaning(2, "b" + REALS, _of(function), _compare(sign), gives="bool")


MEANINGS: Mapping[str, Meaning] = {
    "add": Meaning(2, REALS, _of(np.add), _wrapped("{} + {}")),
    "subtract": Meaning(2, REALS, _of(np.subtract), _wrapped("{} - {}")),
    "multiply": Meaning(2, REALS, _of(np.multiply), _wrapped("{} * {}")),
    "negative": Meaning(1, REALS, _of(np.negative), _wrapped("-{}")),
    "absolute": Meaning(1, REALS, _of(np.absolute), _abs),
    "magnitude": Meaning(
        1, INTEGERS, lambda n, a: np.absolute(a).astype(n.dtype), _magnitude, gives="any"
    ),
    "divide": Meaning(2, FLOATS, _of(np.true_divide), _divided, without_fp64=2.5),
    "quotient": Meaning(2, INTEGERS, _quotient_value, _infix("/")),
    "fmod": Meaning(2, FLOATS, _of(np.fmod), _call("fmod")),
    "high_product": Meaning(2, INTEGERS, _high_product, _call("mul_hi")),
    "left_shift": Meaning(2, INTEGERS, _of(np.left_shift), _shift("<<")),
    "right_shift": Meaning(2, INTEGERS, _of(np.right_shift), _shift(">>")),
    "bitwise_and": Meaning(2, "b" + INTEGERS, _of(np.bitwise_and), _bitwise("&")),
    "bitwise_or": Meaning(2, "b" + INTEGERS, _of(np.bitwise_or), _bitwise("|")),
    "bitwise_xor": Meaning(2, "b" + INTEGERS, _of(np.bitwise_xor), _bitwise("^")),
    "invert": Meaning(1, "b" + INTEGERS, _of(np.invert), _invert),
    "opaque": Meaning(1, INTEGERS, _of(lambda a: a), _opaque),
    "equal": _comparison("==", np.equal),
    "not_equal": _comparison("!=", np.not_equal),
    "less": _comparison("<", np.less),
    "less_equal": _comparison("<=", np.less_equal),
    "greater": _comparison(">", np.greater),
    "greater_equal": _comparison(">=", np.greater_equal),
    "minimum": Meaning(2, REALS, _of(np.minimum), _min_or_max("min", "<"), repeats=True),
    "maximum": Meaning(2, REALS, _of(np.maximum), _min_or_max("max", ">"), repeats=True),
    "fmin": Meaning(2, FLOATS, _of(np.fmin), _call("fmin")),
    "fmax": Meaning(2, FLOATS, _of(np.fmax), _call("fmax")),
    "select": Meaning(3, "b" + REALS, _of(np.where), _select, gives="any", mixed=True),
    "cast": Meaning(1, "b" + REALS, _cast_value, _cast, gives="any", repeats=True),
    "bitcast": Meaning(1, REALS, lambda n, a: np.asarray(a).view(n.dtype), _bitcast, gives="any"),
    "towards_zero": Meaning(1, INTEGERS, _towards_zero_value, _towards_zero, gives="any"),
    "isnan": Meaning(1, FLOATS, _of(np.isnan), _is_nan, gives="bool", repeats=True),
    "lookup": Meaning(1, INTEGERS, _lookup_value, lambda *_: "", gives="any"),
    "search": Meaning(1, INTEGERS, _search_value, lambda *_: "", gives="any", mixed=True),
    "fma": Meaning(3, FLOATS, _fused, _call("fma")),
    "copysign": Meaning(2, FLOATS, _of(np.copysign), _call("copysign")),
    "floor": _function("floor", np.floor, (0, 0)),
    "ceil": _function("ceil", np.ceil, (0, 0)),
    "trunc": _function("trunc", np.trunc, (0, 0)),
    "rint": _function("rint", np.rint, (0, 0)),
    "sqrt": Meaning(1, FLOATS, _of(np.sqrt), _root, without_fp64=3),
    "exp": _function("exp", np.exp, (3, 3)),
    "exp2": _function("exp2", np.exp2, (3, 3)),
    "expm1": _function("expm1", np.expm1, (3, 3)),
    "log": _function("log", np.log, (3, 3)),
    "log2": _function("log2", np.log2, (3, 3)),
    "log10": _function("log10", np.log10, (3, 3)),
    "log1p": _function("log1p", np.log1p, (2, 2)),
    "sin": _function("sin", np.sin, (4, 4)),
    "cos": _function("cos", np.cos, (4, 4)),
    "tan": _function("tan", np.tan, (5, 5)),
    "arcsin": _function("asin", np.arcsin, (4, 4)),
    "arccos": _function("acos", np.arccos, (4, 4)),
    "arctan": _function("atan", np.arctan, (5, 5)),
    "sinh": _function("sinh", np.sinh, (4, 4)),
    "cosh": _function("cosh", np.cosh, (4, 4)),
    "tanh": _function("tanh", np.tanh, (5, 5)),
    "arctan2": _function("atan2", np.arctan2, (6, 6), 2),
    "hypot": _function("hypot", np.hypot, (4, 4), 2),
    "power": _function("pow", np.power, (16, 16), 2),
}
"""Every operation beside the leaves: constant, input, index and field.

Bounds of errors are those of the OpenCL C specification, section 7.4."""
LEAVES = ("constant", "input", "index", "field")
