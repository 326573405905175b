"""What Dask selects of one object is found; what does anything else is not taken for that."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import pytest

from chunkfold.sources.dask_selections import read_by

VALUES = np.arange(7 * 5 * 6).reshape(7, 5, 6)


class Lazy:
    """An object that Dask reads by regions."""

    shape, dtype, ndim = VALUES.shape, VALUES.dtype, VALUES.ndim

    def __getitem__(self, key: Any) -> np.ndarray:
        raise AssertionError("it is read")


LAZY = Lazy()


def opened() -> da.Array:
    return da.from_array(LAZY, chunks=(3, 5, 4), asarray=True, meta=np.empty((0, 0, 0), int))


@pytest.mark.parametrize(
    "cut",
    [
        (),
        (slice(1, 6), slice(None), slice(0, 6, 2)),
        (3,),
        (slice(2, 3), ...),
        (..., slice(None, None, -1)),
        (slice(None), 4, [0, 5, 2]),
        (..., np.arange(6) > 3),
    ],
)
@pytest.mark.parametrize(
    "before",
    [lambda array: array, lambda array: array.rechunk(2), lambda array: array[1:, :, :6]],
    ids=["whole", "rechunked", "part"],
)
def test_selections_of_selections_are_found(
    cut: tuple[Any, ...], before: Any, request: pytest.FixtureRequest
):
    found = read_by(before(opened())[cut])
    assert found is not None
    lazy, cuts = found
    assert lazy is LAZY
    places = [
        np.atleast_1d(np.arange(size)[one]) for one, size in zip(cuts, VALUES.shape, strict=True)
    ]
    want = (VALUES[1:] if "part" in request.node.name else VALUES)[cut]
    np.testing.assert_array_equal(VALUES[np.ix_(*places)].reshape(want.shape), want)


@pytest.mark.parametrize(
    "change",
    [
        lambda array: array + 1,
        lambda array: (array + 1)[2:],
        lambda array: da.where(array > 3, array, 0)[1:],
        lambda array: array.T,
        lambda array: array[2:].T,
        lambda array: da.concatenate([array, array])[3:],
        lambda array: array.map_blocks(lambda block: block)[1:],
        lambda array: array.sum(axis=0),
        lambda array: array[0:0],
    ],
)
def test_nothing_else_is_taken_for_a_selection(change: Any):
    assert read_by(change(opened())) is None
