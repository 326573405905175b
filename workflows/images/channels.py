"""Normalizes the channels of an array: offsets and scales, as they were measured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chunkfold.boxes import Slices

MEASURES = {"mean-std": ("mean", "std"), "min-max": ("min", "max"), "percentiles": ()}
"""Statistics that each way to normalize needs; percentiles are named by their numbers."""


@dataclass(frozen=True)
class Normalization:
    """An offset and a scale per channel, for `(value - offset) / scale`."""

    source: str
    channels: int | tuple[int, ...] | None
    """Their axis, or several, ascending; None if all of the array is one."""
    by: str
    statistics: dict[str, np.ndarray]
    """Mean and std, min and max, or two percentiles; then others. float64, of shape (channels,), or
    with an axis for each of several; so are offset and scale."""
    mask_and_scale: bool = False
    """True if they are of decoded values."""

    @property
    def offset(self) -> np.ndarray:
        """Return the values that become 0."""
        return next(iter(self.statistics.values()))

    @property
    def scale(self) -> np.ndarray:
        """Return the spans that become 1; 1 if a channel has one value."""
        low, high = [*self.statistics.values()][:2]
        span = high if self.by == "mean-std" else high - low
        return np.where(span == 0, 1.0, span)

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes of channels."""
        given = self.channels
        return () if given is None else given if isinstance(given, tuple) else (given,)

    @property
    def why_not(self) -> str:
        """Say why it cannot be applied; nothing if it can."""
        for what, values in (("offset", self.offset), ("scale", self.scale)):
            channels = np.flatnonzero(~np.isfinite(values))
            if len(channels):
                of = f" of {len(channels)} of {values.size} channels"
                cause = "there are NaN, which skipna ignores, or infinities, or no elements"
                if what == "scale":
                    few = "no more values than ddof, or " if self.by == "mean-std" else ""
                    cause = f"there are {few}infinities"
                return f"the {what}{'' if self.channels is None else of} is not finite: {cause}"
        return ""


@dataclass(frozen=True)
class Rescaled:
    """Turns elements into (element - offset) / scale."""

    offset: np.ndarray
    """Offsets, with as many axes as the array, of length 1 except for channels; so is `scale`."""
    scale: np.ndarray

    def __call__(self, box: Slices, values: np.ndarray) -> np.ndarray:
        """Return the new values of a box of the array, float64."""
        part = tuple(
            slice(None) if n == 1 else along
            for along, n in zip(box, self.offset.shape, strict=True)
        )
        found: np.ndarray = (values - self.offset[part]) / self.scale[part]
        return found
