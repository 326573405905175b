"""Positions of an image's elements: coordinate transformations of OME-Zarr.

https://ngff.openmicroscopy.org/0.5/#trafo-md
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from chunkfold.errors import PlanError


@dataclass(frozen=True)
class Placing:
    """The positions of elements along each axis: every `scale`, from `first` on."""

    scale: tuple[float, ...]
    first: tuple[float, ...]

    @classmethod
    def unit(cls, ndim: int) -> Placing:
        """Return that of an image of which nothing is known."""
        return cls((1.0,) * ndim, (0.0,) * ndim)

    def coarser(self, factors: Sequence[int]) -> Placing:
        """Return that of a level of which each element is in the middle of so many."""
        return self.taken([(by - 1) / 2 for by in factors], factors)

    def taken(self, begins: Sequence[float], steps: Sequence[float]) -> Placing:
        """Return that of what begins at some places, and stands every so many elements."""
        each = [*zip(self.first, self.scale, begins, steps, strict=True)]
        return Placing(
            tuple(one * step for _, one, _, step in each),
            tuple(first + one * begin for first, one, begin, _ in each),
        )

    @property
    def transforms(self) -> list[dict[str, Any]]:
        """The same as OME-Zarr has it."""
        told: list[dict[str, Any]] = [{"type": "scale", "scale": list(self.scale)}]
        if any(self.first):
            told.append({"type": "translation", "translation": list(self.first)})
        return told


def placing_of(name: str, transforms: Any, ndim: int) -> Placing:
    """Return where elements are by transformations, one after another; those of none are 1 apart.

    Raises
    ------
    PlanError
        If one is none that can be told as a scale and a translation of so many axes.
    """
    scale, first = [1.0] * ndim, [0.0] * ndim
    for one in _each(name, [] if transforms is None else transforms):
        kind = one["type"]
        values = one.get(kind)
        if kind not in ("scale", "translation") or not isinstance(values, list):
            raise _refused(name, one)
        if len(values) != ndim or "path" in one or not all(map(_is_number, values)):
            raise _refused(name, one)
        if kind == "scale" and 0 in values:
            raise _refused(name, one)
        if kind == "scale":
            scale = [a * b for a, b in zip(scale, values, strict=True)]
            first = [a * b for a, b in zip(first, values, strict=True)]
        else:
            first = [a + b for a, b in zip(first, values, strict=True)]
    return Placing(tuple(scale), tuple(first))


def _each(name: str, transforms: Any) -> Iterator[dict[str, Any]]:
    """Yield transformations, those of a sequence one by one; none of an identity."""
    if not isinstance(transforms, list):
        raise _refused(name, transforms)
    for one in transforms:
        if not isinstance(one, dict) or not isinstance(one.get("type"), str):
            raise _refused(name, one)
        if one["type"] == "sequence":
            yield from _each(name, one.get("transformations"))
        elif one["type"] != "identity":
            yield one


def _is_number(value: Any) -> bool:
    """Tell whether a value is a finite number that a float holds."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _refused(name: str, one: Any) -> PlanError:
    return PlanError(
        f"{name}: the OME-Zarr metadata of its group have the transformation {one!r}, from which "
        "the scale of another level cannot be derived: give this level a scale, and if needed a "
        "translation, with a number for each axis"
    )
