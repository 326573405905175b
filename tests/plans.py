"""Plans for workers that need not be there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from chunkfold.planning.asking import asked
from chunkfold.planning.options import Op, Options
from chunkfold.planning.plan import Plan
from chunkfold.planning.planner import make_plan
from chunkfold.planning.workers import Terms
from chunkfold.sources.chunk_index import Listing

OPS = ("sum", "mean")


def planned(
    source: Any,
    op: Op | Sequence[Op] = OPS,
    *,
    mode: str = "fast",
    listings: Sequence[Listing | None] | None = None,
    **given: Any,
) -> Plan:
    """Plan a reduction for workers; `given` are terms of theirs, and options."""
    names = {one.name for one in fields(Terms)} & given.keys()
    terms = Terms(**{name: given.pop(name) for name in names})
    return make_plan(asked(source, Options(op, mode=mode, **given)), listings, terms)
