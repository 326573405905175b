"""Where the command line speaks: its two consoles."""

from __future__ import annotations

import json
import logging
import sys

from rich.console import Console

_WIDE = 320
"""Columns where the output is no terminal, so that nothing is cut or folded."""


def _console(*, stderr: bool) -> Console:
    console = Console(stderr=stderr, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = _WIDE
    return console


class _Warned(logging.Handler):
    """Tells what chunkfold's layers log as warnings: a line each, JSON with --json-lines."""

    def emit(self, record: logging.LogRecord) -> None:
        """Tell one."""
        if "--json-lines" in sys.argv:
            told = {"event": "Warned", "message": record.getMessage()}
            sys.stderr.write(json.dumps(told) + "\n")
        else:
            err.print(record.getMessage(), markup=False, soft_wrap=True)


out = _console(stderr=False)
"""Results."""
err = _console(stderr=True)
"""Everything else."""

warned = _Warned()
"""What is logged."""
