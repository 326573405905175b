"""Numbers of bins: NumPy's `digitize` in exact comparisons, for every dtype, on the host."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkfold.kernels import MonoidError
from chunkfold.kernels.catalogue.bins import bin_number
from tests.kernels.catalogue.test_quantiles import DTYPES, elements

pytestmark = pytest.mark.unoptimised


def wanted(x: np.ndarray, edges: np.ndarray, *, right: bool) -> np.ndarray:
    """Return the number of each element's interval, by comparisons of Python's numbers."""
    behind = [[(e < one) if right else (e <= one) for e in edges.tolist()] for one in x.tolist()]
    numbers = np.array([sum(row) - 1 for row in behind])
    return np.where(numbers >= len(edges) - 1, -1, numbers)


@given(st.data())
def test_ends_are_compared_exactly(data: st.DataObject):
    x = elements(data.draw(st.sampled_from(DTYPES)), (60,), data.draw(st.integers(0, 9)))
    some = data.draw(st.lists(st.sampled_from(x[np.isfinite(x)].tolist()), max_size=4))
    more = data.draw(st.lists(st.floats(-1e20, 1e20) | st.integers(-300, 300), min_size=2))
    edges = np.unique(np.array([*some, *more], np.float64))
    if len(edges) > 1:
        right = data.draw(st.booleans())
        got = bin_number(edges, right=right).evaluate(x[None], axis=0)
        np.testing.assert_array_equal(got, wanted(x, edges, right=right))
        assert got.dtype == np.int32


@pytest.mark.parametrize("right", [False, True])
def test_whole_edges_are_exact_where_floats_are_not(right: bool):
    x = np.array([2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)])
    edges = np.array([-(2**63), 2**53, 2**53 + 1, 2**63 - 1])
    got = bin_number(edges, right=right).evaluate(x[None], axis=0)
    np.testing.assert_array_equal(got, wanted(x, edges, right=right))


def test_edges_beyond_what_other_dtypes_hold_are_those_of_unsigned_integers():
    x = np.array([0, 2**63, 2**64 - 1], "u8")
    got = bin_number(np.array([1e18, 1e19, 2e19]), right=False).evaluate(x[None], axis=0)
    assert got.tolist() == [-1, 0, 1]


def test_what_is_missing_is_in_none():
    x = np.array([np.nan, np.inf, -np.inf, 1], "f4")
    everything = bin_number(np.array([-np.inf, 0, np.inf]), right=False)
    assert everything.evaluate(x[None], axis=0).tolist() == [-1, -1, 0, 1]
    days = np.array(["NaT", "2001-01-01", "2001-03-01"], "M8[s]")
    one = bin_number(np.array(["2001-01-01", "2001-02-01"], "M8[D]"), right=False)
    assert one.evaluate(days[None], axis=0).tolist() == [-1, 0, -1]


def test_edges_that_the_unit_does_not_hold_are_refused():
    edges = np.array(["2001-01-01T00:00:00.5", "2001-02-01"], "M8[ms]")
    with pytest.raises(
        MonoidError, match=r"an edge 2001-01-01T00:00:00.500, which datetime64\[s\]"
    ):
        bin_number(edges, right=False).evaluate(np.zeros(3, "M8[s]"))
