"""Numbers for people."""

from __future__ import annotations


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
