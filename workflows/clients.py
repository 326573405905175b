"""Clients of the clusters that workflows run on, for as long as they do."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from distributed import Client

from chunkfold.cluster import LocalOpenCLCluster, connect

QUIET = logging.CRITICAL
"""Errors reach the user as such; workers need not log them with a traceback too."""


@contextmanager
def local_client(devices: Sequence[str] | None = None) -> Iterator[Client]:
    """Yield a client of a local cluster, one worker per device, as `chunkfold devices` names them.

    Raises
    ------
    ChunkfoldError
        If there is no such device, or a worker does not start.
    """
    with (
        LocalOpenCLCluster(devices, silence_logs=QUIET) as made,
        connect(made.scheduler_address) as client,
    ):
        yield client


def dashboard(client: Client) -> str | None:
    """Return the address of the cluster's dashboard, if this environment could show one."""
    if importlib.util.find_spec("bokeh") is None:
        return None
    link: str = client.dashboard_link
    return link or None
