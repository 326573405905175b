"""xarray's arrays and datasets: `ds.chunkfold.mean("time")`, once this module is imported."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

try:
    import xarray as xr
except ImportError as error:
    raise ImportError("chunkfold.xarray needs xarray: pip install 'chunkfold[xarray]'") from error

from chunkfold.api import reduce
from chunkfold.axis_cuts import Cells
from chunkfold.errors import DeviceError, MonoidError, PlanError
from chunkfold.kernels import Monoid, as_monoid
from chunkfold.kernels.binding.binding import is_defined
from chunkfold.kernels.dtypes import stored_name
from chunkfold.planning.broadcast_inputs import weighted
from chunkfold.planning.by_coordinates import coordinate_of, positions
from chunkfold.planning.dataset_labels import labels_of
from chunkfold.planning.options import Op, Options
from chunkfold.sources.axis_names import instead
from chunkfold.sources.data_arrays import is_of_xarray

_SEL = ("sel", "sel_method", "sel_tolerance")
_OF_ALL = ("min", "max", "minmax", "argmin", "argmax", "count", "any", "all", "count_nonzero")
_OF_TIMES: Mapping[str, Collection[str]] = MappingProxyType(
    {"M": (*_OF_ALL, "mean"), "m": (*_OF_ALL, "mean", "sum")}
)
"""Reductions of dates and of time spans; of a Dataset others leave these out, as xarray does."""
DimNames = Hashable | Sequence[Hashable] | AbstractSet[Hashable] | None
"""Axes by name; None, or `...`: all of them."""


def reduce_dataset(dataset: xr.Dataset, op: Op | Sequence[Op], **given: Any) -> Any:
    """Reduce every array of a Dataset that can be reduced; parameters as `chunkfold.reduce`.

    With windows (`coarsen`) an array has those of the axes that it has, and one that has none is
    as it was. As in xarray an array is reduced over those of the axes that it has, one that has
    none of them is as if each of its elements was reduced alone, and what cannot be reduced is left
    out: texts, sums of dates. One that lacks axes of the weights or of a mask is the same along
    them.

    Returns
    -------
    A Dataset; of several ops one for each, by name.

    Raises
    ------
    ChunkfoldError
        As `chunkfold.reduce`; and if an axis is none of the Dataset's.
    """
    ops = [op] if isinstance(op, (str, Monoid)) else list(op)
    names = [one if isinstance(one, str) else one.name for one in ops]
    if given.get("selection") is not None:
        raise PlanError("selection: select of a Dataset by sel=, or by its own isel")
    index = _selected(dataset, {name: given.pop(name, None) for name in _SEL})
    whole, dataset = dataset, dataset.isel(index)
    coarsen, labels = given.pop("coarsen", None), labels_of(dataset, given)
    more = [dim for one in _along(given) for dim in one.dims]
    dims = _dims_beside(coarsen, dataset, given.pop("axis", None), more)
    if "histogram" in names:
        raise PlanError("histogram: name one array of the Dataset, for their bins differ")
    weighs = given.get("weights") is not None
    able_of = [(one, weighted(as_monoid(one)) if weighs else as_monoid(one)) for one in ops]
    found: dict[str, dict[Hashable, Any]] = {name: {} for name in names}
    for name, held in whole.data_vars.items():
        able = [one for one, monoid in able_of if _is_able(held, monoid)]
        array = _with_axes_of(held, given) if able else held
        if coarsen and not {*array.dims} & {*dims, *coarsen}:
            for made in found.values():  # as in xarray's coarsen
                made[name] = dataset[name]
        elif able:
            axis = [dim for dim in array.dims if dim in dims]
            own = _windows(array, coarsen, given)
            terms = {"axis": axis, **given, **own, **_of_integers(array, given)}
            if any(dim in index for dim in array.dims):
                terms["selection"] = tuple(index.get(str(dim), slice(None)) for dim in array.dims)
            made = reduce(array, able, **terms, **labels.along(array.dims))
            for called, one in made.items():
                found[called][name] = one
    left = _left(dataset, [*dims, *(coarsen or ())])
    datasets = {called: left.assign(made) for called, made in found.items()}
    return datasets[names[0]] if isinstance(op, (str, Monoid)) else datasets


def _selected(dataset: xr.Dataset, sel: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what is selected of the axes of a Dataset by their coordinates."""
    axes = _Axes(tuple(map(str, dataset.sizes)), tuple(dataset.sizes.values()))
    return positions(Options(**sel), axes, partial(coordinate_of, dataset))


@dataclass(frozen=True)
class _Axes:
    """The axes of a Dataset, as far as messages name them."""

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    name: str = "the Dataset"

    @property
    def grid(self) -> tuple[Cells, ...]:
        """Where it may be cut: anywhere."""
        return tuple(Cells(size, 1) for size in self.shape)


def _dims(dataset: xr.Dataset, axis: Any, more: Sequence[Hashable]) -> list[Hashable]:
    """Return the axes that are meant, of those of the Dataset and `more`.

    Raises
    ------
    PlanError
        If there is one that it has not.
    """
    there = list(dict.fromkeys([*dataset.dims, *more]))
    if axis is None or axis is ...:
        return there
    named = [axis] if isinstance(axis, str) or not isinstance(axis, Sequence) else list(axis)
    for one in named:
        if one not in there:
            known = instead(str(one), list(map(str, there)))
            raise PlanError(f"the Dataset has no axis {one!r}; {known}")
    return named


def _dims_beside(coarsen: Any, dataset: xr.Dataset, axis: Any, more: Sequence[Hashable]) -> Any:
    """Return the axes that are reduced whole beside windows: those that are named, if there are."""
    if isinstance(coarsen, Mapping):
        _dims(dataset, list(coarsen), more)
    return _dims(dataset, () if axis is None and coarsen else axis, more)


def _windows(array: xr.DataArray, coarsen: Any, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the windows of those axes that an array has, if it has any."""
    if not isinstance(coarsen, Mapping):
        return {} if coarsen is None else {"coarsen": coarsen}
    windows = {dim: window for dim, window in coarsen.items() if dim in array.dims}
    boundary = given.get("boundary", "exact")
    if isinstance(boundary, Mapping):
        boundary = {dim: one for dim, one in boundary.items() if dim in windows}
    return {"coarsen": windows, "boundary": boundary} if windows else {"boundary": "exact"}


def _is_able(array: xr.DataArray, monoid: Monoid) -> bool:
    try:
        stored_name(array.dtype)
    except (TypeError, DeviceError):
        return False
    if array.dtype.kind == "c" or monoid.weights:
        weights = [np.dtype(np.float64)] * monoid.weights
        inputs = monoid.inputs - monoid.weights
        return is_defined(monoid, [array.dtype] * inputs + weights)
    op = monoid.name
    return op.removeprefix("nan") in _OF_TIMES.get(array.dtype.kind, (op.removeprefix("nan"),))


def _with_axes_of(array: xr.DataArray, given: Mapping[str, Any]) -> xr.DataArray:
    """Return an array with the axes, too, that weights and a mask of xarray's have beside its own.

    It is the same along these, behind its own, as xarray broadcasts it.
    """
    for one in _along(given):
        lacking = {dim: size for dim, size in one.sizes.items() if dim not in array.dims}
        array = array.expand_dims(lacking, [*range(array.ndim, array.ndim + len(lacking))])
    return array


def _of_integers(array: xr.DataArray, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `min_count` is for integers, which have no NaN: as xarray has it.

    None of them is missing; a mask makes floats of them.
    """
    if array.dtype.kind not in "biu" or not given.get("min_count"):
        return {}
    if given.get("where") is None:
        return {"min_count": 0}
    return {"dtype": given.get("dtype") or "float64"}


def _along(given: Mapping[str, Any]) -> list[xr.DataArray]:
    """Return the weights and the masks that are xarray's."""
    where = given.get("where")
    masks = where if isinstance(where, tuple) else (where,)
    return [one for one in (given.get("weights"), *masks) if is_of_xarray(one)]


def _left(dataset: xr.Dataset, dims: Sequence[Hashable]) -> xr.Dataset:
    """Return a Dataset of the coordinates that have none of some axes."""
    lost = [name for name, one in dataset.variables.items() if {*dims} & {*one.dims}]
    return dataset.drop_vars({*lost, *dataset.data_vars})


def _method(op: str) -> Callable[..., Any]:
    def reduction(self: Reductions, dim: DimNames = None, **given: Any) -> Any:
        return self.reduce(op, dim, **given)

    reduction.__doc__ = f"""Reduce along some axes by `{op}`; see `reduce`."""
    reduction.__name__ = reduction.__qualname__ = op
    return reduction


@xr.register_dataset_accessor("chunkfold")  # type: ignore[no-untyped-call]
@xr.register_dataarray_accessor("chunkfold")  # type: ignore[no-untyped-call]
class Reductions:
    """Reductions of what xarray opened from a Zarr: `ds.chunkfold.mean("time")`."""

    def __init__(self, held: xr.DataArray | xr.Dataset) -> None:
        self._held = held

    def reduce(self, op: Op | Sequence[Op], dim: DimNames = None, **given: Any) -> Any:
        """Reduce along some axes, by name; None or `...`: all of them.

        The other parameters are those of `chunkfold.reduce`, but `axis`; so is what is returned,
        and raised.
        """
        if "axis" in given:
            raise PlanError(f"axis is {given['axis']!r}: name axes by dim=, as dim='time'")
        axis: Any = None if dim is ... else [*dim] if isinstance(dim, AbstractSet) else dim
        return reduce(self._held, op, axis=axis, **given)

    def __getattr__(self, name: str) -> Any:
        """Say how reductions are asked for that are no methods."""
        with suppress(MonoidError):
            if not name.startswith("_") and as_monoid(name):
                raise AttributeError(f"there is no method {name!r}: write .reduce({name!r}, dim)")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    sum = _method("sum")
    prod = _method("prod")
    mean = _method("mean")
    std = _method("std")
    var = _method("var")
    min = _method("min")
    max = _method("max")
    count = _method("count")
    any = _method("any")
    all = _method("all")
    argmin = _method("argmin")
    argmax = _method("argmax")
