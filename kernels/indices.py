"""What components make of the index: which need that of the first of equal elements alone."""

from __future__ import annotations

import re

from chunkfold.kernels.component import Component

_INDEX = re.compile(r"\bi\b")
_FIRST = {"min": "first(a.{m}, b.{m}, a.{i}, b.{i})", "max": "first(b.{m}, a.{m}, a.{i}, b.{i})"}
"""Op of an index, by that of what it is the index of."""
_RISING = re.compile(r"\s*((\((long|ulong)\))?\s*i|\d+U?L?|LONG_MAX|ULONG_MAX)\s*")
"""What does not fall where the index rises."""


def reads_index(part: Component) -> bool:
    """Whether any source of a component reads the global index `i`."""
    texts = [field.lift for field in part.fields]
    texts += part.state.texts if part.state is not None else ()
    return any(_INDEX.search(text) for text in texts)


def is_position(part: Component) -> bool:
    """Whether a component is the first position of an extreme, of keys that are integers."""
    if part.state is not None or len(part.fields) != 2:
        return False
    extreme, index = part.fields
    first = _FIRST.get(extreme.op, "").format(m=extreme.name, i=index.name)
    ordered = "int" in extreme.dtype and not _INDEX.search(extreme.lift)
    return ordered and (index.lift, index.op) == ("i", first)


def takes_first(part: Component) -> bool:
    """Whether equal elements leave what the one of the least index does by itself.

    Positions of extremes do; so does the least of what rises with the index, chosen by a condition
    of the element.
    """
    if not reads_index(part) or is_position(part):
        return True
    if part.state is not None or len(part.fields) != 1:
        return False
    (field,) = part.fields
    condition, _, branches = field.lift.rpartition("?")
    rising = all(map(_RISING.fullmatch, branches.split(":")))
    return (
        field.op == "min"
        and field.dtype in ("int64", "uint64")
        and rising
        and not _INDEX.search(condition)
    )
