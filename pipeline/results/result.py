"""A result with its labels: values, names of axes, coordinates, attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from chunkfold.results import result_texts
from chunkfold.results.coordinate import Coordinate
from chunkfold.sources.dask_source import is_dask
from chunkfold.tracebacks import traceback_cut

if TYPE_CHECKING:
    import os

    import pandas as pd
    import xarray


@dataclass(frozen=True, eq=False, repr=False)
class Result(NDArrayOperatorsMixin):
    """The result of a reduction, with its name, axes, coordinates and attributes.

    NumPy uses its values: `np.asarray(result)`, `result > 3` and `result[0]` are NumPy's. What is
    computed of results, as `result - 273.15` and `np.sqrt(result)`, is a `Result` with their
    labels.
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
    origins: tuple[str, ...] = ()
    """Addresses of what it was read from: no file of it takes their place."""

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

    def to_xarray(self) -> xarray.DataArray | xarray.Dataset:
        """Return it as xarray has it, coordinates and attributes too: a Dataset of records' fields.

        Raises
        ------
        ImportError
            If xarray is not installed.
        """
        from chunkfold.results.as_xarray import array_of

        return array_of(self)

    def to_dataframe(self) -> pd.DataFrame:
        """Return it as a table of pandas', a row for each value; coordinates are its index.

        Raises
        ------
        ImportError
            If xarray, which brings pandas, is not installed.
        """
        from chunkfold.results.files import dataframe_of

        return dataframe_of(self)

    def to_netcdf(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write it to a NetCDF-4 file, whole or not at all (`chunkfold[netcdf]`).

        Parameters
        ----------
        path
            A path, or a URL of an object store.
        overwrite
            Replace what is there, if it is a file or a Zarr.

        Raises
        ------
        ImportError
            If xarray or h5netcdf is not installed.
        PlanError
            If something is there that is not to go, the result was read from it, or nothing can be
            written there.
        OutputError
            If the disk is full.
        """
        from chunkfold.results.files import write_one

        write_one(self, path, ".nc", overwrite=overwrite)

    def to_zarr(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write it to a Zarr group in a folder, whole or not at all; otherwise as `to_netcdf`."""
        from chunkfold.results.files import write_one

        write_one(self, path, ".zarr", overwrite=overwrite)

    @traceback_cut
    def plot(self, ax: Any = None, **given: Any) -> Any:
        """Draw it by matplotlib, with its coordinates and units (`chunkfold[plot]`).

        Two axes are a map; one is a line, or bars of groups; groups of maps are small multiples.
        Quantiles are bands, histograms stand on the axis of their values.

        Parameters
        ----------
        ax
            Axes of matplotlib's to draw on; None: a new figure of `matplotlib.pyplot`.
        given
            Arguments of the function of matplotlib that draws, as `cmap` or `color`.

        Returns
        -------
        Matplotlib's axes; an array of them if there are several panels.

        Raises
        ------
        PlanError
            If there is nothing to draw, or too much for one picture.
        ImportError
            If matplotlib or xarray is not installed.
        """
        from chunkfold.results.drawing import plotted

        return plotted({self.name: self.to_xarray()}, ax, given)

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
        plain = [one.values if isinstance(one, Result) else one for one in inputs]
        if any(isinstance(one, Result) for one in kwargs.get("out", ())):
            del kwargs["out"]  # m += 1 makes a new result: none is changed in place
        if method != "__call__" or ufunc.nout > 1 or kwargs.keys() & {"out", "where"}:
            return getattr(ufunc, method)(*plain, **kwargs)
        from chunkfold.results.arithmetic import applied

        return applied(ufunc, inputs, kwargs)

    @property
    def variable(self) -> Any:
        """Its values with the names of their axes, as xarray asks for in `array - result`."""
        made: Any = self.to_xarray()
        return made.variable  # records have none: an AttributeError, as xarray expects

    @property
    def coords(self) -> Any:
        """Its coordinates as xarray has them, which compares them in `array - result`."""
        return self.to_xarray().coords

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
        return result_texts.as_text(self)

    def _repr_html_(self) -> str:
        return result_texts.as_html(self)


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
