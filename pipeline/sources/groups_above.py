"""Read the attributes of the groups that an array of Zarr's is in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

import zarr

from chunkfold.settings import StorageOptions
from chunkfold.sources.group_members import open_as_it_is
from chunkfold.sources.zarr_arrays import AnyArray
from chunkfold.stores.addresses import beside, last_of, located

_FARTHEST = 2
"""Groups above an array that may name it: as `scale0/image`."""


def groups_above(
    array: AnyArray, address: str, options: StorageOptions
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the groups that an array is in, nearest first: its path there, and the attributes.

    `address` is where the array is, if that is known. It ends where no group can be opened.
    """
    inner, place = PurePosixPath(array.path).parts, PurePosixPath()
    for up in range(1, _FARTHEST + 1):
        if inner:
            place = PurePosixPath(*inner[-up:])
        else:
            place, address = last_of(address) / place, beside(address, "").rstrip("/")
        if up > len(inner) if inner else not address:
            return
        try:
            store, path = (
                (array.store, "/".join(inner[:-up])) if inner else located(address, options)
            )
            node = open_as_it_is(store, path)
        except Exception:  # noqa: BLE001 # whatever keeps it from being opened: most often none is there
            return
        if not isinstance(node, zarr.Group):
            return
        yield str(place), node.attrs.asdict()
