"""Limits of values, by attributes or as given, and the chunks that have values beyond them."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from chunkfold.errors import PlanError
from chunkfold.kernels import Packing
from chunkfold.sources.source import Source

ValueEnds = tuple[float | None, float | None]
"""The least and the greatest value that there may be; None: any."""


@dataclass(frozen=True)
class ValueLimits:
    """The values that elements of an array may have."""

    ends: ValueEnds
    name: str
    """The name of the attribute, or of the option, that says so."""
    of_stored: bool
    """True if they are of numbers as they are stored, False if of what these stand for."""

    def __str__(self) -> str:
        low, high = ("" if end is None else f"{end:.9g}" for end in self.ends)
        if low and high:
            return f"{self.name} {low} to {high}"
        return f"{self.name} {low} or more" if low else f"{self.name} {high} or less"


def limits_of(
    source: Source, packing: Packing | None, given: ValueEnds | None
) -> Iterator[ValueLimits]:
    """Yield the limits of an array: given ones, and those of its attributes.

    CF conventions 1.11, section 2.5.1: attributes limit numbers as they are stored. Where these are
    packed integers, and an attribute is none, it limits what they stand for.

    Raises
    ------
    PlanError
        If an attribute is no number.
    """
    if given is not None:
        yield ValueLimits(given, "limits", of_stored=False)
    said = source.attributes
    if "valid_range" in said:
        ends = said["valid_range"]
        if not isinstance(ends, (list, tuple)) or len(ends) != 2:
            raise PlanError(f"valid_range is {reprlib.repr(ends)}, not two numbers: correct it")
        yield _stated(source, packing, "valid_range", *ends)
    for name in ("valid_min", "valid_max"):
        if name in said:
            end = said[name]
            end = end[0] if isinstance(end, (list, tuple)) and len(end) == 1 else end
            yield _stated(source, packing, name, *((end, None) if name[-1] == "n" else (None, end)))


def _stated(source: Source, packing: Packing | None, name: str, *ends: Any) -> ValueLimits:
    for end in ends:
        if end is not None and (isinstance(end, bool) or not isinstance(end, (int, float))):
            raise PlanError(f"{name} is {reprlib.repr(end)}, not a number: correct it")
    low, high = (None if end is None or math.isnan(end) else end for end in ends)
    whole = all(end is None or float(end).is_integer() for end in (low, high))
    scales = packing is not None and packing.scales and source.dtype.kind in "iu"
    return ValueLimits((low, high), name, of_stored=whole or not scales)


def outside(
    limits: ValueLimits,
    packing: Packing | None,
    low: np.ndarray,
    high: np.ndarray,
    there: np.ndarray,
) -> tuple[np.ndarray, str]:
    """Return the chunks with values beyond limits, by their extremes; and from where to where.

    `there` are the chunks that have values.
    """
    if packing is not None and not limits.of_stored:
        one, other = packing.values(low), packing.values(high)
        low, high = np.minimum(one, other), np.maximum(one, other)
    if low.dtype.kind in "mM":
        low, high = low.view(np.int64), high.view(np.int64)
    least, most = limits.ends
    stored = " as stored" if packing is not None and packing.scales and limits.of_stored else ""
    under = there & (low < least) if least is not None else np.zeros_like(there)
    over = there & (high > most) if most is not None else np.zeros_like(there)
    ends = [f"down to {low[under].min()!s}"] if under.any() else []
    ends += [f"up to {high[over].max()!s}"] if over.any() else []
    told = f"values {' and '.join(ends)}{stored}, outside {limits}"
    return np.logical_or(under, over), told if ends else ""


def parsed_limits(texts: Iterable[str]) -> dict[str, ValueEnds]:
    """Read limits as the command line has them: 'air=180:330', either end may be missing.

    >>> parsed_limits(["air=180:330", "rain*=0:"])
    {'air': (180.0, 330.0), 'rain*': (0.0, None)}

    Raises
    ------
    PlanError
        If one cannot be read.
    """
    found: dict[str, ValueEnds] = {}
    for text in texts:
        name, equals, ends = text.rpartition("=")
        try:
            low, high = (float(end) if end.strip() else None for end in ends.split(":"))
        except ValueError:
            low = high = None
        if not (equals and name) or (low is None and high is None):
            raise PlanError(
                f"limits {text!r} are not a name and two ends: write 'air=180:330', 'rain=0:' or "
                "'*=:1e10'"
            )
        found[name.strip()] = (low, high)
    return found
