"""Declarations of OpenCL C as a person reads them: indented, no line longer than `WIDTH`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

from chunkfold.kernels.listing.declarations import Declaration
from chunkfold.kernels.listing.statements import Nested, Statement, StatementNode, statements
from chunkfold.kernels.listing.tokens import Token

WIDTH = 100
_STEP = 4
_FEW = 4
"""Statements between braces that may stand in one line, if they fit."""
_SHORT, _SHORT_LINE = 32, 80
"""Characters of statements that share a line, and of that."""
_ATTRIBUTE = "__attribute__"


def formatted(one: Declaration) -> list[str]:
    """Return a declaration's lines."""
    if one.is_directive:
        return [one.tokens[0].text]
    opening = next((n for n, token in enumerate(one.tokens) if token.text == "{"), None)
    if opening is None or not one.is_function:
        return _type(one.tokens)
    head, names = one.tokens[:opening], {token.text for token in one.tokens[:opening]}
    return _braced(head, statements(one.tokens[opening:], names), 0)


def _type(tokens: Sequence[Token]) -> list[str]:
    """Return a type, or a table, in one line or with its members below each other."""
    if len(line := _text(tokens)) <= WIDTH:
        return [line]
    texts = [token.text for token in tokens]
    if "{" not in texts or ";" not in texts[:-1]:
        return _wrapped(tokens, 0)
    begin, end = texts.index("{"), len(texts) - 1 - texts[::-1].index("}")
    members = statements(tokens[begin : end + 1])
    return [*_wrapped(tokens[:begin], 0, " {"), *_lines(members, _STEP), _text(tokens[end:])]


def _lines(nodes: Sequence[StatementNode], indent: int) -> list[str]:
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


def _most(node: StatementNode, before: StatementNode, line: str) -> int:
    """Return how long a line may be in which a statement stands behind the one before it."""
    if isinstance(node, Nested):
        goes_on = bool(node.head) and node.head[0].text == "else" and isinstance(before, Nested)
        return WIDTH if goes_on else 0
    if isinstance(before, Nested) or before.is_directive or node.is_directive:
        return 0
    if not node.tokens[0].begins:
        return WIDTH
    return _SHORT_LINE if max(len(line), len(_text(before.tokens))) <= _SHORT else 0


def _of(node: StatementNode, indent: int) -> list[str]:
    if isinstance(node, Statement):
        return _wrapped(node.tokens, indent)
    if node.tail or not _is_single(node):
        return _braced(node.head, node.body, indent, node.tail)
    one = _lines(node.body, indent + _STEP)
    line = f"{' ' * indent}{_text(node.head)} {one[0].strip()}"
    if len(one) == 1 and len(line) <= WIDTH:
        return [line]
    return [*_wrapped(node.head, indent), *one]


def _braced(
    head: Sequence[Token], body: Sequence[StatementNode], indent: int, tail: Sequence[Token] = ()
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


def _is_plain(body: Sequence[StatementNode]) -> bool:
    return all(isinstance(node, Statement) and not node.is_directive for node in body)


def _is_single(node: Nested) -> bool:
    """Whether what follows a head is one statement, which needs no braces."""
    only = node.body[0] if len(node.body) == 1 else None
    return bool(node.head) and isinstance(only, Statement) and not only.is_directive


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
