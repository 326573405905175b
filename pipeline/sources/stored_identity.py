"""Tell stored chunks from those of other arrays, and from other ways to decode them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from chunkfold.grid import Taken
from chunkfold.sources.concatenation import ConcatenatedSource
from chunkfold.sources.source import Source
from chunkfold.sources.zarr_source import ZarrSource

_NOT_DECODING = ("shape", "attributes", "dimension_names", "consolidated_metadata")
"""Metadata that change while chunks decode to the same elements."""


def stored_identity(source: Source, region: Sequence[Taken]) -> str | None:
    """Return the place of the arrays that a region is in, and all that decoding depends on.

    An array that grows keeps it. None if chunks are in no place that others find, as in memory.

    Parameters
    ----------
    region
        Along each axis a slice, or places.
    """
    each = list(_identities(source, region))
    return None if None in each else json.dumps(each)


def _identities(source: Source, region: Sequence[Taken]) -> Iterator[Any]:
    if isinstance(source, ConcatenatedSource):
        along = region[source.axis]
        if not isinstance(along, slice):  # places may be in any part
            along = slice(int(along.min()), int(along.max()) + 1)
        for number, (start, stop) in enumerate(itertools.pairwise(source.starts)):
            if start < along.stop and along.start < stop:
                yield start - along.start
                yield from _identities(source.parts[number], region)
    elif isinstance(source, ZarrSource) and source.local_path is not None:
        yield [str(Path(source.local_path).resolve()), _decoding(source)]
    elif isinstance(source, ZarrSource) and source.address is not None:
        yield [source.name, _decoding(source)]
    else:
        yield None


def _decoding(source: ZarrSource) -> str:
    told = {name: value for name, value in source.metadata.items() if name not in _NOT_DECODING}
    return json.dumps(told, sort_keys=True, default=str)
