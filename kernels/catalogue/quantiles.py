"""Quantiles, the median and percentiles: exact, by as many reads as their digits take."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from chunkfold.kernels.catalogue.quantile_methods import CHOOSE, METHODS, interpolated, ranks
from chunkfold.kernels.catalogue.radix import Radix, values_of
from chunkfold.kernels.catalogue.rank_search import KINDS, RankSearch
from chunkfold.kernels.catalogue.sketches import AXIS, Sketch, checked_rtol
from chunkfold.kernels.catalogue.weighted_quantiles import METHOD, WeightedQuantiles
from chunkfold.kernels.dtypes import kind_of
from chunkfold.kernels.errors import MonoidError
from chunkfold.kernels.expressions.library import rank_high
from chunkfold.kernels.monoid.finish_context import Choice, Context, Fields
from chunkfold.kernels.monoid.monoid import Monoid
from chunkfold.kernels.monoid.specialise import FoldedElements

_MOST = 1_000
"""Quantiles of one reduction."""


def quantile(
    q: float | Sequence[float],
    *,
    method: str | None = None,
    rtol: float | None = None,
    weights: bool = False,
) -> Monoid:
    """Return the reduction that gives quantiles of the elements, exact ones or within `rtol`.

    It reads the data once where elements have up to 16 bits (and there are few outputs), else as
    often as a plan says: twice of float32 and four times of float64, more for many outputs.

    Parameters
    ----------
    q
        From 0 to 1: a number, or several, which make a last axis of the results.
    method
        Any of NumPy's; methods that interpolate do so in float64, and round once. Or "sketch": one
        read, for results within `rtol` of "lower"; the least and the greatest are exact.
        None is "linear", or "inverted_cdf" with weights, the only method that takes them.
    rtol
        Relative tolerance of a sketch, between 0 and 1.
    weights
        True: there is a second input, the weights of elements, and the name is
        `weighted_median`, `weighted_p95` or `weighted_quantile`.

    Raises
    ------
    MonoidError
        If a quantile is not from 0 to 1, there is no such method, or `rtol` is not for it.
    """
    if weights:
        return _weighing(q, method)
    if method == "sketch":
        made = Sketch(_name(q), _checked(q), checked_rtol(rtol), np.ndim(q) == 0).declared()
        return replace(
            made,
            written=f"quantile({_shown(q)}, method={method!r}, rtol={rtol!r})",
            weighing=partial(_weighing, q, method),
        )
    if rtol is not None:
        raise MonoidError(
            f"rtol={rtol!r} is for method='sketch', and method {method or 'linear'!r} is exact: "
            "omit one of them"
        )
    made = _declared(
        _name(q), _checked(q), "linear" if method is None else method, single=np.ndim(q) == 0
    )
    given = "" if method is None else f", method={method!r}"
    return replace(
        made, written=f"quantile({_shown(q)}{given})", weighing=partial(_weighing, q, method)
    )


def named_quantile(q: float, written: str, *, weights: bool = False) -> Monoid:
    """Return a quantile that is written by a name, as 'p99.9'."""
    made = quantile(q, weights=weights)
    if written == "median":
        asked = Quantiles(written, (q,), "linear", single=True, mean=True)
        made = replace(made, specialised=asked)
    return replace(made, written=written)


def _shown(q: Any) -> str:
    return reprlib.repr(np.asarray(q).tolist())


def _weighing(q: Any, method: str | None) -> Monoid:
    """Return the form that weighs elements.

    Raises
    ------
    MonoidError
        If the method takes no weights.
    """
    if method not in (None, METHOD):
        raise MonoidError(
            f"a quantile by method={method!r} takes no weights; method={METHOD!r} does, as in "
            "NumPy: give that method, or omit the weights"
        )
    made = WeightedQuantiles(f"weighted_{_name(q)}", _checked(q), np.ndim(q) == 0).declared()
    return replace(made, written=f"quantile({_shown(q)}, weights=True)")


def _declared(name: str, q: tuple[float, ...], method: str, *, single: bool) -> Monoid:
    if not isinstance(method, str) or method not in METHODS:
        raise MonoidError(
            f"method of a quantile is {method!r}; use one of: {', '.join([*METHODS, 'sketch'])}"
        )
    asked = Quantiles(name, q, method, single)
    plain = asked(FoldedElements(np.dtype(np.float32)))
    return replace(
        plain,
        specialised=asked,
        last_axis=None if single else AXIS,
        labels=() if single else q,
    )


def _checked(q: Any) -> tuple[float, ...]:
    try:
        given = tuple(float(one) for one in np.atleast_1d(np.asarray(q)).tolist())
    except (TypeError, ValueError):
        given = ()
    odd = np.ma.is_masked(q) or np.ndim(q) > 1
    if not given or odd or not all(0 <= one <= 1 for one in given):
        raise MonoidError(
            f"quantiles are from 0 to 1, one or several, not {reprlib.repr(q)}: 0.95 is the 95th "
            "percentile"
        )
    if len(given) > _MOST:
        raise MonoidError(f"{len(given):,} quantiles are too many at once: give {_MOST:,} at most")
    return given


def _name(q: Any) -> str:
    """Return the name in results: the percentile of one number."""
    if np.ndim(q) or not isinstance(q, (int, float, np.number)):
        return "quantile"
    percent = float(round(100 * float(q), 10))
    return "median" if percent == 50 else f"p{percent:g}".replace(".", "_").replace("-", "_")


@dataclass(frozen=True)
class Quantiles:
    """Makes the monoid of quantiles, for a dtype and a number of outputs."""

    name: str
    q: tuple[float, ...]
    method: str
    single: bool
    """True: results have no axis of quantiles."""
    mean: bool = False
    """True: halfway between two elements the result is their mean, rounded once."""

    def __call__(self, elements: FoldedElements) -> Monoid:
        """Return the monoid of the first read."""
        if elements.keeping:
            return self._choosing(elements.dtype)
        radix = Radix.of(elements.dtype, elements.outputs)
        search = RankSearch(self, radix)
        return radix.counting(
            self.name,
            kinds=KINDS,
            casts=self.method in CHOOSE,
            reads=radix.reads,
            finish=search.finish,
            next_pass=search.next_pass if radix.reads > 1 else None,
        )

    def _choosing(self, dtype: np.dtype) -> Monoid:
        """Return the monoid that is folded where all elements of an output are kept."""
        return Monoid(
            self.name,
            fields={"least": "order", "most": "order", "n": "count"},
            zero={"least": "highest", "most": "lowest", "n": 0},
            lift={"least": rank_high, "most": rank_high, "n": 1},
            op={"least": "min", "most": "max", "n": "add"},
            kinds=KINDS,
            casts=self.method in CHOOSE,
            choice=Choice("least", "n", self._ranks),
            finish=partial(self._chosen, dtype),
        )

    def _ranks(self, n: np.ndarray) -> np.ndarray:
        return ranks(self.method, n[:, None], np.array(self.q)[None, :])[0]

    def _chosen(self, dtype: np.dtype, fields: Fields, context: Context) -> np.ndarray:
        n, keys = fields["n"], fields["chosen"]
        _, towards = ranks(self.method, n[:, None], np.array(self.q)[None, :])
        pairs = values_of(keys, dtype)
        floats = kind_of(dtype) == "f"
        nan = (n == 0) | (floats & (fields["most"] == np.iinfo(keys.dtype).max))
        return self.results(pairs[:, :, 0], pairs[:, :, 1], towards, nan, dtype, context)

    def results(
        self,
        low: np.ndarray,
        high: np.ndarray,
        towards: np.ndarray,
        nan: np.ndarray,
        dtype: np.dtype,
        context: Context,
    ) -> np.ndarray:
        """Return quantiles between values of neighbouring ranks, (outputs, quantiles) each.

        Raises
        ------
        MonoidError
            If there is an output of nothing, and its dtype has no NaN.
        """
        floats = kind_of(dtype) == "f"
        if self.method in CHOOSE:
            if nan.any() and not floats:
                raise MonoidError(
                    f"{context.quoted} of no elements has no value of {dtype}; dtype='float64' "
                    "gives NaN there"
                )
            values = np.where(towards == 0, low, high)
        else:
            values = interpolated(low, high, towards, mean=self.mean)
        if floats or self.method not in CHOOSE:
            values = np.where(nan[:, None], np.nan, values)
            with np.errstate(over="ignore"):
                values = values.astype(dtype if floats else np.float64)
        return values[:, 0] if self.single else values
