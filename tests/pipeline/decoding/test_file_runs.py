"""Runs of bytes of chunks make up the region that NumPy takes."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkfold.decoding import file_runs
from chunkfold.decoding.file_runs import runs_of_region


@st.composite
def regions(draw: st.DrawFn) -> tuple[tuple[int, ...], list[slice], tuple[int, ...]]:
    shape = tuple(draw(st.lists(st.integers(1, 11), max_size=4)))
    chunk = tuple(draw(st.integers(1, 6)) for _ in shape)
    region = []
    for size in shape:
        start = draw(st.integers(0, size - 1))
        region.append(slice(start, draw(st.integers(start + 1, size)), 1))
    return shape, region, chunk


@pytest.fixture(autouse=True)
def _short_runs(monkeypatch) -> None:
    monkeypatch.setattr(file_runs, "LEAST_RUN_BYTES", 0)


def gathered(values: np.ndarray, chunk: tuple[int, ...], box, runs: np.ndarray) -> np.ndarray:
    """Do what runs say with chunks that are stored with padding."""
    places = list(itertools.product(*box))
    out = np.zeros(int((runs[:, 2] + runs[:, 3]).max()), np.uint8)
    for number, offset, place, size in runs:
        cell = np.full(chunk, -1, values.dtype)
        cuts = tuple(slice(n * k, n * k + k) for n, k in zip(places[number], chunk, strict=True))
        part = values[cuts]
        cell[tuple(slice(0, n) for n in part.shape)] = part
        stored = np.ascontiguousarray(cell).reshape(-1).view(np.uint8)
        out[place : place + size] = stored[offset : offset + size]
    return out.view(values.dtype)


@given(regions())
def test_runs_bring_a_region_in_c_order(case):
    shape, region, chunk = case
    values = np.arange(math.prod(shape), dtype="i4").reshape(shape)
    found = runs_of_region(region, chunk, 4)
    assert found is not None
    assert gathered(values, chunk, *found).tolist() == values[tuple(region)].reshape(-1).tolist()


@given(regions())
def test_in_turn_they_bring_the_same_elements(case):
    shape, region, chunk = case
    values = np.arange(math.prod(shape), dtype="i4").reshape(shape)
    found = runs_of_region(region, chunk, 4, in_turn=True)
    assert found is not None
    wanted = values[tuple(region)].reshape(-1)
    assert sorted(gathered(values, chunk, *found).tolist()) == sorted(wanted.tolist())


def test_whole_chunks_in_turn_are_a_run_each():
    box, runs = runs_of_region([slice(0, 4), slice(0, 6)], (2, 3), 4, in_turn=True) or ([], None)
    assert box == [range(2), range(2)]
    assert runs is not None
    assert runs.tolist() == [[n, 0, 24 * n, 24] for n in range(4)]


def test_steps_and_short_runs_are_left_to_others(monkeypatch):
    assert runs_of_region([slice(0, 8, 2)], (4,), 4) is None
    monkeypatch.setattr(file_runs, "LEAST_RUN_BYTES", 64)
    assert runs_of_region([slice(0, 8), slice(0, 9)], (8, 10), 4) is None
    assert runs_of_region([slice(0, 8), slice(0, 10)], (8, 10), 4) is not None
