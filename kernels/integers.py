"""Sums, means and products of integers that never wrap: exact, or an error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from chunkfold.kernels.accumulate import Accumulate
from chunkfold.kernels.context import Context, Fields
from chunkfold.kernels.errors import RangeError
from chunkfold.kernels.monoid import Monoid


def _carried(digit: str, names: Sequence[str]) -> dict[str, str]:
    """Return digits of 32 bits of what fields hold, carries propagated; the last keeps the rest.

    `names` are the fields, the lowest first, and `digit` is what one holds.
    """
    texts, carry = {}, ""
    for name in names:
        whole = digit.format(name) + carry
        texts[name] = whole if name == names[-1] else f"({whole}) & 4294967295"
        carry = f" + (({whole}) >> 32)"
    return texts


# A sum is hi * 2**32 + lo, lo below 2**32: one form for each value, of 96 bits. A stream of a
# launch has fewer than 2**31 elements, so that its int64 cannot wrap: 32-bit elements are added
# as they are, 64-bit ones half by half.
_SUM = ("lo", "hi")
_PRODUCTS = ("q0", "q1", "q2", "q3")
_ADDED = "(a.{0} + b.{0})"
_CARRY: Any = _carried(_ADDED, _SUM)
_NARROW = Accumulate(
    state={"s": "int64"},
    start={"s": 0},
    step={"s": "s.s + wide(x)"},
    end={"hi": "s.s >> 32", "lo": "s.s & 4294967295"},
)


_WIDE = Accumulate(
    state={"hi": "int64", "lo": "int64"},
    start={"hi": 0, "lo": 0},
    step={"hi": "s.hi + upper(x)", "lo": "s.lo + lower(x)"},
    end=_carried("s.{0}", _SUM),
)
DISTANCE = "(x0 > x1 ? (ulong)x0 - (ulong)x1 : (ulong)x1 - (ulong)x0)"
"""How far two integers are apart, which 64 bits without a sign always hold."""


def integer_sum(dtype: np.dtype) -> Monoid:
    """Return the sum of integers of a dtype."""
    return Monoid(
        "sum",
        fields={"hi": "int64", "lo": "int64"},
        zero={"hi": 0, "lo": 0},
        lift={"hi": "upper(x)", "lo": "lower(x)"},
        op=_CARRY,
        accumulate=_WIDE if dtype.itemsize == 8 else _NARROW,
        finish=_summed,
        kinds="biu",
        unbounded=True,
    )


def integer_mean(dtype: np.dtype) -> Monoid:
    """Return the mean of integers of a dtype: the exact one, rounded once."""
    return Monoid(
        "mean",
        fields={"hi": "int64", "lo": "int64", "n": "count"},
        zero={"hi": 0, "lo": 0, "n": 0},
        lift={"hi": "upper(x)", "lo": "lower(x)", "n": "1"},
        op=_CARRY | {"n": "add"},
        accumulate=_WIDE if dtype.itemsize == 8 else _NARROW,
        finish=_mean,
        kinds="biu",
    )


def integer_prod() -> Monoid:
    """Return the product of integers: magnitude and sign apart, zeros and overflow remembered.

    The magnitude of what is not zero never shrinks: if all of it fits 64 bits, every part does.
    """
    return Monoid(
        "prod",
        fields={"m": "uint64", "negative": "int32", "zero": "int32", "beyond": "int32"},
        zero={"m": 1, "negative": 0, "zero": 0, "beyond": 0},
        lift={
            "m": "x == 0 ? 1 : magnitude(x)",
            "negative": "x < 0",
            "zero": "x == 0",
            "beyond": "0",
        },
        op={
            "m": "a.m * b.m",
            "negative": "a.negative ^ b.negative",
            "zero": "a.zero | b.zero",
            "beyond": "a.beyond | b.beyond | (mul_hi(a.m, b.m) != 0)",
        },
        finish=_product,
        kinds="biu",
        unbounded=True,
    )


def integer_products(name: str, inputs: int, first: str, second: str) -> Monoid:
    """Return the sum of products of integers, of which `first` and `second` are the factors.

    Factors are OpenCL C expressions, in which {wide} makes 64 bits of something, and {distance} is
    how far x0 and x1 are apart.
    """

    def of(dtype: np.dtype) -> Monoid:
        if dtype.itemsize <= 2:
            forms = {"wide": "wide", "distance": "(wide(x0) - wide(x1))"}
        else:
            forms = {"wide": "(ulong)" if dtype.kind == "u" else "(long)", "distance": DISTANCE}
        a, b = first.format(**forms), second.format(**forms)
        if dtype.itemsize == 8:
            pieces = _pieces_of_128(a, b)
            accumulate = _piecewise(pieces)
        else:
            product = f"{a} * {b}"
            pieces = {"lo": f"({product}) & 4294967295", "hi": f"({product}) >> 32"}
            # Fewer than 2**31 products of 16 bits each add up to less than 2**63.
            adding = replace(_NARROW, step={"s": f"s.s + {product}"})
            accumulate = adding if dtype.itemsize <= 2 else _piecewise(pieces)
        return Monoid(
            name,
            inputs=inputs,
            fields=dict.fromkeys(pieces, "int64"),
            zero=dict.fromkeys(pieces, 0),
            lift=pieces,
            op=_carried(_ADDED, tuple(pieces)),
            accumulate=accumulate,
            finish=_summed_products,
            kinds="biu",
            unbounded=True,
        )

    return replace(of(np.dtype(np.int64)), adapt=of)


def _pieces_of_128(a: str, b: str) -> dict[str, str]:
    """Take products in pieces of 32 bits, the last of which has the sign; sums keep 160."""
    low, high = f"((ulong)({a}) * (ulong)({b}))", f"mul_hi({a}, {b})"
    halves = [f"{half} {part}" for half in (low, high) for part in ("& 4294967295", ">> 32")]
    return dict(zip(_PRODUCTS, halves, strict=True))


def _piecewise(pieces: Mapping[str, str]) -> Accumulate:
    """Add up piece by piece; carries are propagated at the end."""
    return Accumulate(
        state=dict.fromkeys(pieces, "int64"),
        start=dict.fromkeys(pieces, 0),
        step={name: f"s.{name} + (long)({piece})" for name, piece in pieces.items()},
        end=_carried("s.{0}", tuple(pieces)),
    )


def _summed_products(fields: Fields, context: Context) -> np.ndarray:
    digits = _PRODUCTS if _PRODUCTS[0] in fields else _SUM
    return _fitted(_numbers(fields, digits), context, "sum of products")


def _numbers(fields: Fields, digits: Sequence[str]) -> list[int]:
    """Put digits of 32 bits together, the lowest first."""
    rows = zip(*(fields[name].tolist() for name in digits), strict=True)
    return [sum(digit << 32 * n for n, digit in enumerate(row)) for row in rows]


def _summed(fields: Fields, context: Context) -> np.ndarray:
    return _fitted(_numbers(fields, _SUM), context, "sum")


def _mean(fields: Fields, _context: Context) -> np.ndarray:
    counts = fields["n"].tolist()
    # Python divides integers of any size and rounds once.
    means = [s / n if n else np.nan for s, n in zip(_numbers(fields, _SUM), counts, strict=True)]
    return np.array(means, np.float64)


def _product(fields: Fields, context: Context) -> np.ndarray:
    names = ("m", "negative", "zero", "beyond")
    rows = zip(*(fields[name].tolist() for name in names), strict=True)
    signed = [
        (0 if zero else -size if negative else size, beyond and not zero)
        for size, negative, zero, beyond in rows
    ]
    if any(beyond for _, beyond in signed):
        raise RangeError(
            f"the product of {context.dtype} is 2**64 or more, or -2**64 or less, which no integer "
            "dtype holds; cast by dtype='float64'"
        )
    return _fitted([value for value, _ in signed], context, "product")


def _fitted(values: list[int], context: Context, what: str) -> np.ndarray:
    """Give Python's integers the dtype of NumPy's sums, or the one asked for."""
    wanted = context.result
    if wanted is not None and wanted.kind == "O":
        return np.array(values, object)
    if wanted is None or wanted.kind not in "iu":
        wanted = np.dtype(np.uint64 if context.dtype.kind == "u" else np.int64)
    limits = np.iinfo(wanted)
    beyond = [value for value in values if not limits.min <= value <= limits.max]
    if beyond:
        raise RangeError(
            f"the {what} of {context.dtype} is {beyond[0]}, which {wanted} does not hold "
            f"({limits.min} to {limits.max}); dtype='object' gives Python's integers, "
            "dtype='float64' rounds"
        )
    return np.array(values, wanted)
