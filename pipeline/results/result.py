"""A result with its labels: values, names of axes, coordinates, attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from chunkfold.results.coordinate import Coordinate
from chunkfold.results.shown import as_html, as_text
from chunkfold.sources.dask_source import is_dask

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True, eq=False, repr=False)
class Result(NDArrayOperatorsMixin):
    """The result of a reduction, with its name, axes, coordinates and attributes.

    NumPy uses its values: `np.asarray(result)`, `np.sqrt(result)`, `result - 273.15`, and
    `result[0]` are NumPy's.
    """

    name: str
    """The reduction's."""
    values: Any
    """A NumPy scalar or array, or an array of Dask's; of records, where a reduction has several
    results for each output."""
    dims: tuple[str, ...]
    """Names of its axes; "dim_0" and so on of those that have no name of their own."""
    attrs: Mapping[str, Any]
    """Attributes that are true of the values, such as `units` and `cell_methods`."""
    labels: np.ndarray | Mapping[str, np.ndarray] | None = None
    """Labels of the groups, in order; of several labels, by the names of their axes; None if there
    are no groups."""
    parts: Mapping[str, Result] = field(default_factory=dict)
    """The fields of records, each as a result of its own; nothing if there are none."""
    read: Callable[[], Mapping[str, Coordinate]] = dict
    """Reads everything that comes along."""

    @cached_property
    def coordinates(self) -> Mapping[str, Coordinate]:
        """Coordinates of its axes, and others that go along them; read when they are asked for."""
        along = self.read()
        return {name: one for name, one in along.items() if {*one.dims} <= {*self.dims}}

    @property
    def units(self) -> Any:
        """The units of the values, if they have any."""
        return self.attrs.get("units")

    @property
    def dtype(self) -> np.dtype:
        """The values' dtype."""
        dtype: np.dtype = as_array(self.values).dtype
        return dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The values' extents."""
        return np.shape(self.values)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of values."""
        return int(as_array(self.values).size)

    def as_xarray(self) -> xarray.DataArray | xarray.Dataset:
        """Return it as xarray has it, coordinates and attributes too: a Dataset of records' fields.

        Raises
        ------
        ImportError
            If xarray is not installed.
        """
        from chunkfold.results.as_xarray import array_of

        return array_of(self)

    def tolist(self) -> Any:
        """Return the values as Python's."""
        return np.asarray(self.values).tolist()

    def item(self) -> Any:
        """Return the one value as Python's."""
        return np.asarray(self.values).item()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        values = np.asarray(self.values, dtype)
        return values.copy() if copy and np.shares_memory(values, self.values) else values

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        plain = (one.values if isinstance(one, Result) else one for one in inputs)
        return getattr(ufunc, method)(*plain, **kwargs)

    def __getitem__(self, key: Any) -> Any:
        return self.values[key]

    def __getstate__(self) -> dict[str, Any]:
        """Take coordinates along as they are, rather than what would read them."""
        along = self.coordinates
        return {one.name: getattr(self, one.name) for one in fields(self)} | {
            "parts": dict(self.parts),
            "read": partial(dict, along),
        }

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def __float__(self) -> float:
        return float(self.values)

    def __int__(self) -> int:
        return int(self.values)

    def __bool__(self) -> bool:
        return bool(self.values)

    def __format__(self, spec: str) -> str:
        return format(self.values, spec) if spec else str(self)

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)


def as_array(values: Any) -> Any:
    """Return values as an array: NumPy's, or Dask's where nobody has computed them."""
    return values if is_dask(values) else np.asarray(values)


def filled(names: Sequence[str | None]) -> tuple[str, ...]:
    """Name the axes that have no name of their own, or share it.

    >>> filled(["time", None, "x", "x"])
    ('time', 'dim_1', 'dim_2', 'dim_3')
    """
    alone = [name is not None and names.count(name) == 1 for name in names]
    return tuple(
        str(one) if ok else f"dim_{n}" for n, (one, ok) in enumerate(zip(names, alone, strict=True))
    )
