"""Cells of a CSV: no spreadsheet takes one for a formula, and all of a text is seen."""

from __future__ import annotations

from typing import Any

from chunkfold.printable import printable

_BEGINS = tuple("=+-@\t\r\n＝＋－＠")  # noqa: RUF001 # spreadsheets read wide letters, too
"""The first characters of a formula, by OWASP's page on CSV injection."""


def shown(cell: Any) -> Any:
    r"""Return a cell that is `harmless`; a text spelled as `printable` has it.

    >>> shown("a\x1b]0;b\u202ec"), shown("\t=1"), shown(-1.5)
    ('a\\x1b]0;b\\u202ec', "'\\t=1", -1.5)
    """
    kept = harmless(cell)
    return printable(kept) if isinstance(kept, str) else kept


def harmless(cell: Any) -> Any:
    """Return a cell with a quote before what would be a formula; numbers stay as they are.

    >>> harmless("=1+1"), harmless("-1.5"), harmless(-1.5), harmless("air")
    ("'=1+1", '-1.5', -1.5, 'air')
    """
    if not isinstance(cell, str) or not cell.startswith(_BEGINS) or _is_number(cell):
        return cell
    return f"'{cell}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text[0] in "+-"
