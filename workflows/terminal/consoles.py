"""Two consoles of the command line, which show every character as text."""

from __future__ import annotations

import logging
import sys
import traceback
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.text import Text

from chunkfold.printable import printable
from chunkfold.redaction import without_secrets

_WIDE = 320
"""Columns where the output is no terminal, so that nothing is cut or folded."""


class _Console(Console):
    """A console that prints texts of strangers: names, attributes, what other libraries say.

    Every text that is printed, or stands in a table, is one line without secrets; `lines` are more.
    """

    def render_str(self, text: str, **how: Any) -> Text:
        return super().render_str(printable(without_secrets(text)), **how)


def _console(*, stderr: bool) -> Console:
    console = _Console(stderr=stderr, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = _WIDE
    return console


class _Warned(logging.Handler):
    """Tells what chunkfold's layers log as warnings: a line each, JSON with --json-lines."""

    def emit(self, record: logging.LogRecord) -> None:
        """Tell one."""
        tell_warning(record.getMessage())


def tell_warning(said: str) -> None:
    """Tell a warning as a sentence, or as an event with --json-lines."""
    if "--json-lines" in sys.argv:
        from chunkfold.workflows.as_json import json_text  # NumPy, which `--help` does without

        sys.stderr.write(json_text({"event": "Warned", "message": said}) + "\n")
        return
    err.print("[bold yellow]warning:[/]", end=" ")
    err.print(said, markup=False, soft_wrap=True)


out = _console(stderr=False)
"""Results."""
err = _console(stderr=True)
"""Everything else."""

warned = _Warned()
"""A handler for the logs of chunkfold's layers."""


def lines(text: str) -> Text:
    """Return a text of several lines, to be printed: their ends must be ours."""
    return Text("\n".join(map(printable, without_secrets(text).split("\n"))))


def hear_others() -> None:
    """Show logs of other libraries, and faults, on the console too."""
    logging.lastResort = _Log(logging.WARNING)
    sys.excepthook = _fault


class _Log(logging.Handler):
    """Tells what nobody else handles."""

    def emit(self, record: logging.LogRecord) -> None:
        err.print(f"{record.name}: {record.getMessage()}", markup=False, soft_wrap=True)


def _fault(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
    told = "".join(traceback.format_exception(kind, error, at)).rstrip("\n")
    err.print(lines(told), soft_wrap=True)
