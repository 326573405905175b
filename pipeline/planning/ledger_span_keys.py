"""Keys of partials in a ledger: equal keys are of the same elements, folded for the same question.

A key is a hash of the chunks that the elements are in (place, codecs, and of each object its size
and when it was written, or a hash of its bytes), which elements of them are selected, and what is
folded with them: labels, weights, masks. It depends on no worker or device, nor on what else the
array has.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from chunkfold.boxes import Slices, place_key
from chunkfold.grid import Axis, Taken
from chunkfold.kernels import Accumulator
from chunkfold.kernels.accumulator.chooser import Chooser
from chunkfold.kernels.accumulator.component import Component
from chunkfold.kernels.accumulator.traits import traits_of
from chunkfold.kernels.expressions.nodes import Node, flat
from chunkfold.ledger.segments import FORMAT
from chunkfold.planning.blocks import Block, Range
from chunkfold.planning.folding import Folding, RolledUp
from chunkfold.planning.group_keys import Keys
from chunkfold.planning.layout import Layout
from chunkfold.planning.ledger_block_outputs import reached_tiles
from chunkfold.planning.request import Request
from chunkfold.sources.chunk_index import Listing
from chunkfold.sources.source import Source
from chunkfold.sources.stored_identity import is_as_listed, stored_identity

_BYTES = 16


def hashed(*parts: bytes) -> bytes:
    """Return a hash of some parts, of which none can stand for another."""
    made = hashlib.blake2b(digest_size=_BYTES)
    for part in parts:
        made.update(len(part).to_bytes(8, "little"))
        made.update(part)
    return made.digest()


def canonical(value: Any) -> str:
    """Return a text of a value of plain data and expressions: equal values have equal texts."""
    if isinstance(value, Node):
        return repr(flat([value]))
    if isinstance(value, np.ndarray):
        return f"{value.dtype.str}{value.shape}{hashed(value.tobytes()).hex()}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        told = (canonical(getattr(value, one.name)) for one in dataclasses.fields(value))
        return f"{type(value).__name__}({', '.join(told)})"
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(canonical, value))}]"
    if isinstance(value, Mapping):
        return canonical(sorted(value.items()))
    return repr(value)


def component_ids(accumulator: Accumulator, choosers: Sequence[Any] = ()) -> tuple[str, ...]:
    """Return a name for each component of an accumulator: equal ones hold the same partials.

    With elements that are chosen, the components belong together.
    """
    inputs = accumulator.stored, accumulator.value, accumulator.packings
    together = canonical((accumulator.components, tuple(choosers))) if choosers else ""
    return tuple(
        hashed(canonical((inputs, _folded(part), together)).encode()).hex()
        for part in accumulator.components
    )


def _folded(part: Component) -> tuple[Any, ...]:
    """Return what a component's partials depend on.

    Where laws are known to hold, a state is only a faster way to the same fields.
    """
    return part.fields, None if part.rtol is None else part.state, part.ignored


@dataclasses.dataclass(frozen=True, eq=False)
class StoredBlocks:
    """The chunks and the selected elements of blocks, for all questions of a read."""

    layout: Layout
    sources: Sequence[Source]
    listings: Sequence[Listing]
    known: dict[int, list[str]] = dataclasses.field(default_factory=dict)
    """Identities of arrays."""
    _digests: dict[tuple[Range, Range], bytes] = dataclasses.field(default_factory=dict)

    def digest(self, block: Block) -> bytes:
        """Return a hash of a block's chunks and elements.

        It does not depend on the leaves that the block is cut in, if it is a box.
        """
        place = block.tiles, block.parts
        if place not in self._digests:
            self._digests[place] = self._digest(block)
        return self._digests[place]

    def _digest(self, block: Block) -> bytes:
        axes, ends = self.layout.axes, self.ends(block)
        told = [_selected(axis, *own) for axis, own in zip(axes, ends, strict=True)]
        tiles, parts = block.leaves
        if math.prod(last - first + 1 for first, last in ends) != len(tiles):
            told += [np.stack(self.layout.numbers(tiles, parts)).tobytes()]
            told += [
                _selected(axis, number, number)
                for axis, (first, last) in zip(axes, ends, strict=True)
                for number in range(first, last + 1)
            ]
        region = [taken_by(axis, *own) for axis, own in zip(axes, ends, strict=True)]
        for listing, each in zip(self.listings, self._listed(block), strict=True):
            source, box, sizes, modified = each
            version = modified if listing.contents is None else listing.contents[box]
            told += [
                (stored_identity(source, region, self.known) or "").encode(),
                sizes.astype(np.int64).tobytes(),
                version.tobytes(),
            ]
        return hashed(*told)

    def newest(self, block: Block) -> int:
        """Return the time when the newest chunk of a block was written, ns."""
        found = [int(modified.max(initial=0)) for _, _, _, modified in self._listed(block)]
        return max(found, default=0)

    def are_as_listed(self, block: Block) -> bool:
        """Return True if the chunks of a block are still those that were listed."""
        each = self._listed(block)
        return all(is_as_listed(source, sizes, times, box) for source, box, sizes, times in each)

    def _listed(self, block: Block) -> Iterator[tuple[Source, Slices, np.ndarray, np.ndarray]]:
        """Yield each source, its objects of a block, and their sizes and times."""
        ends = self.ends(block)
        for source, listing in zip(self.sources, self.listings, strict=True):
            box = self._objects(source, ends)
            assert listing.modified is not None
            yield source, box, listing.sizes[box], listing.modified[box]

    def ends(self, block: Block) -> list[tuple[int, int]]:
        """Return the first and the last piece of a block along each axis."""
        numbers = self.layout.numbers(np.arange(*block.tiles)[:, None], np.arange(*block.parts))
        return [(int(along.min()), int(along.max())) for along in numbers]

    def _objects(self, source: Source, ends: Sequence[tuple[int, int]]) -> Slices:
        """Return the least box of a source's objects that has all those of some pieces."""
        box = []
        each = zip(self.layout.axes, source.object_shape, ends, strict=True)
        for axis, size, (first, last) in each:
            begins, behind = (one[first : last + 1] for one in axis.touched(size))
            box.append(slice(int(begins.min()), int(behind.max())))
        return tuple(box)


def question_keys(
    request: Request,
    questions: Sequence[Folding | RolledUp],
    listings: Sequence[Listing | None],
) -> list[QuestionKeys]:
    """Return the keys of each question of a read, by how it is answered.

    The first one is the one that leaves are cut for. None of the listings is None.
    """
    known = [one for one in listings if one is not None]
    blocks = StoredBlocks(questions[0].layout, request.sources, known)
    choosers = [how.choosers if isinstance(how, Folding) else () for how in questions]
    each = zip(request.all_requests, questions, choosers, strict=True)
    return [QuestionKeys(one, how.layout, how.accumulator, blocks, own) for one, how, own in each]


def taken_by(axis: Axis, first: int, last: int) -> Taken:
    """Return the elements of some pieces of an axis, which follow each other."""
    begin, end = axis.piece(first), axis.piece(last)
    places = axis.places[begin.position : end.position + end.length]
    if isinstance(places, range) and axis.step > 0:
        return slice(places.start, places[-1] + 1 if places else places.start, axis.step)
    return np.asarray(places, np.int64)


def _selected(axis: Axis, first: int, last: int) -> bytes:
    """Return a text of these elements, and of where windows begin in them."""
    one = taken_by(axis, first, last)
    if isinstance(one, slice):
        taken = f"{one.start}:{one.stop}:{one.step}".encode()
    else:
        taken = hashed(one.tobytes())
    window = axis.window * axis.together
    if not window:
        return taken
    begins = axis.piece(first).position % window
    return hashed(taken, f"{axis.window} {axis.split} {begins}".encode())


@dataclasses.dataclass(frozen=True, eq=False)
class QuestionKeys:
    """Keys of the partials of one question of a read."""

    request: Request
    layout: Layout
    """The question's own."""
    accumulator: Accumulator
    blocks: StoredBlocks
    """Of the question that leaves were cut for."""
    choosers: tuple[Chooser, ...] = ()
    """Choosers among all elements, if blocks keep them."""
    _found: dict[Any, bytes] = dataclasses.field(default_factory=dict)

    @cached_property
    def components(self) -> tuple[str, ...]:
        """Names of the accumulator's components, or of the output that results are written to."""
        if self.request.staged:
            return (self.request.staged,)
        return component_ids(self.accumulator, self.choosers)

    def key(self, block: Block) -> str:
        """Return the key of what a block leaves for the question."""
        reach = self.blocks.layout.reach(block.tiles, block.parts)
        told = [self._common, self.blocks.digest(block), *self._positions(reach)]
        ends = [self.blocks.ends(block)[n] for n in self.layout.kept]
        reached = len(reached_tiles(self.blocks.layout, self.layout, block))
        if reached != math.prod(last - first + 1 for first, last in ends):
            told += [  # no box of outputs: its partials are kept tile by tile
                self.layout.axes[n].lengths[first : last + 1].tobytes()
                for n, (first, last) in zip(self.layout.kept, ends, strict=True)
            ]
        told += [self._values(one.axes, one.values, reach) for one in self.request.broadcast]
        if isinstance(self.request.keys, Keys):
            told.append(self.groups(block)[1])
        return hashed(*told).hex()

    def groups(self, block: Block) -> tuple[np.ndarray, bytes]:
        """Return the groups that a block has elements of, at least one, and a hash of its labels.

        They are numbers, int64, ascending. Where elements are chosen, they are all groups.
        """
        keys = self.request.keys
        assert isinstance(keys, Keys)
        reach = self.blocks.layout.reach(block.tiles, block.parts)
        place = tuple(reach[axis] for axis in keys.axes)
        name = "groups", place_key(place)
        if name not in self._found:
            codes = keys.at(place)
            met, own = np.unique(codes, return_inverse=True)
            negative = int(np.searchsorted(met, 0))
            numbers = met[negative:].astype(np.int64)
            if self.choosers or not len(numbers):
                numbers = np.arange(keys.count if self.choosers else 1)
            own = np.maximum(own.reshape(-1).astype(np.int64) - negative, -1)
            labels = canonical([keys.axes, codes.shape, *self._labels(numbers)]).encode()
            self._found[name] = numbers.tobytes() + hashed(labels, own.tobytes())
        found = self._found[name]
        return np.frombuffer(found[:-_BYTES], np.int64), found[-_BYTES:]

    def _labels(self, numbers: np.ndarray) -> list[np.ndarray]:
        grouping = self.request.grouping
        assert grouping is not None
        each = np.unravel_index(numbers, grouping.shape)
        return [
            np.asarray(label.groups)[at].astype(str)
            for label, at in zip(grouping.labels, each, strict=True)
        ]

    @cached_property
    def _common(self) -> bytes:
        """The part of keys that all blocks share."""
        request, own = self.request, self.request.keys
        edges = [] if own is None or isinstance(own, Keys) else [own.intervals]
        windows = [axis.window for axis in self.layout.axes]  # beside one with windows, others lack
        axes = windows, self.layout.reduced, own is not None
        return canonical([FORMAT, axes, edges, [one.axes for one in request.broadcast]]).encode()

    def _positions(self, reach: Slices) -> list[bytes]:
        """Return where elements stand among all, if the question reads that.

        Along the first reduced axis, that in windows too, more elements may follow: those before
        keep their positions.
        """
        if not any(traits_of(part).reads_index for part in self.accumulator.components):
            return []
        inner = self.layout.reduced_by_window[1:]
        told = [(one.start, one.stop) for one in reach], [self.layout.by_window[n] for n in inner]
        return [canonical(told).encode()]

    def _values(self, axes: Sequence[int], values: np.ndarray, reach: Slices) -> bytes:
        """Return a hash of what is folded beside some elements."""
        place = tuple(reach[axis] for axis in axes)
        name = id(values), place_key(place)
        if name not in self._found:
            cut = np.ascontiguousarray(values[place])
            self._found[name] = hashed(canonical(cut).encode())
        return self._found[name]
