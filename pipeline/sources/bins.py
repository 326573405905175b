"""Bins: groups that are intervals of numbers or dates."""

from __future__ import annotations

import itertools
import reprlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from chunkfold.errors import PlanError


@dataclass(frozen=True, eq=False)
class Intervals:
    """Intervals that follow each other."""

    edges: np.ndarray
    """Ascending, one more than there are intervals: int64, float64, or dates or time spans."""
    right: bool
    """Whether the upper end of each belongs to it, else the lower one."""

    @property
    def texts(self) -> np.ndarray:
        """How they are written, as pandas does.

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
    """As those of `Intervals`."""
    of: Any
    """What is in them; None: the reduced elements themselves."""
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
            raise PlanError(f"{name}: dates of another calendar than NumPy's are in no bins")
        numbers = edges.dtype.kind in "iuf" and values.dtype.kind in "iufb"
        if not numbers and edges.dtype.kind != values.dtype.kind:
            raise PlanError(
                f"{name}: bins have edges of {edges.dtype}, but the labels are {values.dtype}: "
                "give edges as they are"
            )
        side: Any = "left" if self.right else "right"
        codes = np.searchsorted(edges, values, side=side).astype(np.int64) - 1
        codes[missing | (codes >= len(edges) - 1)] = -1
        return codes, intervals


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
            "bins are of one array, or a coordinate's name, or without of= of the elements "
            f"themselves; of is {of!r}"
        )
    return Bins(_edges(edges), of, bool(right))


def _edges(given: Any) -> np.ndarray:
    try:
        edges = np.asarray(given)
    except (ValueError, TypeError):
        edges = np.array([])
    if edges.dtype.kind in "OU" and edges.ndim == 1:  # dates, as Python's or as texts
        try:
            edges = edges.astype("M8")
        except (ValueError, TypeError):
            edges = np.asarray(given)
    if edges.dtype.kind == "u":
        edges = edges.astype(np.int64 if edges.max(initial=0) < 2**63 else np.float64)
    rising = edges.ndim == 1 and len(edges) > 1 and edges.dtype.kind in "ifmM"
    if not rising or not bool((edges[1:] > edges[:-1]).all()):
        raise PlanError(
            f"bins: edges are {reprlib.repr(given)}; give two at least, ascending: numbers, dates "
            "or time spans"
        )
    return edges
