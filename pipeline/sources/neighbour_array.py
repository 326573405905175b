"""An array in the group of a source, such as a coordinate: what it says, how it is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import zarr
from zarr.dtype import VariableLengthUTF8

from chunkfold.kernels import Packing
from chunkfold.sources.cf_packing import encoded_fill, packing_of
from chunkfold.sources.zarr_arrays import AnyArray
from chunkfold.sources.zarr_source import ZarrSource


@dataclass(frozen=True)
class Neighbour:
    """An array in the group of a source, of any dtype, texts too; it is read as it is stored."""

    name: str
    array: AnyArray

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        return tuple(self.array.shape)

    @property
    def dtype(self) -> np.dtype:
        """Return the dtype of the stored elements."""
        return np.dtype(self.array.dtype)

    @property
    def dims(self) -> tuple[str | None, ...]:
        """Names of its axes; none if they have none."""
        return self._source.dims or ()

    def axes_among(self, names: Sequence[str | None]) -> tuple[str | None, ...]:
        """Return the names of its axes, as data with axes of such names have them.

        Without names of its own, an array of one axis lies along the axis that is called as it is.
        """
        ndim = len(self.shape)
        if len(self.dims) == ndim and all(self.dims):
            return self.dims
        return (self.name,) if ndim == 1 and self.name in names else (None,) * ndim

    @property
    def attributes(self) -> dict[str, Any]:
        """Return the attributes that it would have in format 3.

        Format 2 marks missing elements by the fill value: it is named `_FillValue`, as xarray does.
        """
        array = self.array
        attributes, fill = array.attrs.asdict(), array.fill_value
        if array.metadata.zarr_format == 2 and fill is not None and "_FillValue" not in attributes:
            if array.dtype.kind in "iu":
                attributes["_FillValue"] = int(fill)
            if array.dtype.kind == "f":
                attributes["_FillValue"] = encoded_fill(fill)
        return attributes

    @property
    def packing(self) -> Packing | None:
        """Return the packing that makes values of stored numbers; None if they are the values.

        Raises
        ------
        PlanError
            If the attributes cannot be understood.
        """
        return packing_of(self._source)

    @cached_property
    def _source(self) -> ZarrSource:
        return ZarrSource(self.array, self.name)

    @property
    def nbytes(self) -> int:
        """Bytes of what is stored, decoded."""
        return self._source.nbytes

    def read(self, cuts: Sequence[slice | np.ndarray]) -> np.ndarray:
        """Read a part of it.

        Raises
        ------
        Exception
            Whatever keeps it from being read.
        """
        return np.asarray(self.array[tuple(cuts)])

    def whole(self) -> np.ndarray:
        """Read all of it; raises as `read`."""
        return np.asarray(self.array[...])

    def values(self, stored: np.ndarray) -> np.ndarray:
        """Return what stored numbers stand for, NaN for what is missing; others as they are.

        Raises
        ------
        PlanError
            As `packing`.
        """
        packing = self.packing if stored.dtype.kind in "iuf" else None
        return stored if packing is None else packing.values(stored)

    def as_xarray_decodes(self, stored: np.ndarray) -> np.ndarray:
        """Return what stored values along its one axis stand for, dates too, as xarray has them.

        Raises
        ------
        Exception
            Whatever xarray has for what it cannot decode.
        """
        import xarray as xr

        said = dict(self.array.attrs.asdict())
        if (missing := self._source.missing_fill) and stored.dtype.kind in "iuf":
            said.setdefault("_FillValue", missing[0])
        if isinstance(said.get("_FillValue"), str):  # as Zarr's attributes have it: coordinates
            del said["_FillValue"]  # miss nothing
        held = xr.Variable((self.name,), stored, said)
        return np.asarray(xr.conventions.decode_cf_variable(self.name, held).values)


def array_in_memory(
    values: np.ndarray, attributes: Mapping[str, Any], dims: Sequence[str | None] | None
) -> AnyArray:
    """Return values with attributes and names of axes as an array of zarr's, in memory.

    Texts may be of any kind; dtypes are those that zarr has.
    """
    texts = values.dtype.kind in "OSUT"
    dtype: Any = VariableLengthUTF8() if texts else values.dtype
    made = zarr.create_array(
        {}, shape=values.shape, dtype=dtype, attributes=dict(attributes), dimension_names=dims
    )
    # zarr stores texts in the order in which they stand in memory.
    made[...] = np.ascontiguousarray(values.astype(object) if texts else values)
    return zarr.open_array(made.store, mode="r")
