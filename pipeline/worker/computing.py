"""Compute the chunks of Dask's arrays that a block reads."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dask.typing import Key

from chunkfold.errors import CancelledError
from chunkfold.planning.work import BlockData
from chunkfold.sources.dask_graph import computed
from chunkfold.sources.dask_source import DaskChunks
from chunkfold.sources.source import Source
from chunkfold.worker.totals import REPORT_EVERY_S, Watch

Get = Callable[..., Any]
"""A scheduler of Dask's, which takes a graph, keys, and callbacks."""


@dataclass
class TaskProgress:
    """Called when a task is done: reports progress now and then, and ends a cancelled run."""

    run: str
    watch: Watch
    _last: float = field(default_factory=time.monotonic)

    def __call__(self) -> None:
        """Raise CancelledError if the run was cancelled meanwhile."""
        if self.watch.cancelled():
            raise CancelledError(f"run {self.run} was cancelled")
        if time.monotonic() - self._last > REPORT_EVERY_S:
            self._last = time.monotonic()
            self.watch.progress(0, False)


def sources_in(
    data: BlockData | None, results: Mapping[Key, Any], get: Get, done: Callable[[], None]
) -> Mapping[int, Source]:
    """Return the sources that travel with a block, by their numbers among a run's.

    Chunks of Dask's arrays are computed now.

    Parameters
    ----------
    results
        Results of tasks that several blocks need.
    get
        Computes the other tasks.
    done
        Called when a task is done; may raise.

    Raises
    ------
    ChunkfoldError
        If the machine has no memory left, or the run was cancelled. The error of a task is raised
        when its chunk is read.
    """
    if data is None:
        return {}
    chunks = {n: one for n, one in data.sources.items() if isinstance(one, DaskChunks)}
    if not chunks:
        return data.sources
    name = " and ".join(dict.fromkeys(one.name for one in chunks.values()))
    wanted = list(dict.fromkeys(key for one in chunks.values() for key in one.wanted.values()))
    made = computed(data.tasks.graph, results, wanted, name, get, done, keeps=True)
    return {**data.sources, **{n: one.computed(made) for n, one in chunks.items()}}
