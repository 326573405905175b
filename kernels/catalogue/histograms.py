"""Histograms: bins between given edges, or sixteen for each power of two; numbers of bins."""

from __future__ import annotations

import itertools
import math
import reprlib
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from chunkfold.kernels.catalogue import finish_functions
from chunkfold.kernels.catalogue.weighted_bins import weighing
from chunkfold.kernels.dtypes import kind_of, to_order
from chunkfold.kernels.errors import MonoidError
from chunkfold.kernels.expressions.library import (
    rank_high,
    search,
    signed_bits,
    towards_zero,
    where,
)
from chunkfold.kernels.expressions.symbols import Symbol
from chunkfold.kernels.monoid.accumulate import SymbolFunction
from chunkfold.kernels.monoid.monoid import Monoid

MOST_BINS = 999_999
"""Most counters of a table."""
_MOST_SLACK = 0.25
"""Largest error of a useful guess, in bins."""


def histogram(
    edges: Sequence[float] | np.ndarray | None = None,
    *,
    weights: bool = False,
    density: bool = False,
) -> Monoid:
    """Return the reduction that counts the elements of each bin, or adds their weights up.

    Parameters
    ----------
    edges
        Bin j of n holds elements from edges[j] to below edges[j + 1], the last one up to its end,
        as `numpy.histogram` has it; others, and NaN, count nowhere. None lets bins follow the
        data: sixteen of equal width from each power of two to the next, of each sign.
    weights
        Whether there is a second input, the weights of elements: `count` is then `weight`, their
        sum, exact and rounded once to the weights' dtype; of integers it is int64 or uint64.
    density
        Give `density` instead: that share of all which bins hold, divided by their width, float64.

    Returns
    -------
    A monoid, called `histogram`, `weighted_histogram`, `density` or `weighted_density`, whose
    results are arrays of records `left`, `right` (float64) and `count` (int64), in order: all n
    bins between edges, or without edges all bins with elements. Without edges bins above zero hold
    elements from left to below right, and bins below zero are their mirror. Infinities have bins
    of their own. Elements closer to zero than 2**-126 are in the bin of zero, and finite ones
    beyond float32's range in the last bin before infinity's.

    Raises
    ------
    MonoidError
        If edges are not at least two increasing numbers.
    """
    bin_of: SymbolFunction
    ends: Any
    if edges is None:
        bins, bin_of, ends = 8131, sixteenths, finish_functions.sixteenth_ends
    else:
        given = _checked(edges)
        bins, bin_of = len(given) - 1, partial(_bin, given)
        ends = partial(finish_functions.all_ends, np.array(given, np.float64))
    weighed = partial(weighing, bins, bin_of, ends, density=density)
    if weights:
        return weighed()
    return Monoid(
        "density" if density else "histogram",
        fields={"counts": f"int64[{bins}]"},
        zero=0,
        lift=bin_of,
        op="add",
        finish=partial(finish_functions.bin_counts, ends, density=density),
        casts=False,
        last_axis=None if density else "bin",
        weighing=weighed,
    )


def _checked(edges: Any) -> list[int | float]:
    """Take edges as Python's numbers, whose comparisons are exact."""
    numbers = edges.tolist() if isinstance(edges, np.ndarray) else edges
    try:
        numbers = [getattr(number, "item", lambda number=number: number)() for number in numbers]
        numbers = [number for number in numbers if float(number) == float(number)]
    except (TypeError, ValueError, OverflowError):
        numbers = []
    plain = all(type(number) in (int, float) for number in numbers)
    if not plain or len(numbers) < 2 or not all(a < b for a, b in itertools.pairwise(numbers)):
        raise MonoidError(
            "edges of a histogram must be at least two increasing numbers in float64's range, "
            f"such as those of np.linspace, not {reprlib.repr(edges)}"
        )
    if len(numbers) > MOST_BINS + 1:
        raise MonoidError(f"{len(numbers) - 1:,} bins are too many; take at most {MOST_BINS:,}")
    return numbers


def least(edge: float, dtype: np.dtype) -> int | float | None:
    """Return the least value of a dtype that is not below an edge, or None."""
    if kind_of(dtype) != "f":
        low, high = _limits(dtype)
        if edge > high:
            return None
        return low if edge < low else math.ceil(edge)
    return _rounded(edge, dtype, math.inf)


def greatest(edge: float, dtype: np.dtype) -> int | float | None:
    """Return the greatest value of a dtype that is not above an edge, or None."""
    if kind_of(dtype) != "f":
        low, high = _limits(dtype)
        if edge < low:
            return None
        return high if edge > high else math.floor(edge)
    return _rounded(edge, dtype, -math.inf)


def _limits(dtype: np.dtype) -> tuple[int, int]:
    if dtype.kind == "b":
        return 0, 1
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


def _rounded(edge: float, dtype: np.dtype, towards: float) -> float:
    """Round an edge to float32 or float64, as kernels have elements, in one direction."""
    width: Any = np.float64 if dtype.itemsize == 8 else np.float32
    with np.errstate(over="ignore", under="ignore"):
        value = width(edge)
        beyond = float(value) < edge if towards > 0 else float(value) > edge
        return float(np.nextafter(value, width(towards)) if beyond else value)


def _bin(edges: list[int | float], x: Symbol) -> Symbol | int:
    """Return the number of a value's bin; -1 for none.

    It compares keys that sort like the elements: exact in every dtype, also without float64.
    """
    lower = [bound for edge in edges[:-1] if (bound := least(edge, x.dtype)) is not None]
    top = greatest(edges[-1], x.dtype)
    if not lower or top is None:
        return -1
    key, guess = rank_high(x), _guess(edges)
    keys = np.array([to_order(bound, x.dtype) for bound in lower], key.dtype)
    if guess is None:
        found = search(keys, key)
    else:
        origin, scale, slack = guess
        near = (x.astype(np.float32) - np.float32(origin)) * np.float32(scale)
        found = search(keys, key, near, slack)
    return where(key > to_order(top, x.dtype), -1, found)


Guess = tuple[float, float, float]
"""Origin, scale and error: the bin of x is about (x - origin) * scale, in float32."""


def _guess(edges: list[int | float]) -> Guess | None:
    """Return how to guess the bin of x, and the error; None if bins differ in width."""
    first, last, bins = float(edges[0]), float(edges[-1]), len(edges) - 1
    width = (last - first) / bins
    if not math.isfinite(width) or not 2.0**-100 < width < 2.0**100:
        return None
    uneven = max(abs(edge - (first + n * width)) for n, edge in enumerate(edges)) / width
    # Rounded to float32: x, the first edge, their difference, the scale, the product; twice that.
    slack = uneven + (8 * bins + 4 * max(abs(first), abs(last)) / width) * 2.0**-24
    if slack > _MOST_SLACK:
        return None
    return first, 1 / width, slack * 1.01


_ZERO_BIN, _LAST = 4065, 4079
"""The bin of zero and of values below 2**-126, and the last step before infinity's."""


def sixteenths(x: Symbol) -> Symbol:
    """Return a value's bin by sign, exponent and four bits of its mantissa; -1 for NaN.

    Bins go from 0, -infinity's, to 8130, infinity's. Values beyond float32's range are in the last
    bins before those.
    """
    if x.dtype.kind != "f":
        x = towards_zero(x)
    held = signed_bits(x)
    size = held & int(np.iinfo(held.dtype).max)
    kept = {4: 19, 8: 48}[held.dtype.itemsize]
    base, top = {4: (0, 4080), 8: (14336, 32752)}[held.dtype.itemsize]
    steps = (size >> kept).astype(np.int32)
    step = np.maximum(np.minimum(steps - base, _LAST) - 15, 0)
    step = where(steps == top, _ZERO_BIN, step)
    signed = where(held < 0, _ZERO_BIN - step, _ZERO_BIN + step)
    return where(np.isnan(x), -1, signed)


def bin_number(edges: np.ndarray, *, right: bool) -> Monoid:
    """Return the reduction whose result of one element is the number of its interval, int32.

    It is -1 for elements in no interval, NaN and NaT.

    Parameters
    ----------
    edges
        Ascending, one more than there are intervals: integers, floats, or times.
    right
        Whether the upper end of an interval belongs to it, rather than the lower one.
    """
    made = partial(_made, edges, right)
    first = edges.dtype if edges.dtype.kind in "mM" else np.dtype(np.float32)
    return made(first).by_dtype(made)


def _made(edges: np.ndarray, right: bool, dtype: np.dtype) -> Monoid:
    """Return the monoid for a dtype."""
    times = edges.dtype.kind in "mM"
    cuts = _ticks(edges, dtype) if times else _numbers(edges, dtype, right)
    return Monoid(
        "bin_number",
        fields={"n": "int32"},
        zero=-1,
        lift=partial(_number, cuts, len(edges) - 1, right),
        op="max",
        kinds=edges.dtype.kind if times else "biuf",
        casts=False,
    )


def _numbers(edges: np.ndarray, dtype: np.dtype, right: bool) -> list[int | None]:
    """Return the keys of edges as elements have them; None beyond the dtype's range."""
    bounds = [(greatest if right else least)(edge, dtype) for edge in edges.tolist()]
    return [None if one is None else to_order(one, dtype) for one in bounds]


def _ticks(edges: np.ndarray, dtype: np.dtype) -> list[int | None]:
    """Return edges that are times in the elements' unit.

    Raises
    ------
    MonoidError
        If that does not hold one.
    """
    ticks = edges.astype(dtype)
    cut = ticks.astype(edges.dtype) != edges
    if cut.any():
        raise MonoidError(
            f"bins have an edge {edges[cut][0]}, which {dtype} cannot represent: give edges in "
            "the elements' unit"
        )
    return [int(one) for one in ticks.astype(np.int64)]


def _number(cuts: list[int | None], bins: int, right: bool, x: Symbol) -> Symbol | int:
    """Return the number of an element's interval: the edges at or below it, less one."""
    key = rank_high(x)
    limits = np.iinfo(key.dtype)
    # An element that equals an edge is behind it, unless `right`.
    if right:
        bounds = [limits.min if one is None else one + 1 for one in cuts]
    else:
        bounds = [one for one in cuts if one is not None]
    bounds = [one for one in bounds if one <= limits.max]
    if not bounds:
        return -1
    found = search(np.array(bounds, key.dtype), key)
    outside: Any = found >= bins
    if x.dtype.kind == "f":
        outside = outside | np.isnan(x)
    return where(outside, np.int32(-1), found)
