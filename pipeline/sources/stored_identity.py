"""Tell stored chunks from those of other arrays, and from other ways to decode them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from chunkfold.grid import Taken
from chunkfold.kernels.feed.native import file_states
from chunkfold.sources.concatenation import ConcatenatedSource
from chunkfold.sources.direct_route import objects_of
from chunkfold.sources.source import Source
from chunkfold.sources.zarr_source import ZarrSource
from chunkfold.stores.objects import LocalObjects

_NOT_DECODING = ("shape", "attributes", "dimension_names", "consolidated_metadata")
"""Metadata that change while chunks decode to the same elements."""


def stored_identity(
    source: Source, region: Sequence[Taken], known: dict[int, list[str]] | None = None
) -> str | None:
    """Return the place of the arrays that a region is in, and all that decoding depends on.

    An array that grows keeps it. None if chunks are in no place that others find, as in memory.

    Parameters
    ----------
    region
        Along each axis a slice, or places.
    known
        Identities of arrays that were found before: most regions share them.
    """
    each = list(_identities(source, region, {} if known is None else known))
    return None if None in each else json.dumps(each)


def _identities(
    source: Source, region: Sequence[Taken], known: dict[int, list[str]]
) -> Iterator[Any]:
    if isinstance(source, ConcatenatedSource):
        along = region[source.axis]
        if not isinstance(along, slice):  # places may be in any part
            along = slice(int(along.min()), int(along.max()) + 1)
        for number, (start, stop) in enumerate(itertools.pairwise(source.starts)):
            if start < along.stop and along.start < stop:
                yield start - along.start
                yield from _identities(source.parts[number], region, known)
    elif isinstance(source, ZarrSource) and (source.local_path or source.address):
        if id(source) not in known:
            place = source.local_path and str(Path(source.local_path).resolve())
            known[id(source)] = [place or source.name, _decoding(source)]
        yield known[id(source)]
    else:
        yield None


def is_as_listed(
    source: Source, sizes: np.ndarray, modified: np.ndarray, box: Sequence[slice]
) -> bool:
    """Return True if a box of stored objects has the sizes and times that were listed.

    Files may be replaced by others that are older than what was listed, as `mv` does: a read does
    not notice that. Object stores set times themselves, so that a read notices it: they are True.
    """
    if isinstance(source, ConcatenatedSource):
        axis, unit = source.axis, source.object_shape[source.axis]
        along = box[axis]
        for number, (start, stop) in enumerate(itertools.pairwise(source.starts)):
            first, begin = start // unit, max(start // unit, along.start)
            end = min(-(-stop // unit), along.stop)
            if begin < end:
                rows = (*[slice(None)] * axis, slice(begin - along.start, end - along.start))
                own = (*box[:axis], slice(begin - first, end - first), *box[axis + 1 :])
                if not is_as_listed(source.parts[number], sizes[rows], modified[rows], own):
                    return False
        return True
    objects = objects_of(source.array) if isinstance(source, ZarrSource) else None
    if not isinstance(source, ZarrSource) or not isinstance(objects, LocalObjects):
        return True
    key = source.array.metadata.encode_chunk_key
    places = itertools.product(*(range(one.start, one.stop) for one in box))
    states = file_states([f"{objects.where}/{key(place)}" for place in places])
    there = states[:, 0] >= 0
    return bool(
        (np.where(there, np.maximum(states[:, 0], 1), 0) == sizes.reshape(-1)).all()
        and (np.where(there, states[:, 1], 0) == modified.reshape(-1)).all()
    )


def _decoding(source: ZarrSource) -> str:
    told = {name: value for name, value in source.metadata.items() if name not in _NOT_DECODING}
    return json.dumps(told, sort_keys=True, default=str)
