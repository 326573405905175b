"""Shares: what each of several threads folds of a box of outputs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from chunkfold.reading.reads import OutputBox
from chunkfold.worker.thread_fold import work_shares_of


@given(leaves=st.integers(1, 60), number=st.integers(1, 4))
def test_lots_share_every_leaf_out_once(leaves: int, number: int):
    first, rest = work_shares_of(OutputBox(0, range(leaves), ()), number)
    assert len(first) == number
    pieces = [
        (leaf, piece)
        for share in (*first, *rest)
        for leaf in share.output_box.leaves
        for piece in range(12)[share.every[0] :: share.every[1]]
    ]
    assert sorted(pieces) == [(leaf, piece) for leaf in range(leaves) for piece in range(12)]
