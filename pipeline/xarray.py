"""xarray's arrays and datasets: `ds.chunkfold.mean("time")`, once this module is imported."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Any

try:
    import xarray as xr
except ImportError as error:
    raise ImportError("chunkfold.xarray needs xarray: pip install 'chunkfold[xarray]'") from error

from chunkfold.api import reduce
from chunkfold.errors import MonoidError, PlanError
from chunkfold.kernels import as_monoid
from chunkfold.planning.option_table import Op

DimNames = Hashable | Sequence[Hashable] | AbstractSet[Hashable] | None
"""Axes by name; None, or `...`: all of them."""


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

    def __init__(self, data: xr.DataArray | xr.Dataset) -> None:
        self._data = data

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
