"""Products of integers that never wrap, and sums and means of times: exact, or an error."""

from __future__ import annotations

from typing import Any

import numpy as np

from chunkfold.kernels.catalogue.finish_functions import time_mean, time_sum
from chunkfold.kernels.catalogue.initial import initial_of
from chunkfold.kernels.catalogue.integer_results import wanted_integer, within
from chunkfold.kernels.errors import RangeError
from chunkfold.kernels.expressions.library import high_product, magnitude, real, where, wide
from chunkfold.kernels.monoid.accumulate import Accumulate, Expressions
from chunkfold.kernels.monoid.finish_context import Context, Fields
from chunkfold.kernels.monoid.monoid import Monoid

NAT = -(2**63)
"""The integer of NaT."""


_TIMES: Any = {
    "fields": {"s": "exact", "nat": "int32"},
    "zero": {"s": 0, "nat": 0},
    "lift": {"s": lambda x: x, "nat": lambda x: x == NAT},
    "op": {"s": "add", "nat": "max"},
}
TIME_SUM = Monoid("sum", **_TIMES, kinds="m", finish=time_sum)
TIME_MEAN = Monoid(
    "mean",
    fields=_TIMES["fields"] | {"n": "count"},
    zero=_TIMES["zero"] | {"n": 0},
    lift=_TIMES["lift"] | {"n": 1},
    op=_TIMES["op"] | {"n": "add"},
    kinds="mM",
    finish=time_mean,
)


def _product(fields: Fields, context: Context) -> np.ndarray:
    names = ("m", "negative", "zero", "beyond")
    rows = zip(*(fields[name].tolist() for name in names), strict=True)
    signed = [
        (0 if zero else -size if negative else size, beyond)
        for size, negative, zero, beyond in rows
    ]
    if any(beyond for _, beyond in signed):
        raise RangeError(
            f"the product of {context.dtype} is 2**64 or more, or -2**64 or less, which no integer "
            "dtype holds; cast by dtype='float64'"
        )
    first = initial_of(context, wanted_integer(context))
    values = [value * (1 if first is None else first) for value, _ in signed]
    return within(values, wanted_integer(context), f"product of {context.dtype}")


def _multiplied(a: Any, b: Any) -> Expressions:
    """Multiply magnitudes: they never shrink but by zero, so if all fits, every part does."""
    zero = (a.zero | b.zero) != 0
    beyond = (a.beyond | b.beyond) | (high_product(a.m, b.m) != 0)
    return {
        "m": where(zero, 1, a.m * b.m),
        "negative": where(zero, 0, a.negative ^ b.negative),
        "zero": zero,
        "beyond": where(zero, 0, beyond),
    }


def _product_ends(s: Any) -> Expressions:
    """Return the magnitude by the low 64 bits, and the rest by the product as a float.

    NaN is a zero behind what was infinite. The float is off by 2**-17 at most where it comes to
    2**64 (64 factors of 2 and more, in float32), and near there the uppermost of the low bits tells
    on which side it is.
    """
    zero, size, negative = ~(abs(s.f) > 0), abs(s.f), s.f < 0
    magnitude = where(negative, -s.low, s.low)
    near = (size > 1.5 * 2.0**63) & ((magnitude >> 63) == 0)
    return {
        "m": where(zero, np.uint64(1), magnitude),
        "negative": negative,
        "zero": zero,
        "beyond": (size > 1.25 * 2.0**64) | near,
    }


INTEGER_PROD = Monoid(
    "prod",
    fields={"m": "uint64", "negative": "int32", "zero": "int32", "beyond": "int32"},
    zero={"m": 1, "negative": 0, "zero": 0, "beyond": 0},
    lift=lambda x: {
        "m": where(x == 0, 1, magnitude(wide(x))),
        "negative": x < 0,
        "zero": x == 0,
        "beyond": 0,
    },
    op=_multiplied,
    accumulate=Accumulate(
        state={"f": "real", "low": "uint64"},
        start={"f": 1, "low": 1},
        step=lambda s, x: {"f": s.f * real(x), "low": s.low * x.astype(np.uint64)},
        end=_product_ends,
    ),
    finish=_product,
    kinds="biu",
    unbounded=True,
)
