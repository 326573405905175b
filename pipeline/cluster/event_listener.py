"""Hears what workers tell of runs, and the scheduler of workers, for all runs of a client.

A client has one handler of a topic: another's for what the scheduler tells all is called, too.
"""

from __future__ import annotations

import itertools
import threading
import zlib
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from distributed import Client

from chunkfold.events import OnEvent, from_message

TIDY_EVERY = 16
"""Runs of a client, after which the scheduler is asked to forget what is left of them."""
_ALL = "all"
"""The topic of what a scheduler does with workers."""
_TOPICS = 16
"""Topics that all clients of a scheduler share: it keeps a topic's latest events forever."""


OnRemoval = Callable[[Mapping[str, Any]], None]
"""Told the scheduler's event of a worker that it has removed."""


class EventListener:
    """Hears, for a client, of all its runs that are under way."""

    def __init__(self, client: Client) -> None:
        self.topic = f"chunkfold-{zlib.crc32(client.id.encode()) % _TOPICS}"
        self._emits: dict[str, OnEvent | None] = {}
        self._removals: dict[str, OnRemoval] = {}
        self._others: Any = None
        """The handler of somebody else, for the topic of all."""
        self.left = itertools.count(1)
        """Runs that were left so far, counted by whoever leaves one."""
        self._lock = threading.Lock()

    def __call__(self, event: tuple[float, Any]) -> None:
        """Pass a worker's event on to its run, if that is one of this client's."""
        told = from_message(event[1])
        emit = self._emits.get(told.run)
        if emit is not None:
            emit(told)

    def _hear_all(self, event: tuple[float, Any]) -> Any:
        """Tell every run of a worker that was removed."""
        told = event[1]
        if isinstance(told, Mapping) and told.get("action") == "remove-worker":
            for removal in list(self._removals.values()):
                removal(told)
        return None if self._others is None else self._others(event)

    def listen(self, client: Client, run: str) -> None:
        """Subscribe for the first run."""
        with self._lock:
            if not self._emits:
                before = client._event_handlers.get(_ALL)
                self._others = None if before == self._hear_all else before
                client.subscribe_topic(self.topic, self)
                client.subscribe_topic(_ALL, self._hear_all)
            self._emits[run] = None

    def tell(self, run: str, emit: OnEvent, removal: OnRemoval) -> None:
        """Tell a run's events from now on, and those of workers that are removed."""
        self._emits[run], self._removals[run] = emit, removal

    def leave(self, client: Client, run: str) -> None:
        """Keep nothing of a run; hear nothing after the last one."""
        with self._lock:
            self._removals.pop(run, None)
            if self._emits.pop(run, self) is self or self._emits:
                return
            client.unsubscribe_topic(self.topic)
            client._event_handlers.pop(self.topic, None)  # which Dask would keep
            if self._others is not None:
                client._event_handlers[_ALL] = self._others
            else:  # the handler stays: Dask logs a fault of what comes meanwhile
                client.unsubscribe_topic(_ALL)


_ears: WeakKeyDictionary[Client, EventListener] = WeakKeyDictionary()
_ears_lock = threading.Lock()


def listener_of(client: Client) -> EventListener:
    """Return the one that a client has."""
    with _ears_lock:
        return _ears.setdefault(client, EventListener(client))
