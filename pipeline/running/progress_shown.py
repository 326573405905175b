"""Progress of runs that the library starts, shown by whoever registers for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from importlib import metadata

from chunkfold.events import Event, OnEvent

GROUP = "chunkfold.progress"
"""Entry points that show progress: the engine never prints."""
Shower = Callable[[bool], AbstractContextManager[OnEvent]]
"""Called with True where progress was asked for, False where it is shown only if people watch."""


@contextmanager
def progress_shown(progress: bool | None, on_event: OnEvent | None) -> Iterator[OnEvent | None]:
    """Yield what hears the events of a run: what was given, and what shows progress.

    None: it is shown in terminals and notebooks, unless events are heard otherwise.
    """
    wanted = on_event is None if progress is None else progress
    shower = _shower() if wanted else None
    if shower is None:
        yield on_event
        return
    with shower(progress is True) as show:

        def hear(event: Event) -> None:
            show(event)
            if on_event is not None:
                on_event(event)

        yield hear


@cache
def _shower() -> Shower | None:
    found = [point.load() for point in metadata.entry_points(group=GROUP)]
    return found[0] if found else None
