"""Texts that several parts of a baked header share."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from functools import cache
from importlib import resources

from chunkfold.kernels.expressions.emit import emitted
from chunkfold.kernels.expressions.nodes import Node, size_of
from chunkfold.kernels.expressions.style import Style


def library(name: str) -> str:
    """Return a kernel header, behind a directive that names it."""
    text = resources.files("chunkfold.kernels").joinpath("cl", name).read_text()
    return f'#line 1 "{name}"\n{text}'


@cache
def defined(name: str, macro: str) -> int:
    """Return the number that a kernel file defines a macro as.

    >>> defined("keyed/digits.clh", "CHF_MOST_DIGITS")
    3
    """
    found = re.search(rf"^#define {macro} \(?(-?\d+)\)?$", library(name), re.MULTILINE)
    assert found is not None, (name, macro)
    return int(found[1])


def generated(what: str) -> str:
    """Return a directive that says what the lines behind it are, which are in no file."""
    return f'#line 1 "generated: {what}"'


def instance(c: str, *texts: str, **parameters: object) -> str:
    """Return texts of component `c` that read its name and its parameters from definitions."""
    given: dict[str, object] = {"C": c, **parameters}
    return joined(
        [
            *(f"#define CHF_{name} {value}" for name, value in given.items()),
            *texts,
            generated(f"behind component {c}"),
            *(f"#undef CHF_{name.partition('(')[0]}" for name in given),
        ]
    )


def assigned(
    targets: Iterable[tuple[str, Node]],
    style: Style,
    *,
    common: Collection[str] = (),
    index: str = "i",
) -> str:
    """Return statements that compute some trees, and then set targets to their values.

    Inputs are called x0, x1, ...; fields as they are read. State fields in `common` are scalars,
    which lanes share.
    """
    pairs = list(targets)
    lines, texts = emitted([tree for _, tree in pairs], _leaf(style, common, index), style)
    sets = [f"{target} = {text};" for (target, _), text in zip(pairs, texts, strict=True)]
    if len(sets) > 1:  # all fields are read before any is set
        held = [
            f"const {style.type(tree.dtype)} n{number} = {text};"
            for number, ((_, tree), text) in enumerate(zip(pairs, texts, strict=True))
        ]
        sets = [f"{target} = n{number};" for number, (target, _) in enumerate(pairs)]
        lines += held
    body = "\n".join(f"        {line}" for line in [*lines, *sets])
    return f"    {{\n{body}\n    }}" if pairs else ""


def _leaf(style: Style, common: Collection[str], index: str) -> Callable[[Node], str]:
    """Return what kernels call inputs, the index and fields."""

    def leaf(one: Node) -> str:
        if one.op == "index":
            return style.to(one.dtype, index)
        if one.op == "input":
            number, part = one.arg
            return f"x{number}{ {'': '', 're': '.x', 'im': '.y'}[part] }"
        holder, name = one.arg
        text = f"{holder}.{name}"
        return f"({style.type(one.dtype)})({text})" if style.lanes and name in common else text

    return leaf


def declared(name: str, tree: Node, style: Style) -> str:
    """Return statements that declare a name for the truth of a tree."""
    lines, (text,) = emitted([tree], _leaf(style, (), "i"), style, prefix="m")
    lines.append(f"const {style.truth_type(size_of(tree))} {name} = {text};")
    return "\n".join(f"    {line}" for line in lines)


def joined(lines: Iterable[str]) -> str:
    """Put lines below each other, but those that are empty."""
    return "\n".join(line for line in lines if line)
