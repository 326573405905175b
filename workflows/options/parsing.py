"""Parses texts of the command line and of job files into the library's arguments."""

from __future__ import annotations

import math
import os
import re
import reprlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import metadata

import numpy as np

from chunkfold.errors import PlanError
from chunkfold.kernels import CATALOGUE, Monoid, histogram
from chunkfold.kernels.catalogue.histograms import MOST_BINS
from chunkfold.kernels.catalogue.named import sketched
from chunkfold.redaction import shown_address
from chunkfold.units import integer, number

MONOIDS = "chunkfold.monoids"
"""Entry points by which other packages add reductions, by name."""
_RANGE = (number, number, integer)
_COMMA = re.compile(r",(?![^()]*\))")
"""One that stands in no brackets."""


def parse_edges(text: str) -> list[float]:
    """Read the edges of a histogram's bins.

    Raises
    ------
    PlanError
        If they are neither numbers nor LOW:HIGH:BINS.

    >>> parse_edges("0,1,10"), parse_edges("0:1:4")
    ([0, 1, 10], [0.0, 0.25, 0.5, 0.75, 1.0])
    """
    try:
        if "," in text:
            return [number_of(word) for word in text.split(",")]
        low, high, bins = (kind(word) for kind, word in zip(_RANGE, text.split(":"), strict=True))
    except ValueError:
        raise PlanError(
            f"edges {reprlib.repr(text)} are not numbers, as in '0,10,100', or LOW:HIGH:BINS"
        ) from None
    if not 1 <= bins <= MOST_BINS:
        raise PlanError(f"edges {text!r} makes {bins} bins; give 1 to {MOST_BINS}")
    if not math.isfinite(high - low):
        raise PlanError(f"edges {text!r} has no finite width")
    edges: list[float] = np.linspace(low, high, int(bins) + 1).tolist()
    return edges


def words(given: tuple[str, ...]) -> list[str]:
    """Take apart what is joined by commas, but for those in brackets.

    >>> words(("0", "1, 2")), words(("longest_run(maximum(x, 3) > 4),max",))
    (['0', '1', '2'], ['longest_run(maximum(x, 3) > 4)', 'max'])
    """
    return [word.strip() for entry in given for word in _COMMA.split(entry)]


def axis(word: str) -> int | str:
    """Return an axis: by its number, else by its name."""
    try:
        return integer(word)
    except ValueError:
        return word


def parse_step(given: str | None) -> tuple[int | str, int] | None:
    """Read an axis, and how far apart elements are along it: 1 if that is not said.

    Raises
    ------
    PlanError
        If it is no axis and a number of 1 or more.

    >>> parse_step("time"), parse_step("0=4")
    (('time', 1), (0, 4))
    """
    if given is None:
        return None
    if "=" not in given:
        return axis(given), 1
    ((named, distance),) = windows((given,)).items()
    return named, distance


def windows(given: Sequence[str]) -> dict[int | str, int]:
    """Read the elements of a window along each axis.

    Raises
    ------
    PlanError
        If one is no axis and a number of 1 or more, or an axis is named twice.

    >>> windows(["y=2", "0=10"])
    {'y': 2, 0: 10}
    """
    found: dict[int | str, int] = {}
    for word in given:
        name, _, size = (part.strip() for part in word.rpartition("="))
        try:
            number = integer(size)
        except ValueError:
            name = ""
        if not name:
            raise PlanError(f"coarsen {word!r} is not an axis and its window, as in 'y=2,x=2'")
        if axis(name) in found:
            raise PlanError(f"coarsen names axis {name!r} twice: give it one window")
        found[axis(name)] = number
    return found


def number_of(word: str) -> float:
    """Return a number: an integer where it is written as one.

    Raises
    ------
    ValueError
        If it is none.
    """
    try:
        return integer(word)
    except ValueError:
        return number(word)


def named_reductions(
    ops: Sequence[str], edges: str | None, rtol: float | None
) -> list[str | Monoid]:
    """Look up the reductions that other packages add, and give edges and tolerances to theirs.

    Parameters
    ----------
    edges
        Of the histogram.
    rtol
        Of quantiles, which are then sketches; None: they are exact.

    Raises
    ------
    PlanError
        If there are edges but no histogram, or a tolerance but no quantile, or a package's
        reduction cannot be loaded.
    MonoidError
        If the tolerance is none.
    """
    if edges is not None and "histogram" not in ops:
        raise PlanError(f"edges {edges!r} are for a histogram, but no histogram is computed")
    sketches = {} if rtol is None else {op: one for op in ops if (one := sketched(op, rtol))}
    if rtol is not None and not sketches:
        raise PlanError(
            f"sketch {rtol!r} is for quantiles, such as median and p95, but none is computed"
        )
    bins = {} if edges is None else {"histogram": histogram(parse_edges(edges))}
    return [(bins | sketches).get(op) or named(op) for op in ops]


def named(op: str) -> str | Monoid:
    """Return a reduction that an installed package adds by an entry point, else its name.

    Raises
    ------
    PlanError
        If it cannot be loaded.
    """
    if op in CATALOGUE:
        return op
    point = next((one for one in metadata.entry_points(group=MONOIDS) if one.name == op), None)
    if point is None:
        return op
    try:
        found = point.load()
    except Exception as error:
        raise PlanError(f"reduction {op!r} of {point.value} cannot be loaded: {error!r}") from error
    if not isinstance(found, Monoid):
        raise PlanError(
            f"reduction {op!r}: {point.value} is a {type(found).__name__}, not a Monoid"
        )
    return replace(found, name=op)


def wheres(condition: str | None, mask: str | None) -> tuple[str | Located, ...] | None:
    """Return what says which elements count: a condition, the address of a mask, or both."""
    found: list[str | Located] = [] if condition is None else [condition]
    found += [] if mask is None else [Located(mask)]
    return tuple(found) or None


@dataclass(frozen=True, repr=False)
class Located(os.PathLike[str]):
    """An address, which is no condition, though it is a text."""

    address: str

    def __fspath__(self) -> str:
        return self.address

    def __repr__(self) -> str:
        return shown_address(self.address)
