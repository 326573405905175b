"""How high a histogram's bins, which may be of any width, are drawn."""

from __future__ import annotations

import numpy as np

from chunkfold.planned import Plan


def extent(bins: np.ndarray) -> tuple[float, float]:
    """Return where the first bounded bin begins and the last one ends; 0 and 0 if none is."""
    left, right = (bins[name][_bounded(bins)] for name in ("left", "right"))
    return (float(left.min()), float(right.max())) if len(left) else (0.0, 0.0)


def heights(bins: np.ndarray, least: float) -> np.ndarray:
    """Return how dense the values of each bin lie: float64, (bins,); 1 where they do most.

    A bin that is narrower than `least` counts as if it were as wide: that of zero has almost no
    width, and would be all that is seen. Unbounded ones have 0.

    >>> from chunkfold.kernels.finishes import BIN
    >>> heights(np.array([(0, 1, 8), (1, 3, 8), (3, 3.25, 1)], BIN), 0.5).tolist()
    [1.0, 0.5, 0.25]
    """
    with np.errstate(invalid="ignore", over="ignore"):  # of infinities
        widths = np.fmax(bins["right"] - bins["left"], least)
    dense = np.where(_bounded(bins) & (widths > 0), bins["count"] / np.fmax(widths, 1e-300), 0)
    return np.asarray(dense / max(dense.max(initial=0), 1e-300))


def step_of(plan: Plan) -> float:
    """Return how far apart the values of a plan's first input are at least: 0 if that is unknown.

    Narrower bins hold one of them at most: that these are many, or few, says nothing of density.
    """
    source, packing, _ = plan.unpacked[0]
    return abs(packing.scale if packing else 1.0) if source.dtype.kind in "biu" else 0.0


def _bounded(bins: np.ndarray) -> np.ndarray:
    return np.asarray(np.isfinite(bins["left"]) & np.isfinite(bins["right"]))
