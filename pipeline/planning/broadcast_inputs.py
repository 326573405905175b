"""Inputs that lack axes of the data, as weights and masks do: each worker holds them whole."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from chunkfold.boxes import region_shape
from chunkfold.errors import DeviceError, PlanError, SourceError
from chunkfold.grid import Axis, Piece
from chunkfold.kernels import CATALOGUE, Monoid, as_monoid
from chunkfold.kernels.catalogue.named import divides_by_weights, is_known
from chunkfold.kernels.catalogue.weighted import are_negative
from chunkfold.kernels.dtypes import stored_name
from chunkfold.kernels.expressions.parsed import reads_map
from chunkfold.kernels.strides import c_strides
from chunkfold.positions import crossed
from chunkfold.settings import StorageOptions
from chunkfold.sources.aligning import align_to_data
from chunkfold.sources.array_origins import array_origins
from chunkfold.sources.axis_names import Named, axis_names
from chunkfold.sources.cf_packing import packing_of
from chunkfold.sources.computed_weights import computed_weights
from chunkfold.sources.named_labels import coordinate_of, may_name, nothing_named
from chunkfold.sources.noted_addresses import note, noted
from chunkfold.sources.opening import open_any
from chunkfold.stores.addresses import NO_OPTIONS
from chunkfold.units import size_text

MOST_BYTES = 256 << 20
"""Bytes of one such input, at most."""
WEIGHTED = tuple(
    name
    for name, one in CATALOGUE.items()
    if f"weighted_{name}" in CATALOGUE and one.weighing is None
)
"""Reductions that weigh elements, by the names that they have without weights."""


@dataclass(frozen=True, eq=False)
class BroadcastInput:
    """An input with some of the data's axes, the same along all others."""

    name: str
    """The name that messages use."""
    axes: tuple[int, ...]
    """Axes of the data, ascending."""
    values: np.ndarray
    """Over what is selected of these axes, C-contiguous."""
    weighs: bool = False
    """True if its numbers are weights."""

    @property
    def floats(self) -> bool:
        """True if its numbers may have fractions."""
        return self.values.dtype.kind == "f"

    @cached_property
    def _own(self) -> dict[int, int]:
        return dict(zip(self.axes, c_strides(self.values.shape), strict=True))

    def strides(self, ndim: int) -> tuple[int, ...]:
        """Return the distance of neighbours along each axis of the data; 0 along those it lacks."""
        return tuple(self._own.get(axis, 0) for axis in range(ndim))

    def first(self, pieces: Sequence[Piece], within: Sequence[slice]) -> int:
        """Return where the first element of a part of a leaf is."""
        return sum(
            (pieces[axis].position + within[axis].start) * stride
            for axis, stride in self._own.items()
        )

    def at(self, pieces: Sequence[slice]) -> np.ndarray:
        """Return a region of the selection, broadcast to all of its axes."""
        shape = region_shape(pieces)
        part = self.values[tuple(pieces[axis] for axis in self.axes)]
        lacking = [n for n in range(len(shape)) if n not in self.axes]
        return np.broadcast_to(np.expand_dims(part, lacking), shape)


def weights_of(
    given: Any, source: Named, chosen: Sequence[Axis], options: StorageOptions | None = None
) -> BroadcastInput:
    """Read weights, and lay them along axes of the data of which something is chosen.

    Raises
    ------
    PlanError
        If they fit no axes, are no numbers, or are too many.
    ChunkfoldError
        If they cannot be read.
    """
    broadcast = _broadcast(given, "weights", source, chosen, options)
    if broadcast.values.dtype.kind not in "biuf":
        raise PlanError(f"{broadcast.name} are {broadcast.values.dtype}; weights must be numbers")
    return replace(broadcast, weighs=True)


def without_negative(
    weights: BroadcastInput, monoids: Sequence[Monoid], source: Named, chosen: Sequence[Axis]
) -> BroadcastInput:
    """Refuse weights below zero where they say how often elements are there, before any read.

    Weights that are below zero by rounding only, as the cosine of 90 degrees in float32, are made
    zero.

    Raises
    ------
    PlanError
        If there are others, with the place of the first.
    """
    dividing = [one.as_written for one in monoids if divides_by_weights(one)]
    values = weights.values
    if not dividing or not (values < 0).any():
        return weights
    most = values.max(initial=0, where=~np.isnan(values))
    refused = np.argwhere(are_negative(values, most))
    if not len(refused):
        return replace(weights, values=np.where(values < 0, values.dtype.type(0), values))
    first = tuple(refused[0])
    place = [int(chosen[axis].shown[n]) for axis, n in zip(weights.axes, first, strict=True)]
    names = axis_names(source, weights.axes) or weights.axes
    along = ", ".join(repr(one) if isinstance(one, str) else f"axis {one}" for one in names)
    raise PlanError(
        f"{weights.name}: {values[first]} is below zero, but weights of {', '.join(dividing)} say "
        f"how often an element counts: the first is at {place} along {along}; give zero "
        "or more"
    )


def mask_of(
    given: Any,
    source: Named,
    chosen: Sequence[Axis],
    options: StorageOptions | None = None,
    conditions: Sequence[str] = (),
) -> BroadcastInput:
    """Read which elements are there, or what `conditions` compare them with.

    Other parameters, and what is raised, as `weights_of`.
    """
    broadcast = _broadcast(given, "where", source, chosen, options)
    if conditions and broadcast.values.dtype.kind in "iuf":
        return broadcast
    if told := next(filter(reads_map, conditions), None):
        raise PlanError(
            f"{broadcast.name} is {broadcast.values.dtype}, but the condition {told!r} compares "
            "with its numbers: give a map of numbers, or omit y"
        )
    if broadcast.values.dtype.kind != "b":
        told = os.fspath(given) if _is_address(given) else "map"
        raise PlanError(
            f"{broadcast.name} is {broadcast.values.dtype}; a mask has bools, True where an "
            "element counts: give a condition too, which calls these numbers y, as "
            f"where=('y > 0', {told})"
        )
    return broadcast


def weighted(monoid: Monoid) -> Monoid:
    """Return the form of a reduction that weighs elements by an input more.

    Raises
    ------
    PlanError
        If it has none.
    """
    if monoid.weights:
        return monoid
    if monoid.weighing is not None:
        found = replace(monoid.weighing(), name=monoid.name, written=monoid.written)
        return found.skipping() if monoid.skipna else found
    plain = monoid.name.removeprefix("nan")
    if plain not in WEIGHTED or not is_known(monoid):
        raise PlanError(
            f"{monoid.quoted} takes no weights; {', '.join(WEIGHTED)}, histogram and quantiles "
            "do, and your own monoids that declare an input for them"
        )
    found = as_monoid(f"weighted_{plain}").called(monoid.name)
    return found.skipping() if monoid.skipna else found


def _broadcast(
    given: Any, what: str, source: Named, chosen: Sequence[Axis], options: StorageOptions | None
) -> BroadcastInput:
    dims: Sequence[str | None] | None
    beside = coordinate_of(os.fspath(given), source) if may_name(given) else None
    if beside is None and what == "weights" and isinstance(given, (str, os.PathLike)):
        beside = computed_weights(os.fspath(given), source)
    if beside is not None:
        name, values, dims = beside.name, beside.values, beside.dims
    else:
        try:
            name, values, dims = _opened(given, what, source, options or NO_OPTIONS)
        except SourceError as error:
            if not may_name(given):
                raise
            raise nothing_named(what, given, source, error) from error
    along = _along(name, values.shape, dims, source)
    # Axes of one element that the data have more of are none.
    lacks = [n for n, axis in enumerate(along) if values.shape[n] == 1 != source.shape[axis]]
    values = np.squeeze(values, tuple(lacks))
    along = [axis for n, axis in enumerate(along) if n not in lacks]
    order = sorted(range(len(along)), key=lambda n: along[n])
    values, along = values.transpose(order), sorted(along)
    native = values.dtype.newbyteorder("=")
    cut = crossed(values, [chosen[n].index for n in along])
    return BroadcastInput(name, tuple(along), np.array(cut, native, order="C"))


def _opened(
    given: Any, what: str, data: Named, options: StorageOptions
) -> tuple[str, np.ndarray, Sequence[str | None] | None]:
    """Return what messages call an array, its values, and the names of its axes."""
    note(array_origins(given))
    named = hasattr(given, "shape") or _is_address(given)
    array = noted(open_any(given if named else _array(given, what), options))
    name = what if array.local_path is None and not _is_address(given) else array.name
    if array.nbytes > MOST_BYTES:
        remedy = (
            "give it as a second source, with an op of two inputs such as 'weighted_mean'"
            if what == "weights"
            else "give one with fewer axes, or the way it was made: a condition ('x > 300'), or a "
            "condition and a map of thresholds, as where=('x > y', map)"
        )
        raise PlanError(
            f"{name}: {size_text(array.nbytes)} are more than the {size_text(MOST_BYTES)} that "
            f"each worker keeps of it: {remedy}"
        )
    try:
        stored_name(array.dtype)
    except (DeviceError, TypeError) as error:
        raise PlanError(f"{name}: {error}") from None
    packing, values = packing_of(array), align_to_data(array.whole(), array, data)
    return name, values if packing is None else packing.values(values), array.dims


def _array(given: Any, what: str) -> np.ndarray:
    try:
        return np.asarray(given)
    except (TypeError, ValueError) as error:
        raise PlanError(
            f"{what}: NumPy makes no array of {type(given).__name__} ({error})"
        ) from None


def _is_address(given: Any) -> bool:
    return isinstance(given, (str, os.PathLike))


def _along(
    name: str, shape: tuple[int, ...], dims: Sequence[str | None] | None, source: Named
) -> list[int]:
    """Return which of the data's axes each axis is: by names, or else as NumPy broadcasts."""
    names = axis_names(source, range(len(source.shape))) or []
    if dims and names and all(dim is not None and names.count(dim) == 1 for dim in dims):
        along = [names.index(str(dim)) for dim in dims]
    else:
        along = list(range(len(source.shape) - len(shape), len(source.shape)))
    fits = along[:1] >= [0] and all(
        size in (1, source.shape[axis]) for size, axis in zip(shape, along, strict=True)
    )
    if shape and not fits:
        told = f" along {', '.join(map(str, dims))}" if dims else ""
        axes = f" along {', '.join(map(str, names))}" if names else ""
        raise PlanError(
            f"{name}: shape {shape}{told} does not fit {source.name} of shape {source.shape}{axes}"
            "; name the axes as xarray does, or give a shape that NumPy broadcasts, before any "
            "selection"
        )
    return along
