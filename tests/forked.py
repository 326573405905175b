"""Worker processes that are forked from one that has imported what workers need.

A worker that is spawned, as users' are, imports all of it anew, which takes four times as long as
all else that a cluster of a test does.
"""

from __future__ import annotations

import multiprocessing
import os
from multiprocessing.context import ForkServerProcess
from typing import Any

import dask.config
from distributed import utils

_IMPORTED = ("chunkfold.api", "chunkfold.worker.tasks", "distributed.http.worker.prometheus.core",
             "distributed.nanny", "numpy.random", "pyopencl.invoker")  # fmt: skip
_METHOD = "distributed.worker.multiprocessing-method"
_CONTEXT: Any = multiprocessing.get_context("forkserver")


class _Forked(ForkServerProcess):
    """A process that has the environment of the one that starts it, as one that is spawned has."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self._environment = dict(os.environ)

    def _bootstrap(self, *given: Any, **more: Any) -> int:
        os.environ.clear()
        os.environ.update(self._environment)
        return super()._bootstrap(*given, **more)


def fork_workers() -> None:
    """Let Dask fork the workers that this process starts, if they are not `spawned`."""
    _CONTEXT.Process = _Forked
    _CONTEXT.set_forkserver_preload(list(_IMPORTED))
    utils._forkserver_preload_set = True  # Dask's own list has pandas, too
    dask.config.set({_METHOD: "forkserver"})


def spawned() -> dask.config.set:
    """Return what lets Dask start workers as it does for users, for as long as it is open."""
    return dask.config.set({_METHOD: "spawn"})
