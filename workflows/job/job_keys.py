"""Find, set and expand values of a job file by the paths of their keys."""

from __future__ import annotations

import os
import re
import tomllib
from typing import Any, TypeAlias

from chunkfold.errors import JobError

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


_VARIABLE = re.compile(r"\$(?:\$|\{(\w+)(?::-([^}]*))?\})")


def override(raw: dict[str, Any], given: str) -> KeyPath:
    """Set a key as "key=value" says; return the key."""
    key, equals, value = given.partition("=")
    place = tuple(part.strip() for part in key.split("."))
    if not equals or not all(place):
        raise JobError(f"--set {given!r} is not KEY=VALUE, as in limits.time='2 h'")
    try:
        parsed: Any = tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError):
        parsed = value.strip()
    table = raw
    for part in place[:-1]:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise JobError(f"--set {given!r}: {part} is not a table")
    table[place[-1]] = parsed
    return place


def expanded(value: Any, place: KeyPath, problems: list[tuple[KeyPath, str]]) -> Any:
    """Put the environment's variables where texts name them: ${NAME}, ${NAME:-default}; $$ is $."""
    if isinstance(value, dict):
        return {key: expanded(inner, (*place, key), problems) for key, inner in value.items()}
    if isinstance(value, list):
        return [expanded(inner, (*place, n), problems) for n, inner in enumerate(value)]
    if not isinstance(value, str):
        return value

    def variable(found: re.Match[str]) -> str:
        name, default = found[1], found[2]
        if name is None:
            return "$"
        if name not in os.environ and default is None:
            problems.append(
                (place, f"the environment has no {name}; set it, or write ${{{name}:-}}")
            )
        return os.environ.get(name) or default or ""

    if re.search(r"(?<!\$)(\$\$)*\$\{(?!\w+(:-[^}]*)?\})", value):
        problems.append(
            (place, f"{value!r}: write ${{NAME}} or ${{NAME:-default}}, and $$ for a $")
        )
    return _VARIABLE.sub(variable, value)
