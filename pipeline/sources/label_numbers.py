"""Labels of elements as numbers of groups."""

from __future__ import annotations

import reprlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from chunkfold.errors import PlanError
from chunkfold.sources.labels import GivenLabels, array_of, plain_labels

_TABLED = 4
"""Whole numbers are found in a table if the largest is at most so many times their count."""
_SORTS = {
    "i": "integers", "f": "floats", "U": "texts", "M": "dates", "m": "time spans", "b": "bools",
    "O": "dates of a calendar",
}  # fmt: skip
"""Names of the kinds of labels."""


def numbered(
    given: GivenLabels, values: np.ndarray, missing: np.ndarray, groups: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Number some of the labels: int64 from 0 on, -1 of what is in no group; and the groups.

    `groups` are the labels that are expected, in their order; None: those that there are, in
    ascending order, but no negative ones.

    Raises
    ------
    PlanError
        If there is no group, or `groups` are not of the labels' kind, or name one twice.
    """
    if groups is not None:
        return _expected(given, values, missing, groups)
    if values.dtype.kind == "i" and not given.negative:
        missing = missing | (values < 0)
    there = values[~missing]
    if not there.size:
        raise PlanError(
            f"{given.name}: found no group: all {missing.size:,} selected labels are missing "
            "(negative, NaN, NaT or masked); name the groups with groups="
        )
    codes = np.full(values.shape, -1, np.int64)
    if values.dtype.kind in "iu" and there.min() >= 0 and int(there.max()) <= _TABLED * there.size:
        held = np.zeros(int(there.max()) + 1, bool)
        held[there] = True
        found = np.flatnonzero(held).astype(there.dtype)
        codes[~missing] = (np.cumsum(held) - 1)[there]
        return codes, found
    found, codes[~missing] = np.unique(there, return_inverse=True)
    return codes, found


def _expected(
    given: GivenLabels, values: np.ndarray, missing: np.ndarray, groups: Any
) -> tuple[np.ndarray, np.ndarray]:
    plain = not hasattr(groups, "__array__") and isinstance(groups, Iterable)
    try:
        listed = list(groups) if plain and not isinstance(groups, str) else None
        one_type = listed is not None and len({type(one) for one in listed}) == 1
        asked = array_of(listed) if listed and one_type else np.asarray(groups)
    except (ValueError, OverflowError, MemoryError):
        asked = np.empty(0)
    if asked.ndim != 1 or not asked.size:
        raise PlanError(
            f"groups is {reprlib.repr(groups)}; give a list of labels: texts, dates or numbers of "
            "64 bits"
        )
    if asked.dtype.kind == "U" and values.dtype.kind == "M":  # dates as they are written
        try:
            asked = asked.astype(values.dtype)
        except ValueError:
            raise PlanError(f"groups is {groups!r}; the labels of {given.name} are dates") from None
    floats = values.dtype.kind == "f"
    wanted, none = plain_labels(asked, "groups", fractions=floats)
    if floats and wanted.dtype.kind in "iuf":
        wanted = wanted.astype(values.dtype)
    if none.any():
        raise PlanError("groups: a missing label is not a group; omit it")
    kinds = [_kind(one) for one in (wanted, values)]
    if kinds[0] != kinds[1] and not missing.all():
        raise PlanError(
            f"groups are {_SORTS[kinds[0]]}, but the labels of {given.name} are {_SORTS[kinds[1]]}"
        )
    ascending = np.sort(wanted)
    twice = ascending[1:][ascending[1:] == ascending[:-1]]
    if twice.size:
        raise PlanError(f"groups has {twice[0]} more than once: each is one group")
    codes = np.full(values.shape, -1, np.int64)
    codes[~missing] = _places(wanted, values[~missing])
    return codes, wanted


def _places(wanted: np.ndarray, there: np.ndarray) -> np.ndarray:
    """Return where each label stands among those that are wanted; -1 if nowhere."""
    if wanted.dtype.kind + there.dtype.kind in ("iu", "ui"):  # NumPy compares these as floats
        places, held = np.full(there.shape, -1, np.int64), np.flatnonzero(wanted >= 0)
        fits = there >= 0
        if held.size:
            found = _places(wanted[held].astype(np.uint64), there[fits].astype(np.uint64))
            places[fits] = np.where(found < 0, -1, held[found])
        return places
    order = np.argsort(wanted, kind="stable")
    ascending = wanted[order]
    at = np.minimum(np.searchsorted(ascending, there), len(wanted) - 1)
    return np.where(ascending[at] == there, order[at], -1)


def _kind(values: np.ndarray) -> str:
    return "i" if values.dtype.kind == "u" else values.dtype.kind


def narrow(codes: np.ndarray, count: int) -> np.ndarray:
    """Return numbers of groups in as few bytes as hold them."""
    fits = (one for one in (np.int8, np.int16) if count <= np.iinfo(one).max)
    return np.ascontiguousarray(codes, next(fits, np.int32))


def transposed(given: GivenLabels, order: Sequence[int]) -> GivenLabels:
    """Put the axes of labels in another order."""
    dims = None if given.dims is None else tuple(given.dims[n] for n in order)
    values, missing = given.values.transpose(order), given.missing.transpose(order)
    return replace(given, values=values, missing=missing, dims=dims)


def without_axes(given: GivenLabels, lacking: Collection[int]) -> GivenLabels:
    """Leave out axes of one element, along which labels are the same for all elements."""
    left = None if given.dims is None else enumerate(given.dims)
    dims = None if left is None else tuple(dim for n, dim in left if n not in lacking)
    values, missing = (np.squeeze(one, tuple(lacking)) for one in (given.values, given.missing))
    return replace(given, values=values, missing=missing, dims=dims)
