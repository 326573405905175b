"""Parses reference files, replaces templates, and checks each reference.

Templates are replaced here, because fsspec formats them as Python does: then addresses could send
this process's variables to others, or use all memory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from chunkfold.errors import SourceError
from chunkfold.settings import metadata_bytes
from chunkfold.stores.regular_files import too_large

_TEMPLATE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_SHOWN = 100
"""Letters of a reference that a message has."""
_MOST_OFFSET = 1 << 63


class Malformed(list[str]):
    """Stands for a reference that is none: it is listed as a file, and refused when it is read."""

    def __init__(self, problem: str) -> None:
        super().__init__([""])
        self.problem = problem


def parsed(content: bytes, name: str) -> dict[str, Any]:
    """Return the references of a file by their keys, templates replaced."""
    try:
        told = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{name}: is not readable JSON ({error})") from None
    if not isinstance(told, dict):
        raise SourceError(f"{name}: is JSON of a {type(told).__name__}, not of references")
    version = told.get("version")
    if version is None:
        return {key: _sound(to) for key, to in told.items()}
    if version != 1:
        raise SourceError(f"{name}: its references are of version {version!r}: 0 and 1 are read")
    references, templates = told.get("refs", {}), told.get("templates") or {}
    if not isinstance(references, dict):
        raise SourceError(f"{name}: its 'refs' are a {type(references).__name__}, not an object")
    if told.get("gen"):
        raise SourceError(f"{name}: it has 'gen', which generates references: list them all")
    replaced = _Templates(templates, name).replaced(references)
    return {key: _sound(to) for key, to in replaced.items()}


def _sound(to: Any) -> Any:
    """Return a reference as it is used: metadata as text, and what is no reference as malformed."""
    if isinstance(to, dict):
        return json.dumps(to)
    problem = problem_of(to)
    return Malformed(problem) if problem else to


class _Templates:
    """Texts that stand for names in the addresses of references."""

    def __init__(self, texts: Any, name: str) -> None:
        if not isinstance(texts, Mapping) or not all(
            isinstance(one, str) for one in texts.values()
        ):
            raise SourceError(f"{name}: its templates are not texts: write references without them")
        if any("{{" in text for text in texts.values()):
            raise self._function(name)
        self._texts, self._name = texts, name
        self._nbytes = 0
        self._known: dict[str, str] = {}

    @staticmethod
    def _function(name: str) -> SourceError:
        return SourceError(
            f"{name}: its templates are functions, with which addresses could reveal this "
            "process's variables, so chunkfold does not read them; write references without them"
        )

    def replaced(self, references: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return references with the texts in their addresses."""
        return {
            key: [self._address(to[0]), *to[1:]]
            if isinstance(to, list) and to and isinstance(to[0], str) and "{{" in to[0]
            else to
            for key, to in references.items()
        }

    def _address(self, given: str) -> str:
        known = self._known.get(given)
        if known is None:
            parts = _TEMPLATE.split(given)  # texts and names in turn
            if any("{{" in text for text in parts[::2]):
                raise self._function(self._name)
            if unknown := set(parts[1::2]) - set(self._texts):
                raise SourceError(f"{self._name}: it has no template {min(unknown)!r}")
            parts[1::2] = [self._texts[name] for name in parts[1::2]]
            self._nbytes += sum(map(len, parts))
            if self._nbytes > metadata_bytes():
                raise too_large(f"{self._name}, templates replaced", metadata_bytes())
            known = self._known[given] = "".join(parts)
        return known


def problem_of(to: Any) -> str:
    """Say what is wrong with a reference; empty if nothing is.

    >>> problem_of([None, 0, 0]), problem_of(""), problem_of(["a.nc", 0, 9])
    ('has the address null', 'is empty', '')
    """
    if isinstance(to, Malformed):
        return to.problem
    if isinstance(to, (str, bytes)):
        return "" if to else "is empty"
    if not isinstance(to, list) or len(to) not in (0, 1, 3):
        return f"is {shown(to)}"
    if not to or to[0] == "":
        return "is empty"
    if not isinstance(to[0], str):
        return f"has the address {shown(to[0])}"
    for name, number in zip(("offset", "size"), to[1:], strict=False):
        if type(number) is not int or not 0 <= number < _MOST_OFFSET:
            return f"has the {name} {shown(number)}"
    return "has the size 0, so it is empty" if to[1:] and not to[2] else ""


def shown(value: Any) -> str:
    """Return a reference as JSON has it, cut where it is long."""
    text = json.dumps(value, default=str)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
