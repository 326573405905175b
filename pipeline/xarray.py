"""xarray's arrays and datasets: `ds.chunkfold.mean("time")`, once this module is imported."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from html import escape
from textwrap import indent
from typing import Any

import numpy as np

try:
    import xarray as xr
except ImportError as error:
    raise ImportError("chunkfold.xarray needs xarray: pip install 'chunkfold[xarray]'") from error

from chunkfold.api import reduce
from chunkfold.errors import MonoidError, PlanError
from chunkfold.kernels import as_monoid
from chunkfold.kernels.catalogue.quantiles import quantile
from chunkfold.planning.option_table import Op, meanings
from chunkfold.printable import printable
from chunkfold.tracebacks import traceback_cut

DimNames = Hashable | Sequence[Hashable] | AbstractSet[Hashable] | None
"""Axes by name; None, or `...`: all of them."""
_TOLD = {
    "sum": "Return sums, exact ones: rounded once.",
    "prod": "Return products.",
    "mean": "Return means, rounded once.",
    "std": "Return standard deviations.",
    "var": "Return variances.",
    "min": "Return minima.",
    "max": "Return maxima.",
    "count": "Return the number of elements that are not missing.",
    "any": "Return whether any element is true.",
    "all": "Return whether all elements are true.",
    "argmin": "Return positions of minima, the first of equal ones; -1 of none.",
    "argmax": "Return positions of maxima, the first of equal ones; -1 of none.",
    "median": "Return medians, exact ones.",
}
_OWN = ("op", "axis")
"""Options that methods have in other ways."""


def _documented(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a method the signature and the docstring of the options that it takes."""
    own, keyword = inspect.signature(function), inspect.Parameter.KEYWORD_ONLY
    given = [one for one in own.parameters.values() if one.kind is not one.VAR_KEYWORD]
    rest = [one for one in own.parameters.values() if one.kind is one.VAR_KEYWORD]
    taken = inspect.signature(reduce).parameters
    names = [name for name in meanings() if name not in _OWN]
    options = [inspect.Parameter(name, keyword, default=taken[name].default) for name in names]
    setattr(function, "__signature__", own.replace(parameters=[*given, *options, *rest]))  # noqa: B010
    if function.__doc__:
        told = "".join(f"{name}\n{indent(meanings()[name], '    ')}\n" for name in names)
        function.__doc__ = f"{inspect.cleandoc(function.__doc__)}\n{told}{_REST}"
    return function


_DIM = """

Parameters
----------
dim
    Names of the axes to reduce; None or `...`: all of them.
"""
_REST = """given
    Other parameters of `chunkfold.reduce`, as `compute` and `client`.

Returns
-------
A DataArray or a Dataset, as the data are; with groups (`by`) along an axis of groups.

Raises
------
ChunkfoldError
    See `chunkfold.errors`.
"""


def _method(op: str) -> Callable[..., Any]:
    def reduction(self: Reductions, dim: DimNames = None, **given: Any) -> Any:
        return self.reduce(op, dim, **given)

    reduction.__doc__ = f"{_TOLD[op]}{_DIM}"
    reduction.__name__ = op
    reduction.__qualname__ = f"Reductions.{op}"
    return traceback_cut(_documented(reduction))


def _place(op: str, what: str) -> Callable[..., Any]:
    def reduction(self: Reductions, dim: Hashable = None, **given: Any) -> Any:
        return self._at(op, dim, given)

    reduction.__doc__ = f"""Return the coordinate at which {what} are, the first of equal ones.

Of no elements it is NaN, NaT or an empty text, as of elements that are all NaN.

Parameters
----------
dim
    Name of the one axis to reduce, which has a coordinate; None: the only axis.
"""
    reduction.__name__ = f"idx{op.removeprefix('arg')}"
    reduction.__qualname__ = f"Reductions.{reduction.__name__}"
    return traceback_cut(_documented(reduction))


@xr.register_dataset_accessor("chunkfold")  # type: ignore[no-untyped-call]
@xr.register_dataarray_accessor("chunkfold")  # type: ignore[no-untyped-call]
class Reductions:
    """Reductions of what xarray opened from a Zarr: `ds.chunkfold.mean("time")`."""

    def __init__(self, data: xr.DataArray | xr.Dataset) -> None:
        self._data = data

    @traceback_cut
    def reduce(self, op: Op | Sequence[Op], dim: DimNames = None, **given: Any) -> Any:
        """Reduce along some axes, by name; None or `...`: all of them.

        The other parameters are those of `chunkfold.reduce`, but `axis`; so is what is returned,
        and raised.
        """
        if "axis" in given:
            raise PlanError(f"axis is {given['axis']!r}: name axes by dim=, as dim='time'")
        axis: Any = None if dim is ... else [*dim] if isinstance(dim, AbstractSet) else dim
        return reduce(self._data, op, axis=axis, **given)

    def __getattr__(self, name: str) -> Any:
        """Name the way to ask for reductions that are no methods."""
        with suppress(MonoidError):
            if not name.startswith("_") and as_monoid(name):
                raise AttributeError(f"no method is called {name!r}: write .reduce({name!r}, dim)")
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
    median = _method("median")
    idxmin = _place("argmin", "minima")
    idxmax = _place("argmax", "maxima")

    @traceback_cut
    @_documented
    def quantile(
        self,
        q: float | Sequence[float],
        dim: DimNames = None,
        *,
        method: str | None = None,
        rtol: float | None = None,
        **given: Any,
    ) -> Any:
        """Return quantiles, exact ones; several along a last axis `quantile`.

        Parameters
        ----------
        q
            From 0 to 1: a number, or several.
        dim
            Names of the axes to reduce; None or `...`: all of them.
        method
            Any of NumPy's, or "sketch"; None: "linear".
        rtol
            Relative tolerance of a sketch.
        """
        weights = given.get("weights") is not None
        found = self.reduce(quantile(q, method=method, rtol=rtol, weights=weights), dim, **given)
        return found if np.ndim(q) else found.assign_coords(quantile=float(np.asarray(q)))

    def _at(self, op: str, dim: Hashable, given: dict[str, Any]) -> Any:
        """Return the coordinate of an axis at the positions that a reduction gives."""
        dims = [*self._data.dims]
        if dim is None and len(dims) == 1:
            (dim,) = dims
        if not isinstance(dim, Hashable) or dim not in self._data.coords or dim not in dims:
            raise PlanError(f"dim is {dim!r}: name one axis that has a coordinate, of {dims}")
        places = self.reduce(op, dim, **given)
        labels = self._data[dim].values

        def taken(at: np.ndarray) -> Any:
            found = labels[np.maximum(at, 0)]
            missing = at < 0
            if not missing.any():
                return found
            nothing = {"M": np.datetime64("NaT"), "m": np.timedelta64("NaT")}
            kind = found.dtype.kind
            found = found.astype(float) if kind in "iub" else found
            found[missing] = nothing.get(kind, "" if kind in "OUT" else np.nan)
            return found

        made = xr.apply_ufunc(taken, places, dask="parallelized", output_dtypes=[labels.dtype])
        return made.rename(dim) if isinstance(made, xr.DataArray) else made

    def __repr__(self) -> str:
        kind = type(self._data).__name__
        axes = ", ".join(f"{dim}: {size}" for dim, size in self._data.sizes.items())
        return printable(f"<chunkfold's reductions of a {kind} ({axes}): {', '.join(_METHODS)}>")

    def _repr_html_(self) -> str:
        """Show the methods, as a notebook does."""
        told = {name: getattr(type(self), name).__doc__ or "" for name in _METHODS}
        cells = ((name, escape(doc.partition("\n")[0])) for name, doc in told.items())
        rows = "".join(f"<tr><td>{name}</td><td>{doc}</td></tr>" for name, doc in cells)
        title = escape(repr(self).rpartition(":")[0].lstrip("<"))
        return f"<div>{title}<table>{rows}</table></div>"


_METHODS = [name for name in vars(Reductions) if not name.startswith("_")]
