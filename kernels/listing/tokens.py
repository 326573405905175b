"""Tokens of OpenCL C, behind the preprocessor."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_TOKEN = re.compile(
    r"""
      (?P<space>\s+ | //[^\n]* | /\*.*?\*/)
    | (?P<directive>\#[^\n]*)
    | (?P<text>"(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*')
    | (?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)
    | (?P<word>[A-Za-z_]\w*)
    | (?P<mark><<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)
    """,
    re.VERBOSE | re.DOTALL,
)


class Token(NamedTuple):
    """The smallest part of a source that means something."""

    kind: str
    """directive, text, number, word or mark."""
    text: str
    spaced: bool
    """Whether there is space, or a comment, before it."""
    begins: bool = True
    """Whether it begins a line."""


def tokens(source: str) -> Iterator[Token]:
    """Yield a source's tokens; a directive is one, to its line's end.

    >>> [token.text for token in tokens("a->b += 0x1p-3f; /* as is */ c")]
    ['a', '->', 'b', '+=', '0x1p-3f', ';', 'c']
    """
    spaced, begins = False, True
    for match in _TOKEN.finditer(source):
        kind = str(match.lastgroup)
        if kind == "space":
            spaced, begins = True, begins or "\n" in match.group()
        else:
            yield Token(kind, match.group().strip(), spaced, begins)
            spaced = begins = False


def without_attributes(found: Iterable[Token]) -> Iterator[Token]:
    """Leave out __attribute__((...)) of some tokens."""
    depth, within = 0, False
    for token in found:
        if token.text == "__attribute__":
            within = True
        elif within:
            depth += (token.text == "(") - (token.text == ")")
            within = depth > 0
        else:
            yield token
