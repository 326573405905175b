"""Programs for people to read: preprocessed, and without the functions that no kernel calls."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chunkfold.kernels.listing.declarations import Declaration, declarations, used
from chunkfold.kernels.listing.preprocessed import preprocessed

WIDTH = 100
"""Characters of a line, at most."""


@dataclass(frozen=True)
class Program:
    """A source, its title, and the compiler's options."""

    title: str
    source: str
    options: tuple[str, ...]

    def needed(self) -> list[Declaration]:
        """Return the declarations that its kernels refer to."""
        return used(declarations(preprocessed(self.source, self.options)))

    def text(self) -> str:
        """Return a source of the same meaning, without macros."""
        return "\n".join(map(wrapped_lines, self.needed()))


def listing(programs: Sequence[Program]) -> str:
    """List programs; a declaration that an earlier program has is only named."""
    lines: list[str] = []
    listed: set[str] = set()
    for program in programs:
        found = [(one, wrapped_lines(one)) for one in program.needed()]
        again = [one.name for one, text in found if text in listed and not one.is_directive]
        fresh = [(one, text) for one, text in found if text not in listed]
        listed.update(text for _, text in fresh)
        options = " ".join(option for option in program.options if not option.startswith("-D"))
        behind = f", compiled with {options}" if options else ""
        lines += [*([""] if lines else []), *_comment(f"{program.title}{behind}")]
        lines += _comment(f"As above: {', '.join(again)}") if again else []
        for place, group in itertools.groupby(fresh, lambda each: each[0].place):
            lines += _comment(f"-- {place}")
            lines += [text for _, text in group]
    return "\n".join(lines)


def wrapped_lines(one: Declaration) -> str:
    """Return a declaration's lines, those longer than `WIDTH` wrapped at spaces."""
    out: list[str] = []
    for line in filter(str.strip, one.text.splitlines()):
        indent = " " * (len(line) - len(line.lstrip()) + 8)
        out += textwrap.wrap(
            line, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
    return "\n".join(out)


def _comment(text: str) -> Iterator[str]:
    return (f"// {line}" for line in textwrap.wrap(text, WIDTH - 3, break_long_words=False))
