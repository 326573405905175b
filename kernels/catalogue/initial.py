"""NumPy's `initial=`, in the finishes of reductions that take it."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Complex, Integral, Real
from typing import Any

import numpy as np

from chunkfold.kernels.dtypes import kind_of
from chunkfold.kernels.errors import MonoidError
from chunkfold.kernels.monoid.finish_context import Context


def initial_of(context: Context, dtype: np.dtype) -> Any:
    """Return `initial` in a result's dtype, or None.

    Returns
    -------
    A scalar of a float's, complex or time dtype; for integers and truths Python's integer, as for
    object, which holds any.

    Raises
    ------
    MonoidError
        If the dtype does not hold it.
    """
    given = context.initial
    if given is None:
        return None
    kind = kind_of(dtype)
    made = _in_ticks(given, dtype) if kind in "mM" else _number(given, kind)
    if kind in "biu" and made is not None and not _fits(made, dtype):
        made = None
    if made is None:
        raise MonoidError(
            f"initial is {given!r}, which {dtype} cannot hold: give a value that results can have"
            + ("" if kind not in "biuO" else ", or dtype='float64'")
        )
    return made if kind in "biuO" else np.asarray(made).astype(dtype)[()]


def begun(values: np.ndarray, nothing: np.ndarray, context: Context, op: Any) -> np.ndarray:
    """Take `initial` into extremes; it is the result of no elements."""
    first = initial_of(context, values.dtype)
    if first is None:
        return values
    first = np.asarray(first).astype(values.dtype)
    found: np.ndarray = np.where(nothing, first, op(values, first))
    return found


def _number(given: Any, kind: str) -> Any:
    """Return a number of a kind of results, or None."""
    item = getattr(given, "item", None)
    given = item() if callable(item) and np.ndim(given) == 0 else given
    if kind == "c":
        return complex(given) if isinstance(given, Complex) else None
    if not isinstance(given, Real):
        return None
    if kind == "f":
        return _or_none(float, given)
    if isinstance(given, Integral):
        return int(given)
    return int(float(given)) if float(given).is_integer() else None


def _in_ticks(given: Any, dtype: np.dtype) -> Any:
    """Return a time in a dtype's unit, or None if it is none, or lies between two of its ticks."""
    if isinstance(given, (bool, float)) or (dtype.kind == "M" and isinstance(given, Integral)):
        return None
    made = _or_none(lambda one: np.asarray(one, None if _is_time(one) else dtype), given)
    if made is None or made.shape or made.dtype.kind != dtype.kind:
        return None
    told = made.astype(dtype)
    return told[()] if told == made or np.isnat(made) else None


def _is_time(given: Any) -> bool:
    return isinstance(given, (np.datetime64, np.timedelta64))


def _or_none(make: Callable[[Any], Any], given: Any) -> Any:
    try:
        return make(given)
    except (TypeError, ValueError, OverflowError):
        return None


def _fits(number: int, dtype: np.dtype) -> bool:
    limits = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return limits[0] <= number <= limits[1]
