"""Programs as a person reads them: behind the preprocessor, without what nothing calls."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chunkfold.kernels.listing.declarations import Declaration, declarations, used
from chunkfold.kernels.listing.formatted import WIDTH, formatted
from chunkfold.kernels.listing.preprocessed import preprocessed


@dataclass(frozen=True)
class Program:
    """A source, and what it is compiled with."""

    title: str
    source: str
    options: tuple[str, ...]

    def needed(self) -> list[Declaration]:
        """Return what its kernels are made of."""
        return used(declarations(preprocessed(self.source, self.options)))

    def text(self) -> str:
        """Return the whole of it, which does what the source does."""
        return "\n".join(line for one in self.needed() for line in formatted(one))


def listing(programs: Sequence[Program]) -> str:
    """List programs; what one has that stood in one before is named, not told again."""
    lines: list[str] = []
    told: set[str] = set()
    for program in programs:
        found = [(one, "\n".join(formatted(one))) for one in program.needed()]
        again = [one.name for one, text in found if text in told and not one.is_directive]
        fresh = [(one, text) for one, text in found if text not in told]
        told.update(text for _, text in fresh)
        options = " ".join(option for option in program.options if not option.startswith("-D"))
        behind = f", compiled with {options}" if options else ""
        lines += [*([""] if lines else []), *_comment(f"{program.title}{behind}")]
        lines += _comment(f"As above: {', '.join(again)}") if again else []
        for place, group in itertools.groupby(fresh, lambda each: each[0].place):
            lines += _comment(f"-- {place}")
            lines += [text for _, text in group]
    return "\n".join(lines)


def _comment(text: str) -> Iterator[str]:
    return (f"// {line}" for line in textwrap.wrap(text, WIDTH - 3, break_long_words=False))
