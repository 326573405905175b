"""Both ends at once, by the bits of floats: what each end is by itself, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chunkfold.kernels import DeviceContext, as_monoid, bind, box
from chunkfold.kernels.dtypes import from_order
from tests.conftest import some
from tests.kernels.fold.test_fold import fold_for, upload

pytestmark = pytest.mark.unoptimised

ODD = (0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1.5, -1.5, 6e-8, -6e-8)
DTYPES = ("float16", ">f4", "float64")
LAYOUTS = {
    "flat": ((331,), (0,)),
    "rows": ((3, 110), (1,)),
    "short rows": ((31, 11), (1,)),
    "columns": ((9, 37), (0,)),
}


def keys_of(array: np.ndarray) -> np.ndarray:
    """Order floats as `order_low` and `order_high` do, in NumPy: -0 before 0, no NaN among them."""
    wide = array.astype("f8" if array.dtype.itemsize == 8 else "f4")
    bits = wide.view(f"i{wide.dtype.itemsize}")
    return np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)


def end_of(array: np.ndarray, axis: int, *, high: bool, skipna: bool) -> np.ndarray:
    """Return the keys of one end along an axis: NaN's where there is any, or nothing else."""
    absent = np.isnan(array)
    keys = keys_of(array)
    limit = np.iinfo(keys.dtype)
    none = limit.min if high else limit.max
    keys = np.where(absent, none, keys)
    found = keys.max(axis) if high else keys.min(axis)
    if not skipna:
        found = np.where(absent.any(axis), limit.max if high else limit.min, found)
    return np.atleast_1d(found)


@pytest.mark.parametrize(("dtype", "layout", "skipna"), some(DTYPES, LAYOUTS, [False, True]))
def test_both_ends_are_each_end(opened: DeviceContext, dtype: str, layout: str, skipna: bool):
    kind = np.dtype(dtype)
    shape, axes = LAYOUTS[layout]
    whole = box(shape, axes)
    ops = ["nanmin", "nanmax"] if skipna else ["min", "max"]
    bound = bind([as_monoid(op) for op in ops], [kind])
    one_state = not (skipna and kind.itemsize == 2)
    assert bound.accumulator.holders == ((0, 0) if one_state else (0, 1))
    fold = fold_for(opened, bound, whole)

    @given(st.integers(0, 2**32), st.floats(0, 1), st.sampled_from([-1, 0, 1]))
    @example(0, 1.0, 0)
    @example(1, 0.0, -1)
    def check(seed: int, odd: float, sign: int) -> None:
        rng = np.random.default_rng(seed)
        arrays = []
        for _ in range(2):  # the second is added to what is there
            array = rng.normal(size=shape)
            array = (np.copysign(array, sign) if sign else array).astype(kind)
            there = rng.random(shape) < odd * 0.1
            array[there] = rng.choice(ODD, there.sum()).astype(kind)
            fold.add([upload(opened, array)], whole)
            arrays.append(array)
        partial = fold.read_back()
        together = np.concatenate(arrays, axis=axes[0])
        for statistic, high in zip(bound.statistics, (False, True), strict=True):
            want = end_of(together, axes[0], high=high, skipna=skipna)
            got = partial.arrays[statistic.slots["hi" if high else "lo"]]
            assert (
                from_order(got, kind, high=high).tobytes()
                == from_order(want, kind, high=high).tobytes()
            )

    check()
