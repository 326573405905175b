"""Statements of OpenCL C, nested as their braces are."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from chunkfold.kernels.listing.tokens import Token

_OPENS, _CLOSES = "([{", ")]}"
_WITH_CONDITION = ("if", "for", "while", "switch")


@dataclass(frozen=True)
class Statement:
    """A statement up to its semicolon, or a #pragma."""

    tokens: Sequence[Token]

    @property
    def is_directive(self) -> bool:
        """Whether it is a #pragma."""
        return self.tokens[0].kind == "directive"

    @property
    def declares(self) -> bool:
        """Whether it may declare a name: two words, or a word and a pointer, begin it."""
        first, *others = self.tokens
        after = next((one for one in others if one.text != "*"), first)
        return first.kind == after.kind == "word" and first.text not in ("return", "goto")


@dataclass(frozen=True)
class Nested:
    """Statements behind a condition, a loop's head, else; or a block of their own."""

    head: Sequence[Token]
    body: Sequence[StatementNode]
    tail: Sequence[Token] = ()
    """Of do: its condition."""


StatementNode = Statement | Nested


def statements(tokens: Sequence[Token], names: Collection[str] = ()) -> list[StatementNode]:
    """Read what stands in braces; `names` are in use around them.

    Braces of their own are left out around what declares nothing that is named beside them.
    """
    return _without_braces(_Parser(tokens).block(), names)


class _Parser:
    """Reads statements off tokens that begin with a brace."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens, self._at = tokens, 0

    def block(self) -> list[StatementNode]:
        """Read statements up to the brace that closes what opens here."""
        self._at += 1
        found: list[StatementNode] = []
        while self._text != "}":
            found.append(self._one())
        self._at += 1
        return found

    @property
    def _text(self) -> str:
        return self._tokens[self._at].text

    def _one(self) -> StatementNode:
        if self._tokens[self._at].kind == "directive":
            self._at += 1
            return Statement(self._tokens[self._at - 1 : self._at])
        if self._text == "{":
            begins = self._tokens[self._at].begins
            return Nested((), _from(_without_braces(self.block()), begins=begins))
        if self._text not in (*_WITH_CONDITION, "else", "do"):
            return Statement(self._up_to(";"))
        begin = self._at
        kind = self._text
        self._at += 1
        if kind == "else" and self._text == "if":
            self._at += 1
        if self._text == "(":
            self._up_to(")")
        head, body = self._tokens[begin : self._at], self._body()
        return Nested(head, body, self._up_to(";") if kind == "do" else ())

    def _body(self) -> list[StatementNode]:
        if self._text == "{":
            return _without_braces(self.block())
        found = [self._one()]
        while isinstance(found[-1], Statement) and found[-1].is_directive:
            found.append(self._one())
        return found

    def _up_to(self, end: str) -> Sequence[Token]:
        """Read on to the end of what stands in no further parentheses."""
        begin, depth = self._at, 0
        while True:
            text = self._text
            depth += (text in _OPENS) - (text in _CLOSES)
            self._at += 1
            if depth == 0 and text == end:
                return self._tokens[begin : self._at]


def _from(nodes: Sequence[StatementNode], *, begins: bool) -> Sequence[StatementNode]:
    """Let statements begin a line if the brace before them does."""
    if not nodes or not isinstance(nodes[0], Statement):
        return nodes
    first, *others = nodes[0].tokens
    return [Statement([first._replace(begins=begins), *others]), *nodes[1:]]


def _without_braces(
    nodes: Sequence[StatementNode], names: Collection[str] = ()
) -> list[StatementNode]:
    found: list[StatementNode] = []
    for number, node in enumerate(nodes):
        if isinstance(node, Nested) and not node.head:
            beside = (*nodes[:number], *nodes[number + 1 :])
            taken = set(names).union(*map(_words, beside))
            inner = set[str]().union(*map(_declared, node.body))
            found += [node] if inner & taken else node.body
        else:
            found.append(node)
    return found


def _words(node: StatementNode) -> set[str]:
    own = node.tokens if isinstance(node, Statement) else (*node.head, *node.tail)
    inner = () if isinstance(node, Statement) else node.body
    return {token.text for token in own}.union(*map(_words, inner))


def _declared(node: StatementNode) -> set[str]:
    """Return the names that a statement declares: those before a value, a comma or the end."""
    if not isinstance(node, Statement) or not node.declares:
        return set()
    names, depth, sets = set(), 0, False
    for before, token in itertools.pairwise(node.tokens):
        if depth == 0 and not sets and token.text in ("=", ",", ";", "["):
            names.add(before.text)
        depth += (token.text in _OPENS) - (token.text in _CLOSES)
        sets = (sets or token.text == "=") and not (depth == 0 and token.text == ",")
    return names
