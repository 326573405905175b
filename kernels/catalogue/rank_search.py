"""The search for the ranks of quantiles, digit by digit: what each read has found."""

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
"""Of elements that have quantiles: numbers."""


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
class RankSearch:
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

    def next_pass(self, fields: Fields, context: Context) -> NextPass | None:
        """Return what the next read is to count."""
        found, read = self._after(fields, context), self.read + 1
        tables, slot = tables_for_prefixes(found.prefix)
        found = replace(found, slot=slot)
        values = self.radix.values(tables, read)
        shift = np.array([self.radix.shift(read)], values.dtype)
        search = replace(self, read=read, found=found)
        between = values, self.radix.values(tables, read, last=True)
        return NextPass((shift, *values.T), search.monoid, between)

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
            next_pass=self.next_pass if self.read + 1 < self.radix.reads else None,
        )

    @cached_property
    def _q(self) -> np.ndarray:
        return np.array(self.asked.q)

    def _after(self, fields: Fields, context: Context) -> _Found:
        """Return what is known behind a read: one digit more of every rank."""
        names = ["counts"] if self.found is None else [f"c{n}" for n in range(len(fields))]
        tables = [fields[name][:, : self.radix.entries(self.read)] for name in names]
        before = self.found or self._sought(fields["counts"])
        at = ranked(tables, before.slot, before.below)
        if self.read and ((at.total != before.held) & ~before.nan[:, None]).any():
            raise MonoidError(
                f"{context.told} is found in several reads, and the elements were others "
                "in the last one: run it again when nobody writes to them"
            )
        width = np.uint64(self.radix.widths[self.read])
        prefix = (before.prefix << width) | at.digit.astype(np.uint64)
        return replace(before, below=at.below, prefix=prefix, held=at.held)

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
