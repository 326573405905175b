"""Leaves of which no element meets a reduction's condition, by the extremes that a ledger has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from chunkfold.kernels.expressions.nodes import Node
from chunkfold.kernels.expressions.possible_truths import possible_truths
from chunkfold.ledger.ledger import Ledger
from chunkfold.ledger.segments import DamagedError
from chunkfold.ledger.stored_partials import partials_in
from chunkfold.planning.layout import Layout
from chunkfold.planning.ledger_span_keys import QuestionKeys, StoredBlocks
from chunkfold.planning.ledger_spans import LedgerCut
from chunkfold.planning.living_statistics import of_all_elements
from chunkfold.planning.request import Request
from chunkfold.planning.workers import Terms
from chunkfold.sources.chunk_index import Listing


def unmet_leaves(
    request: Request,
    layout: Layout,
    listings: Sequence[Listing | None],
    terms: Terms,
    ledger: Ledger,
) -> np.ndarray | None:
    """Return the leaves of which no element meets the conditions of any question of a read.

    A ledger knows of some if minima and maxima of all elements were asked for.

    Parameters
    ----------
    layout
        That of the question that leaves are cut for.

    Returns
    -------
    Bool, (tiles, parts); None if the ledger knows of none, or a question has no condition.
    """
    ignored = _conditions(request, terms)
    known = [one for one in listings if one is not None and one.modified is not None]
    if not ignored or not layout.elements or len(known) < len(listings):
        return None
    unmet = np.zeros([axis.pieces for axis in layout.axes], bool)
    for skipna in (True, False):
        asked = of_all_elements(request, "min", "max", skipna=skipna)
        flat = Layout(layout.axes, asked.reduced)
        blocks = StoredBlocks(flat, asked.sources, known)
        keys = QuestionKeys(asked, flat, asked.accumulator(terms), blocks)
        cut = LedgerCut(ledger, [keys], any(source.remote for source in asked.sources))
        for box, low, high in _ranges(cut, keys, terms):
            if all(possible_truths(one, low, high) == {True} for one in ignored):
                unmet[box] = True
    return layout.in_order(unmet) if unmet.any() else None


def _conditions(request: Request, terms: Terms) -> list[Node]:
    """Return the trees that say which elements all questions leave out; none if one may not."""
    parts = [part for one in request.all_requests for part in one.accumulator(terms).components]
    windows = any(axis.window for one in request.all_requests for axis in one.chosen)
    conditions = all(one.options.conditions for one in request.all_requests)
    dtypes = [request.options.cast, *(source.dtype for source in request.sources)]
    numbers = all(one is None or one.kind in "biuf" for one in dtypes)  # others have no such order
    if len(request.sources) != 1 or windows or not conditions or not numbers:
        return []
    found = [part.ignored for part in parts]
    return [] if None in found else list(dict.fromkeys(one for one in found if one is not None))


def _ranges(
    cut: LedgerCut, keys: QuestionKeys, terms: Terms
) -> Iterator[tuple[tuple[slice, ...], Any, Any]]:
    """Yield where leaves of blocks are that a ledger knows, and the extremes of their elements.

    These are NaN if all elements are.
    """
    least, most = keys.request.bound(fp64=terms.fp64).statistics
    for block in cut.known_blocks():
        key = keys.key(block)
        stored = cut.ledger.read(key, dict.fromkeys(keys.components))
        if stored is None:
            continue
        try:
            (partial,) = partials_in(stored, keys.accumulator, keys.components, [1])
        except DamagedError as error:
            cut.ledger.refuse(key, str(error))
            continue
        low, high = least.finish(partial)[0], most.finish(partial)[0]
        if keys.request.options.skipna or low == low:  # else others may be anything
            yield tuple(slice(a, b + 1) for a, b in keys.blocks.ends(block)), low, high
