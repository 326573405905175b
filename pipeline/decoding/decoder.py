"""Decode one stored chunk into given memory, or what is taken of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from chunkfold.decoding.codecs import Chain, StoredBytes, most_stored, undo
from chunkfold.decoding.decode_units import run_of
from chunkfold.decoding.scattering import scattered
from chunkfold.stores.objects import Span, StoredObject, decode_clock, scratch


@dataclass(frozen=True)
class Decoder:
    """How the chunks of an array are decoded."""

    shape: tuple[int, ...]
    """Of a chunk."""
    dtype: np.dtype
    chain: Chain

    @cached_property
    def nbytes(self) -> int:
        """Decoded bytes of a chunk."""
        return math.prod(self.shape) * self.dtype.itemsize

    def read(
        self, stored: StoredObject, span: Span, source: Sequence[slice], target: np.ndarray
    ) -> None:
        """Decode what stands in a span, and take a part of it."""
        if self.chain:
            if span[1] > (most := most_stored(self.nbytes)):
                raise ValueError(
                    f"it has {span[1]:,} bytes, more than {most:,}: it is no such chunk"
                )
            self.undo(stored.read(span), source, target)
            return
        if span[1] != self.nbytes:
            raise ValueError(f"it has {span[1]:,} bytes, but its shape needs {self.nbytes:,}")
        if (straight := self.straight(source, target)) is not None:
            first, pieces = straight
            stored.read_into(pieces, span[0] + first)
            return
        first, shape, within = run_of(source, self.shape)
        run = scratch.room("decoded", math.prod(shape) * self.dtype.itemsize)
        stored.read_into([run.data], span[0] + first * self.dtype.itemsize)
        target[...] = run.view(self.dtype).reshape(shape)[within]

    def straight(
        self, source: Sequence[slice], target: np.ndarray
    ) -> tuple[int, list[memoryview]] | None:
        """Return which bytes of a chunk without codecs are read, and to which memory, with no copy.

        That is the offset of the first, and pieces of memory. None if they must be copied.
        """
        if self.whole(target):
            return 0, [target.reshape(-1).view(np.uint8).data]
        return scattered(source, self.shape, target)

    def undo(self, found: StoredBytes, source: Sequence[slice], target: np.ndarray) -> None:
        """Decode a chunk's bytes, where they are wanted if all of it is, and take a part of it."""
        whole = self.whole(target)
        chunk = target.reshape(-1).view(np.uint8) if whole else scratch.room("decoded", self.nbytes)
        with decode_clock:
            undo(self.chain, found, chunk)
        if not whole:
            target[...] = chunk.view(self.dtype).reshape(self.shape)[tuple(source)]

    def whole(self, target: np.ndarray) -> bool:
        """Whether a chunk can be decoded where it is wanted."""
        return target.shape == self.shape and target.flags.c_contiguous
