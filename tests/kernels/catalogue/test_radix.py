"""Ranks are found by counts of digits as by the digits themselves, sorted."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chunkfold.kernels.catalogue.radix import ranked


@given(
    bits=st.integers(0, 9), outputs=st.integers(1, 5), tables=st.integers(1, 3),
    ranks=st.integers(1, 4), most=st.sampled_from([0, 1, 3, 40]), behind=st.integers(0, 1),
    seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_a_rank_has_the_digit_that_it_has_among_sorted_digits(
    bits: int, outputs: int, tables: int, ranks: int, most: int, behind: int, seed: int
):
    rng = np.random.default_rng(seed)
    digits = 1 << bits
    counts = rng.integers(0, most + 1, (tables, outputs, digits + behind))
    counts[rng.random(counts.shape) < 0.5] = 0
    slot = rng.integers(0, tables, (outputs, ranks))
    rank = rng.integers(0, counts.sum(axis=2).max() + 2, (outputs, ranks))
    found = ranked([table[:, :digits] for table in counts], slot, rank)
    for (output, n), wanted in np.ndenumerate(rank):
        own = counts[slot[output, n], output, :digits]
        elements = np.repeat(np.arange(digits), own)
        last = own[-1]
        assert found.total[output, n] == len(elements)
        if wanted < len(elements):
            digit = elements[wanted]
            assert found.digit[output, n] == digit
            assert found.held[output, n] == own[digit]
            assert found.below[output, n] == wanted - np.searchsorted(elements, digit)
        else:
            assert (found.digit[output, n], found.held[output, n]) == (digits - 1, last)


def test_ranks_are_found_in_a_large_table():
    counts = np.zeros((1, 1 << 16), np.int64)
    counts[0, [5, 300, 65_535]] = 2, 3, 1
    found = ranked([counts], np.zeros((1, 6), np.int64), np.arange(6)[None])
    assert found.digit.tolist() == [[5, 5, 300, 300, 300, 65_535]]
    assert found.below.tolist() == [[0, 1, 0, 1, 2, 0]]
