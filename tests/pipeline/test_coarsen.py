"""Windows: each result is what NumPy says of a window's elements, and where it is, xarray."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given
from hypothesis import strategies as st

import chunkfold as cf
from chunkfold.errors import PlanError
from chunkfold.kernels import CATALOGUE, as_monoid
from chunkfold.planning import blocks, planner
from chunkfold.reading import parts
from chunkfold.worker import per_thread
from tests.pipeline.test_skipping import damaged, removed

pytestmark = pytest.mark.unoptimised
OPS = ["sum", "mean", "std", "count", "min", "max", "any", "argmax"]
SHAPE = (23, 8, 9)
DIMS = ("t", "y", "x")


@pytest.fixture(autouse=True)
def _small_leaves(monkeypatch):
    """Several chunks to a leaf, several leaves to a block, several blocks."""
    monkeypatch.setattr(planner, "LEAF_BYTES", 1024)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", (2048, 4096))
    monkeypatch.setattr(parts, "READ_BYTES", 100)


def hard(dtype: str, shape: Sequence[int] = SHAPE, seed: int = 0) -> np.ndarray:
    """Floats over many powers of two, or integers."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "f":
        return (values * 2.0 ** rng.uniform(-12, 12, shape)).astype(dtype)
    return np.round(values * 50).astype(dtype)


def stored(array: np.ndarray, chunks: Sequence[int] = (5, 3, 4), **given: Any) -> zarr.Array:
    return zarr.create_array(store={}, data=array, chunks=tuple(chunks), **given)


def cuts(length: int, window: int, boundary: str) -> list[slice]:
    """Return the windows of a kind along an axis: whole ones, and what is left of them."""
    whole = length // window * window
    rest = [slice(whole, length)] if boundary == "pad" and whole < length else []
    return ([slice(0, whole)] if whole or not rest else []) + rest


def windowed(
    op: Any,
    arrays: np.ndarray | Sequence[np.ndarray],
    windows: Mapping[int, int],
    boundary: str = "trim",
    axis: Sequence[int] = (),
) -> np.ndarray:
    """Reduce each window by NumPy alone: those that are alike at once."""
    many = [arrays] if isinstance(arrays, np.ndarray) else list(arrays)
    shape, monoid = many[0].shape, as_monoid(op)
    along = [
        cuts(n, windows[axis], boundary) if axis in windows else [slice(0, n)]
        for axis, n in enumerate(shape)
    ]
    done = np.empty([len(each) for each in along], object)
    for number in np.ndindex(done.shape):
        cut = tuple(each[n] for each, n in zip(along, number, strict=True))
        apart, reduced = [], []
        for n, size in enumerate(s.stop - s.start for s in cut):
            window = min(windows.get(n, 1), size) or 1
            reduced += [len(apart) + 1] if n in windows else [len(apart)] if n in axis else []
            apart += [size // window, window] if n in windows else [size]
        rows = [each[cut].reshape(apart) for each in many]
        done[number] = monoid.evaluate(*rows, axis=tuple(reduced))
        for n in sorted(axis):
            kept = n - 0
            done[number] = np.expand_dims(done[number], kept)
    found = np.block(done.tolist())
    return found.reshape([n for axis_, n in enumerate(found.shape) if axis_ not in axis])


def same(got: Any, want: np.ndarray, what: object = "") -> None:
    assert np.shape(got) == want.shape, what
    np.testing.assert_array_equal(got, want, str(what))


WINDOWS = st.fixed_dictionaries({}, optional={0: st.integers(1, 25), 1: st.integers(1, 9), 2: st.integers(1, 10)}).filter(bool)  # fmt: skip
CHUNKS = st.tuples(*(st.integers(1, size) for size in SHAPE))
BOUNDARY = st.sampled_from(["trim", "pad"])


@given(
    windows=WINDOWS,
    chunks=CHUNKS,
    boundary=BOUNDARY,
    dtype=st.sampled_from(["float32", "int16"]),
    data=st.data(),
)
def test_each_window_is_what_numpy_says_of_it(windows, chunks, boundary, dtype, data):
    """Whatever windows, chunks and selections, and with further axes that are reduced whole."""
    array = hard(dtype)
    starts = [data.draw(st.integers(0, 3)) for _ in SHAPE]
    steps = [data.draw(st.integers(1, 2)) for _ in SHAPE]
    selection = tuple(map(slice, starts, SHAPE, steps))
    others = [n for n in range(3) if n not in windows]
    axis = data.draw(st.lists(st.sampled_from(others), unique=True)) if others else []
    options = {"coarsen": windows, "boundary": boundary, "axis": axis, "selection": selection}
    chosen = array[selection]
    if any(chosen.shape[n] < k for n, k in windows.items()) and boundary == "trim":
        return  # windows of which there is none: below
    got = cf.reduce(stored(array, chunks), OPS, **options)
    for op in OPS:
        want = windowed(op, chosen, windows, boundary, axis)
        if op == "argmax" and boundary == "pad":
            continue  # a position in a whole window: below
        same(got[op], want, (op, options))
