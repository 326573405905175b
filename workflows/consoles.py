"""Where the command line speaks: its two consoles."""

from __future__ import annotations

from rich.console import Console

_WIDE = 320
"""Columns where the output is no terminal, so that nothing is cut or folded."""


def _console(*, stderr: bool) -> Console:
    console = Console(stderr=stderr, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = _WIDE
    return console


out = _console(stderr=False)
"""Results."""
err = _console(stderr=True)
"""Everything else."""
