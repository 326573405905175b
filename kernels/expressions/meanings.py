"""Meanings: for each operation its dtypes, NumPy's value, and the OpenCL C text that has it.

One row an operation; `values` and `operation_code` have the functions. Integers wrap as NumPy's do.
`quotient` rounds towards 0, is not asked for by 0, and shifts are by fewer bits than there are
(`functions` sees to that). Conversions of floats to integers saturate, and NaN gives 0, also in
NumPy's value here. `min` and `max` let NaN win, `fmin` and `fmax` drop it.

`opaque` is what it is given; compilers cannot tell. Those of Intel and NVIDIA make wrong code of
the minimum or maximum of integers that are turned around, as -x and ~x are (`functions.guarded`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from chunkfold.kernels.expressions import operation_code as code
from chunkfold.kernels.expressions import values
from chunkfold.kernels.expressions.values import Value

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
    """Given the style, the node and its sources' code."""
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


def _function(name: str, function: Any, ulp: tuple[float, float], arity: int = 1) -> Meaning:
    return Meaning(arity, FLOATS, values.of(function), code.call(name), ulp=ulp)


def _comparison(sign: str, function: Any) -> Meaning:
    return Meaning(2, "b" + REALS, values.of(function), code.compared(sign), gives="bool")


MEANINGS: Mapping[str, Meaning] = {
    "add": Meaning(2, REALS, values.of(np.add), code.wrapped("{} + {}")),
    "subtract": Meaning(2, REALS, values.of(np.subtract), code.wrapped("{} - {}")),
    "multiply": Meaning(2, REALS, values.of(np.multiply), code.wrapped("{} * {}")),
    "negative": Meaning(1, REALS, values.of(np.negative), code.wrapped("-{}")),
    "absolute": Meaning(1, REALS, values.of(np.absolute), code.absolute),
    "magnitude": Meaning(
        1, INTEGERS, lambda n, a: np.absolute(a).astype(n.dtype), code.magnitude, gives="any"
    ),
    "divide": Meaning(2, FLOATS, values.of(np.true_divide), code.divided, without_fp64=2.5),
    "quotient": Meaning(2, INTEGERS, values.quotient, code.infix("/")),
    "fmod": Meaning(2, FLOATS, values.of(np.fmod), code.call("fmod")),
    "high_product": Meaning(2, INTEGERS, values.high_product, code.call("mul_hi")),
    "left_shift": Meaning(2, INTEGERS, values.of(np.left_shift), code.shifted("<<")),
    "right_shift": Meaning(2, INTEGERS, values.of(np.right_shift), code.shifted(">>")),
    "bitwise_and": Meaning(2, "b" + INTEGERS, values.of(np.bitwise_and), code.bitwise("&")),
    "bitwise_or": Meaning(2, "b" + INTEGERS, values.of(np.bitwise_or), code.bitwise("|")),
    "bitwise_xor": Meaning(2, "b" + INTEGERS, values.of(np.bitwise_xor), code.bitwise("^")),
    "invert": Meaning(1, "b" + INTEGERS, values.of(np.invert), code.inverted),
    "opaque": Meaning(1, INTEGERS, values.of(lambda a: a), code.opaque),
    "equal": _comparison("==", np.equal),
    "not_equal": _comparison("!=", np.not_equal),
    "less": _comparison("<", np.less),
    "less_equal": _comparison("<=", np.less_equal),
    "greater": _comparison(">", np.greater),
    "greater_equal": _comparison(">=", np.greater_equal),
    "minimum": Meaning(2, REALS, values.of(np.minimum), code.min_or_max("min", "<"), repeats=True),
    "maximum": Meaning(2, REALS, values.of(np.maximum), code.min_or_max("max", ">"), repeats=True),
    "fmin": Meaning(2, FLOATS, values.of(np.fmin), code.call("fmin")),
    "fmax": Meaning(2, FLOATS, values.of(np.fmax), code.call("fmax")),
    "select": Meaning(3, "b" + REALS, values.of(np.where), code.selected, gives="any", mixed=True),
    "cast": Meaning(1, "b" + REALS, values.converted, code.converted, gives="any", repeats=True),
    "bitcast": Meaning(1, REALS, lambda n, a: np.asarray(a).view(n.dtype), code.bits, gives="any"),
    "towards_zero": Meaning(1, INTEGERS, values.towards_zero, code.towards_zero, gives="any"),
    "isnan": Meaning(1, FLOATS, values.of(np.isnan), code.is_nan, gives="bool", repeats=True),
    "lookup": Meaning(1, INTEGERS, values.lookup, lambda *_: "", gives="any"),
    "search": Meaning(1, INTEGERS, values.search, lambda *_: "", gives="any", mixed=True),
    "fma": Meaning(3, FLOATS, values.fused, code.call("fma")),
    "copysign": Meaning(2, FLOATS, values.of(np.copysign), code.call("copysign")),
    "floor": _function("floor", np.floor, (0, 0)),
    "ceil": _function("ceil", np.ceil, (0, 0)),
    "trunc": _function("trunc", np.trunc, (0, 0)),
    "rint": _function("rint", np.rint, (0, 0)),
    "sqrt": Meaning(1, FLOATS, values.of(np.sqrt), code.root, without_fp64=3),
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
