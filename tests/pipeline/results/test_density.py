"""Bars are as high as values are dense, on terminals too."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import zarr

import chunkfold as cf
from chunkfold.kernels.catalogue.finish_functions import BIN
from chunkfold.results.density import extent, heights, step_of
from chunkfold.workflows.terminal.style import bin_table

pytestmark = pytest.mark.unoptimised


def test_heights_are_counts_for_their_width():
    bins = np.array([(-4, -2, 8), (-2, -1, 4), (0, 1e-40, 3), (1, 2, 2), (2, np.inf, 9)], BIN)
    assert heights(bins, 1).tolist() == [1, 1, 0.75, 0.5, 0]
    narrow = np.array([(0, 0.25, 1), (0.25, 0.5, 1), (0.5, 2, 6)], BIN)
    np.testing.assert_allclose(heights(narrow, 1), 1)
    assert extent(bins) == (-4, 2)


@pytest.mark.parametrize("edges", [(0, 1e308, 1.7e308), (-1.7e308, 0, 1.7e308), (0, 1e-323, 1)])
def test_no_edges_are_too_far(edges: tuple[float, ...]):
    bins = np.array([(left, right, 1) for left, right in itertools.pairwise(edges)], BIN)
    assert np.isfinite(heights(bins, 0)).all()
    assert heights(bins[:0], 0).tolist() == []


@pytest.mark.parametrize(
    ("dtype", "said", "step"),
    [("i2", {}, 1), ("f4", {}, 0), ("?", {}, 1), ("u1", {"scale_factor": -0.5}, 0.5)],
)
def test_values_are_a_step_apart(dtype: str, said: dict, step: float):
    array = zarr.create_array({}, data=np.ones(3, dtype), attributes=said)
    assert step_of(cf.plan(array, "histogram", mask_and_scale=True)) == step


@pytest.mark.parametrize("values", [np.linspace(16, 256, 60_000), np.arange(16, 256).repeat(50)])
def test_rows_of_a_terminal_have_no_steps_either(values: np.ndarray):
    run = cf.submit(zarr.create_array({}, data=values), "histogram")
    table = bin_table(run.result(), values.size, step_of(run.plan))
    counts, bars = (list(table.columns[n].cells) for n in (2, 3))
    assert len({int(count.replace(",", "")) for count in counts[:-1]}) >= 4
    assert {len(bar) for bar in bars[1:-1]} <= {39, 40}
