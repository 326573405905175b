"""Say what is in an array, or in all arrays of a group, in one read of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from distributed import Client

from chunkfold.api import submit
from chunkfold.bad_chunks import Skipped
from chunkfold.errors import SourceError
from chunkfold.events import OnEvent
from chunkfold.kernels import as_monoid, is_defined
from chunkfold.opening import open_all, open_source
from chunkfold.packed import packing_of
from chunkfold.source import Source

OPS = ("count", "min", "max", "mean", "std", "histogram")
"""Of which an array has those that are defined for its dtype; NaN and NaT are left out."""


@dataclass(frozen=True)
class Description:
    """What an array is, and what is in it."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    nbytes: int
    """Bytes of all elements, decoded."""
    stored: np.ndarray | None
    """Bytes of each object (chunk or shard) over their grid, 0 where none is stored; None where the
    store cannot be listed."""
    statistics: Mapping[str, Any]
    """By the names of `OPS`."""
    skipped: Skipped
    """Elements left out for each chunk that could not be read."""
    reason: str = ""
    """Why there are no statistics, if there are none."""

    @property
    def elements(self) -> int:
        """Number of elements, missing ones among them."""
        return int(np.prod(self.shape, dtype=object))

    @property
    def missing(self) -> int | None:
        """Elements that are NaN or NaT; None if they were not counted."""
        if "count" not in self.statistics:
            return None
        return self.elements - sum(self.skipped.values()) - int(self.statistics["count"])


def describe(source: Any, **given: Any) -> list[Description]:
    """Describe an array, or every array of a group; parameters as `describe_array`.

    Raises
    ------
    ChunkfoldError
        If there is nothing there, or an array cannot be read.
    """
    return [describe_array(array, **given) for array in open_all(source)]


def describe_array(
    source: Source,
    *,
    mask_and_scale: bool = False,
    memory: int | str | None = None,
    on_bad_chunk: str = "stop",
    client: Client | None = None,
    on_event: OnEvent | None = None,
) -> Description:
    """Describe an array: shape, what is stored of it, and its statistics, in one read.

    Exact where `chunkfold.reduce` is. An array without elements, or of a dtype that cannot be
    reduced, such as texts, has no statistics but a reason.

    Parameters
    ----------
    source
        As `chunkfold.opening.open_all` finds them.
    mask_and_scale, memory, on_bad_chunk, client, on_event
        As `chunkfold.reduce` has them.

    Raises
    ------
    ChunkfoldError
        Whatever ended the read.
    """
    statistics: Mapping[str, Any] = {}
    skipped: Skipped = {}
    reason = _why_not(source)
    packing = packing_of(source) if mask_and_scale else None
    if reason:
        listing = source.listing()
    else:
        run = submit(
            source,
            [op for op in OPS if is_defined(as_monoid(op), [source.dtype], [packing])],
            skipna=True,
            mask_and_scale=mask_and_scale,
            memory=memory,
            on_bad_chunk=on_bad_chunk,
            client=client,
            on_event=on_event,
        )
        statistics, skipped = run.result(), run.skipped
        (listing,) = run.plan.listings
    return Description(
        source.name,
        source.dtype,
        source.shape,
        tuple(source.array.chunks),
        source.nbytes,
        None if listing is None else listing.sizes,
        statistics,
        skipped,
        reason,
    )


def _why_not(source: Source) -> str:
    try:
        open_source(source)
    except SourceError as error:
        return str(error).removeprefix(f"{source.name}: ")
    return "" if source.nbytes else "it has no elements"
