"""Meanings: for each operation its dtypes, NumPy's value, and the OpenCL C text that has it.

One row an operation; `operation_code` has the texts. Integers wrap as NumPy's do. `quotient` rounds
towards 0; `functions` avoids divisors of 0, and shifts by as many bits as the dtype has.
Conversions of floats to integers saturate, and NaN gives 0, also in NumPy's value here. `minimum`
and `maximum` return NaN if either is, `fmin` and `fmax` drop it.

`opaque` is its source, which compilers cannot see. Intel's and NVIDIA's make wrong code of the
minimum or maximum of negated integers, -x and ~x (`operations.hide_negation`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from chunkfold.kernels.expressions import operation_code as code
from chunkfold.kernels.expressions.nodes import BOOL, Node, walk
from chunkfold.kernels.expressions.style import has_type

INTEGERS, FLOATS, REALS = "iu", "f", "iuf"
Value = Any
"""An array, or a scalar of NumPy's."""


@dataclass(frozen=True)
class Meaning:
    """The dtypes, value and OpenCL C text of one operation."""

    arity: int
    kinds: str
    """NumPy's kinds of the sources, which all have one dtype unless `mixed`."""
    numpy: Callable[..., Value]
    """Given the node and its sources' values."""
    text: Callable[..., str]
    """Given the style, the node and its sources' code."""
    gives: str = "same"
    """Its dtype: "same" as the sources', "bool", or "any", which the node decides."""
    mixed: bool = False
    """True: sources may have different dtypes."""
    repeats: bool = False
    """True: the text has a source more than once, which gets a name."""
    ulp: tuple[float, float] = (0.0, 0.0)
    """Error that OpenCL allows for float32 and float64, in units of the last place."""
    without_fp64: float = 0.0
    """Error of float32 on devices without float64; others round correctly."""

    def error(self, dtype: np.dtype, *, fp64: bool = True) -> float:
        """Return the error of a value; `fp64`: every device has float64."""
        return max(self.ulp[dtype == np.float64], 0.0 if fp64 else self.without_fp64)


def _numpy(function: Callable[..., Value]) -> Callable[..., Value]:
    """Return the value that one of NumPy's functions gives of the sources."""

    def value(n: Node, *given: Value) -> Value:
        del n
        return function(*given)

    return value


def _converted(n: Node, a: Value) -> Value:
    """Convert to another dtype: to integers towards 0, saturated, and NaN to 0."""
    if np.asarray(a).dtype.kind == "f" and n.dtype.kind in "iu":
        limits, array = np.iinfo(n.dtype), np.asarray(a)
        least, most = float(limits.min), float(limits.max)  # the latter may be one too many
        inside = (array >= least) & (array < most)
        whole = np.where(inside, array, 0).astype(n.dtype)
        found = np.where(array >= most, limits.max, np.where(array < least, limits.min, whole))
        return np.where(array != array, 0, found).astype(n.dtype)
    return np.asarray(a).astype(n.dtype)


def _quotient(n: Node, a: Value, b: Value) -> Value:
    """Divide integers, and round towards 0."""
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


def _towards_zero(n: Node, a: Value) -> Value:
    """Round integers to floats, and take one step back where that went away from zero."""
    near = np.asarray(a).astype(n.dtype)
    far = np.abs(near.astype(np.longdouble)) > np.abs(np.asarray(a).astype(np.longdouble))
    return np.where(far, np.nextafter(near, n.dtype.type(0)), near)


def _lookup(n: Node, index: Value) -> Value:
    """Take from a table by index, or the default where there is no such entry."""
    raw, default = n.arg
    table = np.frombuffer(raw, n.dtype)
    inside = (index >= 0) & (index < len(table))
    return np.where(inside, table[np.where(inside, index, 0)], np.frombuffer(default, n.dtype)[0])


def _search(n: Node, key: Value, *_: Value) -> Value:
    """Return the number of the bin that a key is in: -1 below the first edge."""
    table = np.frombuffer(n.arg[0], n.sources[0].dtype)
    return np.searchsorted(table, key, side="right").astype(n.dtype) - n.dtype.type(1)


def _fused(n: Node, a: Value, b: Value, c: Value) -> Value:
    """Round a * b + c in the widest float that NumPy has, and then once more.

    It is devices' value for float32, and may differ from it by the last bit for float64.
    """
    return (np.multiply(a, b, dtype=np.longdouble) + c).astype(n.dtype)


def _function(name: str, function: Any, ulp: tuple[float, float], arity: int = 1) -> Meaning:
    return Meaning(arity, FLOATS, _numpy(function), code.call(name), ulp=ulp)


def _comparison(sign: str, function: Any) -> Meaning:
    return Meaning(2, "b" + REALS, _numpy(function), code.comparison_code(sign), gives="bool")


MEANINGS: Mapping[str, Meaning] = {
    "add": Meaning(2, REALS, _numpy(np.add), code.wrapped("{} + {}")),
    "subtract": Meaning(2, REALS, _numpy(np.subtract), code.wrapped("{} - {}")),
    "multiply": Meaning(2, REALS, _numpy(np.multiply), code.wrapped("{} * {}")),
    "negative": Meaning(1, REALS, _numpy(np.negative), code.wrapped("-{}")),
    "absolute": Meaning(1, REALS, _numpy(np.absolute), code.absolute_code),
    "magnitude": Meaning(
        1, INTEGERS, lambda n, a: np.absolute(a).astype(n.dtype), code.magnitude_code, gives="any"
    ),
    "divide": Meaning(2, FLOATS, _numpy(np.true_divide), code.divided, without_fp64=2.5),
    "quotient": Meaning(2, INTEGERS, _quotient, code.infix_code("/")),
    "fmod": Meaning(2, FLOATS, _numpy(np.fmod), code.call("fmod")),
    "high_product": Meaning(2, INTEGERS, _high_product, code.call("mul_hi")),
    "left_shift": Meaning(2, INTEGERS, _numpy(np.left_shift), code.shifted("<<")),
    "right_shift": Meaning(2, INTEGERS, _numpy(np.right_shift), code.shifted(">>")),
    "bitwise_and": Meaning(2, "b" + INTEGERS, _numpy(np.bitwise_and), code.bitwise("&")),
    "bitwise_or": Meaning(2, "b" + INTEGERS, _numpy(np.bitwise_or), code.bitwise("|")),
    "bitwise_xor": Meaning(2, "b" + INTEGERS, _numpy(np.bitwise_xor), code.bitwise("^")),
    "invert": Meaning(1, "b" + INTEGERS, _numpy(np.invert), code.inverted),
    "opaque": Meaning(1, INTEGERS, _numpy(lambda a: a), code.opaque),
    "equal": _comparison("==", np.equal),
    "not_equal": _comparison("!=", np.not_equal),
    "less": _comparison("<", np.less),
    "less_equal": _comparison("<=", np.less_equal),
    "greater": _comparison(">", np.greater),
    "greater_equal": _comparison(">=", np.greater_equal),
    "minimum": Meaning(2, REALS, _numpy(np.minimum), code.min_or_max("min", "<"), repeats=True),
    "maximum": Meaning(2, REALS, _numpy(np.maximum), code.min_or_max("max", ">"), repeats=True),
    "fmin": Meaning(2, FLOATS, _numpy(np.fmin), code.call("fmin")),
    "fmax": Meaning(2, FLOATS, _numpy(np.fmax), code.call("fmax")),
    "select": Meaning(3, "b" + REALS, _numpy(np.where), code.selected, gives="any", mixed=True),
    "cast": Meaning(1, "b" + REALS, _converted, code.converted_code, gives="any", repeats=True),
    "bitcast": Meaning(
        1, REALS, lambda n, a: np.asarray(a).view(n.dtype), code.bits_code, gives="any"
    ),
    "towards_zero": Meaning(1, INTEGERS, _towards_zero, code.towards_zero_code, gives="any"),
    "isnan": Meaning(1, FLOATS, _numpy(np.isnan), code.is_nan, gives="bool", repeats=True),
    "lookup": Meaning(1, INTEGERS, _lookup, lambda *_: "", gives="any"),
    "search": Meaning(1, INTEGERS, _search, lambda *_: "", gives="any", mixed=True),
    "fma": Meaning(3, FLOATS, _fused, code.call("fma")),
    "copysign": Meaning(2, FLOATS, _numpy(np.copysign), code.call("copysign")),
    "floor": _function("floor", np.floor, (0, 0)),
    "ceil": _function("ceil", np.ceil, (0, 0)),
    "trunc": _function("trunc", np.trunc, (0, 0)),
    "rint": _function("rint", np.rint, (0, 0)),
    "sqrt": Meaning(1, FLOATS, _numpy(np.sqrt), code.root_code, without_fp64=3),
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
"""Every operation but the leaves: constant, input, index and field.

Bounds of errors are those of the OpenCL C specification, section 7.4."""
LEAVES = ("constant", "input", "index", "field")


def verify(roots: Iterable[Node]) -> None:
    """Check that every node of some trees can be evaluated and emitted.

    Raises
    ------
    TypeError
        If one is not; it is a mistake of whoever made it, not of the user.
    """
    for one in walk(roots):
        problem = _problem(one)
        if problem:
            raise TypeError(
                f"{one.op} of {', '.join(str(s.dtype) for s in one.sources)}: {problem}"
            )


def _problem(one: Node) -> str:
    """Say what is wrong with a node; empty if nothing is."""
    if not has_type(one.dtype):
        return f"kernels have no {one.dtype}"
    if one.op in LEAVES:
        return "a leaf has sources" if one.sources else ""
    meaning = MEANINGS.get(one.op)
    if meaning is None:
        return "it has no meaning"
    dtypes = [source.dtype for source in one.sources]
    if one.op == "select":
        fits = dtypes[0] == BOOL and dtypes[1:] == [one.dtype] * 2
        return "" if fits else f"it chooses by a truth between two of {one.dtype}"
    return _unlike(one, meaning, dtypes)


def _unlike(one: Node, meaning: Meaning, dtypes: list[np.dtype]) -> str:
    """Say what is wrong with an operation whose sources have one dtype, but of a search."""
    if len(dtypes) != meaning.arity and not meaning.mixed:
        return f"it takes {meaning.arity}"
    if not meaning.mixed and len(set(dtypes)) != 1:
        return "its sources have one dtype"
    if dtypes[0].kind not in meaning.kinds:
        return f"it is of kinds {meaning.kinds!r}"
    expected = {"same": dtypes[0], "bool": BOOL}.get(meaning.gives, one.dtype)
    if one.dtype != expected:
        return f"it gives {expected}, not {one.dtype}"
    if one.op == "bitcast" and dtypes[0].itemsize != one.dtype.itemsize:
        return f"{one.dtype} has another size"
    if one.op == "magnitude" and one.dtype.kind not in INTEGERS:
        return "it gives an unsigned integer"
    return ""
