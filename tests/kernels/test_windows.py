"""Windows of arrays on the host are reduced as NumPy reduces slices of them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from chunkfold.kernels.windows import reduced_windows


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
