"""Exact numbers to integers: what Python makes of the rationals, rounded once."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkfold.kernels import ExactArray
from chunkfold.kernels.accumulator.exact_integers import nearest_integers
from chunkfold.kernels.accumulator.sums import IntegerSums


def exact(sums: list[int]) -> ExactArray:
    digits = np.array([[one & 0xFFFFFFFF, one >> 32] for one in sums], np.int64).T
    return ExactArray(IntegerSums(*digits))


@given(
    pairs=st.lists(
        st.tuples(st.integers(-(2**94), 2**94), st.integers(1, 2**20)), min_size=1, max_size=30
    ),
    dtype=st.sampled_from(["int8", "uint16", "int32", "int64", "uint64"]),
)
def test_quotients_are_rounded_as_rationals_are(pairs: list[tuple[int, int]], dtype: str):
    sums, counts = map(list, zip(*pairs, strict=True))
    ends = np.iinfo(dtype)
    got = nearest_integers(exact(sums) / np.array(counts), np.dtype(dtype))
    assert got.dtype == dtype
    want = [min(max(round(Fraction(*one)), int(ends.min)), int(ends.max)) for one in pairs]
    assert got.tolist() == want


@pytest.mark.parametrize("whole", [0, 2**40, 2**51, 2**52, 2**53 + 2, 2**62])
def test_what_is_nearly_half_is_on_its_own_side_of_it(whole: int):
    """A float64 of it would be the half, or another integer."""
    count = 1 << 20
    sums = [whole * count + count // 2 + beside for beside in (-1, 0, 1)]
    got = nearest_integers(exact(sums) / np.int64(count), np.dtype("int64"))
    assert got.tolist() == [whole, whole, whole + 1]


def test_nothing_is_0_and_what_is_beyond_the_ends_is_them():
    nothing = exact([5, -5, 0]) / np.array([0, 0, 0])
    assert nearest_integers(nothing, np.dtype("int16")).tolist() == [32767, -32768, 0]
    floats = np.array([1e300, -1e300, np.inf, np.nan, 2.0**63])
    assert nearest_integers(floats, np.dtype("uint64")).tolist() == [
        2**64 - 1, 0, 2**64 - 1, 0, 2**63,
    ]  # fmt: skip


def test_square_roots_have_no_exact_numbers():
    with pytest.raises(TypeError, match="square root"):
        nearest_integers((exact([1, 9]) / 4).sqrt(), np.dtype("int32"))
