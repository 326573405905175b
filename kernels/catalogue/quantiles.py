"""Quantiles, the median and percentiles: exact, by as many reads as their digits take."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from chunkfold.kernels.catalogue.quantile_methods import CHOOSE, METHODS, interpolated, ranks
from chunkfold.kernels.catalogue.radix import Radix, tables_of, values_of
from chunkfold.kernels.catalogue.sketches import AXIS, Sketch, checked_rtol
from chunkfold.kernels.catalogue.weighted_quantiles import METHOD, WeightedQuantiles
from chunkfold.kernels.dtypes import kind_of
from chunkfold.kernels.errors import MonoidError
from chunkfold.kernels.expressions.library import rank_high
from chunkfold.kernels.monoid.choice import Choice
from chunkfold.kernels.monoid.context import Context, Fields
from chunkfold.kernels.monoid.further import Further
from chunkfold.kernels.monoid.monoid import Monoid

KINDS = "iuf"
"""Of elements that have quantiles: numbers."""


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
        Any of NumPy's. Those that interpolate do so in float64, and round once. Or "sketch": one
        read, which gives what is within `rtol` of "lower", and the least and the greatest exactly.
        None is "linear", or "inverted_cdf" where elements are weighed, which no other does.
    rtol
        Relative tolerance of a sketch, between 0 and 1.
    weights
        Whether there is a second input, the weights of elements: it is then called
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
            "leave one out"
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
    return replace(quantile(q, weights=weights), written=written)


def _shown(q: Any) -> str:
    return reprlib.repr(np.asarray(q).tolist())


def _weighing(q: Any, method: str | None) -> Monoid:
    """Return the form that weighs elements.

    Raises
    ------
    MonoidError
        If that method does not.
    """
    if method not in (None, METHOD):
        raise MonoidError(
            f"a quantile by method={method!r} takes no weights; method={METHOD!r} does, as in "
            "NumPy: give that one, or none"
        )
    made = WeightedQuantiles(f"weighted_{_name(q)}", _checked(q), np.ndim(q) == 0).declared()
    return replace(made, written=f"quantile({_shown(q)}, weights=True)")


def _declared(name: str, q: tuple[float, ...], method: str, *, single: bool) -> Monoid:
    if not isinstance(method, str) or method not in METHODS:
        raise MonoidError(
            f"method of a quantile is {method!r}; there are: {', '.join([*METHODS, 'sketch'])}"
        )
    asked = Quantiles(name, q, method, single)
    plain = asked(np.dtype(np.float32), 1)
    return replace(
        plain,
        sized=asked,
        choosing=asked.choosing,
        last_axis=None if single else AXIS,
        labels=() if single else q,
    )


def _checked(q: Any) -> tuple[float, ...]:
    try:
        given = tuple(float(one) for one in np.atleast_1d(np.asarray(q)).tolist())
    except (TypeError, ValueError):
        given = ()
    if not given or np.ndim(q) > 1 or not all(0 <= one <= 1 for one in given):
        raise MonoidError(
            f"quantiles are from 0 to 1, one or several, not {reprlib.repr(q)}: 0.95 is the 95th "
            "percentile"
        )
    return given


def _name(q: Any) -> str:
    """Return what results call it: the percentile, where it is one."""
    if np.ndim(q) or not isinstance(q, (int, float, np.number)):
        return "quantile"
    percent = float(round(100 * float(q), 10))
    return "median" if percent == 50 else f"p{percent:g}".replace(".", "_").replace("-", "_")


@dataclass(frozen=True)
class Quantiles:
    """Makes what is folded for quantiles, of a dtype and a number of outputs."""

    name: str
    q: tuple[float, ...]
    method: str
    single: bool
    """Whether results have no axis of quantiles."""

    def __call__(self, dtype: np.dtype, outputs: int) -> Monoid:
        """Return what the first read folds."""
        radix = Radix.of(dtype, outputs)
        search = _Search(self, radix)
        return radix.counting(
            self.name,
            kinds=KINDS,
            casts=self.method in CHOOSE,
            reads=radix.reads,
            finish=search.finish,
            further=search.further if radix.reads > 1 else None,
        )

    def choosing(self, dtype: np.dtype) -> Monoid:
        """Return what is folded where all elements of an output can be kept."""
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
                    f"{context.told} of no elements has no value of {dtype}; dtype='float64' gives "
                    "NaN there"
                )
            values = np.where(towards == 0, low, high)
        else:
            values = interpolated(low, high, towards)
        if floats or self.method not in CHOOSE:
            values = np.where(nan[:, None], np.nan, values)
            with np.errstate(over="ignore"):
                values = values.astype(dtype if floats else np.float64)
        return values[:, 0] if self.single else values


@dataclass(frozen=True)
class _Found:
    """What is known of the ranks that are looked for, (outputs, ranks) each."""

    below: np.ndarray
    """Ranks among the elements that have the digits so far."""
    prefix: np.ndarray
    """Those digits, uint64."""
    towards: np.ndarray
    """How far from one rank to the next, (outputs, quantiles)."""
    nan: np.ndarray
    """Which outputs are NaN, whatever is found."""
    slot: np.ndarray
    """Which table counts each."""
    held: np.ndarray
    """How many elements have those digits."""


@dataclass(frozen=True)
class _Search:
    """A search for ranks, before a read: what the reads before it have found."""

    asked: Quantiles
    radix: Radix
    read: int = 0
    found: _Found | None = None

    def finish(self, fields: Fields, context: Context) -> np.ndarray:
        """Return the quantiles, behind the last read."""
        found = self._after(fields, context)
        pairs = self.radix.values(found.prefix, self.radix.reads)
        several = len(self.asked.q)
        low, high = pairs[:, :several], pairs[:, several:]
        return self.asked.results(low, high, found.towards, found.nan, self.radix.dtype, context)

    def further(self, fields: Fields, context: Context) -> Further | None:
        """Return what the next read is to count."""
        found, read = self._after(fields, context), self.read + 1
        tables, slot = tables_of(found.prefix)
        found = replace(found, slot=slot)
        values = self.radix.values(tables, read)
        shift = np.array([self.radix.shift(read)], values.dtype)
        search = replace(self, read=read, found=found)
        between = values, self.radix.values(tables, read, last=True)
        return Further((shift, *values.T), search.monoid, between)

    def monoid(self, first: int, inputs: int) -> Monoid:
        """Return what a later read folds; its shift and its prefixes are slots from `first` on."""
        assert self.found is not None
        count = 1 + int(self.found.slot.max(initial=0))
        names = [f"c{n}" for n in range(count)]

        def lift(x: Any, *slots: Any) -> dict[str, Any]:
            shift, *prefixes = slots[first : first + 1 + count]
            return {
                name: self.radix.digit(self.read, x, prefix, shift)
                for name, prefix in zip(names, prefixes, strict=True)
            }

        return Monoid(
            self.asked.name,
            inputs=1 + inputs,
            slots=inputs,
            fields=dict.fromkeys(names, f"int64[{self.radix.entries(self.read)}]"),
            zero=dict.fromkeys(names, 0),
            lift=lift,
            op="add",
            kinds=KINDS,
            casts=False,
            finish=self.finish,
            further=self.further if self.read + 1 < self.radix.reads else None,
        )

    @cached_property
    def _q(self) -> np.ndarray:
        return np.array(self.asked.q)

    def _after(self, fields: Fields, context: Context) -> _Found:
        """Return what is known behind a read: one digit more of every rank."""
        if self.found is None:
            counts = fields["counts"][:, None, :]
            before = self._sought(counts[:, 0])
        else:
            counts = np.stack([fields[f"c{n}"] for n in range(len(fields))], axis=1)
            before = self.found
        digits = counts[:, :, : self.radix.entries(self.read)]
        reached = np.cumsum(digits, axis=2)
        below, prefix = np.empty_like(before.below), np.empty_like(before.prefix)
        held = np.empty_like(before.held)
        rows, most = np.arange(len(counts)), self.radix.entries(self.read) - 1
        for n in range(below.shape[1]):
            own, rank = reached[rows, before.slot[:, n]], before.below[:, n]
            if self.read and ((own[:, most] != before.held[:, n]) & ~before.nan).any():
                raise MonoidError(
                    f"{context.told} is found in several reads, and the elements were others "
                    "in the last one: run it again when nobody writes to them"
                )
            digit = np.minimum((own <= rank[:, None]).sum(axis=1), most)
            passed = np.where(digit > 0, own[rows, digit - 1], 0)
            below[:, n], held[:, n] = rank - passed, own[rows, digit] - passed
            width = np.uint64(self.radix.widths[self.read])
            prefix[:, n] = (before.prefix[:, n] << width) | digit.astype(np.uint64)
        return replace(before, below=below, prefix=prefix, held=held)

    def _sought(self, counts: np.ndarray) -> _Found:
        """Return the ranks that are looked for, from the counts of the first read."""
        entries = self.radix.entries(0)
        n = counts[:, :entries].sum(axis=1)
        nan = (n == 0) | counts[:, entries:].any(axis=1)
        lower, towards = ranks(self.asked.method, n[:, None], self._q[None, :])
        upper = np.minimum(lower + 1, np.maximum(n[:, None], 1) - 1)
        below = np.concatenate([lower, upper], axis=1)
        none = np.zeros(below.shape, np.int64)
        return _Found(below, none.astype(np.uint64), towards, nan, none, none)
