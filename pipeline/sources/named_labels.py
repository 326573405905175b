"""Labels that stand beside data, by their names: coordinates, and parts of times."""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chunkfold.errors import PlanError, SourceError
from chunkfold.sources.axis_names import Named
from chunkfold.sources.cf_packing import MISSING, SCALING
from chunkfold.sources.data_arrays import DataArrays
from chunkfold.sources.date_parts import DecodedArray, date_part
from chunkfold.sources.labels import GivenLabels, plain_labels, refuse_many
from chunkfold.sources.neighbour_array import Neighbour
from chunkfold.sources.neighbours import neighbour
from chunkfold.sources.source import Source
from chunkfold.stores.remote import message_of

if TYPE_CHECKING:
    import xarray

_OF_STORAGE = (*SCALING, *MISSING, "_Unsigned", "coordinates", "bounds", "climatology")
"""Attributes that say how values are stored, or what else there is of them."""
_MOST_BESIDE = 50
"""Entries of a folder that a message looks at."""
_OF_TIMES = ("units", "calendar")


def named_labels(name: str, data: Named) -> GivenLabels | None:
    """Read labels that a name stands for, as `lat` or `time.month`; None if it stands for none.

    Numbers of a coordinate may have fractions; those that say where along an axis a place is may
    be negative, too.

    Raises
    ------
    PlanError
        If times have no such part, or too many labels stand there.
    SourceError
        If they cannot be read.
    """
    found = coordinate_of(name, data)
    if found is not None:
        return _labels(found, name, found.name)
    head, dot, part = name.rpartition(".")
    found = coordinate_of(head, data) if dot else None
    if found is None:
        return None
    said = f"by {name!r}: {found.name!r} of {data.name}"
    return _labels(date_part(found, part, said), name, part)


def _labels(found: DecodedArray, name: str, axis: str) -> GivenLabels:
    if not found.dims:
        raise PlanError(
            f"by {name!r}: labels must have at least one axis, but {found.name!r} is one value"
        )
    values, missing = plain_labels(found.values, name, fractions=True)
    fractions = values.dtype.kind == "f" and bool((values[~missing] % 1 != 0).any())
    measured = found.of_axis or fractions or axis != found.name
    if not measured:  # whole numbers are codes
        values, missing = plain_labels(values, name, missing)
    return GivenLabels(values, missing, found.dims, name, axis, found.attrs, negative=measured)


def coordinate_of(name: str, data: Named) -> DecodedArray | None:
    """Read an array beside data and decode it; None if there is none of that name.

    Raises
    ------
    PlanError
        If it has too many elements, or xarray is needed and not there.
    SourceError
        If it cannot be read.
    """
    if isinstance(data, DataArrays):
        return held_coordinate(data.arrays[0], name)
    return _stored(name, data) if isinstance(data, Source) else None


def held_coordinate(held: xarray.DataArray | xarray.Dataset, name: str) -> DecodedArray | None:
    """Return a coordinate of what xarray holds; None if it has none of that name.

    Raises
    ------
    PlanError
        If it has too many elements.
    """
    if name not in held.coords:
        return None
    one = held.coords[name].variable
    refuse_many(name, one.nbytes, one.size)
    zone = getattr(one.dtype, "tz", None)
    return DecodedArray(
        name, tuple(map(str, one.dims)), np.asarray(one.values), dict(one.attrs), zone
    )


def is_coordinate(name: str, data: Named) -> bool:
    """Tell whether an array of a name stands beside data, without reading it.

    Raises
    ------
    SourceError
        If it cannot be opened.
    """
    if isinstance(data, DataArrays):
        return name in data.arrays[0].coords
    return isinstance(data, Source) and _neighbour(name, data) is not None


def _neighbour(name: str, data: Source) -> Neighbour | None:
    if not name or "/" in name or name.startswith("."):
        return None
    return neighbour(data, name)


def _stored(name: str, data: Source) -> DecodedArray | None:
    found = _neighbour(name, data)
    if found is None:
        return None
    refuse_many(name, found.nbytes, math.prod(found.shape))
    try:
        stored = found.whole()
    except Exception as error:
        raise SourceError(f"{data.name}: its {name!r} cannot be read: {message_of(error)}") from (
            error
        )
    dims = found.axes_among(data.dims or ())
    attributes = found.attributes
    values, left_out = found.values(stored), {*_OF_STORAGE}
    if stored.dtype.kind in "iuf" and " since " in str(attributes.get("units")):
        values = _dates(name, values, attributes, data)
        left_out |= {*_OF_TIMES}
    elif stored.dtype.kind == "T":
        values = stored.astype(object)
    attrs = {key: said for key, said in attributes.items() if key not in left_out}
    return DecodedArray(name, dims, values, attrs)


def _dates(
    name: str, values: np.ndarray, attributes: Mapping[str, Any], data: Source
) -> np.ndarray:
    """Return the dates that numbers stand for, as xarray decodes them."""
    try:
        import xarray as xr
    except ImportError:
        raise PlanError(
            f"dates of {name!r} need xarray: pip install 'chunkfold[xarray]', or give labels as "
            "an array"
        ) from None
    said = {key: attributes[key] for key in _OF_TIMES if key in attributes}
    dims = [f"dim_{n}" for n in range(values.ndim)]
    try:
        decoded = xr.decode_cf(xr.Dataset({"times": (dims, values, said)}))["times"]
        return np.asarray(decoded.values)
    except (ValueError, OverflowError, ImportError) as error:
        why = str(error).partition("\n")[0]
        raise SourceError(f"{data.name}: dates of its {name!r} are not understood: {why}") from None


def may_name(given: Any) -> bool:
    """Return True if an object may name an array next to data; names take precedence over paths."""
    if isinstance(given, Path) or not isinstance(given, (str, os.PathLike)):
        return False
    text = os.fspath(given)
    return "/" not in text and not text.endswith(".npy")


def nothing_named(
    what: str, given: Any, data: Named, error: SourceError, more: str = ""
) -> SourceError:
    """Return the error for a name that is neither an array next to data nor a path."""
    text, arrays = os.fspath(given), _arrays_beside(data)
    meant = [*_coordinates(data), *arrays]
    parts = _parts_of_dates(text, data) if more else []
    near = parts or difflib.get_close_matches(text, meant, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    also = f", and the arrays {', '.join(arrays)}" if arrays else ""
    return SourceError(
        f"{what}: found no array {text!r} next to {data.name}, which has "
        f"{known_names(data)}{more}{also}, or as a path: {error}{hint}"
    )


def _arrays_beside(data: Named) -> list[str]:
    """Return the arrays in the folder of a stored one, but coordinates; none if it is in none."""
    path = data.local_path if isinstance(data, Source) else None
    if path is None or not Path(path).is_dir():
        return []
    own = {Path(path).name, *_coordinates(data)}
    beside = islice(sorted(Path(path).parent.iterdir()), _MOST_BESIDE)
    return [one.name for one in beside if one.name not in own and is_coordinate(one.name, data)]


def _parts_of_dates(part: str, data: Named) -> list[str]:
    """Return what a part of dates is called whose coordinate was left out, as `time.month`."""
    found = []
    for name in _coordinates(data):
        with suppress(PlanError, SourceError):
            one = coordinate_of(name, data)
            if one is not None and one.are_dates:
                date_part(one, part, name)
                found.append(f"{name}.{part}")
    return found


def known_names(data: Named) -> str:
    """List the coordinates next to data, for messages."""
    names = _coordinates(data)
    return f"the coordinates {', '.join(names)}" if names else "no coordinates"


def _coordinates(data: Named) -> list[str]:
    if isinstance(data, DataArrays):
        return [str(name) for name in data.arrays[0].coords]
    listed = str(getattr(data, "attributes", {}).get("coordinates", "")).split()
    wanted = dict.fromkeys([*(name for name in data.dims or () if name), *listed])
    return [name for name in wanted if isinstance(data, Source) and _is_there(data, name)]


def _is_there(data: Source, name: str) -> bool:
    try:
        return neighbour(data, name) is not None
    except SourceError:
        return False
