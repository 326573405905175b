"""What stands for an element of an input, and when it counts as missing."""

from __future__ import annotations

import numpy as np

from chunkfold.kernels.expressions.library import signed_bits
from chunkfold.kernels.expressions.nodes import input_node
from chunkfold.kernels.expressions.symbols import ComplexSymbol, Symbol


def value_dtype(dtype: np.dtype) -> np.dtype:
    """Return the dtype of symbols of an element's: times are int64, halves float32.

    >>> value_dtype(np.dtype("M8[s]")), value_dtype(np.dtype("f2"))
    (dtype('int64'), dtype('float32'))
    """
    if dtype.kind in "mM":
        return np.dtype(np.int64)
    if dtype.name in ("float16", "bfloat16"):
        return np.dtype(np.float32)
    return dtype.newbyteorder("=")


def element(number: int, dtype: np.dtype) -> Symbol | ComplexSymbol:
    """Return what stands for an element of an input."""
    if dtype.kind == "c":
        part = np.dtype(f"f{dtype.itemsize // 2}")
        real, imag = (Symbol(input_node(number, part, name)) for name in ("re", "im"))
        return ComplexSymbol(real, imag)
    return Symbol(input_node(number, value_dtype(dtype)))


def missing(one: Symbol | ComplexSymbol, dtype: np.dtype) -> Symbol | None:
    """Return whether an element is NaN or NaT; None if it never is."""
    if isinstance(one, ComplexSymbol):
        return (one.real != one.real) | (one.imag != one.imag)
    if dtype.kind in "mM":
        return one == np.iinfo(np.int64).min
    if dtype.name == "float16":  # by bits, for compilers that would compare halves one by one
        return (signed_bits(one) & 0x7FFFFFFF) > 0x7F800000
    return one != one if one.dtype.kind == "f" else None
