"""Arrays that stand beside another and go along it: the coordinates of its axes, and others."""

from __future__ import annotations

import base64
import re
import struct
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import zarr
from zarr.dtype import VariableLengthBytes, VariableLengthUTF8

from chunkfold.errors import SourceError
from chunkfold.grid import Axis
from chunkfold.planning.request import Request
from chunkfold.positions import crossed, index_of
from chunkfold.results.attributes import of_a_part
from chunkfold.results.averages import averaged
from chunkfold.sources.axis_names import axis_names
from chunkfold.sources.cf_packing import MISSING, packing_of
from chunkfold.sources.h5_opening import group_attributes_of
from chunkfold.sources.h5_source import H5Source
from chunkfold.sources.opening import open_beside, open_node
from chunkfold.sources.source import Source
from chunkfold.sources.zarr_source import AnyArray, ZarrSource
from chunkfold.stores.remote import message_of

_NUMBERS = "biufmM"
"""Kinds of dtypes that have means."""
_OF_INTEGERS = (*MISSING, "_Unsigned", "valid_range", "valid_min", "valid_max")
"""Attributes of stored numbers that say nothing of their means."""
_PLAIN = re.compile(r"(?!\.)(?:(?!::)[^/?#])+")
"""Names of what stands beside an array: others would lead elsewhere."""


@dataclass(frozen=True)
class Kept:
    """What is left of an array's axes by a selection and a reduction."""

    source: Source
    axes: Sequence[Axis]
    """All of the source's, as far as they are selected."""
    kept: Sequence[int]
    """Those of them that results have, element by element."""

    @classmethod
    def of(cls, request: Request) -> Kept:
        """Return what a reduction leaves, planned or not."""
        axes = range(len(request.chosen))
        left = [n for n in axes if n not in request.reduced]
        return cls(request.sources[0], request.chosen, left)

    @cached_property
    def names(self) -> list[str | None]:
        """The names of all axes; None for those without."""
        return axis_names(self.source, range(len(self.axes))) or [None] * len(self.axes)

    @cached_property
    def along(self) -> dict[str, int]:
        """The axes that are left, by their names, as far as these are theirs alone."""
        return {
            name: n for n in self.kept if (name := self.names[n]) and self.names.count(name) == 1
        }


@dataclass(frozen=True)
class Beside:
    """An array beside another, as far as it goes along what is left of its axes."""

    name: str
    axes: tuple[str, ...]
    array: AnyArray
    cuts: tuple[slice | np.ndarray, ...]
    """What is selected along each of its axes."""
    attributes: dict[str, Any]
    """Those that hold for what is selected."""
    values: np.ndarray | None = None
    """As they are stored; None until they are read."""
    windows: tuple[int, ...] = ()
    """Values along each of its axes whose mean stands for them; 0: each stands for itself."""

    def read(self) -> Beside:
        """Return it with its values.

        Raises
        ------
        Exception
            Whatever keeps them from being read.
        """
        # What zarr has no slices for is taken of all that is stored.
        apart = [(cut, slice(None)) if _is_stored(cut) else (slice(None), cut) for cut in self.cuts]
        stored = np.asarray(self.array[tuple(cut for cut, _ in apart)])
        return replace(self, values=crossed(stored, [cut for _, cut in apart]))

    def averaged(self) -> np.ndarray:
        """Return the means of what is stored, of that which is not missing, where windows are."""
        return averaged(_numbers(self), self.windows)

    def write(self, group: zarr.Group) -> None:
        """Write it into a group, by its name; means of what is not missing, where windows are."""
        values, attributes = np.asarray(self.values), self.attributes
        if any(self.windows):
            values = self.averaged()
            attributes = {key: said for key, said in attributes.items() if key not in _OF_INTEGERS}
        # NumPy has no dtype for texts of any length, or knows it as one of objects.
        texts = all(isinstance(value, str) for value in values.flat)
        dtype: Any = VariableLengthUTF8() if texts else VariableLengthBytes()
        made = group.create_array(
            self.name,
            shape=values.shape,
            dtype=dtype if values.dtype.kind == "O" else values.dtype,
            attributes=attributes,
            dimension_names=list(self.axes),
        )
        made[...] = values


def _is_stored(cut: slice | np.ndarray) -> bool:
    """Whether elements are selected as they stand in a store."""
    return isinstance(cut, slice) and cut.step > 0


def beside(kept: Kept, name: str, *, more: bool = False, averages: bool = False) -> Beside | None:
    """Find an array beside a source that has no axes but some of those that are left.

    None if there is none. The name of an axis is that of its coordinate. `more` allows axes that
    the source has not, such as that of the two bounds of a cell; `averages` windows, of which the
    array's means are true.
    """
    found = opened_beside(kept, name)
    if found is None:
        return None
    axes = (name,) if name in kept.along else tuple(ZarrSource(found, name).dims or ())
    if len(axes) != found.ndim or len(set(axes)) != len(axes):
        return None
    cuts, windows, whole = [], list[int](), True
    for axis, length in zip(axes, found.shape, strict=True):
        n = kept.along.get(str(axis))
        if n is None and (not more or axis is None or axis in kept.names):
            return None
        if n is not None and length != kept.source.shape[n]:
            return None
        shown = range(length) if n is None else kept.axes[n].shown
        whole &= isinstance(shown, range) and shown == range(length)
        windows.append(0 if n is None else kept.axes[n].window)
        cuts.append(index_of(shown))
    if any(windows) and not (averages and found.dtype.kind in _NUMBERS):
        return None
    attributes = _attributes(found, whole=whole and not any(windows))
    along = tuple(map(str, axes))
    return Beside(name, along, found, tuple(cuts), attributes, windows=tuple(windows))


def opened_beside(kept: Kept, name: str) -> AnyArray | None:
    """Open an array beside a source; None, with a warning if one is there, if it is not to be read.

    Results are worth more.
    """
    if not _PLAIN.fullmatch(name):
        return None
    try:
        return open_beside(kept.source, name)
    except SourceError as error:
        _leave_out(kept, name, error)
        return None


def group_attributes(source: Source) -> Mapping[str, Any]:
    """Return the attributes of the group that a source is in; none if it cannot be opened."""
    try:
        if isinstance(source, H5Source):
            return group_attributes_of(source)
        if not isinstance(source, ZarrSource):
            return {}
        array, address = source.array, (source.local_path or source.address or "").rstrip("/")
        if array.path:
            above = str(PurePosixPath(array.path).parent)
            found = zarr.open_group(array.store, path="" if above == "." else above, mode="r")
            return found.attrs.asdict()
        folder = address.rpartition("/")[0]
        node = open_node(folder) if folder else None
        return {} if node is None else node.attrs.asdict()
    except Exception:  # noqa: BLE001 # whatever keeps it from being opened: most often none is there
        return {}


def read_or_left_out(kept: Kept, one: Beside) -> Beside | None:
    """Return it with its values; None, with a warning, if they cannot be read.

    Results are worth more.
    """
    try:
        return one.read()
    except Exception as error:  # noqa: BLE001 # whatever keeps it from being read
        _leave_out(kept, one.name, error)
        return None


def _leave_out(kept: Kept, name: str, error: Exception) -> None:
    reason = str(error) if isinstance(error, SourceError) else message_of(error)
    what = "coordinate" if name in kept.along else "companion"
    left_out = f"its {what} {name!r} is left out, it cannot be read: {reason}"
    warnings.warn(f"{kept.source.name}: {left_out}", RuntimeWarning, stacklevel=2)


def _numbers(one: Beside) -> np.ndarray:
    """Return stored numbers that may be averaged: floats that are NaN where one is missing."""
    values = np.asarray(one.values)
    packing = packing_of(ZarrSource(one.array, one.name)) if values.dtype.kind in "iuf" else None
    if packing is None:
        return values
    held = values.view(packing.stored_dtype(values.dtype))
    missing = np.isin(held, np.array(packing.missing, held.dtype))
    return np.where(missing, np.nan, held) if missing.any() else held


def _attributes(array: AnyArray, *, whole: bool) -> dict[str, Any]:
    """Return the attributes that a part of an array has in format 3.

    What format 2 calls missing by its fill value is named by one, as xarray writes it.
    """
    attributes, fill = of_a_part(array.attrs.asdict(), whole=whole), array.fill_value
    if array.metadata.zarr_format == 2 and fill is not None and "_FillValue" not in attributes:
        if array.dtype.kind in "iu":
            attributes["_FillValue"] = int(fill)
        if array.dtype.kind == "f":
            packed = struct.pack("<d", float(fill))
            attributes["_FillValue"] = base64.standard_b64encode(packed).decode()
    return attributes
