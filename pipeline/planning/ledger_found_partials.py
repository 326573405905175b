"""Partials that a ledger has of a block: a question's own, or those of the same without NaN."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from chunkfold.ledger.ledger import Ledger
from chunkfold.planning.ledger_span_keys import QuestionKeys, component_ids
from chunkfold.planning.living_statistics import of_all_elements

Entries = Sequence[Mapping[str, np.ndarray]]
"""Arrays of a ledger's entries, by name."""


@dataclass(frozen=True, eq=False)
class PartialFinder:
    """Finds the partials of a question in a ledger.

    Where no element of a block is NaN, partials that ignore NaN are partials of all elements.
    """

    ledger: Ledger
    question: QuestionKeys

    def has(self, key: str) -> bool:
        """Return True if the ledger has all partials of a block, by its key."""
        if self.ledger.has(key, self.question.components):
            return True
        count, *names = self._ignoring_nan
        if not names or not self.ledger.has(key, (count, *names)):
            return False
        return self._have_no_nan(self.ledger.read(key, {count}) or ())

    def read(self, key: str) -> tuple[Sequence[str], Entries] | None:
        """Return the partials of a block, by its key: component names, and entries that have them.

        Names are in order as the accumulator's. None if the ledger lacks some partials.
        """
        own = self.question.components
        if self.ledger.has(key, own):
            entries = self.ledger.read(key, own)
            return None if entries is None else (own, entries)
        count, *names = self._ignoring_nan
        entries = self.ledger.read(key, (count, *names)) if names else None
        return (names, entries) if entries and self._have_no_nan(entries) else None

    def _have_no_nan(self, entries: Entries) -> bool:
        """Return True if as many elements are not NaN as there are, in each tile of a block."""
        count, found = self._ignoring_nan[0], {k: v for one in entries for k, v in one.items()}
        valid = {name.partition(".")[0]: n for name, n in found.items() if f".{count}." in name}
        total = (
            np.array_equal(n, np.broadcast_to(found[f"{tile}.count"], n.shape))
            for tile, n in valid.items()
        )
        return bool(valid) and all(total)

    @cached_property
    def _ignoring_nan(self) -> list[str]:
        """Names of components that ignore NaN: the count of the others, then the question's.

        The count alone, and that empty, if the question ignores elements itself, or if its
        elements cannot be NaN.
        """
        request, accumulator = self.question.request, self.question.accumulator
        ignores = any(one.ignored is not None for one in accumulator.components)
        if ignores or request.staged or request.broadcast or len(request.sources) > 1:
            return [""]
        (count,) = of_all_elements(request, "count", skipna=True).bound().accumulator.components
        if count.ignored is None:
            return [""]
        each = (replace(one, ignored=count.ignored) for one in accumulator.components)
        together = replace(accumulator, components=(count, *each))
        return [*component_ids(together, self.question.choosers)]
