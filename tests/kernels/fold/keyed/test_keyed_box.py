"""Boxes with keys: elements and their keys are where NumPy's broadcasting has them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkfold.kernels import MonoidError, keyed_box
from chunkfold.kernels.fold.keyed.keyed_box import keys_of_rows, runs_of_keys
from chunkfold.kernels.geometry import Box


def places(of: Box) -> list[int]:
    """List the places of a box's elements, kept dims slowest."""
    dims = (*of.kept, *of.reduced)
    each = itertools.product(*(range(dim.size) for dim in dims))
    return [sum(n * dim.stride for n, dim in zip(at, dims, strict=True)) for at in each]


@given(
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=4), data=st.data(),
)  # fmt: skip
def test_each_element_has_the_key_that_broadcasting_gives_it(shape: list[int], data: st.DataObject):
    every = range(len(shape))
    axes = tuple(sorted(data.draw(st.sets(st.sampled_from(every)))))
    along = tuple(sorted(data.draw(st.sets(st.sampled_from(every)))))
    layout = keyed_box(shape, axes, along)
    keys = np.arange(int(np.prod([shape[axis] for axis in along])))
    whole = np.broadcast_to(
        keys.reshape([n if axis in along else 1 for axis, n in enumerate(shape)]), shape
    )
    flat = whole.reshape(-1)
    assert [flat[at] for at in places(layout.elements)] == places(layout.keys)
    assert sorted(places(layout.elements)) == list(range(whole.size))


def test_axes_that_are_none_are_told():
    for along in [(2,), (1, 0), (0, 0)]:
        with pytest.raises(MonoidError, match="keys have axes"):
            keyed_box((2, 3), (0,), along)


def test_a_box_of_one_element_has_one_run():
    row = keys_of_rows(np.array([1], np.int32), Box((), ()))
    assert row is not None
    assert runs_of_keys(row, 3).tolist() == [0, 1, 0]
