"""Values of an image in regions: exact sums, which are put together, and rounded once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from chunkfold.kernels import Monoid
from chunkfold.kernels.exact.rationals import Real, add, divided_by, multiply, negative
from chunkfold.kernels.exact.rounding import nearest
from chunkfold.workflows.images.region_shapes import folded

_WIDE = np.dtype(np.float64)


def _moments(name: str, finish: Callable[[Mapping[str, Any], Any], np.ndarray]) -> Monoid:
    return Monoid(
        name,
        fields={"n": "count", "s": "exact", "q": "exact"},
        zero={"n": 0, "s": 0, "q": 0},
        lift=lambda x: {"n": 1, "s": x, "q": x * x},
        op="add",
        finish=finish,
    )


def _rounded(fields: Mapping[str, Any], _: Any) -> np.ndarray:
    total, n = fields["s"], fields["n"]
    mean = total / n
    deviation = np.sqrt((fields["q"] - total * mean) / n)
    return np.stack([one.rounded(_WIDE) for one in (total, mean, deviation)], axis=1)


def _exactly(fields: Mapping[str, Any], _: Any) -> np.ndarray:
    at, found = np.arange(len(fields["n"])), np.empty((len(fields["n"]), 2), object)
    found[:, 0], found[:, 1] = fields["s"].numbers(at), fields["q"].numbers(at)
    return found


MOMENTS, SUMS = _moments("moments", _rounded), _moments("sums", _exactly)
"""Sums, means and deviations; sums and sums of squares as the rational numbers that they are."""
_add = np.frompyfunc(add, 2, 1)


def joined_values(
    place: np.ndarray,
    area: np.ndarray,
    found: Sequence[Mapping[str, np.ndarray]],
    *,
    skipna: bool,
) -> dict[str, np.ndarray]:
    """Put together what regions have in several boxes.

    Rows of all boxes, one after another, that have the same place are of one region, of so large an
    area. Moments are rounded once, where a region is in several boxes by its sums.
    """
    least, most = (np.fmin, np.fmax) if skipna else (np.minimum, np.maximum)
    each = {"min": least, "max": most, "count": np.add, "moments": np.add, "sums": _add}
    made = {name: folded(each[name], place, (one[name] for one in found)) for name in found[0]}
    sums, moments = made.pop("sums"), made["moments"]
    counts = made.get("count", np.broadcast_to(area[:, None], moments.shape[:2]))
    for row in np.flatnonzero(np.bincount(place) > 1):
        parts = zip(sums[row], counts[row].tolist(), strict=True)
        moments[row] = [_of_sums(total, squares, n) for (total, squares), n in parts]
    return made


def no_values(count: int, dtype: np.dtype, *, counted: bool) -> dict[str, np.ndarray]:
    """Return what no region has, at so many places along an image's other axes."""
    none = np.empty((0, count), dtype)
    counts = {"count": none.astype(np.int64)} if counted else {}
    return {"min": none, "max": none, **counts, "moments": np.empty((0, count, 3))}


def value_columns(found: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return all columns, in their order: of shape (regions, places along the other axes)."""
    kept = {name: found[name] for name in ("count", "min", "max") if name in found}
    moments = found["moments"]
    return {**kept, **{name: moments[..., n] for n, name in enumerate(("sum", "mean", "std"))}}


def _of_sums(total: Real, squares: Real, count: int) -> tuple[float, float, float]:
    """Return sum, mean and deviation of so many numbers, each rounded once."""
    n = Fraction(count)
    mean = divided_by(total, n)
    variance = divided_by(add(squares, negative(multiply(total, mean))), n)
    return nearest(total, _WIDE), nearest(mean, _WIDE), nearest(variance, _WIDE, rooted=True)
