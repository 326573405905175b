"""A progress bar that subscribes to a run's events."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from chunkfold.events import BlockProgress, Event, OnEvent, RunStarted, WorkerRetired


@contextmanager
def byte_bar(console: Console, label: str, total: int | None) -> Iterator[Progress]:
    """Show one bar that counts bytes; only where the console is a terminal."""
    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=console, disable=not console.is_terminal)
    with bar:
        bar.add_task(label, total=total)
        yield bar


@contextmanager
def run_progress(console: Console, *, quiet: bool) -> Iterator[OnEvent]:
    """Yield a subscriber that shows the bytes folded so far."""
    folded: dict[int, int] = {}

    def on_event(event: Event) -> None:
        if isinstance(event, RunStarted):
            bar.update(task, total=event.nbytes, description=f"fold {', '.join(event.ops)}")
        elif isinstance(event, BlockProgress):
            # A block that is folded again, after a worker died, starts over.
            folded[event.block] = max(folded.get(event.block, 0), event.nbytes)
            bar.update(task, completed=sum(folded.values()))
        elif isinstance(event, WorkerRetired) and not quiet:
            console.print(f"[yellow]retired:[/] {event.reason}", highlight=False)

    shown = Console(stderr=True, quiet=True) if quiet else console
    with byte_bar(shown, "fold", None) as bar:
        task = bar.task_ids[0]
        yield on_event
