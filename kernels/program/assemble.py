"""Put a kernel's source together, and find one's way in it again."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import resources

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.opencl.opencl_code import library
from chunkfold.kernels.program.header import header
from chunkfold.kernels.program.keyed_header import keyed_header

_GENERATED = {"monoid.clh": header, "keyed/generated.clh": keyed_header}
"""Headers that are made for the reduction at hand."""
_INCLUDE = re.compile(r'^#include "(?P<name>[\w./]+)"\n', re.MULTILINE)
_LINE = re.compile(r'#line (?P<line>\d+) "(?P<name>[^"]+)"')


@lru_cache(32)  # a verdict is found by it, and what is built after that has the same
def assemble(kernel: str, accumulator: Accumulator) -> str:
    """Return the whole source of kernel file `kernel` with the reduction baked in.

    Includes are resolved here, each behind a `#line` directive, so that the compiler's line
    numbers are those of the files; of what is generated they are behind what it is.
    """
    text = resources.files("chunkfold.kernels").joinpath("cl", kernel).read_text()
    texts, place = [f'#line 1 "{kernel}"\n'], 0
    for match in _INCLUDE.finditer(text):
        name = match["name"]
        line = text.count("\n", 0, match.end()) + 1
        body = _GENERATED[name](accumulator) if name in _GENERATED else library(name)
        texts += [text[place : match.start()], body, f'#line {line} "{kernel}"\n']
        place = match.end()
    return "".join([*texts, text[place:]])


def nameless(source: str) -> str:
    r"""Return a source without what its parts are called, from which what is built does not follow.

    A mean's kernels may be a sum's but for that, and programs and verdicts are found by this.

    >>> nameless('#line 1 "generated: s of mean"\nint x;')
    '\nint x;'
    """
    return _LINE.sub("", source)


def located(source: str, number: int) -> str:
    r"""Say which file and line the `number`-th line of an assembled source is: "flat.cl:12".

    For compilers that ignore `#line`.

    >>> located('#line 1 "a.cl"\nint x;\nint y;', 3)
    'a.cl:2'
    """
    name, line = "generated", 0
    for text in source.split("\n")[:number]:
        match = _LINE.match(text)
        if match:
            name, line = match["name"], int(match["line"]) - 1
        else:
            line += 1
    return f"{name}:{line}"
