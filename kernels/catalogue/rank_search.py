"""The search for the elements of quantiles' ranks, digit by digit and read by read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from chunkfold.kernels.catalogue.quantile_methods import ranks
from chunkfold.kernels.catalogue.radix import Radix, ranked, tables_for_prefixes
from chunkfold.kernels.errors import MonoidError
from chunkfold.kernels.monoid.finish_context import Context, Fields, NextPass
from chunkfold.kernels.monoid.monoid import Monoid

if TYPE_CHECKING:
    from chunkfold.kernels.catalogue.quantiles import Quantiles

KINDS = "iuf"
"""Kinds of elements that have quantiles: numbers."""


@dataclass(frozen=True)
class _Found:
    """The ranks to find, as far as the reads have found them: arrays (outputs, ranks)."""

    below: np.ndarray
    """Ranks among the elements with the digits found so far."""
    prefix: np.ndarray
    """The digits found so far, uint64."""
    towards: np.ndarray
    """Positions of quantiles between a rank and the next, (outputs, quantiles)."""
    nan: np.ndarray
    """True for outputs that are NaN."""
    slot: np.ndarray
    """The number of the table that counts each."""
    held: np.ndarray
    """The number of elements with those digits."""


@dataclass(frozen=True)
class RankSearch:
    """A search for ranks before a read, with the results of earlier reads."""

    asked: Quantiles
    radix: Radix
    read: int = 0
    found: _Found | None = None

    def finish(self, fields: Fields, context: Context) -> np.ndarray:
        """Return the quantiles, after the last read."""
        found = self._after(fields, context)
        pairs = self.radix.values(found.prefix, self.radix.reads)
        several = len(self.asked.q)
        low, high = pairs[:, :several], pairs[:, several:]
        return self.asked.results(low, high, found.towards, found.nan, self.radix.dtype, context)

    def next_pass(self, fields: Fields, context: Context) -> NextPass | None:
        """Return the next read: what it counts, and where."""
        found, read = self._after(fields, context), self.read + 1
        tables, slot = tables_for_prefixes(found.prefix)
        found = replace(found, slot=slot)
        values = self.radix.values(tables, read)
        shift = np.array([self.radix.shift(read)], values.dtype)
        search = replace(self, read=read, found=found)
        between = values, self.radix.values(tables, read, last=True)
        return NextPass((shift, *values.T), search.monoid, between)

    def monoid(self, first: int, inputs: int) -> Monoid:
        """Return the monoid of a later read: its shift and its prefixes are slots `first`, ..."""
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
            next_pass=self.next_pass if self.read + 1 < self.radix.reads else None,
        )

    @cached_property
    def _q(self) -> np.ndarray:
        return np.array(self.asked.q)

    def _after(self, fields: Fields, context: Context) -> _Found:
        """Return the search after a read, with one more digit of every rank."""
        names = ["counts"] if self.found is None else [f"c{n}" for n in range(len(fields))]
        tables = [fields[name][:, : self.radix.entries(self.read)] for name in names]
        before = self.found or self._sought(fields["counts"])
        at = ranked(tables, before.slot, before.below)
        if self.read and ((at.total != before.held) & ~before.nan[:, None]).any():
            raise MonoidError(
                f"{context.quoted} is found in several reads, and the elements changed before the "
                "last one: run it again when nobody writes to them"
            )
        width = np.uint64(self.radix.widths[self.read])
        prefix = (before.prefix << width) | at.digit.astype(np.uint64)
        return replace(before, below=at.below, prefix=prefix, held=at.held)

    def _sought(self, counts: np.ndarray) -> _Found:
        """Return the ranks to find, from the counts of the first read."""
        entries = self.radix.entries(0)
        n = counts[:, :entries].sum(axis=1)
        nan = (n == 0) | counts[:, entries:].any(axis=1)
        lower, towards = ranks(self.asked.method, n[:, None], self._q[None, :])
        upper = np.minimum(lower + 1, np.maximum(n[:, None], 1) - 1)
        below = np.concatenate([lower, upper], axis=1)
        none = np.zeros(below.shape, np.int64)
        return _Found(below, none.astype(np.uint64), towards, nan, none, none)
