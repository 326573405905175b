"""Labels of elements, of which a reduction makes groups: how they are read, and numbered."""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from tokenize import TokenError
from typing import Any

import numpy as np
import zarr

from chunkfold.errors import PlanError, SourceError
from chunkfold.redaction import shown_address
from chunkfold.settings import StorageOptions
from chunkfold.sources.cf_packing import packing_of
from chunkfold.sources.opening import check_dtype, open_any
from chunkfold.sources.zarr_source import ZarrSource
from chunkfold.stores.addresses import NO_OPTIONS
from chunkfold.stores.regular_files import refuse_special
from chunkfold.units import size_text

MOST_BYTES = 256 << 20
"""Of labels, which are held whole by the client and by each worker."""
_TABLED = 4
"""Whole numbers are found in a table if the largest is at most so many times their count."""
_SORTS = {"i": "integers", "U": "texts", "M": "dates", "m": "time spans", "b": "bools"}
"""What labels of a kind are called."""


@dataclass(frozen=True, eq=False)
class Given:
    """Labels as they were given."""

    values: np.ndarray
    """Kind "i" (int64 or uint64), "U", "M", "m" or "b"."""
    missing: np.ndarray
    """Which of them are none: bool, of the same shape."""
    dims: tuple[str | None, ...] | None = None
    """Names of their axes, if these have names."""
    name: str = "by"
    """How messages call them."""
    axis: str = "group"
    """What results call the axis of groups."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        return self.values.shape


def read_labels(
    by: Any, options: StorageOptions | None = None, *, mask_and_scale: bool = False
) -> Given:
    """Read labels whole: an array or what NumPy makes one of, xarray's or Zarr's, or its address.

    Of files those of NumPy's are read too (.npy), but none that hold Python's objects. What was
    read is returned as it is.

    Raises
    ------
    PlanError
        If there are too many, or they are neither whole numbers, texts, bools nor times.
    SourceError
        If the array or the file that they are to be in cannot be opened.
    ChunkError
        If it cannot be read.
    """
    if isinstance(by, Given):
        return by
    if isinstance(by, (str, os.PathLike)) and os.fspath(by).endswith(".npy"):
        if "://" in os.fspath(by):
            raise SourceError(
                f"{shown_address(os.fspath(by))}: files of NumPy's are read from this host alone"
            )
        return _read_npy(Path(by))
    if isinstance(by, (str, os.PathLike, zarr.Array)):
        return _read_zarr(by, options, mask_and_scale=mask_and_scale)
    dims = getattr(by, "dims", None)
    named = isinstance(dims, tuple) and all(isinstance(dim, str) for dim in dims)
    if hasattr(by, "data_vars"):
        raise PlanError("by is a Dataset: name one of its arrays, as by=ds.zones")
    _refuse_many("by", getattr(by, "nbytes", 0), getattr(by, "size", 0))
    try:
        values = by if isinstance(by, np.ma.MaskedArray) else np.asarray(by)
    except ValueError as error:
        raise PlanError(f"by: NumPy makes no array of it ({error})") from None
    _refuse_many("by", values.nbytes, values.size)
    called = getattr(by, "name", None)
    return _given(
        values,
        tuple(dims) if named and dims is not None else None,
        "by",
        called if named and isinstance(called, str) else "",
    )


def read_npy(path: Path) -> np.ndarray:
    """Return the array of a file of NumPy's, unread.

    Raises
    ------
    SourceError
        If it is none, or holds Python's objects.
    """
    try:
        refuse_special(path)
        values = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError, SyntaxError, TokenError) as error:
        why = "it holds Python's objects" if "allow_pickle" in str(error) else error
        raise SourceError(f"{path}: is no array of NumPy's that can be read ({why})") from error
    if not isinstance(values, np.ndarray):
        raise SourceError(f"{path}: holds several arrays; give one, as numpy.save writes it")
    return values


def _read_npy(path: Path) -> Given:
    values = read_npy(path)
    _refuse_many(str(path), values.nbytes, values.size)
    return _given(np.array(values), None, str(path), path.stem)


def _read_zarr(by: Any, options: StorageOptions | None, *, mask_and_scale: bool) -> Given:
    source = open_any(by, options or NO_OPTIONS)
    _refuse_many(source.name, source.nbytes, int(np.prod(source.shape, dtype=object)))
    if isinstance(source, ZarrSource) and source.dtype.kind in "TUS":
        values = np.asarray(source.array[...])
    else:
        check_dtype(source)
        values = source.whole()
        packing = packing_of(source) if mask_and_scale else None
        values = values if packing is None else packing.values(values)
    array = source.array if isinstance(source, ZarrSource) else None
    called = PurePosixPath((array and array.path) or source.name).stem
    return _given(values, source.dims, source.name, called)


def _refuse_many(name: str, nbytes: int, count: int) -> None:
    needed = max(nbytes, count * np.dtype(np.int32).itemsize)
    if needed > MOST_BYTES:
        raise PlanError(
            f"{name}: labels of {size_text(needed)} are more than the {size_text(MOST_BYTES)} that "
            "each worker holds of them: give those of fewer axes"
        )


def _given(
    values: np.ndarray, dims: tuple[str | None, ...] | None, name: str, axis: str = ""
) -> Given:
    if not values.ndim:
        raise PlanError(f"{name}: labels have at least one axis, but this is {values}")
    masked = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else None
    plain, missing = plain_labels(np.asarray(np.ma.getdata(values)), name, masked)
    fine = re.fullmatch(r"\w[\w -]*", axis) is not None
    return Given(plain, missing, dims, name, axis if fine else Given.axis)


def plain_labels(
    values: np.ndarray, name: str, masked: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return labels of one of the kinds that there are, and which of them are missing.

    Raises
    ------
    PlanError
        If they are none.
    """
    missing = np.zeros(values.shape, bool) if masked is None else masked.copy()
    if values.dtype.kind in "OT":
        values, missing = _of_objects(values.astype(object), missing, name)
    kind = values.dtype.kind
    if kind in "iu":
        beyond = kind == "u" and bool((values > np.iinfo(np.int64).max).any())
        values = values.astype(np.uint64 if beyond else np.int64)
    elif kind == "f":
        missing |= np.isnan(values)
        values = _whole(values, missing, name)
    elif kind in "mM":
        missing |= np.isnat(values)
    elif kind == "S":
        try:
            values = values.astype(np.str_)
        except UnicodeDecodeError:
            raise PlanError(f"{name}: labels are bytes that are no ASCII; decode them") from None
    elif kind not in "Ub":
        raise PlanError(
            f"{name}: labels of {values.dtype} are none; give whole numbers, texts, bools or dates"
        )
    return values, missing


def _of_objects(
    values: np.ndarray, missing: np.ndarray, name: str
) -> tuple[np.ndarray, np.ndarray]:
    """Give objects the dtype that those have which are not None, nor NaN."""
    absent = np.array([_is_missing(one) for one in values.reshape(-1)], bool)
    missing = missing | absent.reshape(values.shape)
    held = values[~missing].tolist()
    kinds = {type(one) for one in held}
    if len(kinds) > 1 or kinds & {list, tuple, np.ndarray}:
        raise PlanError(f"{name}: labels are of several types; give integers, texts or dates alone")
    there = _array_of(held)
    out = np.zeros(values.shape, there.dtype)
    out[~missing] = there
    return out, missing


def _is_missing(one: Any) -> bool:
    """Whether an object stands for no label: None, NaN, NaT, and what is not even itself."""
    try:
        return one is None or bool(one != one)
    except (TypeError, ValueError, ArithmeticError):  # as pandas.NA, which is neither
        return True


def _array_of(held: Sequence[Any]) -> np.ndarray:
    """Return objects of one type as an array that has all of their values."""
    if held and isinstance(held[0], dt.date):
        unit = "us" if isinstance(held[0], dt.datetime) else "D"
        return np.asarray(held, f"M8[{unit}]")
    if held and isinstance(held[0], int) and not isinstance(held[0], bool):
        beyond = max(held) > np.iinfo(np.int64).max
        return np.asarray(held, np.uint64 if beyond and min(held) >= 0 else None)
    return np.asarray(held)


def _whole(values: np.ndarray, missing: np.ndarray, name: str) -> np.ndarray:
    held = np.where(missing, 0, values).astype(np.float64)
    odd = (held != np.floor(held)) | (np.abs(held) >= 2.0**63)
    odd |= ~missing & (held.astype(values.dtype) != values)  # wider floats hold more digits
    if odd.any():
        raise PlanError(
            f"{name}: labels are whole numbers, but {held[odd][0]} is among them: number the "
            "groups first, as np.digitize does"
        )
    return held.astype(np.int64)


def numbered(
    given: Given, values: np.ndarray, missing: np.ndarray, groups: Any
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
    if values.dtype.kind == "i":
        missing = missing | (values < 0)
    there = values[~missing]
    if not there.size:
        raise PlanError(
            f"{given.name}: there is no group, for no label of what is selected counts: those that "
            "are negative, NaN, NaT or masked are missing; name the groups with groups="
        )
    codes = np.full(values.shape, -1, np.int64)
    if values.dtype.kind in "iu" and int(there.max()) <= _TABLED * there.size:
        held = np.zeros(int(there.max()) + 1, bool)
        held[there] = True
        found = np.flatnonzero(held).astype(there.dtype)
        codes[~missing] = (np.cumsum(held) - 1)[there]
        return codes, found
    found, codes[~missing] = np.unique(there, return_inverse=True)
    return codes, found


def _expected(
    given: Given, values: np.ndarray, missing: np.ndarray, groups: Any
) -> tuple[np.ndarray, np.ndarray]:
    plain = not hasattr(groups, "__array__") and isinstance(groups, Iterable)
    try:
        listed = list(groups) if plain and not isinstance(groups, str) else None
        one_type = listed is not None and len({type(one) for one in listed}) == 1
        asked = _array_of(listed) if listed and one_type else np.asarray(groups)
    except (ValueError, OverflowError):
        raise PlanError(f"groups is {groups!r}; give a list of labels") from None
    if asked.ndim != 1 or not asked.size:
        raise PlanError(f"groups is {groups!r}; give a list of labels")
    wanted, none = plain_labels(asked, "groups")
    if none.any():
        raise PlanError("groups: a missing label is no group; leave it out")
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


def transposed(given: Given, order: Sequence[int]) -> Given:
    """Put the axes of labels in another order."""
    dims = None if given.dims is None else tuple(given.dims[n] for n in order)
    values, missing = given.values.transpose(order), given.missing.transpose(order)
    return replace(given, values=values, missing=missing, dims=dims)
