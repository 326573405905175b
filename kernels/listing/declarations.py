"""Declarations at the top level of OpenCL C, and those that kernels refer to.

The source has been through the preprocessor: its only directives are #pragma and #line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

_TOKEN = re.compile(
    r"""
      (?P<space>\s+ | //[^\n]* | /\*.*?\*/)
    | (?P<directive>\#[^\n]*)
    | (?P<text>"(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*')
    | (?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)
    | (?P<word>[A-Za-z_]\w*)
    | (?P<mark>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_LINE = re.compile(r'#\s*(?:line\s+)?\d+\s+"(?P<place>[^"]*)"')
_TAGS = ("struct", "union", "enum")
_INTERNAL = ("static", "typedef", "constant", "__constant", *_TAGS)
"""The first words of declarations that only this program sees."""


class Token(NamedTuple):
    """A directive, text, number, word or mark of a source."""

    kind: str
    text: str
    start: int
    """Characters before it."""


@dataclass(frozen=True)
class Declaration:
    """A function, a type, a table, or a directive."""

    tokens: Sequence[Token]
    text: str
    """Its lines, as they stand in the source."""
    place: str
    """The file that #line names, or ''."""

    @property
    def is_directive(self) -> bool:
        """Return True for a #pragma between declarations."""
        return self.tokens[0].kind == "directive"

    @cached_property
    def words(self) -> frozenset[str]:
        """Return all names in it."""
        return frozenset(token.text for token in self.tokens if token.kind == "word")

    @cached_property
    def head(self) -> tuple[str, ...]:
        """Return the texts before its first brace, without attributes."""
        return _head(self.tokens)

    @cached_property
    def names(self) -> frozenset[str]:
        """Return the names that it declares."""
        if self.is_directive:
            return frozenset()
        if "enum" in self.head:
            return self.words
        found = {
            after.text
            for before, after in zip(self.tokens, self.tokens[1:], strict=False)
            if before.text in _TAGS and after.kind == "word"
        }
        return frozenset(found | {self.name})

    @property
    def name(self) -> str:
        """Return the last name of a typedef, else the one before parameters or value."""
        if self.head[0] == "typedef":
            texts = [token.text for token in _without_attributes(self.tokens)]
            while texts[-1] in (";", "]"):
                texts = texts[: _last("[", texts)] if texts[-1] == "]" else texts[:-1]
            return texts[-1]
        ends = [n for n, text in enumerate(self.head) if text in ("(", "[", "=", ";")]
        return self.head[min(ends, default=0) - 1]

    @property
    def is_kept(self) -> bool:
        """Return True if it stays although nothing refers to it, as a kernel does."""
        return self.is_directive or not set(_INTERNAL).intersection(self.head)


def declarations(source: str) -> list[Declaration]:
    """Return the declarations of a source, in its order."""
    found: list[Declaration] = []
    place, depth, held = "", 0, list[Token]()

    def add() -> None:
        end = held[-1].start + len(held[-1].text)
        found.append(Declaration(tuple(held), source[held[0].start : end], place))
        held.clear()

    for match in _TOKEN.finditer(source):
        token = Token(str(match.lastgroup), match.group(), match.start())
        line = _LINE.match(token.text) if token.kind == "directive" else None
        if line and not held:
            place = line["place"]
        if line or token.kind == "space":
            continue
        held.append(token)
        depth += (token.text in ("{", "(")) - (token.text in ("}", ")"))
        if (token.kind == "directive" and len(held) == 1) or (not depth and _is_end(held)):
            add()
    if held:
        add()
    return found


def used(every: Sequence[Declaration]) -> list[Declaration]:
    """Return kernels and all that they refer to, in their order."""
    by_name: dict[str, list[int]] = {}
    for number, one in enumerate(every):
        for name in one.names:
            by_name.setdefault(name, []).append(number)
    ahead = [number for number, one in enumerate(every) if one.is_kept]
    kept: set[int] = set()
    while ahead:
        number = ahead.pop()
        if number not in kept:
            kept.add(number)
            ahead += [other for word in every[number].words for other in by_name.get(word, ())]
    return [every[number] for number in sorted(kept)]


def _is_end(tokens: Sequence[Token]) -> bool:
    """Return True behind a semicolon, and behind the brace that closes a function's body."""
    last = tokens[-1].text
    return last == ";" or (last == "}" and _head(tokens)[-1:] == (")",))


def _head(tokens: Sequence[Token]) -> tuple[str, ...]:
    texts = [token.text for token in _without_attributes(tokens)]
    return tuple(texts[: texts.index("{")] if "{" in texts else texts)


def _without_attributes(tokens: Iterable[Token]) -> Iterator[Token]:
    """Leave out __attribute__((...))."""
    depth, within = 0, False
    for token in tokens:
        if token.text == "__attribute__":
            within = True
        elif within:
            depth += (token.text == "(") - (token.text == ")")
            within = depth > 0
        else:
            yield token


def _last(wanted: str, texts: Sequence[str]) -> int:
    return len(texts) - 1 - texts[::-1].index(wanted)
