"""Replace values of a job file: by variables of the environment, and by overrides."""

from __future__ import annotations

import os
import re
import tomllib
from typing import Any

from chunkfold.errors import JobError
from chunkfold.workflows.job.key_paths import KeyPath

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
            raise JobError(f"--set {given!r}: {part} is no table")
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
