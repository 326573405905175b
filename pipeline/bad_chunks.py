"""Chunks that cannot be read: a description of each, and the number of skipped elements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

MOST_SKIPPED = 1000
"""Skipped chunks that are named one by one."""


@dataclass(frozen=True)
class BadChunk:
    """A chunk that cannot be read or decoded, and why."""

    array: str
    """The name of the array, as the caller gave it."""
    kind: str
    """"chunk"; "shard", of which some inner chunk is bad; "region", where all that it takes can be
    read one by one; "task", of Dask's, that several chunks need."""
    key: str
    """Key of the object in the array's store, as "c/0/3"; or the region, as "[0:10, 5:20]"; or
    the key of Dask's task."""
    codecs: tuple[str, ...]
    """Names of the codecs that compress it."""
    store: str
    """The place of the array."""
    reason: str
    """The error, as "ValueError: 8 bytes are missing"."""

    def __str__(self) -> str:
        key = self.key if self.kind in ("region", "task") else repr(self.key)
        codecs = f"codecs {', '.join(self.codecs)}" if self.codecs else "no codec"
        where = f"{codecs}; {self.store}"
        return f"{self.array}: cannot read {self.kind} {key} ({where}): {self.reason}"


Skipped = Mapping[BadChunk | None, int]
"""Number of skipped elements by bad chunk; None stands for all chunks after the first
`MOST_SKIPPED`."""


def total_skipped(parts: Iterable[Skipped]) -> Skipped:
    """Add up skipped elements, chunk by chunk.

    >>> bad = BadChunk("a.zarr", "chunk", "c/0", ("zstd",), "/data/a.zarr", "ValueError: cut")
    >>> total_skipped([{bad: 10}, {}, {bad: 2}]) == {bad: 12}
    True
    """
    skipped: dict[BadChunk | None, int] = {}
    for part in parts:
        for chunk, count in part.items():
            key = chunk if chunk in skipped or len(skipped) < MOST_SKIPPED else None
            skipped[key] = skipped.get(key, 0) + count
    return skipped
