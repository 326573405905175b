"""Declarations of OpenCL C as a person reads them: indented, no line longer than `WIDTH`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from chunkfold.kernels.declarations import Declaration
from chunkfold.kernels.tokens import Token

WIDTH = 100
_STEP = 4
_FEW = 4
"""Statements between braces that may stand in one line, if they fit."""
_SHORT, _SHORT_LINE = 32, 80
"""Characters of statements that share a line, and of that."""
_OPENS, _CLOSES = "([{", ")]}"
_ATTRIBUTE = "__attribute__"
_WITH_CONDITION = ("if", "for", "while", "switch")


@dataclass(frozen=True)
class _Statement:
    """A statement up to its semicolon, or a #pragma."""

    tokens: Sequence[Token]

    @property
    def is_directive(self) -> bool:
        return self.tokens[0].kind == "directive"

    @property
    def declares(self) -> bool:
        """Whether it may declare a name: two words, or a word and a pointer, begin it."""
        first, *others = self.tokens
        after = next((one for one in others if one.text != "*"), first)
        return first.kind == after.kind == "word" and first.text not in ("return", "goto")


@dataclass(frozen=True)
class _Nested:
    """Statements behind a condition, a loop's head, else; or a block of their own."""

    head: Sequence[Token]
    body: Sequence[_Node]
    tail: Sequence[Token] = ()
    """Of do: its condition."""


_Node = _Statement | _Nested


def formatted(one: Declaration) -> list[str]:
    """Return a declaration's lines."""
    if one.is_directive:
        return [one.tokens[0].text]
    opening = next((n for n, token in enumerate(one.tokens) if token.text == "{"), None)
    if opening is None or not one.is_function:
        return _type(one.tokens)
    head, body = one.tokens[:opening], _Parser(one.tokens[opening:]).block()
    return _braced(head, body, 0)


def _type(tokens: Sequence[Token]) -> list[str]:
    """Return a type, or a table, in one line or with its members below each other."""
    if len(line := _text(tokens)) <= WIDTH:
        return [line]
    texts = [token.text for token in tokens]
    if "{" not in texts or ";" not in texts[:-1]:
        return _wrapped(tokens, 0)
    begin, end = texts.index("{"), len(texts) - 1 - texts[::-1].index("}")
    members = _Parser(tokens[begin : end + 1]).block()
    return [*_wrapped(tokens[:begin], 0, " {"), *_lines(members, _STEP), _text(tokens[end:])]


class _Parser:
    """Reads statements off tokens that begin with a brace."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens, self._at = tokens, 0

    def block(self) -> list[_Node]:
        """Read statements up to the brace that closes what opens here."""
        self._at += 1
        found: list[_Node] = []
        while self._text != "}":
            found.append(self._one())
        self._at += 1
        return _without_braces(found)

    @property
    def _text(self) -> str:
        return self._tokens[self._at].text

    def _one(self) -> _Node:
        if self._tokens[self._at].kind == "directive":
            self._at += 1
            return _Statement(self._tokens[self._at - 1 : self._at])
        if self._text == "{":
            begins = self._tokens[self._at].begins
            return _Nested((), _from(self.block(), begins=begins))
        if self._text not in (*_WITH_CONDITION, "else", "do"):
            return _Statement(self._up_to(";"))
        begin = self._at
        kind = self._text
        self._at += 1
        if kind == "else" and self._text == "if":
            self._at += 1
        if self._text == "(":
            self._up_to(")")
        head, body = self._tokens[begin : self._at], self._body()
        return _Nested(head, body, self._up_to(";") if kind == "do" else ())

    def _body(self) -> list[_Node]:
        if self._text == "{":
            return self.block()
        found = [self._one()]
        while isinstance(found[-1], _Statement) and found[-1].is_directive:
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


def _from(nodes: Sequence[_Node], *, begins: bool) -> Sequence[_Node]:
    """Let statements begin a line if the brace before them does."""
    if not nodes or not isinstance(nodes[0], _Statement):
        return nodes
    first, *others = nodes[0].tokens
    return [_Statement([first._replace(begins=begins), *others]), *nodes[1:]]


def _without_braces(nodes: Sequence[_Node]) -> list[_Node]:
    """Leave out braces around what declares nothing that is named elsewhere beside them."""
    found: list[_Node] = []
    for number, node in enumerate(nodes):
        if isinstance(node, _Nested) and not node.head:
            others = {
                word for other in (*nodes[:number], *nodes[number + 1 :]) for word in _words(other)
            }
            inner = {name for one in node.body for name in _declared(one)}
            found += [node] if inner & others else node.body
        else:
            found.append(node)
    return found


def _words(node: _Node) -> set[str]:
    own = node.tokens if isinstance(node, _Statement) else (*node.head, *node.tail)
    inner = () if isinstance(node, _Statement) else node.body
    return {token.text for token in own}.union(*map(_words, inner))


def _declared(node: _Node) -> set[str]:
    """Return the names that a statement declares: those before a value, a comma or the end."""
    if not isinstance(node, _Statement) or not node.declares:
        return set()
    names, depth, sets = set(), 0, False
    for before, token in itertools.pairwise(node.tokens):
        if depth == 0 and not sets and token.text in ("=", ",", ";", "["):
            names.add(before.text)
        depth += (token.text in _OPENS) - (token.text in _CLOSES)
        sets = (sets or token.text == "=") and not (depth == 0 and token.text == ",")
    return names


def _lines(nodes: Sequence[_Node], indent: int) -> list[str]:
    """Return the lines of statements; short ones, and those that shared a line, share one."""
    out: list[str] = []
    for node, before in zip(nodes, [None, *nodes], strict=False):
        lines = _of(node, indent)
        if before is not None and len(lines) == 1:
            joined = f"{out[-1]} {lines[0].strip()}"
            if len(joined) <= _most(node, before, lines[0].strip()):
                out[-1:], lines = [joined], []
        out += lines
    return out


def _most(node: _Node, before: _Node, line: str) -> int:
    """Return how long a line may be in which a statement stands behind the one before it."""
    if isinstance(node, _Nested):
        goes_on = bool(node.head) and node.head[0].text == "else" and isinstance(before, _Nested)
        return WIDTH if goes_on else 0
    if isinstance(before, _Nested) or before.is_directive or node.is_directive:
        return 0
    if not node.tokens[0].begins:
        return WIDTH
    return _SHORT_LINE if max(len(line), len(_text(before.tokens))) <= _SHORT else 0


def _of(node: _Node, indent: int) -> list[str]:
    if isinstance(node, _Statement):
        return _wrapped(node.tokens, indent)
    if node.tail or not _is_single(node):
        return _braced(node.head, node.body, indent, node.tail)
    one = _lines(node.body, indent + _STEP)
    line = f"{' ' * indent}{_text(node.head)} {one[0].strip()}"
    if len(one) == 1 and len(line) <= WIDTH:
        return [line]
    return [*_wrapped(node.head, indent), *one]


def _braced(
    head: Sequence[Token], body: Sequence[_Node], indent: int, tail: Sequence[Token] = ()
) -> list[str]:
    """Return what stands between braces, in one line if it is little."""
    pad, behind = " " * indent, f" {_text(tail)}".rstrip()
    lines = _lines(body, indent + _STEP)
    if len(body) <= _FEW and _is_plain(body):
        inner = "".join(f" {line.strip()}" for line in lines)
        line = f"{pad}{f'{_text(head)} '.lstrip()}{{{inner} }}{behind}"
        if len(line) <= WIDTH:
            return [line]
        inner = f"{pad}{' ' * (_STEP - 1)}{inner}"
        lines = [inner] if body and len(inner) <= WIDTH else lines
    begin = _wrapped(head, indent, " {") if head else [f"{pad}{{"]
    return [*begin, *lines, f"{pad}}}{behind}"]


def _is_plain(body: Sequence[_Node]) -> bool:
    return all(isinstance(node, _Statement) and not node.is_directive for node in body)


def _is_single(node: _Nested) -> bool:
    """Whether what follows a head is one statement, which needs no braces."""
    only = node.body[0] if len(node.body) == 1 else None
    return bool(node.head) and isinstance(only, _Statement) and not only.is_directive


def _text(tokens: Sequence[Token]) -> str:
    words = [f" {token.text}" if token.spaced else token.text for token in tokens]
    return "".join(words).strip()


def _wrapped(tokens: Sequence[Token], indent: int, behind: str = "") -> list[str]:
    """Put tokens into as many lines as they need; broken behind commas if they can be."""
    text = f"{' ' * indent}{_text(tokens)}{behind}"
    if len(text) <= WIDTH:
        return [text]
    lines = _filled(_pieces(tokens, behind, _after_commas), indent)
    if max(map(len, lines)) > WIDTH:
        lines = _filled(_pieces(tokens, behind, _after_spaces), indent)
    return lines


def _after_commas(before: Token, after: Token) -> bool:
    behind = (",", ";", "{")
    return after.spaced and (
        before.text in behind or before.text.startswith(_ATTRIBUTE) or after.text in ("?", "&&")
    )


def _after_spaces(before: Token, after: Token) -> bool:
    return after.spaced and (before.kind == "mark" or after.text in ("|", "+", "-", "*", "||"))


def _pieces(
    tokens: Sequence[Token], behind: str, parts: Callable[[Token, Token], bool]
) -> list[str]:
    """Join tokens that stay in one line."""
    tokens = list(_attributes_joined(tokens))
    pieces = [tokens[0].text]
    for before, after in itertools.pairwise(tokens):
        if parts(before, after):
            pieces.append(after.text)
        else:
            pieces[-1] += f" {after.text}" if after.spaced else after.text
    pieces[-1] += behind
    return pieces


def _attributes_joined(tokens: Sequence[Token]) -> Iterator[Token]:
    """Make one token of each attribute."""
    at = 0
    while at < len(tokens):
        token, end, depth = tokens[at], at + 1, 0
        while token.text == _ATTRIBUTE and (end == at + 1 or depth):
            depth += (tokens[end].text == "(") - (tokens[end].text == ")")
            end += 1
        yield token._replace(text=_text(tokens[at:end]))
        at = end


def _filled(pieces: Sequence[str], indent: int) -> list[str]:
    lines = [" " * indent + pieces[0]]
    for piece in pieces[1:]:
        if len(lines[-1]) + 1 + len(piece) <= WIDTH:
            lines[-1] += f" {piece}"
        else:
            lines.append(" " * (indent + 2 * _STEP) + piece)
    return lines
