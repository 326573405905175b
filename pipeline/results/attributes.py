"""An array that is made of another takes over those of its attributes that hold for it too."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from chunkfold.errors import PlanError
from chunkfold.kernels import Packing
from chunkfold.results.quantities import ON_SCALE, Quantity, QuantityKind, units_of
from chunkfold.sources.cf_packing import MISSING, SCALING, HasAttributes, packing_of

_ORDERED = (QuantityKind.ELEMENT, QuantityKind.RANK)
"""Results that depend on which of two elements is the greater."""
_SAME = (*ON_SCALE, QuantityKind.DIFFERENCE, QuantityKind.TOTAL)


HOLDS: Mapping[str, Collection[QuantityKind]] = MappingProxyType(
    {
        "units": _SAME,  # as `units_of` has them
        "standard_name": _SAME,  # where units are the same, and `Quantity.named`
        "long_name": (
            *_SAME,
            QuantityKind.SQUARED,
        ),  # where `Quantity.named`; so are those below it
        "short_name": (*_SAME, QuantityKind.SQUARED),
        "description": (*_SAME, QuantityKind.SQUARED),
        "title": (*_SAME, QuantityKind.SQUARED),
        "units_metadata": ON_SCALE,
        "calendar": ON_SCALE,
        "positive": ON_SCALE,
        "flag_values": (QuantityKind.ELEMENT,),
        "flag_masks": (QuantityKind.ELEMENT, QuantityKind.BITS),
        "flag_meanings": (QuantityKind.ELEMENT, QuantityKind.BITS),
        "dtype": (
            QuantityKind.ELEMENT,
        ),  # xarray's: what integers are decoded to, where these are stored
        # Of all elements together, or of how they are stored and laid out: of no result.
        **dict.fromkeys(("valid_min", "valid_max", "valid_range", "unpacked_valid_range"), ()),
        **dict.fromkeys(("actual_range", "actual_min", "actual_max", "vmin", "vmax"), ()),
        **dict.fromkeys(("data_range", "data_min", "data_max"), ()),
        **dict.fromkeys((*MISSING, "fmissing_value", "fill_value", "nodata"), ()),
        **dict.fromkeys(SCALING, ()),  # but as `_packing` has them
        **dict.fromkeys(("CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST"), ()),
        **dict.fromkeys(("DIMENSION_LABELS", "MemoryOrder", "stagger", "chunksizes"), ()),
        **dict.fromkeys(("least_significant_digit", "quantization"), ()),
        **dict.fromkeys(("axis", "cf_role", "compress", "sample_dimension"), ()),
        **dict.fromkeys(("instance_dimension", "cell_methods"), ()),
        # They name other arrays: `chunkfold.results.companions` says which of them are there.
        **dict.fromkeys(("coordinates", "ancillary_variables", "cell_measures"), ()),
        **dict.fromkeys(("grid_mapping", "bounds", "climatology", "formula_terms"), ()),
        **dict.fromkeys(("geometry", "mesh", "location", "nodes", "node_coordinates"), ()),
        **dict.fromkeys(("node_count", "part_node_count", "interior_ring"), ()),
    }
)
"""Kinds of results for which an attribute of the elements holds; attributes that are not named,
such as `source`, `history` and `comment`, hold for all kinds."""
_NAMES = ("standard_name", "long_name", "short_name", "description", "title")
_WHOLE = re.compile(r"_|GRIB_|STATISTICS_|quantization_|actual_|data_(min|max|range)")
"""Attributes whose names begin so are of the stored array, or of all its elements."""
_WORD = re.compile(r"[^\s:()]+")
"""A word that `cell_methods` can name."""
_TIMEDELTA = "timedelta64"


def carried_attributes(
    sources: Sequence[HasAttributes],
    quantity: Quantity,
    dtype: np.dtype,
    *,
    unpacked: bool,
    reduced: Sequence[str | None] | None = None,
) -> dict[str, Any]:
    """Return the attributes of arrays that hold for what is made of them, element by element.

    Those that name axes or other arrays are not among them.

    Parameters
    ----------
    sources
        What it is made of; of several arrays the first one's attributes hold, as far as others
        have the same units.
    quantity
        What it is.
    dtype
        Of its elements.
    unpacked
        Whether it is made of what stored numbers stand for, rather than of these.
    reduced
        The names of the axes that were reduced; None if axes have no names.
    """
    first, *others = (dict(one.attributes) for one in sources)
    packing = _packing(sources, quantity.kind, unpacked=unpacked)
    truths = dtype.kind == "b" and sources[0].dtype.kind != "b"
    alike = all(_measured(one) == _measured(first) for one in others)
    if packing is None or truths or not alike:
        quantity, packing = Quantity(), {}
    kept = {
        name: value
        for name, value in first.items()
        if quantity.kind in HOLDS.get(name, QuantityKind) and not _WHOLE.match(name)
    }
    units = units_of(quantity.kind, first.get("units"))
    if units != first.get("units"):
        kept |= {"units": units}
    left_out = {name for name in _NAMES if not quantity.named}
    left_out |= {"units"} if units is None else set()
    left_out |= {"standard_name"} if units != first.get("units") else set()
    left_out |= {"dtype"} if dtype != sources[0].dtype else set()
    left_out |= {"flag_meanings"} if not kept.keys() & {"flag_values", "flag_masks"} else set()
    kept = {name: value for name, value in kept.items() if name not in left_out}
    duration = str(first.get("dtype", "")).startswith(_TIMEDELTA) and quantity.kind in _SAME
    kept |= {"dtype": f"{_TIMEDELTA}[ns]"} if duration else {}
    return kept | packing | _cell_methods(first, quantity.method, reduced)


def of_a_part(attributes: Mapping[str, Any], *, whole: bool) -> dict[str, Any]:
    """Return the attributes of an array that hold for a part, or the whole, stored as it is."""
    stored = {*MISSING, "_Unsigned"}
    of_all = re.compile(r"_") if whole else _WHOLE
    return {
        name: value
        for name, value in attributes.items()
        if name in stored or not (of_all.match(name) or (name in ("vmin", "vmax") and not whole))
    }


def _cell_methods(
    attributes: Mapping[str, Any], method: str | None, reduced: Sequence[str | None] | None
) -> dict[str, str]:
    """Return what `cell_methods` say: those of the elements, and behind them what was done.

    Nothing where they have no word for it, or for the axes.
    """
    named = reduced is not None and all(name and _WORD.fullmatch(name) for name in reduced)
    if method is None or reduced is None or not named:
        return {}
    before = attributes.get("cell_methods")
    words = [before.strip()] if isinstance(before, str) and before.strip() else []
    words += [*(f"{name}:" for name in reduced), method] if reduced else []
    return {"cell_methods": " ".join(words)} if words else {}


def _measured(attributes: Mapping[str, Any]) -> list[Any]:
    names = ("units", "calendar", "_Unsigned", *SCALING)
    return [attributes.get(name) for name in names]


def _packing(
    sources: Sequence[HasAttributes], kind: QuantityKind, *, unpacked: bool
) -> dict[str, Any] | None:
    """Return the attributes by which results stand for values, as the elements they are made of do.

    None if no attribute can say it: they are then of the numbers that are stored. Where a scale is
    negative, or signs are read otherwise, the least of these has not the least value.
    """
    if unpacked:
        return {}
    source = sources[0]
    attributes = source.attributes
    given = {name: attributes[name] for name in SCALING if name in attributes}
    try:
        packing = packing_of(source) or Packing()
    except PlanError:  # attributes say nothing that can be read
        return None if given or "_Unsigned" in attributes else {}
    if packing.stored is not None or (given and packing.scale < 0 and kind in _ORDERED):
        return None
    if not given or kind in ON_SCALE:
        return given
    if kind is QuantityKind.DIFFERENCE:
        given.pop("add_offset", None)
        return given | ({"scale_factor": abs(packing.scale)} if packing.scale < 0 else {})
    return None
