"""A plan, and how it is told."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from chunkfold.blocks import Block
from chunkfold.gaps import Stored
from chunkfold.kernels import Accumulator, Packing
from chunkfold.kernels.indices import takes_first
from chunkfold.layout import Layout
from chunkfold.leaves import repeats
from chunkfold.memory import Memory
from chunkfold.source import Source
from chunkfold.tree import Tree
from chunkfold.units import size_text

_MENTIONED = 1.05
"""How many times chunks are decoded, at least, if that is said."""


@dataclass(frozen=True, repr=False)
class Plan:
    """What a reduction would do. Print it."""

    sources: tuple[Source, ...]
    """Aligned inputs."""
    accumulator: Accumulator
    """What is folded, in the form that suits the number of outputs."""
    ops: tuple[str, ...]
    rounding: tuple[str, ...]
    """Those of them whose additions or multiplications round, so that their last bits may vary."""
    layout: Layout
    blocks: tuple[Block, ...]
    leaf_bytes: int
    """Most decoded bytes of a leaf of one input."""
    nbytes: int
    """Decoded bytes that will be read: not those of objects that are known not to be stored."""
    absent: int
    """Leaves of which nothing is stored: they are not read."""
    memory: Memory
    workers: int
    threads: int
    """Blocks that one worker runs at once."""
    readers: int
    """Threads of a worker that read and decode for all of these."""
    tree: Tree
    """Over the blocks of a tile that has most of them."""
    stored: Sequence[np.ndarray | None]
    """For each input the bytes of its stored objects, or None if they are not known."""

    @property
    def source(self) -> Source:
        """The first input."""
        return self.sources[0]

    @property
    def name(self) -> str:
        """How messages call the inputs."""
        return " and ".join(source.name for source in self.sources)

    @property
    def answer(self) -> str:
        """What may be expected of the results' last bits."""
        if not self.rounding:
            return "exact: the same bits for any chunks, devices and workers"
        others = "" if len(self.rounding) == len(self.ops) else "; the others exact"
        return f"{', '.join(self.rounding)} rounded in every operation{others}"

    @property
    def runs(self) -> Mapping[tuple[int, int], int]:
        """The runs of tiles that blocks have, and how many blocks share each."""
        return Counter(block.tiles for block in self.blocks)

    @property
    def unpacked(self) -> list[tuple[Source, Packing | None, str]]:
        """Each input, how values are made of its elements, and their dtype."""
        accumulator = self.accumulator
        return list(zip(self.sources, accumulator.packings, accumulator.value, strict=True))

    @cached_property
    def missing(self) -> Mapping[str, tuple[int, int]]:
        """Of each input how many of its chunks, or shards, are not stored, and how many it has.

        Of those that are selected, where it is known.
        """
        return {
            source.name: Stored(self.layout, sizes, source.object_shape, source.remote).missing
            for source, sizes in zip(self.sources, self.stored, strict=True)
            if sizes is not None
        }

    def remarks(self) -> Iterator[str]:
        """Say what results do not show: that nothing is selected, what fill values stand for."""
        if not self.layout.elements:
            yield f"there is nothing to reduce: what is selected has shape {self.layout.shape}"
        named = {source.name: source for source in self.sources}  # once, if it is both inputs
        for name, (missing, objects) in self.missing.items():
            if missing:
                source = named[name]
                kind = "shards" if source.array.shards else "chunks"
                yield (
                    f"{missing:,} of {objects:,} {kind} of {name} are not stored: "
                    f"their elements are its fill value, {source.fill}"
                )

    def _repeated(self) -> Iterator[str]:
        """Say which inputs are decoded more than once, since their chunks do not meet."""
        for source in self.sources:
            times = repeats(source, self.layout)
            if times >= _MENTIONED:
                yield (
                    f"          chunks of {source.name} are decoded {times:.1f} times: "
                    "they cross leaves"
                )

    def _one_by_one(self) -> Iterator[str]:
        """Say what is made and folded although it is not stored: it takes as long as if it were."""
        parts = self.accumulator.components
        names = dict.fromkeys(part.origin for part in parts if not takes_first(part))
        if names and self.absent:
            yield (
                f"          fill values of {self.absent:,} of them are made and folded one by one: "
                f"{', '.join(names)} may read each index"
            )

    @property
    def levels(self) -> int:
        """Rounds of combining above the blocks."""
        return self.tree.levels

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        layout = self.layout
        reduced = "all axes" if not layout.kept else f"axes {layout.reduced}"
        lines = [
            *itertools.chain.from_iterable(itertools.starmap(_described, self.unpacked)),
            (
                f"reduce    {', '.join(self.ops)} over {reduced} of {layout.shape}: "
                f"{layout.elements:,} elements, {size_text(self.nbytes)}"
            ),
            f"answer    {self.answer}",
            f"leaves    {layout.leaves:,} of at most {size_text(self.leaf_bytes)}"
            + (f"; nothing is stored of {self.absent:,}" if self.absent else ""),
            *self._one_by_one(),
            *(f"          {told}" for told in self.remarks()),
            *self._repeated(),
            (
                f"blocks    {len(self.blocks):,} task(s) on {self.workers} worker(s), "
                f"{self.threads} at once on each, {self.readers} threads reading"
            ),
            (
                f"tree      {self.levels} level(s) of combines, {self.tree.fan_in} partials each; "
                f"{layout.tiles:,} root(s)"
            ),
            (
                f"memory    at most {size_text(self.memory.total)} a worker: "
                f"staging {size_text(self.memory.staging)}, "
                f"decoding {size_text(self.memory.decoding)}, "
                f"accumulators {size_text(self.memory.accumulators)}"
            ),
        ]
        return "\n".join(lines)


def _described(source: Source, packing: Packing | None, value: str) -> Iterator[str]:
    yield from source.described()
    if packing is not None:
        yield f"          unpacked to {value}: {packing}"
