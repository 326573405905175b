"""Labels of elements, of which a reduction makes groups: how they are read."""

from __future__ import annotations

import datetime as dt
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from tokenize import TokenError
from typing import Any

import numpy as np
import zarr

from chunkfold.errors import PlanError, SourceError
from chunkfold.redaction import shown_address
from chunkfold.settings import StorageOptions
from chunkfold.sources.aligning import align_to_data
from chunkfold.sources.array_origins import array_origins
from chunkfold.sources.axis_names import Named
from chunkfold.sources.cf_packing import packing_of
from chunkfold.sources.flags import flag_attributes
from chunkfold.sources.noted_addresses import note, noted
from chunkfold.sources.ome_zarr import image_name
from chunkfold.sources.opening import check_dtype, open_any
from chunkfold.sources.source import Source
from chunkfold.sources.zarr_source import ZarrSource
from chunkfold.stores.addresses import NO_OPTIONS
from chunkfold.stores.regular_files import refuse_special
from chunkfold.units import size_text

MOST_BYTES = 256 << 20
"""The most bytes of labels, all of which the client and each worker keep in memory."""


@dataclass(frozen=True, eq=False)
class GivenLabels:
    """Labels as they were given."""

    values: np.ndarray
    """Kind "i" (int64 or uint64), "U", "M", "m" or "b"; of coordinates "f" too, and "O": dates of
    cftime's."""
    missing: np.ndarray
    """True where an element has no label: bool, of the same shape."""
    dims: tuple[str | None, ...] | None = None
    """Names of their axes, if these have names."""
    name: str = "by"
    """The name that messages use."""
    axis: str = "group"
    """The name of the axis of groups in results."""
    attrs: Mapping[str, Any] = field(default_factory=dict)
    """Attributes that hold of labels, such as units."""
    negative: bool = False
    """True if negative numbers are labels as others are."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        return self.values.shape


def read_labels(
    by: Any,
    options: StorageOptions | None = None,
    *,
    data: Named | None = None,
    mask_and_scale: bool = False,
    fractions: bool = False,
) -> GivenLabels:
    """Read labels whole: an array or what NumPy makes one of, xarray's or Zarr's, or its address.

    Of files those of NumPy's are read too (.npy), but none that hold Python's objects. What was
    read is returned as it is. A Zarr array whose coordinates are those of the `data` in another
    order is put in their order. `fractions` tells whether they may be any numbers, of which others
    make groups.

    Raises
    ------
    PlanError
        If there are too many, or they are neither whole numbers, texts, bools nor times.
    SourceError
        If the array or the file that they are to be in cannot be opened.
    ChunkError
        If it cannot be read.
    """
    if isinstance(by, GivenLabels):
        return by
    note(array_origins(by))
    if isinstance(by, (str, os.PathLike)) and os.fspath(by).endswith(".npy"):
        if "://" in os.fspath(by):
            raise SourceError(
                f"{shown_address(os.fspath(by))}: .npy files are read from local disks only"
            )
        note([os.fspath(by)])
        return _read_npy(Path(by), fractions=fractions)
    if isinstance(by, (str, os.PathLike, zarr.Array)):
        return _read_zarr(by, options, data, mask_and_scale=mask_and_scale, fractions=fractions)
    dims = getattr(by, "dims", None)
    named = isinstance(dims, tuple) and all(isinstance(dim, str) for dim in dims)
    if hasattr(by, "data_vars"):
        raise PlanError("by is a Dataset: name one of its arrays, as by=ds.zones")
    refuse_many("by", getattr(by, "nbytes", 0), getattr(by, "size", 0))
    try:
        values = by if isinstance(by, np.ma.MaskedArray) else np.asarray(by)
    except ValueError as error:
        raise PlanError(f"by: NumPy makes no array of it ({error})") from None
    refuse_many("by", values.nbytes, values.size)
    called = getattr(by, "name", None)
    found = _given(
        values,
        tuple(dims) if named and dims is not None else None,
        "by",
        called if named and isinstance(called, str) else "",
        fractions=fractions,
    )
    return replace(found, attrs=flag_attributes(getattr(by, "attrs", {}))) if named else found


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
        raise SourceError(f"{path}: is not a .npy file that can be read ({why})") from error
    if not isinstance(values, np.ndarray):
        raise SourceError(f"{path}: holds several arrays; give one, as numpy.save writes it")
    return values


def _read_npy(path: Path, *, fractions: bool) -> GivenLabels:
    values = read_npy(path)
    refuse_many(str(path), values.nbytes, values.size)
    return _given(np.array(values), None, str(path), path.stem, fractions=fractions)


def _read_zarr(
    by: Any,
    options: StorageOptions | None,
    data: Named | None,
    *,
    mask_and_scale: bool,
    fractions: bool,
) -> GivenLabels:
    source = noted(open_any(by, options or NO_OPTIONS))
    refuse_many(source.name, source.nbytes, int(np.prod(source.shape, dtype=object)))
    if isinstance(source, ZarrSource) and source.dtype.kind in "TUS":
        values = np.asarray(source.bounded[...])
    else:
        check_dtype(source)
        values = source.whole()
        packing = packing_of(source) if mask_and_scale else None
        values = values if packing is None else packing.values(values)
    values = align_to_data(values, source, data)
    found = _given(values, source.dims, source.name, _called(source), fractions=fractions)
    return replace(found, attrs=flag_attributes(source.attributes))


def _called(source: Source) -> str:
    """Return what an array is called; a level of an image as the image is."""
    if not isinstance(source, ZarrSource):
        return PurePosixPath(source.name).stem
    inner = source.array.path
    return image_name(source.level, inner) or image_name(source.level, source.name) or ""


def refuse_many(name: str, nbytes: int, count: int) -> None:
    """Refuse labels that are more than a worker holds.

    Raises
    ------
    PlanError
        If they are.
    """
    needed = max(nbytes, count * np.dtype(np.int32).itemsize)
    if needed > MOST_BYTES:
        raise PlanError(
            f"{name}: labels of {size_text(needed)} are more than the {size_text(MOST_BYTES)} that "
            "each worker holds of them: give those of fewer axes"
        )


def _given(
    values: np.ndarray,
    dims: tuple[str | None, ...] | None,
    name: str,
    axis: str = "",
    *,
    fractions: bool,
) -> GivenLabels:
    if not values.ndim:
        raise PlanError(f"{name}: labels must have at least one axis, but this is {values}")
    masked = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else None
    plain, missing = plain_labels(
        np.asarray(np.ma.getdata(values)), name, masked, fractions=fractions
    )
    fine = re.fullmatch(r"\w[\w -]*", axis) is not None
    return GivenLabels(plain, missing, dims, name, axis if fine else GivenLabels.axis)


def plain_labels(
    values: np.ndarray, name: str, masked: np.ndarray | None = None, *, fractions: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return labels of one of the kinds that there are, and which of them are missing.

    Floats are whole numbers, but where there may be `fractions`.

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
        values = values if fractions else _whole(values, missing, name)
    elif kind in "mM":
        missing |= np.isnat(values)
    elif kind == "S":
        try:
            values = values.astype(np.str_)
        except UnicodeDecodeError:
            raise PlanError(f"{name}: labels are bytes that are not ASCII; decode them") from None
    elif kind not in "Ub" and not _are_dates(values, missing):
        raise PlanError(
            f"{name}: labels cannot be {values.dtype}; give integers, strings, bools or dates"
        )
    return values, missing


def _of_objects(
    values: np.ndarray, missing: np.ndarray, name: str
) -> tuple[np.ndarray, np.ndarray]:
    """Give objects the dtype that those have which are not None, nor NaN."""
    missing_too = np.array([is_missing(one) for one in values.reshape(-1)], bool)
    missing = missing | missing_too.reshape(values.shape)
    held = values[~missing].tolist()
    kinds = {type(one) for one in held}
    if len(kinds) > 1 or kinds & {list, tuple, np.ndarray}:
        raise PlanError(f"{name}: labels are of several types; give only strings, or only dates")
    there = array_of(held)
    out = np.zeros(values.shape, there.dtype)
    out[~missing] = there
    return out, missing


def is_missing(one: Any) -> bool:
    """Return True if an object is a missing label: None, NaN, NaT, or unequal to itself."""
    try:
        return one is None or bool(one != one)
    except (TypeError, ValueError, ArithmeticError):  # as pandas.NA, which is neither
        return True


def _are_dates(values: np.ndarray, missing: np.ndarray) -> bool:
    """Return True if objects are dates of cftime, which need not be installed."""
    cftime = sys.modules.get("cftime")
    there = values[~missing]
    return cftime is not None and bool(there.size) and isinstance(there[0], cftime.datetime)


def array_of(held: Sequence[Any]) -> np.ndarray:
    """Return objects of one type as an array that has all of their values."""
    if held and isinstance(held[0], dt.time):
        return np.asarray([one.isoformat() for one in held])
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
