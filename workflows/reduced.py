"""What a reduction leaves: its results, the axes that they have, and both in a Zarr."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from chunkfold.axes import axis_names
from chunkfold.errors import PlanError
from chunkfold.kernels import Monoid
from chunkfold.kernels.finishes import BIN
from chunkfold.packed import SCALING
from chunkfold.planned import Plan
from chunkfold.request import Op
from chunkfold.source import Source
from chunkfold.workflows.attributes import OF_VALUES, carried_attributes
from chunkfold.workflows.coordinates import NAMED, coordinates
from chunkfold.workflows.outputs import format_of, shown

_SAME_UNITS = ("sum", "min", "max", "mean", "std", "norm1", "norm2", "norminf")
_PACKING = {"min": OF_VALUES, "max": OF_VALUES, "mean": SCALING, "std": ("scale_factor",)}
"""How results of packed values are packed; others are of the numbers that are stored."""
_WITH_AXES = ("histogram", "minmax")
"""Reductions whose results have axes beside those that are left."""
_TOLD = ("selection", "ddof", "skipna", "mask_and_scale", "dtype", "mode")
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
        return self.plan.source

    @property
    def axes(self) -> list[int]:
        """The source's axes that results have, in order."""
        alive = self._alive()
        if self.given.get("keepdims"):
            return alive
        return [n for n in alive if n not in self.plan.layout.reduced]

    def names_of(self, axes: Sequence[int]) -> list[str | None] | None:
        """Return the names of some axes of the source, if they have names."""
        return axis_names(self.source, axes)

    def attributes(self, op: str) -> dict[str, Any]:
        """Return the attributes of a result: the source's, and what was done."""
        plain = op.removeprefix("nan")
        unpacked = self.given.get("mask_and_scale")
        packing = () if unpacked else _PACKING.get(plain, ())
        packed = not unpacked and not set(SCALING).isdisjoint(self.source.array.attrs)
        units = plain in _SAME_UNITS and bool(packing or not packed)
        kept = carried_attributes(self.source, units=units, packing=packing)
        reduced = [n for n in self._alive() if n in self.plan.layout.reduced]
        names = self.names_of(reduced) or reduced
        made_of: dict[str, Any] = {"source": self.plan.name, "op": op, "axes": list(names)}
        told = {name: self.given[name] for name in _TOLD if self.given.get(name)}
        made_of |= {name: value if value is True else str(value) for name, value in told.items()}
        return kept | {"chunkfold": made_of}

    def write(self, folder: Path, path: str = "") -> None:
        """Write results into a Zarr group, at a path of it: one array each, and their coordinates.

        Records become groups, of an array for each of their fields.
        """
        group = zarr.open_group(str(folder), mode="a", zarr_format=3)
        into = group.require_group(path) if path else group
        left = [n for n in self.axes if n not in self.plan.layout.reduced]
        along = [one for one in coordinates(self.plan, left) if one.name not in self.results]
        others = " ".join(one.name for one in along if one.axes != (one.name,))
        for op, value in self.results.items():
            for name, part in _arrays(op, np.asarray(value)):
                own = part.ndim < np.ndim(value)  # a field that is the same for every output
                described = self._described(op, part, own=own)
                if others and not own:
                    described["attributes"] |= {NAMED: others}
                into.create_array(name, data=part, **described)
        for one in along:
            if one.name not in into:
                one.write(into)

    def _alive(self) -> list[int]:
        return [n for n, axis in enumerate(self.plan.layout.axes) if not axis.dropped]

    def _described(self, op: str, value: Any, *, own: bool = False) -> dict[str, Any]:
        """Return what `create_array` is told of a result beside its data."""
        axes = [] if own else self.axes
        names, more = self.names_of(axes), np.ndim(value) - len(axes)
        last = "bin" if op == "histogram" else None
        names = None if names is None or more < 0 else names + [last] * more
        return {"attributes": self.attributes(op), "dimension_names": names}


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
    ops = [op] if isinstance(op, (str, Monoid)) else op
    for name in (one.name if isinstance(one, Monoid) else one for one in ops):
        if name in _WITH_AXES:
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
