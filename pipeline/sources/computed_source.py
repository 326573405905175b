"""Elements that are computed of those of other sources, one by one, by functions of NumPy's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from chunkfold.boxes import region_shape
from chunkfold.kernels import Packing
from chunkfold.sources.array_source import copied
from chunkfold.sources.declared_source import DeclaredSource
from chunkfold.sources.source import Source
from chunkfold.stores.expected import Expected, Unlisted

_SLAB = 1 << 14
"""Elements that all steps are done for at once: what they make stays in a core's cache, and the
allocator keeps its memory."""


@dataclass(frozen=True, eq=False)
class OperandSource:
    """The elements of a source as they are computed with."""

    source: Source
    packing: Packing | None
    """The packing by which they become values; None if they are values."""
    dtype: np.dtype
    """The dtype to which values are cast."""

    def values(self, elements: np.ndarray) -> np.ndarray:
        """Return the values of elements."""
        unpacked = elements if self.packing is None else self.packing.values(elements)
        return unpacked.astype(self.dtype, copy=False)


@dataclass(frozen=True, eq=False)
class Step:
    """A function of arrays, which computes element by element."""

    function: Callable[..., Any]
    args: tuple[int | np.generic | float | np.ndarray, ...]
    given: tuple[bool, ...]
    """True for each argument that is an index into the operands, and the results of steps after
    them; the others are constants."""
    options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, made: Sequence[np.ndarray]) -> np.ndarray:
        """Return the elements, of those of operands and of steps before it."""
        pairs = zip(self.args, self.given, strict=True)
        args = [made[arg] if given else arg for arg, given in pairs]  # type: ignore[index]
        found: np.ndarray = self.function(*args, **self.options)
        return found


def after_steps(steps: Sequence[Step], values: Sequence[np.ndarray]) -> np.ndarray:
    """Return what the last step makes of operands' values."""
    made = list(values)
    with np.errstate(all="ignore"):
        for step in steps:
            made.append(step(made))
    return made[-1]


@dataclass(frozen=True, repr=False, eq=False)
class ComputedSource(DeclaredSource):
    """Elements that steps compute of sources of one shape; the grid is that of the first one."""

    operands: tuple[OperandSource, ...]
    steps: tuple[Step, ...]

    def __repr__(self) -> str:
        return f"<ComputedSource {self.name}: {self.dtype}, shape {self.shape}>"

    @property
    def kind(self) -> str:
        """Return the kind of the first operand, and that NumPy computes it."""
        return f"computed by NumPy, {self.operands[0].source.kind}"

    @property
    def remote(self) -> bool:
        """Return True if one is read over a network."""
        return any(one.source.remote for one in self.operands)

    @property
    def travels(self) -> bool:
        """Return True if workers can open all of them."""
        return all(one.source.travels for one in self.operands)

    @property
    def local_path(self) -> str | None:
        """Return the path of the first one on a local disk."""
        return self.operands[0].source.local_path

    def parted(self, regions: Sequence[Sequence[slice]]) -> Source:
        """Return it, or copies of regions where one does not travel."""
        return self if self.travels else copied(self, regions)

    def check_unchanged(self) -> None:
        """Raise `ChangedError` if one was replaced."""
        for one in self.operands:
            one.source.check_unchanged()

    def reopened(self) -> Source:
        """Return it as it is now."""
        return self._of([one.source.reopened() for one in self.operands])

    def dated(self) -> Source:
        """Return it with the time of now by its servers: later writes end a run."""
        return self._of([one.source.dated() for one in self.operands])

    def _of(self, sources: Sequence[Source]) -> Source:
        pairs = zip(self.operands, sources, strict=True)
        return replace(self, operands=tuple(replace(one, source=of) for one, of in pairs))

    def reading_bytes(self, leaf_bytes: int, touched_bytes: int) -> int:
        """Return what reading all of them takes, with their elements, and what steps make."""
        held = (len(self.operands) + len(self.steps)) * 8 * _SLAB
        for one in self.operands:
            share = one.source.dtype.itemsize / self.dtype.itemsize
            sizes = [int(share * size) for size in (leaf_bytes, touched_bytes)]
            held += one.source.reading_bytes(*sizes) + sizes[0]
        return held

    def read(self, region: Sequence[slice], out: np.ndarray, known: Expected | None = None) -> None:
        """Read the region of all of them, and compute it."""
        needed = known is not None and known.needed
        expected = Unlisted(set(), needed=True) if needed else None
        into = out if out.flags.c_contiguous else np.empty(out.shape, out.dtype)
        read = [self._elements(n, region, into, expected) for n in range(len(self.operands))]
        elements, target = [one.reshape(-1) for one in read], into.reshape(-1)
        for first in range(0, target.size, _SLAB):
            cut = slice(first, first + _SLAB)
            values = [
                one.values(each[cut]) for one, each in zip(self.operands, elements, strict=True)
            ]
            target[cut] = after_steps(self.steps, values)
        if into is not out:
            out[...] = into

    def _elements(
        self, number: int, region: Sequence[slice], into: np.ndarray, expected: Expected | None
    ) -> np.ndarray:
        """Read a region of an operand; of the first where results will be, if they fit there."""
        source, shape = self.operands[number].source, region_shape(region)
        held = not number and source.dtype == into.dtype and into.shape == shape
        elements = into if held else np.empty(shape, source.dtype)
        if elements.size:
            source.read(region, elements, expected)
        return elements
