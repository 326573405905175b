"""Heights of a histogram's bins, which may be of any width, in plots."""

from __future__ import annotations

import numpy as np

from chunkfold.planning.plan import Plan


def extent(bins: np.ndarray) -> tuple[float, float]:
    """Return where the first bounded bin begins and the last one ends; 0 and 0 if none is."""
    left, right = (bins[name][_bounded(bins)] for name in ("left", "right"))
    return (float(left.min()), float(right.max())) if len(left) else (0.0, 0.0)


def heights(bins: np.ndarray, least: float) -> np.ndarray:
    """Return how dense values lie at each bin: float64, (bins,); 1 where they do most.

    In narrow bins as they do in `least` around them: else that of zero, which has almost no width,
    would be all that is seen. Unbounded ones have 0.

    >>> from chunkfold.kernels.catalogue.finish_functions import BIN
    >>> heights(np.array([(0, 1, 8), (1, 3, 8), (3.5, 3.75, 1)], BIN), 0.5).tolist()
    [1.0, 0.5, 0.25]
    """
    bounded, dense = _bounded(bins), np.zeros(len(bins))
    held = bins[bounded]
    if not len(held):
        return dense
    # Quarters: the whole may be beyond float64.
    left, right = held["left"] / 4, held["right"] / 4
    low, high = left[0], right[-1]
    widths = np.maximum(right - left, min(least / 4, high - low))
    centre = np.clip(left / 2 + right / 2, low + widths / 2, high - widths / 2)
    below = np.append(0, np.cumsum(held["count"], dtype=float))
    ends, reached = np.stack([left, right], -1).ravel(), np.repeat(below, 2)[1:-1]
    around = (np.interp(centre + side * widths / 2, ends, reached) for side in (1, -1))
    dense[bounded] = np.subtract(*around) / np.maximum(widths, 1e-300)
    return np.asarray(dense / max(dense.max(), 1e-300))


def step_of(plan: Plan) -> float:
    """Return how far apart the values of a plan's first input are at least: 0 if that is unknown.

    Narrower bins hold one of them at most: that these are many, or few, says nothing of density.
    """
    source, packing, _ = plan.unpacked[0]
    return abs(packing.scale if packing else 1.0) if source.dtype.kind in "biu" else 0.0


def _bounded(bins: np.ndarray) -> np.ndarray:
    return np.asarray(np.isfinite(bins["left"]) & np.isfinite(bins["right"]))
