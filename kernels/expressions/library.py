"""Functions of symbols that NumPy has not, made of those that it has.

Users could write all of them: keys that sort like floats, halves of integers, quotients that avoid
zeros, tables.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chunkfold.kernels.expressions import operations
from chunkfold.kernels.expressions.nodes import Node, signed, unsigned
from chunkfold.kernels.expressions.operations import build, has_float64
from chunkfold.kernels.expressions.symbols import Symbol, applied

_INT32, _INT64 = np.dtype(np.int32), np.dtype(np.int64)


def where(condition: Any, yes: Any, no: Any) -> Symbol:
    """Choose by a condition, element by element; both values are computed."""
    return applied("where", condition, yes, no)


def real_dtype() -> np.dtype:
    """Return float64, or float32 where a run has a device without it."""
    return np.dtype(np.float64 if has_float64.get() else np.float32)


def real(x: Symbol) -> Symbol:
    """Return a value as float64 (float32 on devices without it)."""
    return x.astype(real_dtype())


def wide(x: Symbol) -> Symbol:
    """Return a value in the widest dtype of its kind: float64, int64 or uint64.

    Sums of these do not wrap, and round little. On devices without float64 floats are float32.
    """
    if x.dtype.kind == "f":
        return real(x)
    return x.astype(np.uint64 if x.dtype.kind == "u" else np.int64)


def bits(x: Symbol) -> Symbol:
    """Return the bits of a value as an unsigned integer of its size."""
    if x.dtype.kind == "b":
        return x.astype(np.uint8)
    return Symbol(operations.bitcast(x.node, unsigned(x.dtype)))


def signed_bits(x: Symbol) -> Symbol:
    """Return the bits of a value as a signed integer of its size."""
    if x.dtype.kind == "b":
        return x.astype(np.int8)
    return Symbol(operations.bitcast(x.node, signed(x.dtype)))


def magnitude(x: Symbol) -> Symbol:
    """Return the absolute value; of a signed integer an unsigned one, which never wraps."""
    if x.dtype.kind == "i":
        return Symbol(build("magnitude", unsigned(x.dtype), x.node))
    return applied("absolute", x)


def distance(x0: Symbol, x1: Symbol) -> Symbol:
    """Return the distance of two integers, which 64 bits without a sign always hold."""
    one, other = x0.astype(np.uint64), x1.astype(np.uint64)
    return where(x0 > x1, one - other, other - one)


def nonzero(x: Any) -> Symbol:
    """Return the condition that a value, or a part of a complex one, is not zero; NaN is not."""
    if not isinstance(x, Symbol):  # a complex one
        return nonzero(x.real) | nonzero(x.imag)
    if (
        x.dtype.kind == "f"
    ):  # by its bits but the sign: subnormals, which devices may flush, are too
        return (bits(x) << 1) != 0
    return x != 0 if x.dtype.kind != "b" else x


def fma(a: Any, b: Any, c: Any) -> Symbol:
    """Return a * b + c of floats, rounded once."""
    dtype = operations.common(*(getattr(one, "node", one) for one in (a, b, c)))
    if dtype.kind != "f":
        raise TypeError(f"fma takes floats, not {dtype}")
    nodes = (operations.as_node(getattr(one, "node", one), dtype) for one in (a, b, c))
    return Symbol(build("fma", dtype, *nodes))


def high_product(a: Symbol, b: Any) -> Symbol:
    """Return the upper half of the product of two integers of one dtype."""
    dtype = operations.common(a.node, getattr(b, "node", b))
    if dtype.kind not in "iu":
        raise TypeError(f"high_product takes integers, not {dtype}")
    nodes = (operations.as_node(getattr(one, "node", one), dtype) for one in (a, b))
    return Symbol(build("high_product", dtype, *nodes))


def towards_zero(x: Symbol) -> Symbol:
    """Return an integer as a float32 that is never further from zero; a truth as 0 or 1."""
    if x.dtype.kind not in "iu":
        return x.astype(np.float32)
    return Symbol(build("towards_zero", np.dtype(np.float32), x.node))


def gap(a: Symbol, b: Symbol) -> Symbol:
    """Return a - b, and 0 where they are equal, also where both are infinite."""
    return where(a == b, 0, a - b)


def ratio(a: Symbol, b: Symbol) -> Symbol:
    """Return a / b, and 0 where b is 0."""
    return where(b == 0, 0, a / b)


def upper(x: Symbol) -> Symbol:
    """Return an integer's bits above the lowest 32, with its sign, as int64."""
    return (wide(x) >> 32).astype(_INT64)


def lower(x: Symbol) -> Symbol:
    """Return an integer's lowest 32 bits as int64, which is not below 0."""
    return wide(x).astype(_INT64) & 0xFFFFFFFF


def lookup(table: Any, index: Symbol, default: Any = 0) -> Symbol:
    """Return an entry of a table of numbers, or the default where there is none of that index.

    Parameters
    ----------
    table
        One axis of numbers, or of truths. Devices have room for 64 KiB, at least.

    Raises
    ------
    TypeError
        If the table or the index is anything else, or the table's dtype does not hold the default.
    """
    array = np.ascontiguousarray(table)
    if array.dtype.kind == "b":
        return nonzero(lookup(array.astype(np.uint8), index, int(bool(default))))
    if array.ndim != 1 or not array.size or array.dtype.kind not in "iuf":
        raise TypeError(
            f"a lookup table must have one axis of numbers, not {array.dtype} {array.shape}"
        )
    if not isinstance(index, Symbol):
        raise TypeError(
            f"a table is looked up by a symbol, not by {index!r}: write table[{index!r}]"
        )
    if index.dtype.kind not in "iu":
        raise TypeError(f"a table is looked up by an integer, not by {index.dtype}")
    array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype == np.float16:
        array = array.astype(np.float32)
    whole = (
        index.astype(_INT64)
        if index.dtype != np.uint64
        else where(index > np.iinfo(np.int64).max, -1, index.astype(_INT64))
    )
    arg = (array.tobytes(), operations.as_node(default, array.dtype).arg)
    return Symbol(build("lookup", array.dtype, whole.node, arg=arg))


def search(
    keys: np.ndarray, key: Symbol, guess: Symbol | None = None, slack: float | None = None
) -> Symbol:
    """Return the number of the last of ascending integers that a key reaches, int32; -1 for none.

    Parameters
    ----------
    keys
        One axis of integers of the key's dtype.
    guess, slack
        A float32 that is off by less than `slack` where it falls between two numbers: then no key
        need be looked at.

    Raises
    ------
    TypeError
        If key and keys are not integers of one dtype.
    """
    if key.dtype.kind not in "iu" or keys.dtype != key.dtype:
        raise TypeError(f"keys of {keys.dtype} cannot be searched for a key of {key.dtype}")
    sources = (key.node,) if guess is None else (key.node, guess.node)
    return Symbol(build("search", _INT32, *sources, arg=(keys.tobytes(), slack)))


# Keys: integers that sort like values, so that min and max are total, associative and commutative.
# A float's key is its bits, with the magnitude flipped below zero (Herf, "Radix tricks", 2001): -0
# is before +0, and NaN at the end that wins. By bits, for devices that flush subnormals.


def _float_key(x: Symbol) -> tuple[Symbol, Symbol, int]:
    """Return a float's key, whether it is NaN, and the greatest key."""
    held = signed_bits(x)
    top = int(np.iinfo(held.dtype).max)
    key = where(held < 0, held ^ top, held)
    return key, (held & top) > _infinity(x.dtype), top


def _infinity(dtype: np.dtype) -> int:
    return int(np.array(np.inf, dtype).view(signed(dtype)))


def _whole_key(x: Symbol) -> Symbol:
    """Return the key of an integer or a truth: itself, of at least 32 bits."""
    kind = "u" if x.dtype.kind == "u" else "i"
    return x.astype(f"{kind}{max(4, x.dtype.itemsize)}")


def order_low(x: Symbol) -> Symbol:
    """Return an integer that sorts like a value; NaN is the lowest. For the least of values."""
    if x.dtype.kind != "f":
        return _whole_key(x)
    key, is_nan, top = _float_key(x)
    return where(is_nan, ~top, key)


def order_high(x: Symbol) -> Symbol:
    """Return an integer that sorts like a value; NaN is the highest. For the greatest of values."""
    if x.dtype.kind != "f":
        return _whole_key(x)
    key, is_nan, top = _float_key(x)
    return where(is_nan, top, key)


def rank_low(x: Symbol) -> Symbol:
    """Return `order_low` with one key for both zeros, for the position of the first of equals."""
    return _tied(x, order_low(x))


def rank_high(x: Symbol) -> Symbol:
    """Return `order_high` with one key for both zeros, for the position of the first of equals."""
    return _tied(x, order_high(x))


def _tied(x: Symbol, key: Symbol) -> Symbol:
    return where(key == -1, 0, key) if x.dtype.kind == "f" else key


def time_order_high(x: Symbol) -> Symbol:
    """Return an integer that sorts like a time, NaT (the least integer) last: one less, wrapped.

    Each of the 2**64 values has a key, so that no zero is free: count elements to tell of none.
    """
    return (x.astype(np.uint64) - 1).astype(_INT64)


def first(a_key: Symbol, b_key: Symbol, a_index: Symbol, b_index: Symbol) -> Symbol:
    """Return the index that goes with the lesser key; of equal keys the lesser index."""
    nearest = applied("minimum", a_index, b_index)
    return where(a_key < b_key, a_index, where(b_key < a_key, b_index, nearest))


# Both ends of floats are found with less: by the greatest and the least of their bits as unsigned
# integers, and the greatest as signed ones. Without a sign floats are in their bits' order, with
# one in the reverse, and NaN is beyond infinity in both.


def _any_nan(most: Symbol, top: Symbol, infinity: int) -> Symbol:
    sign = 1 << (8 * top.dtype.itemsize - 1)
    return (top > infinity) | (most > (infinity | sign))


def order_lowest(least: Symbol, most: Symbol, top: Symbol) -> Symbol:
    """Return the least `order_low` of floats of which these are the least and greatest bits.

    `top` is the greatest `signed_bits`.
    """
    greatest = int(np.iinfo(top.dtype).max)
    signs = signed_bits(most)
    held = where(signs < 0, signs, signed_bits(least))
    key = where(held < 0, held ^ greatest, held)
    key = where(least > most, greatest, key)
    return where(_any_nan(most, top, _infinity_of_bits(top)), ~greatest, key)


def order_highest(least: Symbol, most: Symbol, top: Symbol) -> Symbol:
    """Return the greatest `order_high` of floats of which these are the least and greatest bits."""
    greatest = int(np.iinfo(top.dtype).max)
    held = where(top < 0, signed_bits(least), top)
    key = where(held < 0, held ^ greatest, held)
    return where(_any_nan(most, top, _infinity_of_bits(top)), greatest, key)


def _infinity_of_bits(top: Symbol) -> int:
    return _infinity(np.dtype(f"f{top.dtype.itemsize}"))


def as_symbol(one: Symbol | Node | float, dtype: np.dtype) -> Symbol:
    """Return a value as a symbol of a dtype, converted if it is of another."""
    if isinstance(one, Symbol):
        return one.astype(dtype)
    return Symbol(operations.as_node(one, dtype))
