"""Coordinates: arrays of one axis beside an array, which have the name of one of its axes."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from chunkfold.axes import axis_names
from chunkfold.opening import open_beside
from chunkfold.planning import Plan


@dataclass(frozen=True)
class Coordinate:
    """What stands along an axis, such as its latitudes."""

    name: str
    values: np.ndarray
    """(selected elements,), as they are stored."""
    attributes: dict[str, Any]


def coordinates(plan: Plan, axes: Iterable[int]) -> Iterator[Coordinate]:
    """Yield those of some axes of a plan's source, as far as they are selected.

    One that is there but cannot be read is left out, with a warning: results are worth more.
    """
    for n in axes:
        along = plan.layout.axes[n]
        (name,) = axis_names(plan.source, [n]) or [None]
        if not name or "/" in name or name.startswith("."):
            continue
        found = open_beside(plan.source, name)
        if found is None or found.shape != (plan.source.shape[n],):
            continue
        try:
            values = np.asarray(found[along.start : along.stop : along.step])
        except Exception as error:  # noqa: BLE001 # whatever keeps it from being read
            left_out = f"its coordinate {name!r} is left out, it cannot be read: {error}"
            warnings.warn(f"{plan.name}: {left_out}", RuntimeWarning, stacklevel=2)
            continue
        attributes = found.attrs.asdict()
        attributes.pop("_ARRAY_DIMENSIONS", None)
        yield Coordinate(name, values, attributes)
