"""The results of a run by the names of reductions, with their labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from chunkfold.kernels.catalogue.named import is_known
from chunkfold.kernels.catalogue.sketches import Sketch
from chunkfold.planning.plan import Plan
from chunkfold.positions import index_of
from chunkfold.results.attributes import carried_attributes
from chunkfold.results.coordinate import Coordinate
from chunkfold.results.coordinates import Kept
from chunkfold.results.label_sources import Labels, StoredLabels, of_xarray
from chunkfold.results.last_axes import last_axes
from chunkfold.results.quantities import Quantity, quantity_of
from chunkfold.results.result import Result, as_array, filled
from chunkfold.selections import selection_text
from chunkfold.sources.coordinate_texts import sel_text
from chunkfold.sources.dask_source import is_dask
from chunkfold.sources.dates import are_beyond
from chunkfold.sources.source import Source
from chunkfold.tracebacks import traceback_cut

if TYPE_CHECKING:
    import pandas as pd
    import xarray

_OF_DATES = ("units", "calendar", "standard_name")
_TOLD = ("ddof", "skipna", "min_count", "mask_and_scale", "dtype", "mode")
"""Arguments that change the result."""


@dataclass(frozen=True, eq=False, repr=False)
class Results(Mapping[str, Result]):
    """The results of a reduction, by op, and how they came about."""

    plan: Plan
    found: Mapping[str, Any]
    """NumPy scalars or arrays, or Dask's arrays, by op."""

    def __getitem__(self, op: str) -> Result:
        return self._made[op]

    def __iter__(self) -> Iterator[str]:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)

    def __getstate__(self) -> dict[str, Any]:
        """Take coordinates along as they are; all else that is cached follows from the plan."""
        return {"plan": self.plan, "found": self.found, "_coordinates": self._coordinates}

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.values()))

    def _repr_html_(self) -> str:
        return "".join(one._repr_html_() for one in self.values())

    def to_xarray(self) -> xarray.Dataset:
        """Return them as one Dataset, with everything that comes along.

        The fields of records are arrays of their own, as `histogram_count`.

        Raises
        ------
        ImportError
            If xarray is not installed.
        """
        from chunkfold.results.as_xarray import dataset_of

        return dataset_of(self, self._coordinates)

    def to_dataframe(self) -> pd.DataFrame:
        """Return them as one table of pandas', a column for each; coordinates are its index.

        Raises
        ------
        ImportError
            If xarray, which brings pandas, is not installed.
        """
        return self.to_xarray().to_dataframe()

    @traceback_cut
    def plot(self, ax: Any = None, **given: Any) -> Any:
        """Draw them below each other, as `Result.plot` does each."""
        from chunkfold.results.drawing import plotted

        return plotted({op: one.to_xarray() for op, one in self.items()}, ax, given)

    @property
    def source(self) -> Source:
        """Return the array that was reduced."""
        return self.plan.sources[0]

    @property
    def axes(self) -> list[int]:
        """The source's axes that results have, in order."""
        alive, grouping = self._alive(), self.plan.grouping
        if not self.plan.options.keepdims:
            alive = [n for n in alive if n not in self.plan.layout.reduced]
        # Groups stand where the first axis that has labels did.
        return sorted({*alive, *([grouping.first] if grouping else ())})

    def names_of(self, axes: Sequence[int]) -> list[str | None] | None:
        """Return the names of some axes of the source, if they have names."""
        return self.labels.names(axes)

    @property
    def dims(self) -> list[str | None] | None:
        """The names of results' axes, if they have names: of the source's, and of groups."""
        grouping, axes = self.plan.grouping, self.axes
        if grouping is None:
            return self.names_of(axes) if axes else []
        names = self.names_of(axes) or [None] * len(axes)
        first = axes.index(grouping.first)
        return [*names[:first], *grouping.axes, *names[first + 1 :]]

    @cached_property
    def stored(self) -> StoredLabels:
        """Return the labels that the store of the source has."""
        return StoredLabels(self.plan.sources, Kept.of(self.plan.request))

    @property
    def made_of(self) -> Mapping[str, Any]:
        """Return the arguments of the reduction, without the op."""
        reduced, layout = self._reduced(), self.plan.layout
        options = self.plan.options
        told = {key: value for key in _TOLD if (value := getattr(options, key))}
        told |= {"sel": sel_text(options.sel)} if options.sel else {}
        told |= (
            {} if options.selection is None else {"selection": selection_text(options.selection)}
        )
        told |= {} if options.initial is None else {"initial": options.initial}
        wheres = [*options.conditions, *(["a mask"] if options.mask is not None else [])]
        if layout.coarsened:
            called = self.names_of(layout.coarsened) or [None] * len(layout.coarsened)
            each = zip(layout.coarsened, called, strict=True)
            told["coarsen"] = {name or n: layout.axes[n].window for n, name in each}
        told |= {"where": " and ".join(wheres)} if wheres else {}
        if options.weights is not None:
            told["weights"] = self.plan.request.broadcast[0].name
        told |= {"by": self.plan.grouping.name} if self.plan.grouping else {}
        said = {key: value if value is True else str(value) for key, value in told.items()}
        names = self.names_of(reduced) if reduced else []
        return {"source": self.plan.name, "axes": list(names or reduced), **said}

    @cached_property
    def labels(self) -> Labels:
        """Return the labels, from the store of the source or from xarray's objects."""
        return of_xarray(self.plan) or self.stored

    @cached_property
    def _coordinates(self) -> Mapping[str, Coordinate]:
        """Everything that comes along, and the labels of groups."""
        along = dict(self.labels.coordinates())
        for label in self.plan.labels:
            along[label.axis] = Coordinate(
                label.axis, (label.axis,), label.groups, dict(label.attrs), label.intervals
            )
        made = {name: Coordinate(name, (name,), held) for name, held in self.own_labels.items()}
        return along | made

    @property
    def own_labels(self) -> Mapping[str, np.ndarray]:
        """Return the labels of the axes that results add, by the names of these axes."""
        return {
            self._last_axes[one.name]: np.array(one.labels)
            for one in self.plan.options.monoids
            if one.labels and one.last_axis
        }

    @cached_property
    def _last_axes(self) -> Mapping[str, str]:
        return last_axes(self.plan.options.monoids)

    @cached_property
    def _made(self) -> Mapping[str, Result]:
        return {op: self._result(op, values) for op, values in self.found.items()}

    def _result(self, op: str, values: Any) -> Result:
        array = as_array(values)
        fields = array.dtype.names or ()
        parts = {f"{op}/{field}": self._field(op, field, array) for field in fields}
        named = partial(self._labelled, op, values)
        return named(self._names(op, array), {} if fields else self._attributes(op, array), parts)

    def _field(self, op: str, field: str, records: np.ndarray) -> Result:
        """Take a field of records; one that is the same for every output comes once."""
        part, name = records[field], f"{op}/{field}"
        part = part if is_dask(part) else np.ascontiguousarray(part)
        if _are_bins(records.dtype) and records.ndim > 1 and field in ("left", "right"):
            part = part.reshape(-1, records.shape[-1])[0]
        own = part.ndim < records.ndim
        return self._labelled(
            name, part, self._names(op, part, own=own), self._attributes(name, part)
        )

    def _labelled(
        self,
        name: str,
        values: Any,
        names: Sequence[str | None] | None,
        attrs: Mapping[str, Any],
        parts: Mapping[str, Result] = MappingProxyType({}),
    ) -> Result:
        dims = filled([None] * np.ndim(values) if names is None else names)
        grouping = self.plan.grouping
        grouped = grouping is not None and grouping.axes[0] in dims
        labels = grouping.groups if grouping is not None and grouped else None
        return Result(
            name, values, dims, attrs, labels, parts, lambda: self._coordinates, self._origins
        )

    @cached_property
    def _origins(self) -> tuple[str, ...]:
        return self.plan.request.origins

    def names(self, result: Result) -> list[str | None] | None:
        """Return the names of a result's axes, if they have names; None for those without."""
        op = result.name.partition("/")[0]
        own = result.ndim < np.ndim(self.found[op])  # the same for every output
        return self._names(op, as_array(result.values), own=own)

    def _names(self, op: str, value: np.ndarray, *, own: bool = False) -> list[str | None] | None:
        names: list[str | None] | None = [] if own else self.dims
        left = len(self.axes) + max(0, len(self.plan.labels) - 1)
        more = value.ndim - (0 if own else left)
        return None if names is None or more < 0 else [*names, *[self._last_axes.get(op)] * more]

    def _attributes(self, name: str, value: np.ndarray) -> dict[str, Any]:
        """Return the attributes of a result, or of a field of one: what holds of the source's."""
        op = name.partition("/")[0]
        quantity = Quantity() if self._is_own(op) else quantity_of(name)
        reduced = sorted({*self._reduced(), *self.plan.layout.coarsened})
        attributes = carried_attributes(
            self.labels.measured,
            quantity,
            value.dtype,
            unpacked=bool(self.plan.options.mask_and_scale),
            reduced=self.names_of(reduced) if reduced else [],
        )
        for one in self.plan.options.monoids:
            if one.name == op and isinstance(one.specialised, Sketch):
                attributes["rtol"] = one.specialised.rtol
        # Of what is not computed nobody knows.
        if not is_dask(value) and are_beyond(value, attributes.get("units")):
            attributes = {key: said for key, said in attributes.items() if key not in _OF_DATES}
        return attributes

    def _is_own(self, op: str) -> bool:
        """Return True for a user's reduction, even if it has the name of a known one."""
        named = [one for one in self.plan.options.monoids if one.name == op]
        values = as_array(self.found[op])
        return any(not is_known(one) for one in named) and not _are_bins(values.dtype)

    def _alive(self) -> list[int]:
        return [n for n, axis in enumerate(self.plan.layout.axes) if not axis.dropped]

    def _reduced(self) -> list[int]:
        return [n for n in self._alive() if n in self.plan.layout.reduced]


def in_order(plan: Plan, values: Any) -> Any:
    """Give results the order that was asked for along each axis: they are folded as stored."""
    layout, grouping = plan.layout, plan.grouping
    for at, n in enumerate(Results(plan, {}).axes):
        order = layout.axes[n].order
        if order is None or n in layout.reduced:
            continue
        several = 0 if grouping is None or n < grouping.first else len(grouping.axes) - 1
        values = values[(slice(None),) * (at + several) + (index_of(order),)]
    return values


def _are_bins(dtype: np.dtype) -> bool:
    """Return True if results are a histogram, of counts or of weights."""
    return (dtype.names or ())[:2] == ("left", "right")
