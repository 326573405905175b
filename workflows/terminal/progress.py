"""Progress of runs, for people at a terminal, for logs, and for machines; all from events."""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from chunkfold.events import Event, OnEvent, RunFinished, RunStarted, Waiting, WorkerRetired
from chunkfold.printable import printable
from chunkfold.running.tally import Tally
from chunkfold.units import size_text
from chunkfold.workflows.as_json import json_text
from chunkfold.workflows.files.results_json import event_json

LOG_EVERY_S = 10.0
"""Pause between lines where there is no terminal: short runs leave none."""
_MOMENT_S = 1.0
"""Runs that take less show nothing where Python's callers started them."""
_CELL_EVERY_S = 0.3
_FIGURES = 46
"""Columns of a terminal that the figures behind a bar take, at most."""
_LONG_BAR, _SHORT_BAR = 40, 12
_LEAST_NAME = 12
"""Letters of a source's name that are shown, however many ops there are."""


class _Rate(ProgressColumn):
    """Bytes a second, in the units of everything else."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{size_text(speed)}/s", style="progress.data.speed")


@contextmanager
def byte_bar(
    console: Console, label: str, total: int | None, *, later: bool = False
) -> Iterator[Progress]:
    """Show one bar that counts bytes; only where the console is a terminal.

    With `later` it is shown once somebody starts it, and goes in the end.
    """
    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(_LONG_BAR if console.width > 2 * _FIGURES + _LONG_BAR else _SHORT_BAR),
        DownloadColumn(binary_units=True),
        _Rate(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    bar = Progress(*columns, console=console, disable=not console.is_terminal, transient=later)
    with nullcontext() if later else bar:
        bar.add_task(label, total=total, note="")
        try:
            yield bar
        finally:
            bar.stop()


@contextmanager
def library_progress(asked: bool) -> Iterator[OnEvent]:
    """Yield a subscriber for runs that Python's callers started, below a cell or in a terminal.

    It shows nothing of runs that end within a second; and where there is neither, and nobody
    `asked` for it.
    """
    shell, console = _notebook(), Console(stderr=True, highlight=False, emoji=False)
    if shell is not None:
        yield _Cell(shell).hear
    elif console.is_terminal:
        with byte_bar(console, "fold", None, later=True) as bar:
            yield _after_a_moment(_Lanes(bar).hear, bar.start)
    elif asked:
        yield _Lines(console).hear
    else:
        yield lambda _: None


def _notebook() -> Any:
    """Return IPython's display of a notebook, if this process runs one."""
    python = sys.modules.get("IPython")
    shell = None if python is None else python.get_ipython()
    if shell is None or type(shell).__name__ == "TerminalInteractiveShell":
        return None
    from IPython import display

    return display


def _after_a_moment(hear: OnEvent, start: Callable[[], None]) -> OnEvent:
    """Return a subscriber that starts something once a run takes long."""
    began, started = time.monotonic(), False

    def both(event: Event) -> None:
        nonlocal started
        if not started and time.monotonic() - began > _MOMENT_S:
            started = True
            start()
        hear(event)

    return both


class _Cell:
    """A bar below a notebook's cell; text where no HTML is shown."""

    def __init__(self, display: Any) -> None:
        self._display = display
        self._handle: Any = None
        self._tally, self._last = Tally(), time.monotonic() + _MOMENT_S - _CELL_EVERY_S

    def hear(self, event: Event) -> None:
        self._tally.hear(event)
        run, now = self._tally.run, time.monotonic()
        if run is None or (now - self._last < _CELL_EVERY_S and not isinstance(event, RunFinished)):
            return
        if isinstance(event, RunFinished) and self._handle is None:
            return
        self._last = now
        done, whole = self._tally.nbytes, run.nbytes
        ended = "" if not isinstance(event, RunFinished) else f" in {event.seconds:.1f} s"
        told = f"{_title(run)}: {size_text(done)} of {size_text(whole)}{ended}"
        shown = {
            "text/plain": told,
            "text/html": f'<progress value="{done / max(1, whole):.3f}"></progress> '
            f"{html.escape(printable(told))}",
        }
        if self._handle is None:
            self._handle = self._display.display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)


@contextmanager
def run_progress(console: Console, *, quiet: bool, json_lines: bool = False) -> Iterator[OnEvent]:
    """Yield a subscriber that shows how far runs are, one after another.

    At a terminal a bar for the run and a lane for each device; else a line now and then; with
    `json_lines` every event as a line of JSON. Quiet, nothing.
    """
    if json_lines:
        yield _json_writer(console)
    elif quiet:
        yield lambda _: None
    elif console.is_terminal:
        with byte_bar(console, "fold", None) as bar:
            yield _Lanes(bar).hear
    else:
        yield _Lines(console).hear


def _json_writer(console: Console) -> OnEvent:
    def write(event: Event) -> None:
        told = {"event": type(event).__name__, "time": datetime.now(UTC).isoformat()}
        console.file.write(json_text(told | event_json(event)) + "\n")
        console.file.flush()

    return write


class _Lanes:
    """A bar for the run, and below it one for what each device has done of it."""

    def __init__(self, bar: Progress) -> None:
        self._bar, self._whole = bar, bar.task_ids[0]
        self._lanes: dict[str, TaskID] = {}
        self._tally = Tally()

    def hear(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self._begin(event)
        self._tally.hear(event)
        if isinstance(event, WorkerRetired | Waiting):
            self._bar.console.print(_said(event), highlight=False)
        tally = self._tally
        note = f"[yellow]{tally.retries} retried" if tally.retries else ""
        self._bar.update(self._whole, completed=tally.nbytes, note=note)
        for name, nbytes in tally.of_devices.items():
            if name in self._lanes:
                self._bar.update(self._lanes[name], completed=nbytes)

    def _begin(self, event: RunStarted) -> None:
        self._tally = Tally()
        for lane in self._lanes.values():
            self._bar.remove_task(lane)
        room = self._bar.console.width - _FIGURES - _SHORT_BAR
        title = escape(printable(_title(event, room)))
        self._bar.reset(self._whole, total=event.nbytes, description=title)
        several = event.devices if len(event.devices) > 1 else {}
        self._lanes = {
            name: self._bar.add_task(f"  {escape(spec)}", total=event.nbytes, note="")
            for name, spec in several.items()
        }


class _Lines:
    """A line now and then, for logs."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._tally = Tally()
        self._told = time.monotonic()
        self._first: tuple[float, int] | None = None
        """When the first bytes were told of, and how many: before that kernels may be compiled."""

    def hear(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self._tally, self._first = Tally(), None
            self._told = time.monotonic()
        self._tally.hear(event)
        if self._first is None and self._tally.nbytes:
            self._first = time.monotonic(), self._tally.nbytes
        if isinstance(event, WorkerRetired | Waiting):
            self._console.print(_said(event), highlight=False)
        elif time.monotonic() - self._told >= LOG_EVERY_S and self._tally.run is not None:
            self._told = time.monotonic()
            self._console.print(self._line(self._tally.run), markup=False)

    def _line(self, run: RunStarted) -> str:
        done, (since, before) = self._tally.nbytes, self._first or (0.0, 0)
        rate = (done - before) / max(time.monotonic() - since, 1e-9)
        left = f", {size_text(rate)}/s, {(run.nbytes - done) / rate:.0f} s left" if rate else ""
        retried = f", {self._tally.retries} retried" if self._tally.retries else ""
        return (
            f"{_title(run)}: {size_text(done)} of {size_text(run.nbytes)} "
            f"({done / max(1, run.nbytes):.0%}){left}{retried}"
        )


def _title(event: RunStarted, room: int = sys.maxsize) -> str:
    begin = f"{', '.join(event.ops)} of "
    return begin + _end_of(event.source, max(room - len(begin), _LEAST_NAME))


def _end_of(name: str, most: int) -> str:
    """Cut a name that has more letters.

    >>> _end_of("/data/era5.zarr/t2m", 12)
    '…a5.zarr/t2m'
    """
    return name if len(name) <= most else f"…{name[1 - most :]}"


def _said(event: WorkerRetired | Waiting) -> str:
    if isinstance(event, Waiting):
        return f"[yellow]waiting:[/] {escape(event.what)}"
    return f"[yellow]retired:[/] {escape(event.reason)}"
