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
from chunkfold.running.backend import Done
from chunkfold.running.sent_tasks import outcome_of
from chunkfold.settings import wait_seconds
from chunkfold.worker.fold_block import Folded

WITHIN_BYTES = 64 << 10
"""Most of keys, weights and masks, or of what a block brings, that travels within a task: more
of it goes to a worker ahead."""

BROUGHT_BYTES = 128 << 10
"""The client brings partials of a block up to this size at once, so that no worker's death loses
them. Combines get them within their tasks, which pass through the scheduler."""


def leaves_little(work: Work, block: Block) -> bool:
    """Return whether the partials of a block are small enough to bring at once.

    Other questions have tiles of their own: a block may meet all of them.
    """
    others = sum(one.accumulator.nbytes * one.groups * one.layout.outputs for one in work.secondary)
    question = work.first
    each = question.accumulator.nbytes * question.groups
    room, tiles = BROUGHT_BYTES - others, range(*block.tiles)
    if each * len(tiles) > room:  # each tile has an output: many of them need not be looked at
        return False
    return each * sum(map(question.layout.tile_outputs, tiles)) <= room


def bring(
    client: Client,
    outcome: object,
    done: Done,
    release: Callable[[Sequence[object]], None],
) -> None:
    """Bring the partial that a task has left, in the background; pass on what else its outcome is.

    It comes by way of the scheduler, which notices a worker that has stopped. A partial that cannot
    be brought stays a future, for who needs it.
    """
    if not isinstance(outcome, Future):
        done(outcome)
        return
    future: Future[Any] = outcome
    bringing = in_background(lambda: client.gather(future, direct=False))

    def brought(_: object) -> None:
        if bringing.exception() is None:
            release([future])
            done(bringing.result())
        else:
            lost = outcome_of(future, client)
            if isinstance(lost, WorkerStoppedError):
                lost.planned = True  # its task had ended, and left little: it killed nobody
            done(lost)

    bringing.add_done_callback(brought)


def fetching(client: Client, handle: object) -> Callable[[], Folded]:
    """Return what brings a partial, which stays on its worker if it is there."""
    if isinstance(handle, Folded):
        return lambda: handle
    assert isinstance(handle, Future)
    own: Future[Any] = Future(handle.key, client)

    def bring() -> Folded:
        try:
            bringing = in_background(lambda: client.gather(own, direct=False))
            found = awaited(bringing, wait_seconds("chunkfold.run.gather"), "a block's partial")
            assert isinstance(found, Folded)
            return found
        finally:
            own.release()

    return bring


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
    return _scattered(client, data, meanwhile)


def is_small(folded: Folded) -> bool:
    """Return True for partials that the client may have, and that combines get in their tasks."""
    several = (*folded.partials, *(p for one in folded.secondary for p in one.values()))
    return sum(one.nbytes for one in several) <= BROUGHT_BYTES


def combine_input(client: Client, part: object, meanwhile: Callable[[], None]) -> object:
    """Return a partial as a combine's task is given it; a large one that is here is a future.

    Parameters and what is raised are those of `sent_ahead`.
    """
    if not isinstance(part, Folded) or is_small(part):
        return part
    return _scattered(client, part, meanwhile)


def _scattered(client: Client, data: object, meanwhile: Callable[[], None]) -> Future[Any]:
    """Send data to a worker."""

    def scattered() -> Future[Any]:
        sending = in_background(lambda: client.scatter([data], hash=False)[0])
        seconds = wait_seconds("chunkfold.run.gather")
        what = "data to reach a worker"
        future: Future[Any] = awaited(sending, seconds, what, meanwhile)
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
