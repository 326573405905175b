"""Clients of the clusters that workflows run on, for as long as they do."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from distributed import Client, performance_report

from chunkfold.cluster.joining import connect
from chunkfold.cluster.local_cluster import LocalOpenCLCluster
from chunkfold.errors import PlanError
from chunkfold.outputs.outputs import check_output, naming

QUIET = logging.CRITICAL
"""Errors reach the user as such; workers need not log them with a traceback too."""


@contextmanager
def local_client(
    devices: Sequence[str] | None = None, workers_per_device: int | None = None
) -> Iterator[Client]:
    """Yield a client of a local cluster of devices, as `chunkfold devices` names them.

    Raises
    ------
    ChunkfoldError
        If there is no such device, or a worker does not start.
    """
    with (
        LocalOpenCLCluster(
            devices, workers_per_device=workers_per_device, silence_logs=QUIET
        ) as made,
        connect(made.scheduler_address, security=made.security) as client,
    ):
        yield client


def check_performance_report(out: str) -> None:
    """Find out before the work starts whether Dask's own report can be written.

    Raises
    ------
    PlanError
        If not.
    """
    if importlib.util.find_spec("bokeh") is None:
        raise PlanError("Dask's performance report needs another package: pip install bokeh")
    check_output(out, (".html",), overwrite=True)


@contextmanager
def performance_reported(client: Client, out: str | None) -> Iterator[None]:
    """Make Dask write its own report of what happens meanwhile; None: no report."""
    if out is None:
        yield
        return
    with naming(out), client.as_current(), performance_report(filename=out):
        yield


def dashboard(client: Client) -> str | None:
    """Return the address of the cluster's dashboard, if this environment could show one."""
    if importlib.util.find_spec("bokeh") is None:
        return None
    link: str = client.dashboard_link
    return link or None
