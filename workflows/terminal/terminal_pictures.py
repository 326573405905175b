"""Pictures in terminals that show them, by the protocols of kitty and of iTerm2."""

from __future__ import annotations

import base64
import os
import sys
from collections.abc import Mapping

_ITERM = ("iTerm.app", "WezTerm", "mintty")
_KITTY = ("ghostty",)
_AT_ONCE = 4096
"""Letters of one command of kitty's."""


def protocol(variables: Mapping[str, str]) -> str | None:
    """Return the way to show pictures that a terminal tells of by its variables, if it does.

    >>> protocol({"TERM": "xterm-kitty"}), protocol({"TERM_PROGRAM": "iTerm.app"}), protocol({})
    ('kitty', 'iterm', None)
    """
    if variables.get("TMUX"):  # which lets neither pass
        return None
    program = variables.get("TERM_PROGRAM", "")
    if program in _ITERM:
        return "iterm"
    kitty = "KITTY_WINDOW_ID" in variables or variables.get("TERM", "") == "xterm-kitty"
    return "kitty" if kitty or program in _KITTY else None


def shows_pictures() -> bool:
    """Return True if standard output is a terminal that shows pictures."""
    return sys.stdout.isatty() and protocol(os.environ) is not None


def show_picture(png: bytes) -> None:
    """Show a picture in the terminal."""
    sys.stdout.write(sequence(png, protocol(os.environ) or "iterm") + "\n")
    sys.stdout.flush()


def sequence(png: bytes, way: str) -> str:
    r"""Return what a terminal is sent.

    >>> sequence(b"png", "iterm")
    '\x1b]1337;File=inline=1;size=3:cG5n\x07'
    >>> sequence(b"png", "kitty")
    '\x1b_Ga=T,f=100,m=0;cG5n\x1b\\'
    """
    text = base64.b64encode(png).decode()
    if way == "iterm":
        return f"\x1b]1337;File=inline=1;size={len(png)}:{text}\x07"
    parts = [text[at : at + _AT_ONCE] for at in range(0, len(text), _AT_ONCE)]
    begins = ["a=T,f=100,", *[""] * (len(parts) - 1)]
    more = [*[1] * (len(parts) - 1), 0]
    each = zip(begins, more, parts, strict=True)
    return "".join(f"\x1b_G{begin}m={goes_on};{part}\x1b\\" for begin, goes_on, part in each)
