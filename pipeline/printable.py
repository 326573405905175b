"""Escape texts so that a terminal, a log or a table shows all of them and obeys nothing."""

from __future__ import annotations

_UNSEEN = frozenset(
    map(
        chr,
        (
            0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180F, 0x3164, 0xFFA0,
            *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0),
        ),
    )
)  # fmt: skip
"""Letters and marks that leave nothing to see, by Unicode's Default_Ignorable_Code_Point, which
Python calls printable."""


def printable(text: str) -> str:
    r"""Escape characters that steer a terminal, change the order of letters, or show nothing.

    These are controls, with ends of lines and tabs; marks of direction; letters of no width; blanks
    but for the plain one; bytes that are no UTF-8.

    >>> printable("a\x1b]0;b\x07\ndone \u202egpj.exe \udcff")
    'a\\x1b]0;b\\x07\\ndone \\u202egpj.exe \\xff'
    """
    if text.isprintable() and _UNSEEN.isdisjoint(text):
        return text
    return "".join(
        one if one.isprintable() and one not in _UNSEEN else _spelled(one) for one in text
    )


def _spelled(one: str) -> str:
    point = ord(one)
    if 0xDC80 <= point <= 0xDCFF:  # a byte, as Python reads names of files
        return f"\\x{point - 0xDC00:02x}"
    if one in "\n\r\t":
        return repr(one)[1:-1]
    width, letter = (2, "x") if point < 0x100 else (4, "u") if point < 0x10000 else (8, "U")
    return f"\\{letter}{point:0{width}x}"
