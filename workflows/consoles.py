"""Where the command line speaks: its two consoles, which show nothing as it is not."""

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


out = _console(stderr=False)
"""Results."""
err = _console(stderr=True)
"""Everything else."""


def lines(text: str) -> Text:
    """Return a text of several lines, to be printed: their ends must be ours."""
    return Text("\n".join(map(printable, without_secrets(text).split("\n"))))


def hear_others() -> None:
    """Let logs of other libraries, and faults, go through the console too."""
    logging.lastResort = _Log(logging.WARNING)
    sys.excepthook = _fault


class _Log(logging.Handler):
    """Tells what nobody else handles."""

    def emit(self, record: logging.LogRecord) -> None:
        err.print(f"{record.name}: {record.getMessage()}", markup=False, soft_wrap=True)


def _fault(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
    told = "".join(traceback.format_exception(kind, error, at)).rstrip("\n")
    err.print(lines(told), soft_wrap=True)
