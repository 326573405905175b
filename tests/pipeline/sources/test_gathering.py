"""Places that no slices select are read with what is between them, each cell once."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chunkfold.axis_cuts import Cells
from chunkfold.sources.array_source import ArraySource
from chunkfold.sources.gathering import covers, read_region

SHAPE = (11, 7, 5)
VALUES = np.arange(385).reshape(SHAPE)


class Counting:
    """Counts how often each element is asked for."""

    shape, dtype = SHAPE, VALUES.dtype

    def __init__(self) -> None:
        self.asked = np.zeros(SHAPE, int)

    def __getitem__(self, region: Any) -> np.ndarray:
        self.asked[region] += 1
        return VALUES[region]


def places(size: int) -> st.SearchStrategy[Any]:
    some = st.lists(st.integers(0, size - 1), min_size=1, max_size=2 * size).map(np.array)
    return some | st.builds(lambda step: slice(0, size, step), st.integers(1, 3))


@given(st.data())
def test_a_region_of_places_is_that_of_numpy_and_no_cell_is_read_twice(data: st.DataObject):
    grid = [Cells(11, 4), Cells(7, 4, (0, 1, 5, 7)), Cells(5, 5)]
    region = [data.draw(places(size)) for size in SHAPE]
    counting = Counting()
    source = ArraySource(counting, "a", tuple(grid))
    each = np.ix_(*(np.arange(n)[one] for n, one in zip(SHAPE, region, strict=True)))
    want = VALUES[each]
    got = np.zeros(want.shape, VALUES.dtype)
    read_region(source, region, got)
    np.testing.assert_array_equal(got, want)
    assert counting.asked.max() == 1
    read = np.zeros(SHAPE, int)
    for box in covers(region, grid):
        read[box] += 1
    np.testing.assert_array_equal(read, counting.asked)
    for cut, wanted, asked in zip(grid, each, np.nonzero(counting.asked), strict=True):
        # And none that has nothing of it.
        assert {*cut.holding(asked).tolist()} == {*cut.holding(wanted.ravel()).tolist()}
