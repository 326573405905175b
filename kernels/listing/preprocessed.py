"""The preprocessor of C, by pcpp."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from typing import Any

from pcpp import Preprocessor

from chunkfold.kernels.errors import BuildError


class _Quiet(Preprocessor):  # type: ignore[misc] # which has no annotations
    """Collects errors instead of printing them."""

    def __init__(self) -> None:
        super().__init__()
        self.line_directive = None  # the source has its own
        self.errors: list[str] = []

    def on_error(self, file: str, line: int, message: str) -> None:
        """Add an error to `errors`."""
        self.errors.append(f"{file}:{line}: {message}")

    def on_directive_unknown(self, directive: Any, found: Any, *others: Any) -> bool | None:
        """Add #error to `errors`; pcpp handles all other directives."""
        if directive.value == "error":
            message = "".join(token.value for token in found)
            self.on_error(directive.source, directive.lineno, message)
            return True
        kept: bool | None = super().on_directive_unknown(directive, found, *others)
        return kept


def preprocessed(source: str, options: Sequence[str]) -> str:
    r"""Return a source whose only directives are #pragma and #line, without comments.

    `options` are the compiler's; those that begin with -D define macros.

    Raises
    ------
    BuildError
        If a directive is wrong, or an #error is reached.

    >>> preprocessed("#if N > 2 /* so many */\nfloat x[N];\n#endif", ["-DN=4"])
    'float x[4];'
    """
    made = _Quiet()
    if sys.byteorder == "little":
        made.define("__ENDIAN_LITTLE__ 1")
    # Compilers for CPUs are made of Clang, which has the built-ins that kernels use.
    made.define("__has_builtin(name) 1")
    for option in options:
        if option.startswith("-D"):
            name, _, value = option.removeprefix("-D").partition("=")
            made.define(f"{name} {value or 1}")
    made.parse(source, "source")
    out = io.StringIO()
    made.write(out)
    if made.errors:
        raise BuildError("\n".join(made.errors))
    return out.getvalue().strip()
