"""Round functions of exact sums, piece by piece: by doubles where that is certain."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from chunkfold.kernels.accumulator.sums import ExactSums
from chunkfold.kernels.exact import ziv_rounding
from chunkfold.kernels.exact.pieces import OutputsAt, in_threads, pieces_of, slabs_of, unsure_of
from chunkfold.kernels.exact.ziv_rounding import Estimate

SumTerms = Sequence[Sequence[np.ndarray]]
"""The terms of each sum."""


def rounded_sums(
    sums: Sequence[ExactSums],
    quickly: Callable[[SumTerms, OutputsAt], Estimate],
    exactly: Callable[[np.ndarray], np.ndarray],
    dtype: np.dtype,
    leading: Callable[[SumTerms, OutputsAt], np.ndarray],
    doubles: Callable[[SumTerms, OutputsAt], np.ndarray | None] = lambda *_: None,
) -> np.ndarray:
    """Round a function of sums: from their expansions where that is certain, else by integers.

    Each way is tried on the outputs that none before it was certain of: `leading` doubles, with the
    error `ziv_rounding.KNOWN`; `doubles`, if those are exact for a piece; `quickly`; and `exactly`,
    given the numbers of outputs.
    """
    outputs = sums[0].outputs
    out = np.empty(outputs, dtype)

    def try_leading(at: OutputsAt) -> np.ndarray:
        out[at], sure = ziv_rounding.narrowed(leading(_terms(sums, at), at), dtype)
        return sure

    def try_quickly(at: OutputsAt) -> np.ndarray:
        terms = _terms(sums, at)
        if (whole := doubles(terms, at)) is not None:
            out[at] = whole.astype(dtype)
            return np.ones(len(whole), bool)
        out[at], sure = quickly(terms, at).rounded(dtype)
        for first, *_ in terms:
            odd = ~np.isfinite(first)
            out[at] = np.where(odd, first.astype(dtype), out[at])
            sure |= odd
        return sure

    if all(one.terms for one in sums):
        pieces = slabs_of(outputs)
        if dtype != np.float64:
            pieces = pieces_of(unsure_of(try_leading, pieces))
        left = unsure_of(try_quickly, pieces)
        wide = [one.wide.at for one in sums if len(one.wide.at)]
        left = np.unique(np.concatenate([left, *wide])) if wide else left
    else:
        left = np.arange(outputs)
    for few in pieces_of(left):
        out[few] = exactly(few)
    return out


def _terms(sums: Sequence[ExactSums], at: OutputsAt) -> SumTerms:
    terms = [[term[at] for term in one.terms] for one in sums]
    assert not any(np.isnan(last).any() for *_, last in terms), "sums were lost"
    return terms


def make_nan(done: np.ndarray, where: Callable[[OutputsAt], np.ndarray]) -> None:
    """Set results to NaN where `where`, called with each piece, returns True."""

    def make(at: OutputsAt) -> None:
        np.copyto(done[at], np.nan, where=where(at))

    in_threads(make, slabs_of(len(done)))


def each_of(numbers: np.ndarray, at: OutputsAt) -> np.ndarray:
    """Return the numbers of a piece; only one if all are the same, which saves conversions."""
    return numbers[:1] if numbers.strides == (0,) else numbers[at]
