"""Paths of keys in a job file: keys from its top, and the lines where they are set."""

from __future__ import annotations

import tomllib
from typing import Any, TypeAlias

KeyPath: TypeAlias = tuple[str | int, ...]
"""Keys, and numbers of entries, from the top of the file."""


def line_of(text: str, place: KeyPath) -> int:
    r"""Return the line of a TOML text at which the statement begins that sets a key; else 0.

    It is the first that a prefix of the text must have to hold the key: TOML's own parser says.

    >>> line_of("a = 1\n[b]\nc = [\n 2]\n", ("b", "c")), line_of("a = 1", ("b",))
    (3, 0)
    """
    # TOML knows no other ends of lines, Python does.
    lines = [f"{line}\n" for line in text.split("\n")]
    begins = 0
    for end in range(1, len(lines) + 1):
        try:
            found: Any = tomllib.loads("".join(lines[:end]))
        except tomllib.TOMLDecodeError:
            continue  # in the middle of a statement
        if _holds(found, place):
            while begins < end - 1 and not lines[begins].split("#")[0].strip():
                begins += 1
            return begins + 1
        begins = end
    return line_of(text, place[:-1]) if len(place) > 1 else 0


def _holds(found: Any, place: KeyPath) -> bool:
    for key in place:
        try:
            found = found[key]
        except (KeyError, IndexError, TypeError):
            return False
    return True


def dotted(place: KeyPath) -> str:
    """Write a place as TOML would: "reduce.axes[0]"."""
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in place)
    return text.lstrip(".")
