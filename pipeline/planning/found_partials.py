"""Partials that a ledger has of a block: a question's own, or those of the same without NaN."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from chunkfold.ledger.ledger import Ledger
from chunkfold.planning.living_statistics import of_all_elements
from chunkfold.planning.span_keys import QuestionKeys, component_ids


def found_names(ledger: Ledger, question: QuestionKeys, key: str) -> Sequence[str] | None:
    """Return the names of components that a ledger has partials of; None if it lacks some.

    In order as the accumulator's. Where no element of a block is NaN, partials that ignore NaN are
    partials of all elements.
    """
    if ledger.has(key, question.components):
        return question.components
    count, *names = _ignoring_nan(question)
    if not names or not ledger.has(key, (count, *names)):
        return None
    found = {name: array for one in ledger.read(key, {count}) or () for name, array in one.items()}
    valid = {name.partition(".")[0]: array for name, array in found.items() if f".{count}." in name}
    total = (
        np.array_equal(n, np.broadcast_to(found[f"{t}.count"], n.shape)) for t, n in valid.items()
    )
    return names if valid and all(total) else None


def _ignoring_nan(question: QuestionKeys) -> list[str]:
    """Return names of components that ignore NaN: the count of the others, then the question's.

    Nothing comes of a question that ignores elements itself, or whose elements cannot be NaN.
    """
    request, accumulator = question.request, question.accumulator
    ignores = any(one.absent is not None for one in accumulator.components)
    if ignores or request.staged or request.held or len(request.sources) > 1:
        return [""]
    (count,) = of_all_elements(request, "count", skipna=True).bound().accumulator.components
    if count.absent is None:
        return [""]
    each = (replace(one, absent=count.absent) for one in accumulator.components)
    return [*component_ids(replace(accumulator, components=(count, *each)), question.choosers)]
