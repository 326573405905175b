"""Weighted quantiles: the first element up to which there is a share of all weights, exact.

They are found as others are (kernels/catalogue/radix.py), but each value of a digit has the exact
sum of its elements' weights where those have a count. Sums are integers, so the chosen element is
the same for any chunks, devices and workers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from chunkfold.kernels.catalogue.rank_search import KINDS
from chunkfold.kernels.catalogue.sketches import AXIS
from chunkfold.kernels.catalogue.weight_search import WeightSearch
from chunkfold.kernels.dtypes import kind_of
from chunkfold.kernels.errors import MonoidError
from chunkfold.kernels.monoid.monoid import Monoid
from chunkfold.kernels.monoid.specialise import FoldedElements

METHOD = "inverted_cdf"
"""The only method of NumPy that takes weights."""


@dataclass(frozen=True)
class WeightedQuantiles:
    """Makes the monoid of weighted quantiles, for two dtypes and a number of outputs."""

    name: str
    q: tuple[float, ...]
    single: bool
    """True: results have no axis of quantiles."""

    def declared(self) -> Monoid:
        """Return the reduction for elements and weights of any dtypes."""
        real = np.dtype(np.float32)
        plain = self(FoldedElements(real, (real, real)))
        return replace(
            plain,
            specialised=self,
            labels=() if self.single else self.q,
            last_axis=None if self.single else AXIS,
        )

    def __call__(self, elements: FoldedElements) -> Monoid:
        """Return the monoid of the first read.

        Raises
        ------
        MonoidError
            If elements are no numbers.
        """
        weighed, weights = elements.inputs
        if kind_of(weighed) not in KINDS:
            raise MonoidError(
                f"{self.name!r} is not defined for {weighed}, only for integers and floats: give "
                "a dtype"
            )
        return WeightSearch(self, weighed, weights, elements.outputs).first()

    @cached_property
    def shares(self) -> tuple[tuple[Fraction, bool], ...]:
        """Return the bound of the shares that round to each quantile; True if the bound does."""
        return tuple(map(_least_share, self.q))

    def sought(self, total: int) -> list[int]:
        """Return the least sums of weights at which quantiles are reached, at least one unit."""
        at = [(share * total, itself) for share, itself in self.shares]
        return [max(1, -(-one // 1) if itself else one // 1 + 1) for one, itself in at]


def _least_share(q: float) -> tuple[Fraction, bool]:
    """Return the bound of numbers that float64 rounds to `q` or beyond; True if the bound does.

    >>> _least_share(1.0)
    (Fraction(18014398509481983, 18014398509481984), True)
    """
    below = float(np.nextafter(q, -1))
    even = int(np.float64(q).view(np.int64)) % 2 == 0
    return (Fraction(below) + Fraction(q)) / 2, even
