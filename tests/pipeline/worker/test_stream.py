"""Tiles whose results a device rounds: what comes back is what reading all of it back gives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import zarr

import chunkfold as cf
from chunkfold.kernels.accumulator.sums import Rounded
from chunkfold.planning import blocks, planner, tile_finishing
from chunkfold.worker import stream

pytestmark = [
    pytest.mark.unoptimised,
    pytest.mark.filterwarnings("ignore::chunkfold.NaNWarning", "ignore::chunkfold.SkippedWarning"),
]
SHAPE = (12, 60, 36)
ARRAY = np.random.default_rng(0).normal(280, 15, SHAPE).astype("f4")
ARRAY[3, 4, 5], ARRAY[7, 1, :3] = np.nan, np.inf
OPS = ["mean", "std", "sum", "norm2"]


@pytest.fixture(autouse=True)
def _small_leaves(monkeypatch):
    monkeypatch.setattr(planner, "LEAF_BYTES", 8192)


@pytest.fixture
def rounded(monkeypatch) -> list[int]:
    """Take this host's devices for such as have their own memory; return outputs they rounded."""
    monkeypatch.setattr(tile_finishing, "_SHARING", frozenset())
    monkeypatch.setattr(tile_finishing, "LEAST_OUTPUTS", 2)
    monkeypatch.setattr(stream.LeafStream, "_shares_memory", False)
    finish, outputs = tile_finishing.TileFinishing.of_rounded, list[int]()

    def counted(
        self: tile_finishing.TileFinishing, tile: int, shape: tuple[int, ...], found: Rounded
    ) -> Any:
        outputs.append(math.prod(shape))
        return finish(self, tile, shape, found)

    monkeypatch.setattr(tile_finishing.TileFinishing, "of_rounded", counted)
    return outputs


def reduced(array: np.ndarray, ops: Sequence[str], **given: Any) -> tuple[dict[str, Any], list]:
    """Return results, and what is said of them."""
    store = zarr.create_array({}, data=array, chunks=(5, 20, 18), fill_value=1)
    run = cf.submit(store, ops, **given)
    return dict(run.labelled()), [*run.remarks()]


def same(got: tuple[dict[str, Any], list], want: tuple[dict[str, Any], list]) -> None:
    assert got[1] == want[1]
    assert list(got[0]) == list(want[0])
    for op, one in want[0].items():
        values, wanted = got[0][op].values, one.values
        assert (values.dtype, values.shape) == (wanted.dtype, wanted.shape)
        bits = f"u{wanted.itemsize}"
        np.testing.assert_array_equal(values.view(bits), wanted.view(bits), op)
        assert got[0][op].dims == one.dims


MONTHS = np.arange(12) % 5
CASES = [
    {"axis": 0},
    {"axis": (0, 2), "keepdims": True},
    {"axis": 1, "ddof": 2},
    {"axis": 0, "skipna": True},
    {"axis": 0, "where": "x > 270"},
    {"axis": 0, "sel": {}, "dtype": "float64"},
    {"axis": 0, "selection": (slice(None), slice(None, None, -1))},
    {"axis": 0, "by": MONTHS},
    {"axis": 0, "by": MONTHS, "groups": range(7)},
]


@pytest.mark.parametrize("given", CASES, ids=str)
def test_results_are_to_the_bit_those_of_the_host(request, given: dict[str, Any]):
    want = reduced(ARRAY, OPS, **given)
    outputs = request.getfixturevalue("rounded")
    same(reduced(ARRAY, OPS, **given), want)
    assert outputs


@pytest.mark.parametrize("given", [{"axis": 0}, {"axis": 0, "by": MONTHS}], ids=str)
def test_tiles_that_several_blocks_share_are_finished_by_the_host(request, monkeypatch, given):
    monkeypatch.setattr(blocks, "BLOCK_BYTES", (2048, 4096))
    monkeypatch.setattr(blocks, "BLOCK_PER_PARTIAL", 0)
    want = reduced(ARRAY, OPS, **given)
    outputs = request.getfixturevalue("rounded")
    same(reduced(ARRAY, OPS, **given), want)
    assert not outputs


def test_sums_that_expansions_lose_are_folded_again(request):
    array = ARRAY.astype("f8")
    array[:, 2, 2] = np.resize([1e300, 1.0, 1e-300, -1e300], 12)
    want = reduced(array, OPS, axis=0)
    outputs = request.getfixturevalue("rounded")
    same(reduced(array, OPS, axis=0), want)
    assert 0 < sum(outputs) < array[0].size, "results of one tile come of all that is read back"


@pytest.mark.parametrize(
    ("dtype", "given"),
    [
        ("i4", {"axis": 0}),
        ("c8", {"axis": 0}),
        ("f4", {"axis": (0, 1), "by": MONTHS, "by_axis": 0}),  # in tables that work-items share
        ("f4", {"axis": None}),
        ("f4", {"axis": 0, "mode": "fast"}),
        ("f4", {"axis": 0, "min_count": 2}),
    ],
)
def test_other_sums_are_finished_by_the_host(request, dtype: str, given: dict[str, Any]):
    array = np.nan_to_num(ARRAY, posinf=0).astype(dtype)
    want = reduced(array, ["mean"], **given)
    outputs = request.getfixturevalue("rounded")
    same(reduced(array, ["mean"], **given), want)
    assert not outputs


@pytest.mark.parametrize("bad", ["absent", "skipped"])
def test_tiles_of_which_chunks_are_missing_are_finished_by_the_host(request, tmp_path, bad: str):
    zarr.create_array(
        tmp_path / "a", data=ARRAY, chunks=(5, 20, 18), fill_value=1, compressors=None
    )
    chunk = tmp_path / "a" / "c" / "1" / "0" / "1"
    chunk.unlink() if bad == "absent" else chunk.write_bytes(b"short")
    options = {"axis": 0, "on_bad_chunk": "skip"} if bad == "skipped" else {"axis": 0}
    want = cf.reduce(tmp_path / "a", "std", **options)
    outputs = request.getfixturevalue("rounded")
    got = cf.reduce(tmp_path / "a", "std", **options)
    np.testing.assert_array_equal(got.view("u4"), want.view("u4"))
    assert sum(outputs) == (0 if bad == "skipped" else ARRAY[0].size - 20 * 18)


def test_several_questions_are_answered_as_each_alone(rounded: list[int]):
    store = zarr.create_array({}, data=ARRAY, chunks=(5, 20, 18))
    got = cf.reduce(store, {"map": cf.ask("mean", axis=0), "row": cf.ask("std", axis=(0, 1))})
    assert not rounded
    np.testing.assert_array_equal(got["map"], cf.reduce(store, "mean", axis=0))
    np.testing.assert_array_equal(got["row"], cf.reduce(store, "std", axis=(0, 1)))
    assert sum(rounded) == ARRAY[0].size + ARRAY[0, 0].size


def test_a_device_that_rounds_wrong_reads_all_back(request, monkeypatch):
    want = reduced(ARRAY, OPS, axis=0)
    outputs = request.getfixturevalue("rounded")
    monkeypatch.setattr(stream, "rounds_right", lambda *_: False)
    same(reduced(ARRAY, OPS, axis=0), want)
    assert not outputs
