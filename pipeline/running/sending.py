"""Decide how data of blocks reach workers, and how partials come back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pickle import PickleBuffer
from typing import Any

from distributed import Client, Future
from distributed.protocol.pickle import dumps
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from chunkfold.deadline import awaited, in_background
from chunkfold.errors import ClusterError, WorkerStoppedError
from chunkfold.planning.blocks import Block
from chunkfold.planning.work import BlockData, Work
from chunkfold.running.backend import OnOutcome
from chunkfold.running.sent_tasks import outcome_of
from chunkfold.settings import wait_seconds
from chunkfold.worker.fold_block import Folded

INLINE_BYTES = 64 << 10
"""Most of keys, weights and masks, or of what a block brings, that travels within a task: more
of it goes to a worker ahead."""

GATHER_BYTES = 128 << 10
"""The client brings partials of a block up to this size at once, so that no worker's death loses
them. Combines get them within their tasks, which pass through the scheduler."""


def partials_will_be_small(work: Work, block: Block) -> bool:
    """Return whether the partials of a block are small enough to bring at once.

    Other questions have tiles of their own: a block may meet all of them.
    """
    others = sum(one.accumulator.nbytes * one.groups * one.layout.outputs for one in work.secondary)
    question = work.first
    each = question.accumulator.nbytes * question.groups
    room, tiles = GATHER_BYTES - others, range(*block.tiles)
    if each * len(tiles) > room:  # each tile has an output: many of them need not be looked at
        return False
    return each * sum(map(question.layout.tile_outputs, tiles)) <= room


def gather_then(
    client: Client,
    outcome: object,
    on_outcome: OnOutcome,
    release: Callable[[Sequence[object]], None],
) -> None:
    """Gather the partial that a task has left, in the background; then call `on_outcome` with it.

    Any other outcome of a task is passed on as it is.

    The partial comes by way of the scheduler, which notices a worker that has stopped. One that
    cannot be gathered stays a future, for who needs it.
    """
    if not isinstance(outcome, Future):
        on_outcome(outcome)
        return
    future: Future[Any] = outcome
    gathering = in_background(lambda: client.gather(future, direct=False))

    def gathered(_: object) -> None:
        if gathering.exception() is None:
            release([future])
            on_outcome(gathering.result())
        else:
            lost = outcome_of(future, client)
            if isinstance(lost, WorkerStoppedError):
                lost.planned = True  # its task had ended, and left little: it killed nobody
            on_outcome(lost)

    gathering.add_done_callback(gathered)


def fetcher(client: Client, handle: object) -> Callable[[], Folded]:
    """Return a function that fetches a partial, which stays on its worker if it is there."""
    if isinstance(handle, Folded):
        return lambda: handle
    assert isinstance(handle, Future)
    own: Future[Any] = Future(handle.key, client)

    def fetch() -> Folded:
        try:
            gathering = in_background(lambda: client.gather(own, direct=False))
            found = awaited(gathering, wait_seconds("chunkfold.run.gather"), "a block's partial")
            assert isinstance(found, Folded)
            return found
        finally:
            own.release()

    return fetch


def scatter_if_large(
    client: Client, data: BlockData | None, while_waiting: Callable[[], None]
) -> BlockData | Future[Any] | None:
    """Return the data of a block as its task is given them: much is a future.

    `while_waiting` is called a few times a second, until they are there.

    Raises
    ------
    ClusterError
        If they reach no worker.
    """
    if data is None or _pickled_bytes(data) <= INLINE_BYTES:
        return data
    return _scattered(client, data, while_waiting)


def partials_are_small(folded: Folded) -> bool:
    """Return True for partials that the client may have, and that combines get in their tasks."""
    several = (*folded.partials, *(p for one in folded.secondary for p in one.values()))
    return sum(one.nbytes for one in several) <= GATHER_BYTES


def scatter_partial_if_large(
    client: Client, part: object, while_waiting: Callable[[], None]
) -> object:
    """Return a partial as a combine's task is given it; a large one that is here is a future.

    Parameters and what is raised are those of `scatter_if_large`.
    """
    if not isinstance(part, Folded) or partials_are_small(part):
        return part
    return _scattered(client, part, while_waiting)


def _scattered(client: Client, data: object, while_waiting: Callable[[], None]) -> Future[Any]:
    """Send data to a worker."""

    def scattered() -> Future[Any]:
        sending = in_background(lambda: client.scatter([data], hash=False)[0])
        seconds = wait_seconds("chunkfold.run.gather")
        what = "data to reach a worker"
        future: Future[Any] = awaited(sending, seconds, what, while_waiting)
        return future

    # Of a worker that dies as it is sent them Dask tells as of any connection.
    trying = Retrying(
        retry=retry_if_exception_type(OSError),
        stop=stop_after_delay(wait_seconds("chunkfold.no-workers-timeout")),
        wait=wait_fixed(0.2),
        reraise=True,
    )
    try:
        return trying(scattered)
    except OSError as error:
        raise ClusterError(f"data reach no worker: {error}") from error


def _pickled_bytes(value: object) -> int:
    """Return how many bytes travel of a value, without a copy of its arrays."""
    buffers: list[PickleBuffer] = []
    frame = dumps(value, buffer_callback=buffers.append)
    return len(frame) + sum(buffer.raw().nbytes for buffer in buffers)
