"""What is left of a source behind the preprocessor, which pcpp is."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from typing import Any

from pcpp import Preprocessor

from chunkfold.kernels.errors import BuildError


class _Quiet(Preprocessor):  # type: ignore[misc] # which has no annotations
    """Keeps what is wrong to itself, until it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.line_directive = None  # but those that are in the source
        self.wrong: list[str] = []

    def on_error(self, file: str, line: int, message: str) -> None:
        """Note an error."""
        self.wrong.append(f"{file}:{line}: {message}")

    def on_directive_unknown(self, directive: Any, found: Any, *others: Any) -> bool | None:
        """Note #error, and leave all else to pcpp."""
        if directive.value == "error":
            message = "".join(token.value for token in found)
            self.on_error(directive.source, directive.lineno, message)
            return True
        kept: bool | None = super().on_directive_unknown(directive, found, *others)
        return kept


def preprocessed(source: str, options: Sequence[str]) -> str:
    r"""Return a source without comments and directives, but #pragma and #line.

    `options` are the compiler's, of which -D defines.

    Raises
    ------
    BuildError
        If the preprocessor finds fault with it.

    >>> preprocessed("#if N > 2 /* so many */\nfloat x[N];\n#endif", ["-DN=4"])
    'float x[4];'
    """
    made = _Quiet()
    if sys.byteorder == "little":
        made.define("__ENDIAN_LITTLE__ 1")
    # CPUs' compilers are made of Clang; sources ask it for nothing else.
    made.define("__has_builtin(name) 1")
    for option in options:
        if option.startswith("-D"):
            name, _, value = option.removeprefix("-D").partition("=")
            made.define(f"{name} {value or 1}")
    made.parse(source, "source")
    out = io.StringIO()
    made.write(out)
    if made.wrong:
        raise BuildError("\n".join(made.wrong))
    return out.getvalue().strip()
