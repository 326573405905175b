"""Bake the helpers that monoids' texts call, for the values at hand."""

from __future__ import annotations

import numpy as np

from chunkfold.kernels.accumulator import Accumulator
from chunkfold.kernels.bake_texts import library
from chunkfold.kernels.dtypes import FIELD, NARROW, STORED, field_dtype

_ORDERS = ("order_low", "order_high", "rank_low", "rank_high")
"""Helpers that make keys of elements (kernels/order.clh)."""
_OF_BITS = ("bits", "signed_bits", "order_lowest", "order_highest")
"""Those that find the keys of floats' ends."""
_ORDERED = ("order_", "rank_", "bits(")
"""What the texts have that need any of them."""


def helpers(accumulator: Accumulator) -> list[str]:
    """Name the helpers of texts for the values at hand."""
    name = accumulator.value[0]
    value, lines = STORED[name].value, []
    magnitude = "fabs(x)" if value in ("float", "double") else "abs(x)"
    # What is narrow is an int in C's arithmetic, also its magnitude; lanes are told so.
    narrow = value in NARROW
    on_lanes = "max(x, -(x))" if narrow else magnitude
    lines += [f"#define chf_magnitude(x) {magnitude}", f"#define chfv_magnitude(x) {on_lanes}"]
    if name.startswith("complex"):
        lines += ["#undef chf_nonzero", "#define chf_nonzero(e) ((e).x != 0 || (e).y != 0)"]
    if name == "float16":
        # By its bits but the sign: PoCL's compiler compares halves instead, 8 of them one by one.
        lines += [
            "#undef chfv_x_nonzero",
            "#define chfv_x_nonzero() CHF_DIFFER(CHF_AS(int, x) << 1, 0)",
        ]
    if any("sixteenths" in text or "bin" in text for text in accumulator.texts):
        key = FIELD[field_dtype("order", _value_dtype(name), fp64=True)]
        wide = name == "float64"
        made = "chf_double_sixteenths(x)" if wide else f"chf_float_sixteenths({_truncated(name)})"
        lines += [
            f"typedef {key} chf_key_t;",
            library("bins.clh") + '#line 1 "generated"',
            f"#define chf_sixteenths(x) {made}",
        ]
    if any("apart_" in text or "days(" in text for text in accumulator.texts):
        lines.append(library("apart.clh") + '#line 1 "generated"')
    if any(word in text for text in accumulator.texts for word in _ORDERED):
        lines += _orders(name)
    return lines


def _orders(name: str) -> list[str]:
    """Name the helpers that make keys of values."""
    value, lines = STORED[name].value, [library("order.clh") + '#line 1 "generated"']
    for prefix in ("chf_", "chfv_"):
        for helper in _ORDERS:
            if value in ("float", "double"):
                made = f"{prefix}{value}_{helper}(x)"
            elif name == "time":
                made = f"{prefix}time_order_{helper.partition('_')[2]}(x)"
            else:
                made = "(x)"
            lines.append(f"#define {prefix}{helper}(x) {made}")
        if value in ("float", "double"):
            lines += [f"#define {prefix}{helper} {prefix}{value}_{helper}" for helper in _OF_BITS]
    return lines


def _value_dtype(name: str) -> np.dtype:
    """Return a dtype whose order keys are those of the values."""
    return np.dtype({"bfloat16": "float32", "time": "int64"}.get(name, name))


def _truncated(name: str) -> str:
    """Make a value a float32, never further from zero than it is."""
    return "x" if "float" in name else "convert_float_rtz(x)"
