"""Writes JSON that any parser reads, whatever numbers and names are in it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from chunkfold.printable import printable

_HALF = re.compile("[\ud800-\udfff]")


def jsonable(value: Any) -> Any:
    """Turn a NumPy value into what JSON can carry.

    NaN and infinities, times and complex numbers become strings, records become objects. Halves of
    letters, as of names that are no UTF-8, are spelled: JSON has none.

    >>> jsonable(np.array([1.5, np.nan])), jsonable(np.array(3)), jsonable(np.datetime64(0, "s"))
    ([1.5, 'NaN'], 3, '1970-01-01T00:00:00')
    """
    if isinstance(value, str):
        return _HALF.sub(lambda half: printable(half[0]), value)
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, Mapping):
        return {jsonable(str(name)): jsonable(entry) for name, entry in value.items()}
    if isinstance(value, np.ndarray) and not value.ndim:
        value = value[()]
    if isinstance(value, (np.ndarray, list, tuple)):
        return [jsonable(entry) for entry in value]
    if isinstance(value, np.void) and value.dtype.names:
        return {name: jsonable(value[name]) for name in value.dtype.names}
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return str(value)
    if hasattr(value, "isoformat"):  # dates, of any calendar
        return str(value.isoformat())
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, float) and not math.isfinite(plain):
        return "NaN" if math.isnan(plain) else "Infinity" if plain > 0 else "-Infinity"
    return str(plain) if isinstance(plain, complex) else plain


def json_text(value: Any, indent: int | None = None) -> str:
    """Write what `jsonable` makes of a value: JSON for any parser, in ASCII."""
    return json.dumps(jsonable(value), indent=indent, allow_nan=False)
