"""Arrays that stand in a store beside a source, as coordinates do; and what its group says."""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import zarr
from zarr.codecs import BloscCodec, GzipCodec, ZstdCodec

from chunkfold.kernels import Packing
from chunkfold.sources.cf_packing import packing_of
from chunkfold.sources.h5_opening import group_attributes_of
from chunkfold.sources.h5_source import H5Source
from chunkfold.sources.opening import open_beside, open_node
from chunkfold.sources.source import Source
from chunkfold.sources.zarr_arrays import AnyArray
from chunkfold.sources.zarr_source import ZarrSource

_COMPRESSORS = (BloscCodec, GzipCodec, ZstdCodec)


@dataclass(frozen=True)
class Neighbour:
    """An array that stands beside a source: of any dtype, texts too; it is read as it is stored."""

    name: str
    array: AnyArray

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        return tuple(self.array.shape)

    @property
    def dtype(self) -> np.dtype:
        """Of what is stored."""
        return np.dtype(self.array.dtype)

    @property
    def dims(self) -> tuple[str | None, ...]:
        """Names of its axes; none if they have none."""
        return self._source.dims or ()

    @property
    def attributes(self) -> dict[str, Any]:
        """Those that it has in format 3.

        What format 2 calls missing by its fill value is named by one, as xarray writes it.
        """
        array = self.array
        attributes, fill = array.attrs.asdict(), array.fill_value
        if array.metadata.zarr_format == 2 and fill is not None and "_FillValue" not in attributes:
            if array.dtype.kind in "iu":
                attributes["_FillValue"] = int(fill)
            if array.dtype.kind == "f":
                packed = struct.pack("<d", float(fill))
                attributes["_FillValue"] = base64.standard_b64encode(packed).decode()
        return attributes

    @property
    def packing(self) -> Packing | None:
        """How values are made of what is stored, if that is not they.

        Raises
        ------
        PlanError
            If attributes say nothing that can be understood.
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


def neighbour(source: Source, name: str) -> Neighbour | None:
    """Open an array beside a source; None if there is none; raises as `open_beside`."""
    found = open_beside(source, name)
    return None if found is None else Neighbour(name, found)


def compressors_of(source: Source) -> Any:
    """Return how chunks of a source are compressed, for others like it: as zarr is told it.

    Where that is by a codec which zarr has itself; else it is what zarr takes without being told.
    """
    if not isinstance(source, ZarrSource) or source.array.metadata.zarr_format == 2:
        return "auto"
    found = source.array.compressors
    return found if all(isinstance(one, _COMPRESSORS) for one in found) else "auto"


def group_attributes(source: Source) -> Mapping[str, Any]:
    """Return the attributes of the group that a source is in; none if it cannot be opened."""
    try:
        if isinstance(source, H5Source):
            return group_attributes_of(source)
        if not isinstance(source, ZarrSource):
            return {}
        array, address = source.array, (source.local_path or source.address or "").rstrip("/")
        if array.path:
            above = str(PurePosixPath(array.path).parent)
            found = zarr.open_group(array.store, path="" if above == "." else above, mode="r")
            return found.attrs.asdict()
        folder = address.rpartition("/")[0]
        node = open_node(folder) if folder else None
        return {} if node is None else node.attrs.asdict()
    except Exception:  # noqa: BLE001 # whatever keeps it from being opened: most often none is there
        return {}
