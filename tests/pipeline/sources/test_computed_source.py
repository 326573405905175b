"""Elements that are computed of other sources are those that NumPy computes, bit for bit."""

from __future__ import annotations

import math
import operator
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import chunkfold as cf
from chunkfold.kernels import Packing
from chunkfold.sources.computed_source import ComputedSource, OperandSource, Step
from chunkfold.sources.opening import open_source
from chunkfold.sources.source import Source

pytestmark = pytest.mark.unoptimised
SHAPE = (7, 90, 300)


def opened(path: Path, values: np.ndarray) -> Source:
    zarr.create_array(path, data=values, chunks=(3, 50, 300))
    return open_source(str(path))


@pytest.fixture
def values() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(0, 9, SHAPE).astype("f4"), rng.integers(-99, 99, SHAPE).astype("i2")


@pytest.fixture
def source(tmp_path: Path, values: tuple[np.ndarray, np.ndarray]) -> ComputedSource:
    """where(x > 0.5, x * 0.1, packed) of floats, and of packed numbers as float64."""
    x, packed = values
    first = OperandSource(opened(tmp_path / "x.zarr", x), None, x.dtype)
    second = opened(tmp_path / "p.zarr", packed)
    steps = (
        Step(operator.gt, (0, 0.5), (True, False)),
        Step(operator.mul, (0, 0.1), (True, False)),
        Step(np.where, (2, 3, 1), (True, True, True)),
    )
    operands = first, OperandSource(second, Packing(0.01), np.dtype("f8"))
    grid = first.source.grid
    return ComputedSource("x and p", np.dtype("f8"), tuple(grid), operands, steps)


def wanted(values: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    x, packed = values
    return np.where(x > 0.5, x * 0.1, packed * 0.01)


def test_elements_are_those_of_numpy_whatever_the_region(
    source: ComputedSource, values: tuple[np.ndarray, np.ndarray]
):
    want = wanted(values)
    assert np.array_equal(source.whole(), want)
    region = slice(1, 7, 3), slice(0, 90, 7), slice(40, 41, 1)
    turned = np.empty((1, 13, 2)).transpose()
    source.read(region, turned)
    assert np.array_equal(turned, want[region])


def test_they_are_read_once_into_the_place_of_results(tmp_path: Path, values: Any):
    x, _ = values
    one = OperandSource(opened(tmp_path / "one.zarr", x), None, x.dtype)
    steps = (Step(operator.pow, (0, 2), (True, False)),)
    squares = ComputedSource("x", x.dtype, tuple(one.source.grid), (one,), steps)
    assert np.array_equal(squares.whole(), x**2)
    assert squares.reading_bytes(100, 100) > one.source.reading_bytes(100, 100)
    assert cf.reduce(squares, "sum") == np.float32(math.fsum((x**2).ravel().tolist()))


def test_it_travels(source: ComputedSource, values: tuple[np.ndarray, np.ndarray]):
    there = pickle.loads(pickle.dumps(source))
    assert there.travels
    assert len(pickle.dumps(source)) < 20_000
    assert np.array_equal(there.whole(), wanted(values))


def test_errors_name_the_array_that_cannot_be_read(tmp_path: Path, source: ComputedSource):
    (tmp_path / "p.zarr" / "c" / "1" / "1" / "0").write_bytes(b"no chunk")
    with pytest.raises(cf.ChunkError, match=r"p\.zarr"):
        cf.reduce(source, "max")
