"""Sends large data of blocks to workers ahead of tasks: a scheduler keeps what is within a task."""

from __future__ import annotations

from collections.abc import Callable
from pickle import PickleBuffer
from typing import Any

from distributed import Client, Future
from distributed.protocol.pickle import dumps
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from chunkfold.deadline import awaited, in_background
from chunkfold.errors import ClusterError
from chunkfold.planning.block_data import BlockData
from chunkfold.settings import wait_seconds

WITHIN_BYTES = 64 << 10
"""Most of keys, weights and masks, or of what a block brings, that travels within a task: more
of it goes to a worker ahead."""


def sent_ahead(
    client: Client, data: BlockData | None, meanwhile: Callable[[], None]
) -> BlockData | Future[Any] | None:
    """Return the data of a block as its task is given them: much is a future.

    Something else is done `meanwhile`, a few times a second.

    Raises
    ------
    ClusterError
        If they reach no worker.
    """
    if data is None or _pickled_bytes(data) <= WITHIN_BYTES:
        return data

    def scattered() -> Future[Any]:
        sending = in_background(lambda: client.scatter([data], hash=False)[0])
        seconds = wait_seconds("chunkfold.run.gather")
        what = "the data of a block to reach a worker"
        future: Future[Any] = awaited(sending, seconds, what, meanwhile)
        return future

    # Of a worker that dies as it is sent them Dask tells as of any connection.
    trying = Retrying(
        retry=retry_if_exception_type(OSError),
        stop=stop_after_delay(wait_seconds("chunkfold.workers.absent")),
        wait=wait_fixed(0.2),
        reraise=True,
    )
    try:
        return trying(scattered)
    except OSError as error:
        raise ClusterError(f"the data of a block reach no worker: {error}") from error


def _pickled_bytes(value: object) -> int:
    """Return how many bytes travel of a value, without a copy of its arrays."""
    buffers: list[PickleBuffer] = []
    frame = dumps(value, buffer_callback=buffers.append)
    return len(frame) + sum(buffer.raw().nbytes for buffer in buffers)
