"""CF attributes define the values of stored numbers: scale, offset, missing; as in xarray."""

from __future__ import annotations

import base64
import binascii
import contextlib
import math
import reprlib
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from chunkfold.errors import PlanError
from chunkfold.kernels import Packing
from chunkfold.kernels.dtypes import kind_of

SCALING = ("scale_factor", "add_offset")
"""Attributes by which values are packed in small integers."""
MISSING = ("_FillValue", "missing_value")
"""Attributes that name stored numbers of which the value is missing."""
_VALID = ("valid_range", "valid_min", "valid_max")
"""Attributes that say which values there may be; xarray does not apply them either."""
MOST_MISSING = 100
"""Numbers that an array may call missing: kernels compare each element with each."""
_RESIGNED = {("true", "i"): "uint", ("false", "u"): "int"}
"""The kind that `_Unsigned` reads integers of a kind as."""


class HasAttributes(Protocol):
    """An array with attributes that say what its elements stand for."""

    @property
    def name(self) -> str:
        """Return the name that messages use."""

    @property
    def dtype(self) -> np.dtype:
        """Return the dtype of an element."""

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Return the attributes that are stored with it."""

    @property
    def missing_fill(self) -> Sequence[Any]:
        """The fill value, if it stands for nothing."""


def packing_of(source: HasAttributes) -> Packing | None:
    """Return how an array's values are packed; None if they are what is stored.

    By its attributes `scale_factor`, `add_offset`, `_FillValue`, `missing_value`, `_Unsigned`; in
    format 2 its fill value is missing too, for it is where xarray keeps `_FillValue`.

    Raises
    ------
    PlanError
        If one of them is no number, or its elements are none.
    """
    dtype, attributes = source.dtype, _attributes(source)
    scaling = {
        name: _number(source, name, attributes[name]) for name in SCALING if name in attributes
    }
    if not Packing.packs(dtype):
        if scaling:
            raise PlanError(
                f"{source.name}: has {' and '.join(scaling)}, but its elements are {dtype}: only "
                "integers and floats are packed"
            )
        return None
    resigned = _resigned(source)
    stored = None if resigned is None else resigned.name
    missing = dict.fromkeys(_missing(source, resigned or dtype))
    if len(missing) > MOST_MISSING:
        raise PlanError(
            f"{source.name}: calls {len(missing):,} numbers missing, but kernels compare elements "
            f"with {MOST_MISSING} at most: name fewer"
        )
    scale, offset = scaling.get("scale_factor", 1.0), scaling.get("add_offset", 0.0)
    widens = bool(scaling) and (scale, offset) == (1.0, 0.0)
    packing = Packing(scale, offset, tuple(missing), stored, widens)
    return None if packing == Packing() else packing


def packing_attributes(source: HasAttributes) -> Iterator[str]:
    """Name the attributes by which values are other than what is stored, and what they say."""
    attributes = _attributes(source)
    if _is_reduced(source):
        yield from (f"{name} {_said(attributes[name])}" for name in SCALING if name in attributes)
    if not Packing.packs(source.dtype):
        return
    if _resigned(source) is not None:
        yield f"_Unsigned {attributes['_Unsigned']}, computed as {source.dtype.name}"
    named = {name: _listed(attributes[name]) for name in MISSING if name in attributes}
    if "_ARRAY_DIMENSIONS" in attributes and source.missing_fill:  # xarray has made it
        named |= {MISSING[0]: list(source.missing_fill)}
    for name, given in named.items():
        values = [value for value in map(_decoded, given) if value == value]
        if values:
            yield f"{name} {', '.join(map(_said, values))}, computed like any number"


def never_applied(source: HasAttributes) -> Iterator[str]:
    """Name the attributes that would leave out or change numbers, but never do, and say why."""
    attributes, dtype = _attributes(source), source.dtype
    if not _is_reduced(source):
        return
    said = attributes.get("_Unsigned")
    if dtype.kind in "iu" and "_Unsigned" in attributes and said not in ("true", "false"):
        yield f"_Unsigned {said!r}, not the text 'true' or 'false': computed as {dtype.name}"
    # Of bools of format 2 it is the fill value, which all have, and one of the two that there are.
    named = MISSING[1:] if dtype.kind == "b" and source.missing_fill else MISSING
    for name in named if not Packing.packs(dtype) else ():
        values = [one for one in map(_decoded, _listed(attributes.get(name, []))) if one == one]
        if values:
            yield (
                f"{name} {', '.join(map(_said, values))}, because {dtype.name} has no missing "
                "numbers"
            )
    valid = [f"{name} {_said(attributes[name])}" for name in _VALID if name in attributes]
    if valid:
        yield f"{', '.join(valid)}, numbers outside are computed too"


def unapplied(source: HasAttributes, flag: str, *, mask_and_scale: bool) -> Iterator[str]:
    """Say which attributes are not applied, and whether a flag does that: the one place for it."""
    told = "" if mask_and_scale else "; ".join(packing_attributes(source))
    if told:
        try:
            packing_of(source)
            remedy = f"{flag} applies them"
        except PlanError as error:
            remedy = f"{flag} refuses them: {str(error).removeprefix(f'{source.name}: ')}"
        yield f"not applied: {told} ({remedy})"
    if never := "; ".join(never_applied(source)):
        yield f"never applied: {never}"


def not_applied(
    sources: Iterable[HasAttributes], flag: str, *, mask_and_scale: bool
) -> Iterator[str]:
    """Say as `unapplied` of which sources attributes are not applied."""
    for source in sources:
        for told in unapplied(source, flag, mask_and_scale=mask_and_scale):
            yield f"{source.name}: {told}"


def _is_reduced(source: HasAttributes) -> bool:
    return kind_of(source.dtype) in "biufcmM"


def _resigned(source: HasAttributes) -> np.dtype | None:
    """Return as what integers are read, if that is of another sign."""
    said = _attributes(source).get("_Unsigned")
    kind = _RESIGNED.get((said, source.dtype.kind)) if isinstance(said, str) else None
    return np.dtype(f"{kind}{8 * source.dtype.itemsize}") if kind else None


def _said(value: Any) -> str:
    return reprlib.repr(value) if isinstance(value, str) else str(value)


def _attributes(source: HasAttributes) -> Mapping[str, Any]:
    """Return an array's attributes; in format 2 its fill value comes before its `_FillValue`."""
    attributes = {
        name: value for name, value in source.attributes.items() if value is not None
    }  # as xarray
    if MISSING[0] in attributes:
        attributes.update((MISSING[0], fill) for fill in source.missing_fill)
    return attributes


def _missing(source: HasAttributes, dtype: np.dtype) -> Iterator[int | float]:
    """Yield the numbers of a dtype, as which elements are read, that stand for nothing."""
    attributes, kinds = _attributes(source), {dtype, source.dtype}
    fill, others = (_listed(attributes.get(name, [])) for name in MISSING)
    fills = [(value, kinds) for value in [*fill, *source.missing_fill]]
    for given, of in [*fills, *((value, {dtype}) for value in others)]:
        number = _decoded(given)
        if not isinstance(number, (int, float, np.number)) or isinstance(number, bool):
            said = reprlib.repr(given)
            raise PlanError(
                f"{source.name}: {said} is called missing, but is not a number: correct it"
            )
        yield from _held(number.item() if isinstance(number, np.number) else number, of, dtype)


def _held(number: float, of: Iterable[np.dtype], dtype: np.dtype) -> Iterator[int | float]:
    """Yield a number of some dtypes as elements hold it, if they can; NaN is missing anyway.

    Those are the elements' own and, of `_FillValue`, the stored ones' too, which may have another
    sign; xarray reads `missing_value` as it stands.
    """
    if dtype.kind not in "iu":
        with np.errstate(over="ignore"), contextlib.suppress(OverflowError):
            held = float(dtype.type(number))
            if held == number or math.isfinite(held):
                yield held
    elif isinstance(number, int) or (math.isfinite(number) and number == int(number)):
        ranges = [np.iinfo(one) for one in of]
        least, most = (int(end) for end in (min(r.min for r in ranges), max(r.max for r in ranges)))
        # Floats of 64 bits may lie a little beyond the integers that round to them.
        near = min(max(int(number), least), most)
        if near == number or (dtype.itemsize == 8 and _alike(near, number)):
            bits = near % 2 ** (8 * dtype.itemsize)
            yield int(np.array(bits, f"u{dtype.itemsize}").view(f"{dtype.kind}{dtype.itemsize}"))


def _alike(one: float, other: float) -> bool:
    """Return True if two numbers are the same float64."""
    try:
        return float(one) == float(other)
    except OverflowError:
        return False


def _number(source: HasAttributes, name: str, given: Any) -> float:
    number = given[0] if isinstance(given, list) and len(given) == 1 else given
    with contextlib.suppress(OverflowError):
        plain = isinstance(number, (int, float)) and not isinstance(number, bool)
        if plain and math.isfinite(number):
            return float(number)
    said = reprlib.repr(given)
    raise PlanError(f"{source.name}: {name} is {said}, not a finite float64: correct it")


def _listed(given: Any) -> list[Any]:
    return given if isinstance(given, list) else [given]


def attributes_for_zarr(attributes: Mapping[str, Any], dtype: np.dtype) -> dict[str, Any]:
    """Return the attributes of an array as xarray writes them in format 3: a float in base 64.

    >>> attributes_for_zarr({"_FillValue": -9.0, "units": "K"}, np.dtype("f4"))
    {'_FillValue': 'AAAAAAAAIsA=', 'units': 'K'}
    """
    fill = attributes.get(MISSING[0])
    if dtype.kind != "f" or isinstance(fill, (str, bool)) or not isinstance(fill, (int, float)):
        return dict(attributes)
    return {**attributes, MISSING[0]: encoded_fill(fill)}


def encoded_fill(fill: float) -> str:
    """Return a missing float as xarray writes it in Zarr's attributes."""
    return base64.standard_b64encode(struct.pack("<d", float(fill))).decode()


def _decoded(value: Any) -> Any:
    """Return a number that is written as text, as by xarray in base 64, or else the value.

    >>> _decoded("AAAAAAAA+H8="), _decoded("NaN"), _decoded("none"), _decoded(-32767)
    (nan, nan, 'none', -32767)
    """
    if not isinstance(value, str):
        return value
    try:
        return float(value)
    except ValueError:
        pass
    try:
        return struct.unpack("<d", base64.b64decode(value, validate=True))[0]
    except (ValueError, binascii.Error, struct.error):
        return value
