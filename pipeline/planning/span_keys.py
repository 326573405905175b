"""Keys of partials in a ledger: equal keys are of the same elements, folded for the same question.

A key is a hash of the chunks that the elements are in (place, codecs, and of each object its size
and when it was written), which elements of them are selected, and what is folded with them: labels,
weights, masks. It depends on no worker or device, nor on what else the array has.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from chunkfold.boxes import Slices, place_key
from chunkfold.grid import Axis
from chunkfold.kernels import Accumulator
from chunkfold.kernels.accumulator.chooser import Chooser
from chunkfold.kernels.accumulator.component import Component
from chunkfold.kernels.accumulator.traits import traits_of
from chunkfold.kernels.expressions.nodes import Node, flat
from chunkfold.ledger.segments import FORMAT
from chunkfold.planning.blocks import Block
from chunkfold.planning.folding import Folding, RolledUp
from chunkfold.planning.group_keys import Keys
from chunkfold.planning.layout import Layout
from chunkfold.planning.leaf_objects import leaves_objects
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
    return part.fields, None if part.rtol is None else part.state, part.absent


@dataclasses.dataclass(frozen=True, eq=False)
class LeafDigests:
    """A hash of the chunks and the selected elements of each leaf, for all questions of a read."""

    layout: Layout
    sources: Sequence[Source]
    listings: Sequence[Listing]

    def of(self, block: Block) -> bytes:
        """Return the hash of a box of leaves."""
        return self._each[slice(*block.tiles), slice(*block.parts)].tobytes()

    def are_as_listed(self, block: Block) -> bool:
        """Return True if the chunks of a block are still those that were listed."""
        for source, listing in zip(self.sources, self.listings, strict=True):
            assert listing.modified is not None
            boxes = leaves_objects(self.layout, *block.leaves, source.object_shape)
            for box in dict.fromkeys(map(place_key, boxes)):
                place = tuple(slice(*ends) for ends in box)
                if not is_as_listed(source, listing.sizes[place], listing.modified[place], place):
                    return False
        return True

    @cached_property
    def newest(self) -> np.ndarray:
        """The time when the newest chunk of each leaf was written, ns: int64, (tiles, parts)."""
        return self._both[1]

    @cached_property
    def _each(self) -> np.ndarray:
        return self._both[0]

    @cached_property
    def _both(self) -> tuple[np.ndarray, np.ndarray]:
        layout = self.layout
        tiles, parts = Block(0, (0, layout.tiles), (0, layout.parts)).leaves
        numbers = [np.broadcast_to(n, tiles.shape) for n in layout.numbers(tiles, parts)]
        boxes = [leaves_objects(layout, tiles, parts, one.object_shape) for one in self.sources]
        regions = [[axis.piece(n).source for n in range(axis.pieces)] for axis in layout.axes]
        texts = [[_text(axis, axis.piece(n)) for n in range(axis.pieces)] for axis in layout.axes]
        newest = np.zeros(tiles.size, np.int64)
        digests = np.zeros(tiles.size, f"V{_BYTES}")
        known: dict[int, list[str]] = {}
        for leaf in range(tiles.size):
            at = [int(along[leaf]) for along in numbers]
            told = [texts[n][number] for n, number in enumerate(at)]
            region = [regions[n][number] for n, number in enumerate(at)]
            for source, listing, each in zip(self.sources, self.listings, boxes, strict=True):
                assert listing.modified is not None
                box = next(each)
                modified = listing.modified[box]
                newest[leaf] = max(int(newest[leaf]), int(modified.max(initial=0)))
                told += [
                    (stored_identity(source, region, known) or "").encode(),
                    listing.sizes[box].astype(np.int64).tobytes(),
                    modified.tobytes(),
                ]
            digests[leaf] = np.void(hashed(*told))
        shape = (layout.tiles, layout.parts)
        return digests.reshape(shape), newest.reshape(shape)


def question_keys(
    request: Request,
    questions: Sequence[Folding | RolledUp],
    listings: Sequence[Listing | None],
) -> list[QuestionKeys]:
    """Return the keys of each question of a read, by how it is answered.

    The first one is the one that leaves are cut for. None of the listings is None.
    """
    known = [one for one in listings if one is not None]
    leaves = LeafDigests(questions[0].layout, request.sources, known)
    return [
        QuestionKeys(
            one,
            how.layout,
            how.accumulator,
            leaves,
            how.choosers if isinstance(how, Folding) else (),
        )
        for one, how in zip(request.together, questions, strict=True)
    ]


def _text(axis: Axis, piece: Any) -> bytes:
    """Return what is selected of a piece, and where windows begin in it."""
    one = piece.source
    if isinstance(one, slice):
        taken = f"{one.start}:{one.stop}:{one.step}".encode()
    else:
        taken = hashed(np.asarray(one, np.int64).tobytes())
    window = axis.window * axis.together
    if not window:
        return taken
    return hashed(taken, f"{axis.window} {axis.split} {piece.position % window}".encode())


@dataclasses.dataclass(frozen=True, eq=False)
class QuestionKeys:
    """Keys of the partials of one question of a read."""

    request: Request
    layout: Layout
    """The question's own."""
    accumulator: Accumulator
    leaves: LeafDigests
    """Of the question that leaves were cut for."""
    choosers: tuple[Chooser, ...] = ()
    """Choosers among all elements, if blocks keep them."""
    _found: dict[Any, bytes] = dataclasses.field(default_factory=dict)

    @cached_property
    def components(self) -> tuple[str, ...]:
        """Names of the accumulator's components."""
        return component_ids(self.accumulator, self.choosers)

    def key(self, block: Block) -> str:
        """Return the key of what a block leaves for the question."""
        reach = self.leaves.layout.reach(block.tiles, block.parts)
        told = [self._common, self.leaves.of(block), *self._positions(reach)]
        told += [self._values(one.axes, one.values, reach) for one in self.request.held]
        if isinstance(self.request.keys, Keys):
            told.append(self.groups(block)[1])
        return hashed(*told).hex()

    def groups(self, block: Block) -> tuple[np.ndarray, bytes]:
        """Return the groups that a block has elements of, at least one, and a hash of its labels.

        They are numbers, int64, ascending. Where elements are chosen, they are all groups.
        """
        keys = self.request.keys
        assert isinstance(keys, Keys)
        reach = self.leaves.layout.reach(block.tiles, block.parts)
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
        request = self.request
        own = request.keys
        edges = [] if own is None or isinstance(own, Keys) else [own.intervals]
        axes = len(self.layout.axes), self.layout.reduced, own is not None
        return canonical([FORMAT, axes, edges, [one.axes for one in request.held]]).encode()

    def _positions(self, reach: Slices) -> list[bytes]:
        """Return where elements stand among all, if the question reads that.

        Along the first reduced axis more elements may follow: those before keep their positions.
        """
        if not any(traits_of(part).reads_index for part in self.accumulator.components):
            return []
        inner = self.layout.reduced[1:]
        told = [(one.start, one.stop) for one in reach], [self.layout.shape[n] for n in inner]
        return [canonical(told).encode()]

    def _values(self, axes: Sequence[int], values: np.ndarray, reach: Slices) -> bytes:
        """Return a hash of what is folded beside some elements."""
        place = tuple(reach[axis] for axis in axes)
        name = id(values), place_key(place)
        if name not in self._found:
            cut = np.ascontiguousarray(values[place])
            self._found[name] = hashed(canonical(cut).encode())
        return self._found[name]
