"""The answer to a question: results by op, as they are returned, with or without labels."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import numpy as np

from chunkfold.kernels.accumulator.partial import Partial
from chunkfold.planning.next_pass import Pending
from chunkfold.planning.plan import Plan
from chunkfold.planning.tile_finishing import since_elements_are
from chunkfold.results.label_sources import OfXarray
from chunkfold.results.result import Result
from chunkfold.results.results import Results, in_order
from chunkfold.worker.finishing import Finishing
from chunkfold.worker.fold_block import Folded

Roots = list[tuple[tuple[int, int], Folded]]
"""The partials of each run of tiles."""


@dataclass(frozen=True)
class Answer:
    """The results of one question."""

    plan: Plan
    """The plan of its first read."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Results by name."""
    nan: Mapping[str, bool | None] = field(default_factory=dict)
    """True for results that are NaN because elements are, None if that is unknown."""

    @cached_property
    def results(self) -> Results:
        """Results by name, with their labels."""
        return Results(self.plan, self.values)

    @property
    def given(self) -> Any:
        """Return the result of `chunkfold.reduce` without `labels`."""
        found = self.results
        if isinstance(found.labels, OfXarray):
            return self._only({op: found.labels.as_given(one) for op, one in found.items()})
        return self._only(self.values if self.plan.grouping is None else found)

    @property
    def labelled(self) -> Result | Results:
        """Return the result of `chunkfold.reduce` with `labels`."""
        return cast("Result | Results", self._only(self.results))

    def _only(self, results: Mapping[str, Any]) -> Any:
        return next(iter(results.values())) if self.plan.options.single else results

    def with_more(self, other: Answer) -> Answer:
        """Return it with the results of another read, in the order in which they were asked for."""
        found = {**self.values, **other.values}
        values = {name: found[name] for name in self.plan.ops if name in found}
        return Answer(self.plan, values, {**self.nan, **other.nan})


def answer_of(asked: Plan, plan: Plan, whole: Partial) -> tuple[Answer, Pending]:
    """Finish all outputs at once; return also what needs another read.

    `asked` is the plan of the first read.
    """
    finishing, layout = Finishing.of(plan), plan.layout
    values, pending, nan = {}, [], {}
    for statistic in plan.bound.statistics:
        more = statistic.next_pass(whole, layout.by_window, layout.reduced_by_window)
        if more is not None:
            pending.append((statistic.monoid, more))
            continue
        done = finishing.finished(statistic, whole)
        grouped = plan.grouping is not None
        nan[statistic.name] = since_elements_are(statistic, whole, done, grouped=grouped)
        result = in_order(asked, finishing.shaped(done, finishing.all_outputs))
        values[statistic.name] = result[()] if result.ndim == 0 else result
    return Answer(asked, values, nan), pending


def whole_of_first(plan: Plan, roots: Roots) -> Partial:
    """Put every root of the question that leaves were read for where it belongs.

    It is taken out of `roots`, so that no partial is kept beside the whole.
    """
    return _whole(plan, _taken(plan, roots))


def _taken(plan: Plan, roots: Roots) -> Iterator[tuple[int, Partial]]:
    while roots:
        (tile, _), folded = roots.pop()
        partials = deque(folded.partials_of_all(plan.accumulator, plan.groups))
        del folded
        while partials:
            yield tile, partials.popleft()
            tile += 1


def whole_of_tiles(plan: Plan, tiles: Mapping[int, Partial]) -> Partial:
    """Put the partials of a question's tiles, by their numbers, where they belong."""
    return _whole(plan, tiles.items())


def _whole(plan: Plan, tiles: Iterable[tuple[int, Partial]]) -> Partial:
    finishing = Finishing.of(plan)
    return finishing.whole(finishing.all_outputs, tiles)


def outputs_of_nothing(whole: Partial) -> int:
    """Return of how many outputs no element was there."""
    return int(np.sum(np.broadcast_to(whole.count, whole.outputs) == 0))
