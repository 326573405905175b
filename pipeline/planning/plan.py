"""A plan, and how it is told."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from chunkfold.kernels import Accumulator, Device, Packing
from chunkfold.kernels.accumulator.indices import reads_index, takes_first
from chunkfold.planning.blocks import Block
from chunkfold.planning.combine_tree import Tree
from chunkfold.planning.grouping import Grouping
from chunkfold.planning.layout import Layout
from chunkfold.planning.leaves import repeats
from chunkfold.planning.memory import Memory
from chunkfold.planning.missing_chunks import ListingTerms, Stored, with_objects
from chunkfold.printable import printable
from chunkfold.sources.absent_objects import NOTHING, Missed, count
from chunkfold.sources.cf_packing import unapplied
from chunkfold.sources.chunk_index import Listing
from chunkfold.sources.source import Source
from chunkfold.units import size_text

if TYPE_CHECKING:
    from chunkfold.kernels.tuning.explained import Reason

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
    requests: int
    """That a worker may have in flight for one host, where inputs are behind a network."""
    tree: Tree
    """Over the blocks of a tile that has most of them."""
    listings: tuple[Listing | None, ...]
    """For each input what is stored of it, or None if its store cannot be listed."""
    packings: tuple[Packing | None, ...] = ()
    """How values are made of each input's elements, if they are not what is stored."""
    mask_and_scale: bool = False
    """Whether they were to be."""
    device: Device | None = None
    """The first that would fold it."""
    grouping: Grouping | None = None
    """The groups of elements that have the same label, where there are some."""

    @property
    def groups(self) -> int:
        """Results of each output."""
        return 1 if self.grouping is None else self.grouping.count

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
        packings = self.packings or (None,) * len(self.sources)
        return list(zip(self.sources, packings, self.accumulator.value, strict=True))

    def unapplied(self, source: Source) -> list[str]:
        """Say which attributes of an input are not applied: see `chunkfold.sources.cf_packing`."""
        return list(unapplied(source, "mask_and_scale", mask_and_scale=self.mask_and_scale))

    @cached_property
    def terms(self) -> tuple[ListingTerms | None, ...]:
        """For each input what is known of all of its objects, None if it could not be listed."""
        return tuple(
            None if listing is None else ListingTerms.of(listing) for listing in self.listings
        )

    def sent(self, block: Block) -> Block:
        """Return a block as workers are given it: with what is known of its objects."""
        return with_objects(block, self.layout, self.sources, self.listings, self.terms)

    @cached_property
    def missing(self) -> Mapping[str, tuple[int, int]]:
        """Of each input how many of its chunks, or shards, are not stored, and how many it has.

        Of those that are selected, where it is known.
        """
        return {
            source.name: Stored(
                self.layout, listing.sizes, source.object_shape, source.remote
            ).missing
            for source, listing in zip(self.sources, self.listings, strict=True)
            if listing is not None
        }

    def found_missing(self, missed: Mapping[str, Missed]) -> Mapping[str, tuple[int, int]]:
        """Return the same after a run, of inputs too that could not be listed."""
        asked = {
            source.name: (
                count(missed.get(source.name, NOTHING)),
                self.layout.objects(source.object_shape, source.object_grid),
            )
            for source in self.sources
        }
        return asked | dict(self.missing)

    def remarks(self, missing: Mapping[str, tuple[int, int]] | None = None) -> Iterator[str]:
        """Say what results do not show: that nothing is selected, what fill values stand for.

        `missing` is what was found missing, if the plan was carried out.
        """
        if not self.layout.elements:
            yield f"there is nothing to reduce: what is selected has shape {self.layout.shape}"
        named = {source.name: source for source in self.sources}  # once, if it is both inputs
        for name, (lacking, objects) in (self.missing if missing is None else missing).items():
            if lacking:
                source = named[name]
                kind = source.object_kind
                yield (
                    f"{lacking:,} of {objects:,} {kind} of {name} are not stored: "
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

    def _described(self) -> Iterator[list[str]]:
        """Say of each input what it is, and what its elements stand for."""
        for source, packing, value in self.unpacked:
            told = self.unapplied(source)
            if packing is not None:
                read = f"unpacked to {value}: {packing}"
                told.insert(0, read if packing.makes_floats else f"read as {packing}")
            yield [*source.described(), *(f"          {one}" for one in told)]

    def _one_by_one(self) -> Iterator[str]:
        """Say what is made and folded although it is not stored: it takes as long as if it were."""
        parts = self.accumulator.components
        ready = (lambda part: not reads_index(part)) if self.grouping else takes_first
        names = dict.fromkeys(part.origin for part in parts if not ready(part))
        if names and self.absent:
            yield (
                f"          fill values of {self.absent:,} of them are made and folded one by one: "
                f"{', '.join(names)} may read each index"
            )

    def source(self, device: Device | str | None = None, *, variant: str | None = None) -> str:
        """List the programs that a device folds it by, behind the preprocessor.

        What is missing are functions that nothing calls. Outputs whose exact sums are lost, which
        is seldom, are folded once more by others.

        Parameters
        ----------
        device
            One of this host, or a text that names it; None for the first that the plan would use.
        variant
            A kernel variant, instead of the best one.

        Raises
        ------
        DeviceError
            If there is no such device, or it cannot do that.
        """
        from chunkfold.worker.explained import source_of  # which opens devices, as plans need not

        return source_of(self, device, variant)

    def explain(
        self, device: Device | str | None = None, *, variant: str | None = None
    ) -> list[Reason]:
        """Say by which kernels a device folds it, and why; parameters as `source`.

        What was not tried on the device before is tried now, as a run would do.
        """
        from chunkfold.worker.explained import explained_for

        return explained_for(self, device, variant)

    def _grouped(self) -> Iterator[str]:
        """Say which groups there are."""
        if self.grouping is None:
            return
        first, last = self.grouping.groups[0], self.grouping.groups[-1]
        along = self.grouping.keys.axes
        outputs = self.layout.outputs
        yield (
            f"groups    {self.groups:,}, from {first} to {last}, by labels along "
            f"{'axis' if len(along) == 1 else 'axes'} {', '.join(map(str, along))}: "
            f"{self.groups * outputs:,} accumulators"
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
            *itertools.chain.from_iterable(self._described()),
            (
                f"reduce    {', '.join(self.ops)} over {reduced} of {layout.shape}: "
                f"{layout.elements:,} elements, {size_text(self.nbytes)}"
            ),
            *self._grouped(),
            f"answer    {self.answer}",
            f"leaves    {layout.leaves:,} of at most {size_text(self.leaf_bytes)}"
            + (f"; nothing is stored of {self.absent:,}" if self.absent else ""),
            *self._one_by_one(),
            *(f"          {told}" for told in self.remarks()),
            *self._repeated(),
            (
                f"blocks    {len(self.blocks):,} task(s) on {self.workers} worker(s), "
                f"{self.threads} at once on each, {self.readers} threads reading"
                + (f", {self.requests} requests in flight" if self.memory.fetching else "")
            ),
            (
                f"tree      {self.levels} level(s) of combines, {self.tree.fan_in} partials each; "
                f"{layout.tiles:,} root(s)"
            ),
            (
                f"memory    at most {size_text(self.memory.total)} a worker: "
                f"staging {size_text(self.memory.staging)}, "
                f"decoding {size_text(self.memory.decoding)}, "
                + (f"fetching {size_text(self.memory.fetching)}, " if self.memory.fetching else "")
                + f"accumulators {size_text(self.memory.accumulators)}"
            ),
        ]
        return "\n".join(map(printable, lines))
