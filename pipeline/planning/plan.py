"""The plan of a reduction: a value that can be printed, kept and carried out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING

from distributed.protocol.pickle import dumps, loads

from chunkfold.errors import EmptyWarning, MissingWarning, UnstoredWarning
from chunkfold.kernels import Accumulator, Bound, Device, Packing
from chunkfold.ledger.ledger import Ledger
from chunkfold.planning.blocks import Block, Tree
from chunkfold.planning.feeding import DeviceDecoding, device_decoding
from chunkfold.planning.folding import Folding, RolledUp
from chunkfold.planning.grouping import Grouping
from chunkfold.planning.layout import Layout
from chunkfold.planning.leaf_objects import ListingTerms, objects_touched, unstored, with_objects
from chunkfold.planning.leaves import LeavesRead
from chunkfold.planning.memory import AtOnce, Memory
from chunkfold.planning.options import Options
from chunkfold.planning.plan_text import html_of, lines_of
from chunkfold.planning.request import Request
from chunkfold.planning.workers import Terms
from chunkfold.sources.any_labels import GroupsOfLabel
from chunkfold.sources.cf_packing import unapplied
from chunkfold.sources.missing_objects import NOTHING, MissingRuns, count
from chunkfold.sources.source import Source

if TYPE_CHECKING:
    from chunkfold.kernels.tuning.reasons import Reason


@dataclass(frozen=True, repr=False)
class Plan:
    """The plan of a reduction. Print it; `reduce` and `submit` carry it out; it pickles.

    A pickle holds by value what functions it has (of `where`, of monoids), and what its sources
    were opened by, credentials among it.
    """

    request: Request
    """The reduction that is planned."""
    terms: Terms
    """The terms of the workers that it was made for."""
    questions: tuple[Folding | RolledUp, ...]
    """Ways to answer each question; leaves are read for the tiles of the first one."""
    blocks: tuple[Block, ...]
    scan: LeavesRead
    """Bytes and leaves that are read, and what the stores list of them."""
    at_once: AtOnce
    """The work that a worker does at once, and the memory that it takes."""
    largest_tree: Tree
    """Over the blocks of a tile that has most of them."""
    device: Device | None = None
    """The first that would fold it."""
    ledger: Ledger | None = None
    """Keeps partials of blocks."""

    @property
    def first(self) -> Folding:
        """The question for whose tiles, one after another, leaves are read."""
        first = self.questions[0]
        assert isinstance(first, Folding)
        return first

    @property
    def layout(self) -> Layout:
        """The leaves, and the outputs of the first question."""
        return self.questions[0].layout

    @property
    def accumulator(self) -> Accumulator:
        """Accumulator of elements, in the form that suits the number of outputs."""
        return self.questions[0].accumulator

    @property
    def options(self) -> Options:
        """The options that were given."""
        return self.request.options

    @property
    def sources(self) -> tuple[Source, ...]:
        """Aligned inputs."""
        return self.request.sources

    @property
    def grouping(self) -> Grouping | None:
        """The groups of elements that have the same label, where there are some."""
        return self.request.grouping

    @property
    def labels(self) -> tuple[GroupsOfLabel, ...]:
        """Labels that elements are grouped by, in order of the results' axes."""
        return () if self.grouping is None else self.grouping.labels

    @property
    def groups(self) -> int:
        """Results of each output."""
        return self.request.groups

    @property
    def name(self) -> str:
        """The name of the inputs in messages."""
        return self.request.name

    @property
    def bound(self) -> Bound:
        """The statistics that are bound to the inputs' dtypes."""
        return self.request.bound(fp64=self.terms.fp64)

    @property
    def ops(self) -> tuple[str, ...]:
        """Names of the results."""
        return tuple(statistic.name for statistic in self.bound.statistics)

    @property
    def result_names(self) -> tuple[str, ...]:
        """Names of a run's results: ops, or with several questions "question/op"."""
        if not self.request.questions:
            return self.ops
        return tuple(f"{one.request.question}/{op}" for one in self.asked_plans for op in one.ops)

    @property
    def memory(self) -> Memory:
        """The memory that it takes of a worker, at most."""
        return self.at_once.memory

    @property
    def threads(self) -> int:
        """Blocks that one worker runs at once."""
        return self.at_once.threads

    @property
    def readers(self) -> int:
        """Threads of a worker that read and decode for all of these."""
        return self.at_once.readers

    @property
    def all_plans(self) -> tuple[Plan, ...]:
        """The plans of all questions, this one first; those of others have no blocks."""
        each = zip(self.request.secondary, self.questions[1:], strict=True)
        return (self, *(replace(self, request=r, questions=(q,), blocks=()) for r, q in each))

    @property
    def asked_plans(self) -> tuple[Plan, ...]:
        """The plans of those that were asked, in their order: a later read has some of them."""
        each = {plan.request.question: plan for plan in self.all_plans}
        return tuple(each[name] for name in self.request.questions or ("",) if name in each)

    @property
    def reads(self) -> int:
        """Times that the data are read, at most: more than once for order statistics."""
        return max(plan.own_reads for plan in self.all_plans)

    @property
    def own_reads(self) -> int:
        """Times that this question needs them."""
        return max(statistic.monoid.reads for statistic in self.bound.statistics)

    @property
    def rounding(self) -> tuple[str, ...]:
        """Names of results whose operations round, so that their last bits may vary."""
        return tuple(one.name for one in self.bound.statistics if one.rounds)

    @property
    def device_decoding(self) -> DeviceDecoding:
        """The decision whether devices decode, and why."""
        return device_decoding(self.request, self.terms)

    @property
    def tile_ranges(self) -> Mapping[tuple[int, int], int]:
        """The runs of tiles that blocks have, and how many blocks share each."""
        return Counter(block.tiles for block in self.blocks)

    @property
    def unpacked(self) -> list[tuple[Source, Packing | None, str]]:
        """Each input, how values are made of its elements (None: they are values), their dtype."""
        values = self.accumulator.value[: len(self.sources)]
        return list(zip(self.sources, self.request.packings, values, strict=True))

    def unapplied(self, source: Source) -> list[str]:
        """Say which attributes of an input are not applied: see `chunkfold.sources.cf_packing`."""
        unpacks = bool(self.options.mask_and_scale)
        return list(unapplied(source, "mask_and_scale", mask_and_scale=unpacks))

    @cached_property
    def listing_terms(self) -> tuple[ListingTerms | None, ...]:
        """For each input what is known of all of its objects, None if it could not be listed."""
        return tuple(
            None if listing is None else ListingTerms.of(listing) for listing in self.scan.listings
        )

    def sent(self, block: Block) -> Block:
        """Return a block as workers are given it: with what is known of its objects."""
        return with_objects(
            block, self.layout, self.sources, self.scan.listings, self.listing_terms
        )

    @cached_property
    def missing(self) -> Mapping[str, tuple[int, int]]:
        """For each listed input how many selected chunks, or shards, are missing, of how many."""
        return unstored(self.layout, self.sources, self.scan.listings)

    def found_missing(self, missed: Mapping[str, MissingRuns]) -> Mapping[str, tuple[int, int]]:
        """Return the same after a run, for inputs too that could not be listed."""
        asked = {
            source.name: (
                count(missed.get(source.name, NOTHING)),
                objects_touched(self.layout, source.object_shape, source.object_grid),
            )
            for source in self.sources
        }
        return asked | dict(self.missing)

    def remarks(self, missing: Mapping[str, tuple[int, int]] | None = None) -> Iterator[str]:
        """Say what results do not show: that nothing is selected, what fill values stand for.

        `missing` is what was found missing, if the plan was carried out.
        """
        return map(str, self.unshown(self.missing if missing is None else missing))

    def unshown(
        self, missing: Mapping[str, tuple[int, int]], unlisted: Collection[str] = ()
    ) -> Iterator[UserWarning]:
        """Yield warnings of what results do not show: see `remarks`.

        `unlisted` are inputs whose missing chunks were found when they were read.
        """
        if not self.layout.elements:
            shape = self.layout.shape
            yield EmptyWarning(f"nothing to reduce: the selection has shape {shape}")
        named = {source.name: source for source in self.sources}  # once, if it is both inputs
        for name, (lacking, objects) in missing.items():
            if lacking:
                source, kind = named[name], MissingWarning if name in unlisted else UnstoredWarning
                yield kind(
                    f"{lacking:,} of {objects:,} {source.object_kind} of {name} are not stored: "
                    f"their elements are its fill value, {source.fill}"
                )

    def source(self, device: Device | str | None = None) -> str:
        """List the programs that a device folds it by, behind the preprocessor.

        Functions that nothing calls are left out. Outputs whose exact sums are lost, which is
        seldom, are folded once more by others.

        Parameters
        ----------
        device
            One of this host, or a text that names it; None for the first that the plan would use.

        Raises
        ------
        DeviceError
            If there is no such device, or it cannot do that.
        """
        from chunkfold.worker.plan_kernels import (
            source_of,  # which opens devices, as plans need not
        )

        return source_of(self, device)

    def explain(self, device: Device | str | None = None) -> list[Reason]:
        """Say by which kernels a device folds it, and why; parameters as `source`.

        Kernels that were not tried on the device before are tried now, as a run would do.
        """
        from chunkfold.worker.plan_kernels import explained_for

        return explained_for(self, device)

    def __str__(self) -> str:
        return "\n".join(lines_of(self))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_of(self)

    def __reduce__(self) -> tuple[Callable[[bytes], Plan], tuple[bytes]]:
        """Pickle functions of users by value, as they travel to workers."""
        return _loaded, (dumps({one.name: getattr(self, one.name) for one in fields(self)}),)


def request_of(asked: Request | Plan) -> Request:
    """Return what a plan was made of, or what is to become one."""
    return asked.request if isinstance(asked, Plan) else asked


def _loaded(packed: bytes) -> Plan:
    return Plan(**loads(packed))
