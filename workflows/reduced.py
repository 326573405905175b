"""What a reduction leaves: its results, the axes that they have, and both in a Zarr."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from chunkfold.errors import PlanError
from chunkfold.kernels import Monoid
from chunkfold.kernels.catalogue.finishes import BIN
from chunkfold.kernels.catalogue.named import is_known
from chunkfold.planning.plan import Plan
from chunkfold.planning.request import Op
from chunkfold.results.attributes import carried_attributes
from chunkfold.results.companions import COORDINATES, Companions
from chunkfold.results.coordinates import Kept
from chunkfold.results.dates import are_beyond
from chunkfold.results.quantities import Quantity, quantity_of
from chunkfold.sources.axis_names import axis_names
from chunkfold.sources.source import Source
from chunkfold.workflows.groups import write_groups
from chunkfold.workflows.names import OWN_AXES, op_names, refuse_taken
from chunkfold.workflows.outputs import format_of, shown

_OF_DATES = ("units", "calendar", "standard_name")
_TOLD = ("selection", "ddof", "skipna", "where", "mask_and_scale", "dtype", "mode")
"""Arguments that change the result."""


@dataclass(frozen=True)
class Reduced:
    """The results of a reduction of one array, and how they came about."""

    plan: Plan
    results: Mapping[str, Any]
    """By op: NumPy scalars or arrays."""
    given: Mapping[str, Any]
    """What `chunkfold.reduce` was given beside source and op."""

    @property
    def source(self) -> Source:
        """What was reduced."""
        return self.plan.sources[0]

    @property
    def axes(self) -> list[int]:
        """The source's axes that results have, in order."""
        alive, grouping = self._alive(), self.plan.grouping
        if not self.given.get("keepdims"):
            alive = [n for n in alive if n not in self.plan.layout.reduced]
        # Groups stand where the first axis that has labels did.
        return sorted({*alive, *(grouping.keys.axes[:1] if grouping else ())})

    def names_of(self, axes: Sequence[int]) -> list[str | None] | None:
        """Return the names of some axes of the source, if they have names."""
        return axis_names(self.source, axes)

    @property
    def dims(self) -> list[str | None] | None:
        """The names of results' axes, if they have names: of the source's, and of groups."""
        grouping, axes = self.plan.grouping, self.axes
        if grouping is None:
            return self.names_of(axes) if axes else []
        names = self.names_of(axes) or [None] * len(axes)
        first = axes.index(grouping.keys.axes[0])
        return [*names[:first], grouping.axis, *names[first + 1 :]]

    @property
    def kept(self) -> Kept:
        """What is left of the source's axes."""
        layout = self.plan.layout
        left = [n for n in self._alive() if n not in layout.reduced]
        return Kept(self.source, layout.axes, left)

    def attributes(self, name: str, dtype: np.dtype) -> dict[str, Any]:
        """Return the attributes of a result, or of a field of one: what holds of the source's.

        And what was done.
        """
        op = name.partition("/")[0]
        quantity = Quantity() if self._is_own(op) else quantity_of(name)
        reduced = [n for n in self._alive() if n in self.plan.layout.reduced]
        names = self.names_of(reduced) if reduced else []
        unpacked = bool(self.given.get("mask_and_scale"))
        kept = carried_attributes(
            self.plan.sources, quantity, dtype, unpacked=unpacked, reduced=names
        )
        made_of: dict[str, Any] = {
            "source": self.plan.name,
            "op": op,
            "axes": list(names or reduced),
        }
        told = {key: self.given[key] for key in _TOLD if self.given.get(key)}
        told |= {"by": self.plan.grouping.name} if self.plan.grouping else {}
        made_of |= {key: value if value is True else str(value) for key, value in told.items()}
        return kept | {"chunkfold": made_of}

    def write(self, folder: Path, path: str = "") -> None:
        """Write results into a Zarr group, at a path of it: one array each, and what comes along.

        Records become groups, of an array for each of their fields.

        Raises
        ------
        PlanError
            If a result has the name of something that comes along.
        """
        group = zarr.open_group(str(folder), mode="a", zarr_format=3)
        into = group.require_group(path) if path else group
        along = Companions(self.kept)
        arrays = {op: dict(_arrays(op, np.asarray(value))) for op, value in self.results.items()}
        names = {op: [name.rpartition("/")[2] for name in parts] for op, parts in arrays.items()}
        axes = [name for name in self.dims or [] if name]
        refuse_taken(self.source.name, names, axes, along.all)
        for op, parts in arrays.items():
            for name, part in parts.items():
                own = part.ndim < np.ndim(self.results[op])  # the same for every output
                described = self._described(name, part, own=own)
                described["attributes"] |= {} if own else along.attributes
                into.create_array(name, data=part, **described)
        # Records stand in groups of their own, which xarray opens one by one.
        records = [into.require_group(op) for op, parts in arrays.items() if op not in parts]
        for holding in [into, *records]:
            _write_companions(holding, along)
            if self.plan.grouping is not None:
                write_groups(holding, self.plan.grouping)

    def _is_own(self, op: str) -> bool:
        """Whether a reduction is none that comes with chunkfold, though it may be called so."""
        given = self.given.get("op", ())
        ops = [given] if isinstance(given, (str, Monoid)) else given
        named = [one for one in ops if isinstance(one, Monoid) and one.name == op]
        return any(not is_known(one) for one in named) and self.results[op].dtype != BIN

    def _alive(self) -> list[int]:
        return [n for n, axis in enumerate(self.plan.layout.axes) if not axis.dropped]

    def _described(self, name: str, value: np.ndarray, *, own: bool = False) -> dict[str, Any]:
        """Return what `create_array` is told of a result beside its data."""
        names: list[str | None] | None = [] if own else self.dims
        more = value.ndim - (0 if own else len(self.axes))
        last = OWN_AXES.get(name.partition("/")[0])
        names = None if names is None or more < 0 else [*names, *[last] * more]
        attributes = self.attributes(name, value.dtype)
        if are_beyond(value, attributes.get("units")):
            attributes = {key: said for key, said in attributes.items() if key not in _OF_DATES}
        return {"attributes": attributes, "dimension_names": names}


def _write_companions(group: zarr.Group, along: Companions) -> None:
    """Write what comes along with the results in a group."""
    for one in along.all:
        if one.name not in group:
            one.write(group)
    if along.declared:
        group.attrs[COORDINATES] = " ".join(along.declared)


def write_zarr(folder: Path, reduced: Mapping[str, Reduced]) -> None:
    """Write what was reduced as a Zarr group, each at a path of its own, for xarray too."""
    for path, one in reduced.items():
        one.write(folder, path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the third format's specification does not know of it yet
        zarr.consolidate_metadata(str(folder))


def check_results(out: str | Path, op: Op | Sequence[Op], dtype: Any = None) -> None:
    """Find out before the work starts whether an output's format can hold these results.

    Raises
    ------
    PlanError
        If it has no data type for Python's integers, or is a table and results have axes of
        their own.
    """
    ending = format_of(out)
    if _is_object(dtype) and ending in (".zarr", ".parquet"):
        raise PlanError(
            f"output {shown(out)}: {ending[1:].capitalize()} has no data type for "
            f"Python's integers (dtype {dtype}); use .json"
        )
    if ending in (".csv", ".parquet"):
        refuse_own_axes(op, f"write it as .json or .zarr, not into the table {shown(out)}")


def refuse_own_axes(op: Op | Sequence[Op], remedy: str) -> None:
    """Refuse reductions whose results have axes beside those that are left.

    Raises
    ------
    PlanError
        If there is one.
    """
    for name in op_names(op):
        if name in OWN_AXES:
            raise PlanError(f"{name} has axes of its own: {remedy}")


def _is_object(dtype: Any) -> bool:
    """Whether results of a dtype are Python's integers; what is no dtype is not."""
    try:
        return dtype is not None and bool(np.dtype(dtype).kind == "O")
    except TypeError:
        return False


def _arrays(name: str, value: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Take records apart: Zarr's third format has no data type for them.

    A field that is the same for every output comes once.
    """
    if value.dtype.names is None:
        yield name, value
        return
    for field in value.dtype.names:
        part = np.ascontiguousarray(value[field])
        if value.dtype == BIN and value.ndim > 1 and field in ("left", "right"):
            part = part.reshape(-1, value.shape[-1])[0]
        yield f"{name}/{field}", part
