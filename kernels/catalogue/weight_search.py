"""The search for weighted quantiles, digit by digit: by sums of weights in place of counts."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from chunkfold.kernels.catalogue.radix import Radix, tables_for_prefixes
from chunkfold.kernels.catalogue.rank_search import KINDS
from chunkfold.kernels.catalogue.weighted import (
    CHECK_FIELDS,
    CHECK_OP,
    CHECK_ZERO,
    checks_of,
    clipped_weight,
    refuse_negative,
)
from chunkfold.kernels.catalogue.weighted_bins import digits_of, weight_digits, whole
from chunkfold.kernels.dtypes import kind_of
from chunkfold.kernels.errors import MonoidError
from chunkfold.kernels.expressions.library import where
from chunkfold.kernels.expressions.symbols import Symbol
from chunkfold.kernels.monoid.finish_context import Context, Fields, NextPass
from chunkfold.kernels.monoid.monoid import Monoid

if TYPE_CHECKING:
    from chunkfold.kernels.catalogue.weighted_quantiles import WeightedQuantiles

_LEAST_ROUNDED = 2**53
"""Integers from here on may be rounded where weights are floats."""


@dataclass(frozen=True)
class _Found:
    """The elements to find, as far as the reads have found them: arrays (outputs, quantiles)."""

    rest: np.ndarray
    """The sum of weights at which each is reached, of elements with the digits so far: ints."""
    prefix: np.ndarray
    """The digits found so far, uint64."""
    table: np.ndarray
    """The number of the table with the sums of each."""
    held: np.ndarray
    """The sum of weights of all elements that have those digits: ints."""
    nan: np.ndarray
    """True for outputs that are NaN, (outputs,)."""


@dataclass(frozen=True)
class WeightSearch:
    """A search for elements before a read, with the results of earlier reads."""

    asked: WeightedQuantiles
    elements: np.dtype
    weights: np.dtype
    outputs: int
    read: int = 0
    found: _Found | None = None

    @cached_property
    def radix(self) -> Radix:
        """Return the digits of elements."""
        return Radix.of(self.elements, self.outputs, self._each)

    @cached_property
    def _held_weights(self) -> np.dtype:
        """The dtype that kernels hold weights in."""
        return _held(self.weights)

    @cached_property
    def _each(self) -> int:
        """Return the number of counters of a sum."""
        return digits_of(_held(self.weights)).counters

    def first(self) -> Monoid:
        """Return the monoid of the first read, which counts NaN behind the sums of digits."""
        counters = self.radix.entries(0) * self._each + 1

        def lift(x: Symbol, given: Symbol, i: Symbol) -> dict[str, Any]:
            x, w = x.astype(_held(self.elements)), given.astype(self._held_weights)
            digit, odd = self.radix.first_digit(x), {"odd": _is_odd(w), **checks_of(w, i)}
            w = clipped_weight(w)
            if x.dtype.kind != "f":
                return {"sums": self._placed(digit, w), **odd}
            nan = where(np.isnan(x), np.int64(counters - 1), np.int64(-1))
            digit = where(np.isnan(x), np.int64(-1), digit)
            sums = [*self._placed(digit, w), (nan, np.int64(1))]
            return {"sums": sums, **odd}

        return Monoid(
            self.asked.name,
            inputs=2,
            weights=1,
            fields={"sums": f"int64[{counters}]", "odd": "int32", **CHECK_FIELDS},
            zero={"sums": 0, "odd": 0, **CHECK_ZERO},
            lift=lift,
            op={"sums": "add", "odd": "max", **CHECK_OP},
            kinds=KINDS,
            reads=self.radix.reads,
            finish=self.finish,
            next_pass=self.next_pass if self.radix.reads > 1 else None,
        )

    def monoid(self, first: int, inputs: int) -> Monoid:
        """Return the monoid of a later read: its shift and its prefixes are slots `first`, ..."""
        assert self.found is not None
        count = 1 + int(self.found.table.max(initial=0))
        names = [f"s{n}" for n in range(count)]

        def lift(x: Symbol, given: Symbol, *slots: Symbol) -> dict[str, Any]:
            x, w = x.astype(_held(self.elements)), clipped_weight(given.astype(self._held_weights))
            shift, *prefixes = slots[first : first + 1 + count]
            found = [self.radix.digit(self.read, x, one.astype(x.dtype), shift) for one in prefixes]
            return {name: self._placed(digit, w) for name, digit in zip(names, found, strict=True)}

        return Monoid(
            self.asked.name,
            inputs=2 + inputs,
            weights=1,
            slots=inputs,
            fields=dict.fromkeys(names, f"int64[{self.radix.entries(self.read) * self._each}]"),
            zero=dict.fromkeys(names, 0),
            lift=lift,
            op="add",
            kinds=KINDS,
            finish=self.finish,
            next_pass=self.next_pass if self.read + 1 < self.radix.reads else None,
        )

    def _placed(self, digit: Symbol, w: Symbol) -> list[tuple[Any, Any]]:
        """Return the addends of a weight, by the counters of a digit; -1 for no counter."""
        begin = digit * np.int64(self._each)
        return [
            (where((digit < 0) | (place < 0), np.int64(-1), begin + place), amount)
            for place, amount in weight_digits(w)
        ]

    def next_pass(self, fields: Fields, context: Context) -> NextPass | None:
        """Return the next read: what it adds up, and where."""
        found, read = self._after(fields, context), self.read + 1
        tables, table = tables_for_prefixes(found.prefix)
        values = self.radix.values(tables, read)
        shift = np.array([self.radix.shift(read)], values.dtype)
        search = replace(self, read=read, found=replace(found, table=table))
        return NextPass((shift, *values.T), search.monoid)

    def finish(self, fields: Fields, context: Context) -> np.ndarray:
        """Return the quantiles, after the last read.

        Raises
        ------
        MonoidError
            If one is an integer that floats, as weights are, do not hold, or of no elements.
        """
        found = self._after(fields, context)
        values = self.radix.values(found.prefix, self.radix.reads)
        self._refuse_rounded(values[~found.nan], context)
        if kind_of(self.elements) == "f":
            values = np.where(found.nan[:, None], np.nan, values).astype(self.elements)
        elif found.nan.any():
            raise MonoidError(
                f"{context.quoted} of no elements, or of weights that are all zero, has no "
                f"value of {self.elements}; dtype='float64' gives NaN there"
            )
        return values[:, 0] if self.asked.single else values

    def _refuse_rounded(self, values: np.ndarray, context: Context) -> None:
        wide = kind_of(self.elements) != "f" and self.elements.itemsize == 8
        if not wide or kind_of(context.dtype) != "f":
            return
        rounded = (values >= _LEAST_ROUNDED) | (values <= -_LEAST_ROUNDED)
        if rounded.any():
            raise MonoidError(
                f"{context.quoted} is near {values[rounded][0]}, and {context.dtype}, which "
                f"{self.elements} becomes next to weights of {self.weights}, does not hold each "
                "integer beyond 2**53: give weights that are integers of the same sign"
            )

    def _after(self, fields: Fields, context: Context) -> _Found:
        """Return the search after a read, with one more digit of every quantile."""
        each, entries = self._each, self.radix.entries(self.read)
        if self.found is None:
            refuse_negative(fields, context)
            _refuse_odd(context.quoted, fields["odd"])
            sums = fields["sums"][:, None, : entries * each]
            before = self._sought(sums[:, 0].reshape(-1, entries, each), fields["sums"])
        else:
            sums = np.stack([fields[f"s{n}"] for n in range(len(fields))], axis=1)
            before = self.found
        tables = sums.reshape(*sums.shape[:2], entries, each)[..., : self._count]
        made = replace(before, rest=before.rest.copy(), held=before.held.copy())
        digits = np.zeros(before.prefix.shape, np.uint64)
        for output in np.flatnonzero(~before.nan):
            for n, table in enumerate(tables[output]):
                whose = np.flatnonzero(before.table[output] == n)
                reached = _Reached(np.cumsum(table, axis=0))
                for one in whose:
                    if self.read and reached[entries - 1] != before.held[output, one]:
                        raise MonoidError(
                            f"{context.quoted} is found in several reads, and the elements or "
                            "their weights changed before the last one: run it again when nobody "
                            "writes to them"
                        )
                    at = bisect_left(reached, before.rest[output, one], 0, entries - 1)
                    passed = reached[at - 1] if at else 0
                    made.rest[output, one] = before.rest[output, one] - passed
                    made.held[output, one] = reached[at] - passed
                    digits[output, one] = at
        width = np.uint64(self.radix.widths[self.read])
        return replace(made, prefix=(before.prefix << width) | digits)

    @cached_property
    def _count(self) -> int:
        return digits_of(self._held_weights).count

    def _sought(self, tables: np.ndarray, counters: np.ndarray) -> _Found:
        """Return the elements to find, from the sums of the first read."""
        totals = whole(tables[..., : self._count].sum(axis=1), 0)
        shape = len(tables), len(self.asked.q)
        rest = np.array([self.asked.sought(total) for total in totals], object).reshape(shape)
        held = np.repeat(np.array(totals, object)[:, None], shape[1], axis=1)
        nan = np.array([total == 0 for total in totals], bool)
        if kind_of(self.elements) == "f":
            nan |= counters[:, -1] > 0
        none = np.zeros(shape, np.int64)
        return _Found(rest, none.astype(np.uint64), none, held, nan)


class _Reached(Sequence[int]):
    """Sums of weights up to each value of a digit: integers of any size, made where asked for."""

    def __init__(self, sums: np.ndarray) -> None:
        self._sums = sums

    def __len__(self) -> int:
        return len(self._sums)

    def __getitem__(self, at: Any) -> Any:
        return whole(self._sums[at : at + 1], 0)[0]


def _held(dtype: np.dtype) -> np.dtype:
    """Return the dtype that kernels hold values in: halves as float32, bools as integers."""
    if kind_of(dtype) == "f":
        return np.dtype(np.float64 if dtype.itemsize == 8 else np.float32)
    return np.dtype(np.int8) if dtype.kind == "b" else dtype.newbyteorder("=")


def _is_odd(w: Symbol) -> Symbol | int:
    """Return 1 for a weight that is NaN or infinite, else 0."""
    if w.dtype.kind != "f":
        return 0
    return where(np.abs(w) <= float(np.finfo(w.dtype).max), np.int32(0), np.int32(1))


def _refuse_odd(told: str, odd: np.ndarray) -> None:
    if odd.any():
        raise MonoidError(
            f"{told} has weights that are NaN or infinite, which cannot be shares of a sum: give "
            "finite weights, or exclude those elements with a mask"
        )
