"""Data that blocks are given in addition to the work that they have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from dask.sizeof import sizeof

from chunkfold.planning.broadcast_inputs import BroadcastInput
from chunkfold.planning.group_keys import PackedKeys
from chunkfold.planning.grouping import AnyKeys, OwnKeys
from chunkfold.sources.dask_division import Own
from chunkfold.sources.dask_source import DaskSource
from chunkfold.sources.source import Source


class Constants(NamedTuple):
    """Inputs that all blocks of a run read in addition to their sources."""

    keys: AnyKeys | None = None
    held: tuple[BroadcastInput, ...] = ()
    beside: tuple[Constants, ...] = ()
    """Constants of the other questions that the same read answers."""

    @property
    def nbytes(self) -> int:
        """Bytes of all that."""
        keys = 0 if self.keys is None else self.keys.nbytes
        others = sum(one.nbytes for one in self.beside)
        return keys + sum(one.values.nbytes for one in self.held) + others

    def packed(self) -> PackedConstants:
        """Return what travels for it."""
        keys = None if self.keys is None else self.keys.packed()
        return PackedConstants(keys, self.held, tuple(one.packed() for one in self.beside))


class PackedConstants(NamedTuple):
    """Constants as they travel: keys are packed."""

    keys: PackedKeys | OwnKeys | None
    held: tuple[BroadcastInput, ...]
    beside: tuple[PackedConstants, ...]

    def unpacked(self) -> Constants:
        """Return what was packed."""
        keys = None if self.keys is None else self.keys.unpacked()
        return Constants(keys, self.held, tuple(one.unpacked() for one in self.beside))


@dataclass(frozen=True)
class BlockData:
    """The parts of sources that one block alone is given."""

    sources: Mapping[int, Source] = field(default_factory=dict)
    """By their numbers among a run's."""
    tasks: Own = field(default_factory=Own)
    """Tasks that compute chunks of these sources."""

    def __sizeof__(self) -> int:
        return sum(map(sizeof, (*self.sources.values(), *self.tasks.graph.values())))


Brings = Callable[[Source], bool]
"""Tells if blocks bring what they read of a source."""


def to_workers(source: Source) -> bool:
    """Tell if blocks bring a source to workers: its elements, or which parts of it they read."""
    return not source.travels or len(source.origins) > 1


def to_a_graph(source: Source) -> bool:
    """Tell if blocks bring a source in a graph of Dask's: one in memory, or Dask's already.

    Other objects of this process are in the graph themselves, and read by its tasks.
    """
    return isinstance(source, DaskSource) or (
        all(one.travels or one.in_memory for one in source.origins) and to_workers(source)
    )


def to_this_process(source: Source) -> bool:
    """Tell if blocks bring a source where they run in the process that has it."""
    return not source.travels and not source.here
