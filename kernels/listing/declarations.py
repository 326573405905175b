"""What stands at the top level of a source in OpenCL C, and what of it nothing uses.

The source is one behind the preprocessor: of directives it has #pragma and #line alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from chunkfold.kernels.listing.tokens import Token, tokens, without_attributes

_LINE = re.compile(r'#\s*(?:line\s+)?\d+\s+"(?P<place>[^"]*)"')
_TAGS = ("struct", "union", "enum")
_INTERNAL = ("static", "typedef", "constant", "__constant", *_TAGS)
"""How declarations begin that nothing outside of a program sees."""


@dataclass(frozen=True)
class Declaration:
    """A function, a type, a table, or a directive."""

    tokens: Sequence[Token]
    place: str
    """Where it is from, as #line says; empty if none does."""

    @property
    def is_directive(self) -> bool:
        """Whether it is a #pragma between others."""
        return self.tokens[0].kind == "directive"

    @cached_property
    def words(self) -> frozenset[str]:
        """All names that stand in it."""
        return frozenset(token.text for token in self.tokens if token.kind == "word")

    @cached_property
    def head(self) -> tuple[str, ...]:
        """What stands before its first brace, without attributes."""
        texts = [token.text for token in without_attributes(self.tokens)]
        return tuple(texts[: texts.index("{")] if "{" in texts else texts)

    @property
    def is_function(self) -> bool:
        """Whether it is a function with a body."""
        return self.head[-1:] == (")",)

    @cached_property
    def names(self) -> frozenset[str]:
        """What it declares."""
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
        """What it declares: of a type the last name, else the one before parameters or value."""
        if self.head[0] == "typedef":
            texts = [token.text for token in without_attributes(self.tokens)]
            while texts[-1] in (";", "]"):
                texts = texts[: _last("[", texts)] if texts[-1] == "]" else texts[:-1]
            return texts[-1]
        ends = [n for n, text in enumerate(self.head) if text in ("(", "[", "=", ";")]
        return self.head[min(ends, default=0) - 1]

    @property
    def is_kept(self) -> bool:
        """Whether it stays though nothing in the source refers to it: kernels, say."""
        return self.is_directive or not set(_INTERNAL).intersection(self.head)


def declarations(source: str) -> list[Declaration]:
    """Take a source apart."""
    found: list[Declaration] = []
    place, depth, held = "", 0, list[Token]()
    for token in tokens(source):
        line = _LINE.match(token.text) if token.kind == "directive" else None
        if line:
            place = place if held else line["place"]
            continue
        held.append(token)
        if token.kind == "mark":
            depth += (token.text in "{(") - (token.text in "})")
        if (token.kind == "directive" and len(held) == 1) or _ends(held, token.text, depth):
            found.append(Declaration(tuple(held), place))
            held = []
    return [*found, Declaration(tuple(held), place)] if held else found


def used(every: Sequence[Declaration]) -> list[Declaration]:
    """Return kernels, and whatever they refer to, in their order."""
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


def _ends(held: Sequence[Token], text: str, depth: int) -> bool:
    """Whether a declaration ends with this token: a type and a table do not with their brace."""
    if depth or text not in (";", "}"):
        return False
    return text == ";" or Declaration(held, "").is_function


def _last(wanted: str, texts: Sequence[str]) -> int:
    return len(texts) - 1 - texts[::-1].index(wanted)
