"""Weighted quantiles of chunked arrays: NumPy's, with groups, masks and gaps, in several reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import chunkfold as cf
from chunkfold.errors import PlanError
from chunkfold.events import RunStarted
from chunkfold.kernels.catalogue import radix
from chunkfold.planning import blocks, planner
from tests.kernels.catalogue.test_quantiles import elements
from tests.kernels.catalogue.test_weighted_quantiles import weights_of
from tests.pipeline.test_by import SHAPE, stored

pytestmark = pytest.mark.unoptimised


@pytest.fixture(autouse=True)
def _small_leaves(monkeypatch):
    """Several leaves to a block, several blocks, and tables of few counters for each output."""
    monkeypatch.setattr(planner, "LEAF_BYTES", 2048)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", (4096, 8192))
    monkeypatch.setattr(radix, "TABLE_BYTES", 2 << 20)


def wanted(x: np.ndarray, w: np.ndarray, q: Any, axis: Any = None) -> np.ndarray:
    w = np.broadcast_to(w, x.shape)
    return np.quantile(x, q, axis=axis, weights=w, method="inverted_cdf")


@settings(max_examples=3, deadline=None, phases=[Phase.generate])
@given(st.data())
def test_they_are_numpys_in_any_chunks_and_beside_means(data: st.DataObject):
    x = elements(data.draw(st.sampled_from(["f4", "f8", "i2"])), SHAPE, odd=False)
    along = data.draw(st.sampled_from([SHAPE, SHAPE[1:], (SHAPE[1], 1)]))
    w = weights_of(data.draw(st.sampled_from(["f4", "f8", "i2"])), along) + 1
    chunks = data.draw(st.tuples(*(st.integers(2, n) for n in SHAPE)))
    axis = data.draw(st.sampled_from([None, (0, 1)]))
    q = data.draw(st.sampled_from([0.5, 0.05]) | st.floats(0, 1))
    got = cf.reduce(stored(x, chunks), [cf.quantile(q).called("at"), "mean"], axis=axis, weights=w)
    want = wanted(x, w, q, axis)
    np.testing.assert_array_equal(got["at"], want)
    assert got["at"].dtype == x.dtype


def test_groups_masks_gaps_and_selections_go_with_them():
    x, w = elements("f4", SHAPE), weights_of("i4", (SHAPE[1], 1)) + 1
    x[2, 3] = np.nan
    mask, labels = np.random.default_rng(0).random(SHAPE[1:]) < 0.6, np.arange(SHAPE[0]) % 3
    heard = list[RunStarted]()
    got = cf.reduce(
        stored(x), "median", axis=(0, 1, 2), by=labels, by_axis=0, weights=w, skipna=True,
        where=(mask, "x > -1"), selection=np.s_[2:20],
        on_event=lambda e: heard.append(e) if isinstance(e, RunStarted) else None,
    )  # fmt: skip
    assert len(heard) > 1
    wide = np.broadcast_to(w, SHAPE)
    kept = (
        mask & (x > -1) & ((np.arange(SHAPE[0]) >= 2) & (np.arange(SHAPE[0]) < 20))[:, None, None]
    )
    for group in range(3):
        held = kept & (labels == group)[:, None, None]
        assert got.values[group] == wanted(x[held], wide[held], 0.5)


def test_a_second_source_weighs_too_and_nothing_is_nan():
    x, w = elements("f4", SHAPE), weights_of("f4", SHAPE)
    w[:, 0] = 0
    got = cf.reduce((stored(x), stored(w)), ["weighted_median", "weighted_p99.5"], axis=(0, 2))
    assert list(got) == ["weighted_median", "weighted_p99_5"]
    for name, q in [("weighted_median", 0.5), ("weighted_p99_5", 0.995)]:
        assert np.isnan(got[name][0])
        np.testing.assert_array_equal(got[name][1:], wanted(x[:, 1:], w[:, 1:], q, (0, 2)))


def test_they_are_lazy_where_one_read_is_enough():
    x, w = elements("u1", SHAPE), weights_of("f4", SHAPE[2:]) + 1
    lazy = cf.reduce(stored(x), "p30", weights=w, compute=False)
    assert (lazy.compute(), lazy.dtype) == (wanted(x, w, 0.3), x.dtype)
    with pytest.raises(PlanError, match="median: the data are read up to 3 times"):
        cf.reduce(stored(x.astype("f4")), "median", weights=w.astype("f8"), compute=False)


def test_the_shell_weighs(tmp_path: Path, command: Callable):
    x, w = elements("f4", SHAPE), weights_of("f8", SHAPE[2:])
    zarr.save_array(tmp_path / "x.zarr", x)
    zarr.save_array(tmp_path / "w.zarr", w)
    words = ("--op", "p99.9", "--weights", tmp_path / "w.zarr", "--json", "--quiet")
    told = json.loads(command("reduce", tmp_path / "x.zarr", *words).stdout)
    assert told["results"]["p99_9"] == float(wanted(x, w, 0.999))


@pytest.mark.parametrize(
    ("op", "weights", "says"),
    [
        ("p99.9", -np.ones(9), "weights: -1.0 is below zero, but weights of p99.9 say how often"),
        (cf.quantile(0.5), np.full(9, np.inf), r"quantile\(0.5\) has weights that are NaN or inf"),
        (cf.quantile(0.5, method="hazen"), np.ones(9), "by method='hazen' takes no weights"),
        ("mode", np.ones(9), "'mode' takes no weights; .*histogram and quantiles do"),
    ],
)
def test_what_cannot_be_weighed_is_refused(op: Any, weights: np.ndarray, says: str):
    with pytest.raises((PlanError, cf.MonoidError), match=says):
        cf.reduce(stored(elements("f4", SHAPE)), op, weights=weights)
    with pytest.raises(cf.ChunkfoldError, match=r"quantile\(0.5\) is not defined for complex128"):
        cf.reduce(np.ones(3, complex), cf.quantile(0.5))


def test_weights_that_are_others_in_a_later_read_end_it():
    x, w, heard = (
        elements("f4", SHAPE, odd=False),
        stored(weights_of("f4", SHAPE)),
        list[RunStarted](),
    )

    def change(event: object) -> None:
        if isinstance(event, RunStarted):
            heard.append(event)
            if len(heard) == 2:
                w[...] = weights_of("f4", SHAPE) + 1

    with pytest.raises(cf.ChunkfoldError, match=r"'weighted_median'.* changed before the last one"):
        cf.reduce((stored(x), w), "weighted_median", on_event=change)
