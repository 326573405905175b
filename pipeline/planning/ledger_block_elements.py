"""The array and the elements that a block has, as a text that a ledger keeps of it."""

from __future__ import annotations

import math

from chunkfold.boxes import Slices
from chunkfold.planning.blocks import Block
from chunkfold.planning.ledger_span_keys import StoredBlocks, hashed, taken_by
from chunkfold.sources.stored_identity import stored_identity


def elements_text(blocks: StoredBlocks, block: Block) -> str:
    """Return a text of the array and the elements that a block has; "" if these are no box."""
    ends, axes = blocks.ends(block), blocks.layout.axes
    region = [taken_by(axis, *own) for axis, own in zip(axes, ends, strict=True)]
    whole = math.prod(last - first + 1 for first, last in ends) == len(block.leaves[0])
    cuts = [one for one in region if isinstance(one, slice) and one.step == 1]
    if len(blocks.sources) > 1 or not whole or len(cuts) < len(region):
        return ""
    return " ".join([_array(blocks), *(f"{one.start}:{one.stop}" for one in cuts)])


def box_of_text(blocks: StoredBlocks, elements: str) -> Slices | None:
    """Return the box of elements that a text is of; None if it is of another array, or none."""
    array, *cuts = elements.split(" ")
    if array != _array(blocks) or len(cuts) != len(blocks.layout.axes):
        return None
    return tuple(slice(*map(int, one.split(":"))) for one in cuts)


def _array(blocks: StoredBlocks) -> str:
    source = blocks.sources[0]
    region = [slice(0, size) for size in source.shape]
    return hashed((stored_identity(source, region, blocks.known) or "").encode()).hex()
