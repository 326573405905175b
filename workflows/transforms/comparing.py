"""Comparisons of elements with the statistics of their groups, box by box."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from chunkfold.boxes import Slices
from chunkfold.planning.group_keys import Keys
from chunkfold.planning.request import Request
from chunkfold.positions import crossed

TRANSFORMS = {"anomaly": ("mean",), "standardize": ("mean", "std"), "divide": ("mean",)}
"""Statistics of its group that each way to change an element needs."""
HELD_BYTES = 128 << 20
"""Bytes of a statistic up to which a process holds it; larger ones are read box by box."""


@dataclass(frozen=True)
class Compared:
    """Compares elements with the statistics of their groups, which are in a Zarr."""

    how: str
    statistics: str
    """The folder of their group."""
    ndim: int
    kept: tuple[int, ...]
    """The elements' axes that statistics have, too."""
    keys: Keys | None
    """The group of each element; None if there are no groups."""
    shape: tuple[int, ...] = ()
    """Extents of the statistics' axes of groups."""

    @classmethod
    def of(cls, how: str, whole: Request, statistics: Path) -> Compared:
        """Return what compares elements with statistics of a reduction of all of them."""
        keys = whole.keys if isinstance(whole.keys, Keys) else None
        grouped = () if keys is None else keys.axes
        kept = tuple(
            n for n in range(len(whole.chosen)) if n not in whole.reduced and n not in grouped
        )
        shape = () if whole.grouping is None else whole.grouping.shape
        return cls(how, str(statistics), len(whole.chosen), kept, keys, shape)

    def __call__(self, box: Slices, values: np.ndarray) -> np.ndarray:
        """Return the new values of a box, float64."""
        names = TRANSFORMS[self.how]
        mean, *std = (self._beside(_statistic(self.statistics, name), box) for name in names)
        with np.errstate(divide="ignore", invalid="ignore"):
            away = values / mean if self.how == "divide" else values - mean
            found: np.ndarray = away / std[0] if std else away
        return found

    def _beside(self, array: Any, box: Slices) -> np.ndarray:
        """Return the statistic of each element of a box, as far as elements differ in it."""
        if self.keys is None:
            found, axes = np.asarray(array[tuple(box[n] for n in self.kept)]), list(self.kept)
        else:
            codes = self.keys.at(tuple(box[n] for n in self.keys.axes))
            found, axes = self._of_groups(array, box, codes), [*self.keys.axes, *self.kept]
        found = found.transpose(np.argsort(axes))
        return np.expand_dims(found, [n for n in range(self.ndim) if n not in axes])

    def _of_groups(self, array: Any, box: Slices, codes: np.ndarray) -> np.ndarray:
        """Return the statistics of groups by their numbers; NaN where there is no group.

        Only those of groups that are met are read.
        """
        assert self.keys is not None
        before = sum(n < self.keys.axes[0] for n in self.kept)
        numbers = np.unique(codes[codes >= 0]).astype(np.int64)
        each = np.unravel_index(numbers, self.shape)
        met = [np.unique(one) for one in each]
        kept: list[Any] = [box[n] for n in self.kept]
        index = (*kept[:before], *met, *kept[before:])
        read = crossed(array, index) if isinstance(array, np.ndarray) else array.oindex[index]
        groups = range(before, before + len(met))
        read = np.moveaxis(read, groups, range(len(met)))
        rows = read[tuple(np.searchsorted(one, at) for one, at in zip(met, each, strict=True))]
        none = np.full((1, *rows.shape[1:]), np.nan)
        places = np.where(codes >= 0, np.searchsorted(numbers, codes), len(numbers))
        return np.concatenate([rows, none])[places]

    def chunks(self, source: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return chunks of statistics of a shape: of one group and a source's chunk, if large."""
        if math.prod(shape) * 8 <= HELD_BYTES:
            return tuple(max(1, size) for size in shape)
        grouped = () if self.keys is None else self.keys.axes
        before = sum(n < grouped[0] for n in self.kept) if grouped else 0
        extents = [source[n] for n in self.kept]
        extents[before:before] = [1] * len(self.shape)
        return tuple(max(1, min(*pair)) for pair in zip(extents, shape, strict=True))

    def digest(self) -> str:
        """Return a hash of the statistics."""
        made = hashlib.blake2b(digest_size=16)
        for file in sorted(Path(self.statistics).rglob("*")):
            if file.is_file():
                made.update(str(file.relative_to(self.statistics)).encode() + b"\0")
                made.update(file.read_bytes())
        return made.hexdigest()


@lru_cache(maxsize=2)  # of one run: a mean and a deviation
def _statistic(folder: str, name: str) -> Any:
    """Open a statistic; one that is small is read at once, for all boxes of this process."""
    array = zarr.open_array(f"{folder}/{name}", mode="r")
    return array[...] if array.nbytes <= HELD_BYTES else array
