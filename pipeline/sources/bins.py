"""Bins: groups that are intervals of numbers or dates."""

from __future__ import annotations

import itertools
import reprlib
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

import numpy as np

from chunkfold.errors import PlanError
from chunkfold.kernels.catalogue.histograms import greatest, least


def edges_for(values: np.dtype) -> str:
    """Say what edges are to be of values of a dtype, for messages."""
    if values.kind in "biuf":
        return "give numbers"
    known = {"M": "dates, as 2001-01-01", "m": "time spans"}
    return f"give {known.get(values.kind, 'edges of the same kind')}"


@dataclass(frozen=True, eq=False)
class Intervals:
    """Intervals that follow each other."""

    edges: np.ndarray
    """Ascending, one more than there are intervals: integers, floats, or dates or time spans."""
    right: bool
    """True if each interval includes its upper end, False if it includes its lower end."""

    @property
    def texts(self) -> np.ndarray:
        """Return the intervals as texts, as pandas writes them.

        >>> Intervals(np.array([0, 1, 5]), right=False).texts.tolist()
        ['[0, 1)', '[1, 5)']
        """
        first, last = ("(", "]") if self.right else ("[", ")")
        pairs = itertools.pairwise(str(one) for one in self.edges)
        return np.array([f"{first}{low}, {high}{last}" for low, high in pairs])

    @property
    def closed(self) -> str:
        """The end that belongs to each, as pandas calls it."""
        return "right" if self.right else "left"


@dataclass(frozen=True, eq=False)
class Bins:
    """Groups that are intervals of labels; made by `bins`."""

    edges: np.ndarray
    """Edges of the bins, as in `Intervals`."""
    of: Any
    """The values that are binned; None: the reduced elements themselves."""
    right: bool

    def __repr__(self) -> str:
        return f"bins({reprlib.repr(self.edges)}, of={reprlib.repr(self.of)}, right={self.right})"

    def numbered(
        self, name: str, values: np.ndarray, missing: np.ndarray
    ) -> tuple[np.ndarray, Intervals]:
        """Return in which interval each value is: int64, -1 of what is in none.

        Raises
        ------
        PlanError
            If values are of another kind than the edges.
        """
        intervals, edges = Intervals(self.edges, self.right), self.edges
        if edges.dtype.kind == "M" and values.dtype.kind == "O":
            raise PlanError(f"{name}: bins take only dates of NumPy's calendar")
        numbers = edges.dtype.kind in "iuf" and values.dtype.kind in "iufb"
        if not numbers and edges.dtype.kind != values.dtype.kind:
            raise PlanError(
                f"{name}: bins have edges of {edges.dtype}, but the labels are {values.dtype}: "
                f"{edges_for(values.dtype)}"
            )
        behind = self._behind(values) if numbers else np.searchsorted(edges, values, self._side)
        codes = behind.astype(np.int64) - 1
        codes[missing | (codes >= len(edges) - 1)] = -1
        return codes, intervals

    @property
    def _side(self) -> Literal["left", "right"]:
        return "left" if self.right else "right"

    def _behind(self, values: np.ndarray) -> np.ndarray:
        """Return how many edges each number is behind.

        NumPy would compare integers of 64 bits with other numbers as float64, which rounds them. So
        edges are made numbers that values may have: None is beyond all of these.
        """
        bound = greatest if self.right else least
        found = [bound(edge, values.dtype) for edge in self.edges.tolist()]
        dtype = np.dtype(np.float64) if values.dtype.kind == "f" else values.dtype
        cuts = np.array([one for one in found if one is not None], dtype)
        below = found.count(None) if self.right else 0
        return below + np.searchsorted(cuts, values, self._side)


def bins(edges: Any, of: Any = None, *, right: bool = False) -> Bins:
    """Make groups of intervals, as labels for `by=`: `by=cf.bins([-90, 0, 90], of="lat")`.

    Parameters
    ----------
    edges
        Of the intervals: numbers, dates or time spans, ascending. What is beyond them is in no
        group.
    of
        What is in them: the name of a coordinate, or an array of some axes of the data, as `by=`
        takes labels, but of any numbers. None: the reduced elements themselves, which are read once
        for both.
    right
        Whether the upper end of an interval belongs to it, rather than the lower one.

    Raises
    ------
    PlanError
        If the edges are none.
    """
    if not isinstance(right, (bool, np.bool_)):
        raise PlanError(f"right is {right!r}; give True or False")
    if isinstance(of, (tuple, Bins)):
        raise PlanError(
            f"bins: of is {of!r}; give one array or the name of a coordinate, or omit it for bins "
            "of the elements themselves"
        )
    return Bins(_edges(edges), of, bool(right))


def _edges(given: Any) -> np.ndarray:
    try:
        edges = np.asarray(given)
    except (ValueError, TypeError):
        edges = np.array([])
    if np.ma.is_masked(given):  # what is under a mask is anything
        edges = np.array([])
    if edges.dtype.kind in "OU" and edges.ndim == 1:  # dates, as Python's or as texts
        spans = all(isinstance(one, timedelta) for one in edges)
        with suppress(ValueError, TypeError):
            edges = edges.astype("m8" if spans else "M8")
    if edges.dtype.kind == "u" and edges.max(initial=0) < 2**63:
        edges = edges.astype(np.int64)
    rising = edges.ndim == 1 and len(edges) > 1 and edges.dtype.kind in "iufmM"
    if not rising or not bool((edges[1:] > edges[:-1]).all()):
        raise PlanError(
            f"bins: edges are {reprlib.repr(given)}; give two at least, ascending: numbers, dates "
            "or time spans"
        )
    return edges
