"""Write numbers for people, and read numbers that people write."""

from __future__ import annotations

import re

from dask.utils import parse_bytes

_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(
    r"[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|inf(inity)?|nan)", re.IGNORECASE
)
_SIZE = re.compile(rf"\s*{_NUMBER.pattern}\s*[a-z]*\s*", re.IGNORECASE)


def size_text(nbytes: float) -> str:
    """Write a number of bytes for people.

    >>> size_text(1536), size_text(5)
    ('1.5 KiB', '5 B')
    """
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if nbytes < 1024 or unit == "TiB":
            break
        nbytes /= 1024
    return f"{nbytes:.0f} {unit}" if unit == "B" else f"{nbytes:.1f} {unit}"


def rate_text(rate: float) -> str:
    """Write bytes per second for people.

    >>> rate_text(52e9), rate_text(42_345_678), rate_text(1.2345e12)
    ('52 GB/s', '0.0423 GB/s', '1230 GB/s')
    """
    return f"{float(f'{rate / 1e9:.3g}'):g} GB/s"


def integer(text: str) -> int:
    """Read an integer: a sign, perhaps, and digits from 0 to 9.

    Python takes those of any script, with `_` between them: `1_0` would be 10.

    Raises
    ------
    ValueError
        If it is no such text.

    >>> integer(" -10 ")
    -10
    """
    return int(_plain(text, _INTEGER))


def number(text: str) -> float:
    """Read a number, `inf` and `nan` among them; its digits as `integer` has them.

    Raises
    ------
    ValueError
        If it is no such text.

    >>> number("-1.5e3")
    -1500.0
    """
    return float(_plain(text, _NUMBER))


def is_number(text: str) -> bool:
    """Return whether a text is a number, as `number` reads it, and nothing more.

    >>> is_number(" 1.5e3 "), is_number("10 B")
    (True, False)
    """
    return _NUMBER.fullmatch(text.strip()) is not None


def size_bytes(text: str) -> int:
    """Read a size such as "2 GiB", in bytes; its digits as `integer` has them.

    Raises
    ------
    ValueError, OverflowError
        If it is no such text.

    >>> size_bytes("1.5 KiB"), size_bytes("5")
    (1536, 5)
    """
    return int(parse_bytes(_plain(text, _SIZE)))


def _plain(text: str, known: re.Pattern[str]) -> str:
    word = text.strip()
    if not known.fullmatch(word):
        raise ValueError(f"{text!r} is not a number")
    return word
