"""Keys of the objects in a box of an array's grid."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

Key = Callable[[tuple[int, ...]], str]
"""Returns the key of an object by its place in the grid."""


def spelling(key: Key, ndim: int) -> tuple[str | None, str]:
    """Return the prefix and the separator of keys; (None, "") if keys have another form."""
    for prefix, separator in (("c/", "/"), ("c.", "."), ("", "/"), ("", ".")):
        numbers = tuple(range(1, ndim + 1))
        if key(numbers) == prefix + separator.join(map(str, numbers)):
            return prefix, separator
    return None, ""


def keys_in(key: Key, box: Sequence[range]) -> list[str]:
    """Return the keys of all places of a box, in C order.

    Zarr makes one key at a time, which takes much longer.

    >>> keys_in(lambda place: "c/" + "/".join(map(str, place)), [range(1, 3), range(10, 12)])
    ['c/1/10', 'c/1/11', 'c/2/10', 'c/2/11']
    """
    prefix, separator = spelling(key, len(box))
    places = itertools.product(*box)
    if prefix is None or not box:
        return [key(place) for place in places]
    numbers = itertools.product(*(list(map(str, one)) for one in box))
    return [f"{prefix}{one}" for one in map(separator.join, numbers)]
