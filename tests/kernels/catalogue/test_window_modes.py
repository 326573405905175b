"""The most frequent label of windows: NumPy's count of each window's elements, level by level."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from chunkfold.kernels.catalogue.window_modes import mode_bytes, reduced_windows, window_modes

SHAPES = hnp.array_shapes(min_dims=1, max_dims=3, max_side=13)
DTYPES = st.sampled_from(["bool", "uint8", "int16", "int64", "uint64"])


def counted(labels: np.ndarray, windows: Sequence[int]) -> np.ndarray:
    """Return the label that most elements of each window have, the least one of several."""
    shape = [-(-n // by) for n, by in zip(labels.shape, windows, strict=True)]
    made = np.empty(shape, labels.dtype)
    for at in np.ndindex(*made.shape):
        place = tuple(slice(n * by, (n + 1) * by) for n, by in zip(at, windows, strict=True))
        values, counts = np.unique(labels[place], return_counts=True)
        made[at] = values[counts.argmax()]
    return made


@given(
    shape=SHAPES,
    dtype=DTYPES,
    few=st.integers(1, 6),
    factors=st.lists(st.integers(1, 3), min_size=3, max_size=3),
    levels=st.integers(1, 3),
    seed=st.integers(0, 99),
)
def test_each_level_counts_the_elements_themselves(
    shape: tuple[int, ...], dtype: str, few: int, factors: list[int], levels: int, seed: int
):
    info = np.array([0, 1]) if dtype == "bool" else np.iinfo(dtype)
    ends = [0, 1] if dtype == "bool" else [info.min, info.max, 0, 1, 2, 3]
    labels = np.random.default_rng(seed).choice(np.array(ends[:few], dtype), shape)
    by = factors[: len(shape)]
    made = window_modes(labels, [by] * levels)
    assert len(made) == levels
    for number, one in enumerate(made, 1):
        assert one.dtype == labels.dtype
        np.testing.assert_array_equal(one, counted(labels, [factor**number for factor in by]))


def test_large_images_are_cut_where_windows_end(monkeypatch: pytest.MonkeyPatch):
    labels = np.random.default_rng(5).integers(0, 9, (70, 33)).astype("u2")
    monkeypatch.setattr("chunkfold.kernels.catalogue.window_modes._STRIP", 400)
    for number, one in enumerate(window_modes(labels, [(2, 3)] * 2), 1):
        np.testing.assert_array_equal(one, counted(labels, [2**number, 3**number]))


def test_windows_that_are_larger_than_the_image_take_no_more_time():
    labels = np.random.default_rng(7).integers(0, 3, (6, 200))
    most = counted(labels, (6, 200))
    for factors in ([(10**6, 10**9)], [(2, 10**9), (10**6, 5)]):
        assert window_modes(labels, factors)[-1] == most
    assert mode_bytes(labels.shape, [(10**6, 10**9)]) < 1 << 20


def test_memory_is_bounded_where_no_neighbours_are_alike():
    labels = np.random.default_rng(6).integers(0, 2**60, (1024, 2048))
    tracemalloc.start()
    made = window_modes(labels, [(2, 2)] * 5)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    own = sum(one.nbytes for one in made)
    assert most <= mode_bytes(labels.shape, [(2, 2)] * 5) + 2 * own


def test_a_mode_of_modes_would_be_another():
    labels = np.array([1, 1, 2, 2, 2, 3, 3, 3, 1, 1, 1, 1, 9, 9, 9, 9])
    first, second = window_modes(labels, [(4,), (4,)])
    assert first.tolist() == [1, 3, 1, 9]
    assert second.tolist() == [1]
    assert window_modes(first, [(4,)])[0].tolist() == [1]
    labels[:3] = 5  # 4 of its window are no longer 1: of all 16 elements most are 9, or 1
    assert window_modes(labels, [(4,), (4,)])[1].tolist() == [1]
    labels[8] = 9
    assert window_modes(labels, [(4,), (4,)])[1].tolist() == [9]


@given(
    values=hnp.arrays("int32", hnp.array_shapes(min_dims=1, max_dims=3, max_side=9)),
    windows=st.lists(st.integers(1, 12), min_size=3, max_size=3),
    function=st.sampled_from([np.add, np.minimum, np.maximum]),
)
def test_each_window_is_reduced_whole(values: np.ndarray, windows: list[int], function: np.ufunc):
    before, windows = values.copy(), windows[: values.ndim]
    made = reduced_windows(function, values, windows)
    assert made.flags.c_contiguous
    assert made.shape == tuple(-(-n // by) for n, by in zip(values.shape, windows, strict=True))
    for at in np.ndindex(*made.shape):
        place = tuple(slice(n * by, (n + 1) * by) for n, by in zip(at, windows, strict=True))
        assert made[at] == function.reduce(values[place], axis=None, dtype=values.dtype)
    np.testing.assert_array_equal(values, before)
