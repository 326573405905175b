"""Plans for workers that need not be there, and how often anything is planned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import pytest

from chunkfold import api
from chunkfold.planning import planner
from chunkfold.planning.option_table import Op
from chunkfold.planning.options import Options
from chunkfold.planning.plan import Plan
from chunkfold.planning.planner import make_plan
from chunkfold.planning.resolve import resolve
from chunkfold.planning.workers import Terms
from chunkfold.running import ready
from chunkfold.sources import zarr_source
from chunkfold.sources.chunk_index import Listing

OPS = ("sum", "mean")


def planned(
    of: Any,
    op: Op | Sequence[Op] = OPS,
    *,
    mode: str = "fast",
    listings: Sequence[Listing | None] | None = None,
    **given: Any,
) -> Plan:
    """Plan a reduction for workers; `given` are terms of theirs, and options."""
    names = {one.name for one in fields(Terms)} & given.keys()
    terms = Terms(**{name: given.pop(name) for name in names})
    return make_plan(resolve(of, Options(op, mode=mode, **given)), listings, terms)


def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count from now on how often anything is planned, and a store listed."""
    calls: Counter[str] = Counter()

    def count(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **given: Any) -> Any:
            calls[name] += 1
            return function(*args, **given)

        return called

    plans, lists = count("plans", make_plan), count("listings", zarr_source.list_objects)
    for module in (api, planner, ready):
        monkeypatch.setattr(module, "make_plan", plans)
    monkeypatch.setattr(zarr_source, "list_objects", lists)
    return calls
