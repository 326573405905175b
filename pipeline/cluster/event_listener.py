"""Hears what workers tell of runs: one topic and one listener for all runs of a client."""

from __future__ import annotations

import itertools
import threading
import zlib
from typing import Any
from weakref import WeakKeyDictionary

from distributed import Client

from chunkfold.events import OnEvent, from_message

TIDY_EVERY = 16
"""Runs of a client, after which the scheduler is asked to forget what is left of them."""
_TOPICS = 16
"""Which all clients of a scheduler share, since it keeps a topic's latest events for good."""


class EventListener:
    """Hears, for a client, of all its runs that are under way."""

    def __init__(self, client: Client) -> None:
        self.topic = f"chunkfold-{zlib.crc32(client.id.encode()) % _TOPICS}"
        self._emits: dict[str, OnEvent | None] = {}
        self.left = itertools.count(1)
        """Runs that were left so far, counted by whoever leaves one."""
        self._lock = threading.Lock()

    def __call__(self, event: tuple[float, Any]) -> None:
        """Pass a worker's event on to its run, if that is one of this client's."""
        told = from_message(event[1])
        emit = self._emits.get(told.run)
        if emit is not None:
            emit(told)

    def listen(self, client: Client, run: str) -> None:
        """Subscribe for the first run."""
        with self._lock:
            if not self._emits:
                client.subscribe_topic(self.topic, self)
            self._emits[run] = None

    def tell(self, run: str, emit: OnEvent) -> None:
        """Tell a run's events from now on."""
        self._emits[run] = emit

    def leave(self, client: Client, run: str) -> None:
        """Keep nothing of a run; hear nothing after the last one."""
        with self._lock:
            if self._emits.pop(run, self) is self or self._emits:
                return
            client.unsubscribe_topic(self.topic)
            client._event_handlers.pop(self.topic, None)  # which Dask would keep


_ears: WeakKeyDictionary[Client, EventListener] = WeakKeyDictionary()
_ears_lock = threading.Lock()


def listener_of(client: Client) -> EventListener:
    """Return the one that a client has."""
    with _ears_lock:
        return _ears.setdefault(client, EventListener(client))
