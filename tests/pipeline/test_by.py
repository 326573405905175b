"""Groups by labels: each group's results are what NumPy says of its elements alone."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr

import chunkfold as cf
from chunkfold.cluster.joining import connect
from chunkfold.errors import MonoidError, PlanError, SourceError
from chunkfold.kernels import CATALOGUE
from chunkfold.planning import blocks, folding, group_keys, planner
from chunkfold.reading import tile_leaves
from chunkfold.running import backend, sending
from chunkfold.sources import labels
from chunkfold.worker import fold_block, per_thread
from chunkfold.worker.fold_block import Folded
from tests.conftest import DEVICES, workers_of

pytestmark = pytest.mark.unoptimised
SHAPE = (23, 8, 9)
OPS = ["sum", "mean", "std", "norm2", "count", "min", "max", "any", "argmax"]


@pytest.fixture(autouse=True)
def _small_leaves(monkeypatch):
    """Several chunks to a leaf, several leaves to a block, several blocks; little is kept.

    Each block leaves those groups that it meets.
    """
    monkeypatch.setattr(folding, "LARGE_PARTIAL_BYTES", 0)
    monkeypatch.setattr(planner, "LEAF_BYTES", 2048)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", (4096, 8192))
    monkeypatch.setattr(tile_leaves, "READ_BYTES", 100)
    monkeypatch.setattr(group_keys, "DEVICE_KEYS_BYTES", 300)  # of keys on the device a few boxes


def hard(dtype: str, shape: Sequence[int] = SHAPE, seed: int = 0) -> np.ndarray:
    """Floats over many powers of two, or integers."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "f":
        return (values * 2.0 ** rng.uniform(-12, 12, shape)).astype(dtype)
    return np.round(values * 50).astype(dtype)


def stored(array: np.ndarray, chunks: Sequence[int] = (5, 3, 4), **given: Any) -> zarr.Array:
    return zarr.create_array(store={}, data=array, chunks=tuple(chunks), **given)


def grouped(
    op: str | Any,
    array: np.ndarray,
    given: Any,
    along: Sequence[int],
    axis: int | tuple[int, ...] | None,
    groups: Sequence[Any] | None = None,
) -> np.ndarray:
    """What a reduction gives of the elements of each group alone, groups in their place."""
    codes = np.asarray(given)
    shape = [n if axis in along else 1 for axis, n in enumerate(array.shape)]
    everywhere = np.broadcast_to(codes.reshape(shape), array.shape)
    axes = range(array.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    kept = [n for n in range(array.ndim) if n not in axes]
    order = (*kept, *axes)
    outputs = [array.shape[n] for n in kept]
    rows = array.transpose(order).reshape(int(np.prod(outputs)), -1)
    keys = everywhere.transpose(order).reshape(rows.shape)[0]  # labels are along what is reduced
    monoid = CATALOGUE[op] if isinstance(op, str) else op
    done = []
    for group in np.unique(codes[codes >= 0]) if groups is None else groups:
        own = np.flatnonzero(keys == group)
        each = monoid.evaluate(rows[:, own], axis=1)
        each = own[each] if op == "argmax" else each  # the place among all that is reduced
        done.append(each.reshape((*outputs, *each.shape[1:])))
    return np.moveaxis(np.array(done), 0, sum(n < along[0] for n in kept))


def same(got: np.ndarray, want: np.ndarray, what: object = "") -> None:
    """Every bit, NaN for NaN."""
    assert got.shape == want.shape, what
    assert got.dtype == want.dtype, what
    np.testing.assert_array_equal(got, want, str(what))


MONTHS = np.arange(23) * 7 % 5
ZONES = np.random.default_rng(4).integers(-2, 6, (8, 9))
WAYS: list[tuple[Any, tuple[int, ...], Any]] = [
    (MONTHS, (0,), 0),
    (MONTHS, (0,), None),
    (MONTHS, (0,), (0, 2)),
    (ZONES, (1, 2), (1, 2)),
    (ZONES, (1, 2), None),
    (np.arange(8) // 3, (1,), (0, 1)),
    (np.random.default_rng(5).integers(-1, 9, SHAPE), (0, 1, 2), None),
]


@pytest.mark.parametrize(
    ("dtype", "by", "along", "axis"),
    [("float32", *way) for way in WAYS] + [(dtype, *WAYS[2]) for dtype in ("float64", "int16")],
)
def test_groups_are_what_each_is_alone(dtype: str, by: np.ndarray, along, axis):
    """Whatever axes labels have, and chunks that cut groups: several ops, in one read."""
    array = hard(dtype)
    run = cf.submit(stored(array), OPS, axis=axis, by=by, by_axis=along)
    got = run.result()
    for op in OPS:
        same(got[op], grouped(op, array, by, along, axis), op)
    assert run.groups.tolist() == np.unique(by[by >= 0]).tolist()


def test_chunks_do_not_change_a_bit():
    array = hard("float32") * np.where(np.arange(9) % 2, 1e12, 1e-12).astype("f4")
    wanted = {op: grouped(op, array, MONTHS, (0,), (0, 1)) for op in ("sum", "std")}
    for chunks in [(1, 8, 9), (23, 1, 2), (4, 3, 5), (23, 8, 9)]:
        got = cf.reduce(stored(array, chunks), ["sum", "std"], axis=(0, 1), by=MONTHS, by_axis=0)
        for op, want in wanted.items():
            assert np.asarray(got[op]).tobytes() == want.tobytes(), (chunks, op)


@pytest.mark.parametrize("outputs", [3, 300])
def test_sums_that_expansions_lose_are_folded_again(outputs: int):
    """With few outputs, which have tables, and with many, which have not."""
    rng = np.random.default_rng(1)
    array = rng.standard_normal((40, outputs)) * 2.0 ** rng.integers(-900, 900, (40, outputs))
    array[:, 1] = np.repeat([1e300, 1.0, 1e-300, -1e300], 10)
    by = np.arange(40) % 3
    got = cf.reduce(stored(array, (7, outputs)), ["sum", "mean"], axis=0, by=by)
    for op in got:
        same(got[op], grouped(op, array, by, (0,), 0), op)


def test_blocks_leave_groups_that_they_meet(monkeypatch: pytest.MonkeyPatch):
    array, by = hard("float32", (40, 8, 9)), np.arange(40) // 4
    by[17:19] = -1
    left: list[Any] = []

    def fold(*given: Any) -> Folded:
        left.append(fold_block.fold_block(*given))
        return left[-1]

    monkeypatch.setattr(backend, "fold_block", fold)
    monkeypatch.setattr(blocks, "BLOCK_PER_PARTIAL", 0)
    got = cf.reduce(stored(array), ["mean", "norm2"], axis=0, by=by, groups=range(12))
    for op in ("mean", "norm2"):
        want = grouped(op, array, by, (0,), 0, range(12))
        np.testing.assert_array_equal(got[op].values, want)
    assert len(left) > 3
    met = [folded.groups for folded in left]
    assert all(0 < len(groups) < 6 for groups in met)
    assert {*np.concatenate(met).tolist()} == set(range(10))
    lazy = cf.reduce(stored(array), "mean", axis=0, by=by, groups=range(12), compute=False)
    np.testing.assert_array_equal(lazy.compute(), got["mean"].values)


def test_several_workers_make_one_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Also where labels are too many to travel with each task."""
    array = hard("float32", (60, 16, 16))
    zarr.create_array(tmp_path / "a.zarr", data=array, chunks=(4, 8, 8))
    months, zones = np.arange(60) % 12, np.arange(256).reshape(16, 16) // 7
    with (
        cf.LocalOpenCLCluster(workers_of(DEVICES[0], 2), dashboard_address=None) as made,
        connect(made.scheduler_address) as client,
    ):
        for most in (sending.INLINE_BYTES, 8):
            monkeypatch.setattr(sending, "INLINE_BYTES", most)
            run = cf.submit(tmp_path / "a.zarr", "sum", axis=0, by=months, client=client)
            same(run.result(), grouped("sum", array, months, (0,), 0))
            assert len(run.plan.blocks) > 2
            got = cf.reduce(tmp_path / "a.zarr", "sum", by=zones, client=client)
            same(got, grouped("sum", array, zones, (1, 2), None))


@pytest.mark.parametrize("most", [1 << 20, 500])
def test_chunks_of_files_that_are_decoded_in_turn_keep_their_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
):
    """Several to a leaf; also where threads that read would fold, without labels."""
    monkeypatch.setattr(per_thread, "FOLD_BYTES", most)
    array = hard("float32")
    made = zarr.create_array(tmp_path / "a.zarr", data=array, chunks=(2, 3, 4))
    for by, along in ((ZONES, (1, 2)), (MONTHS, (0,))):
        got = cf.reduce(made, "sum", by=by, by_axis=along)
        same(got, grouped("sum", array, by, along, None))


LABELS: list[tuple[Any, list[Any]]] = [
    ([3, -1, 3, 10**12, -7, 0], [0, 3, 10**12]),
    (np.array([2, 1, 2, 0, 1, 2], "u1"), [0, 1, 2]),
    (["b", "a", "b", "c", "a", "b"], ["a", "b", "c"]),
    (np.array(["b", None, "b", np.nan, "a", "b"], object), ["a", "b"]),
    ([True, False, True, True, False, False], [False, True]),
    ([2.0, np.nan, 2.0, 5.0, -1.0, 2.0], [2, 5]),
    (np.ma.MaskedArray([1, 1, 2, 2, 3, 3], [0, 1, 0, 0, 1, 1]), [1, 2]),
    (
        np.array(["2001-01", "NaT", "2000-01", "2001-01", "2000-01", "NaT"], "M8[M]"),
        [np.datetime64("2000-01"), np.datetime64("2001-01")],
    ),
]


@pytest.mark.parametrize(("by", "groups"), LABELS)
def test_labels_of_any_kind_are_groups_and_missing_ones_are_none(by: Any, groups: list[Any]):
    array = np.arange(6.0) + 1
    run = cf.submit(stored(array, (4,)), "sum", by=by)
    plain = by.filled(-1) if isinstance(by, np.ma.MaskedArray) else by
    want = [sum(x for x, label in zip(array, plain, strict=True) if label == g) for g in groups]
    assert run.result().tolist() == want
    assert list(run.groups) == groups


def test_groups_that_are_named_stand_in_their_order():
    """Those that do not occur have the result of nothing; other labels are in no group."""
    array = hard("float32", (6, 4))
    by = np.array([-1, 2, 7, 2, -1, 9])
    groups = [9, 5, -1, 2]
    run = cf.submit(
        stored(array, (4, 3)), ["sum", "mean", "min", "count"], axis=0, by=by, groups=groups
    )
    got = run.result()
    assert run.groups.tolist() == groups
    for place, group in enumerate(groups):
        own = array[by == group]
        assert (got["count"][place] == len(own)).all()
        if len(own):
            same(got["sum"][place], CATALOGUE["sum"].evaluate(own, axis=0))
            same(got["min"][place], own.min(axis=0))
        else:
            assert (got["sum"][place] == 0).all()
            assert np.isnan(got["mean"][place]).all()
            assert np.isnan(got["min"][place]).all()


def test_integers_of_a_group_without_elements_have_no_minimum():
    source = stored(np.arange(6), (4,))
    assert cf.reduce(source, "sum", by=[0] * 6, groups=[1, 0]).tolist() == [0, 15]
    assert cf.reduce(source, "argmin", by=[0] * 6, groups=[1, 0]).tolist() == [-1, 0]
    with pytest.raises(MonoidError, match=r"'min' of int64 has no value where a group has no elem"):
        cf.reduce(source, "min", by=[0] * 6, groups=[1, 0])


def test_there_may_be_more_groups_than_elements():
    array = hard("float64", (50,))
    groups = list(range(1000))
    by = np.random.default_rng(2).permutation(1000)[:50]
    got = cf.reduce(stored(array, (7,)), "sum", by=by, groups=groups)
    want = np.zeros(1000)
    want[by] = array
    same(got, want)


def test_what_skipna_where_and_dtype_leave_is_grouped():
    array = hard("float32")
    array[np.random.default_rng(3).random(SHAPE) < 0.3] = np.nan
    source = stored(array)
    got = cf.reduce(source, ["mean", "max", "count"], axis=0, by=MONTHS, by_axis=0, skipna=True)
    for op in got:
        same(got[op], grouped(CATALOGUE[op].skipping(), array, MONTHS, (0,), 0), op)
    given = {"where": "x > 0.5", "by": ZONES, "axis": (1, 2)}
    got = cf.reduce(source, ["sum", "count"], **given)
    for op in got:
        same(got[op], grouped(CATALOGUE[op].among(lambda x: x > 0.5), array, ZONES, (1, 2), (1, 2)))
    got = cf.reduce(stored(hard("int16")), "sum", axis=0, by=MONTHS, by_axis=0, dtype="float64")
    same(got, grouped("sum", hard("int16").astype("f8"), MONTHS, (0,), 0))
    big = np.full((4, 2), 2**62)
    whole = cf.reduce(stored(big, (3, 2)), "sum", by=[0, 1, 0, 0], by_axis=0, dtype=object)
    assert whole.tolist() == [6 * 2**62, 2 * 2**62]


def test_fast_mode_and_two_inputs_are_grouped():
    one, two = hard("float32", seed=1), hard("float32", seed=2)
    got = cf.reduce([stored(one), stored(two, (4, 8, 5))], "dot", axis=0, by=MONTHS, mode="fast")
    products = one.astype("f8") * two
    want = [products[group == MONTHS].sum(axis=0) for group in range(5)]
    np.testing.assert_allclose(got, want, rtol=1e-6)
    bins = cf.reduce(stored(one), cf.histogram(edges=[-9, 0, 9]), by=MONTHS, by_axis=0)
    for group in range(5):
        want, _ = np.histogram(one[group == MONTHS], [-9, 0, 9])
        assert bins[group]["count"].tolist() == want.tolist()


@pytest.mark.parametrize("fill", [1.5, np.nan])
@pytest.mark.parametrize("ops", [OPS, [op for op in OPS if op != "argmax"]])
@pytest.mark.parametrize(("by", "along", "axis"), WAYS[::2])
def test_chunks_that_are_not_stored_have_their_labels(
    tmp_path: Path, fill: float, ops: list[str], by: np.ndarray, along, axis
):
    """Folded one by one where an op reads positions, else as often as each group has them."""
    made = zarr.create_array(
        tmp_path / "a.zarr", shape=SHAPE, chunks=(5, 8, 9), dtype="f4", fill_value=fill
    )
    array = np.full(SHAPE, fill, "f4")
    array[5:10] = made[5:10] = hard("float32")[5:10]
    run = cf.submit(made, ops, axis=axis, by=by, by_axis=along)
    got = run.result()
    assert run.plan.scan.unstored
    for op in ops:
        same(got[op], grouped(op, array, by, along, axis), op)
    got = cf.reduce(made, "mean", axis=axis, by=by, by_axis=along, skipna=True)
    same(got, grouped(CATALOGUE["mean"].skipping(), array, by, along, axis))


def test_cells_of_a_leaf_that_are_not_stored_have_their_labels(tmp_path: Path, monkeypatch):
    """Of a leaf of which little is stored only that is read."""
    monkeypatch.setattr(planner, "LEAF_BYTES", 1 << 16)
    monkeypatch.setattr(tile_leaves, "READ_BYTES", 1)
    made = zarr.create_array(
        tmp_path / "a.zarr", shape=(40, 6), chunks=(2, 6), dtype="f4", fill_value=3
    )
    array = np.full((40, 6), 3, "f4")
    array[6:8] = made[6:8] = hard("float32", (2, 6))
    by = np.random.default_rng(7).integers(-1, 4, (40, 6))
    run = cf.submit(made, ["sum", "count", "var"], by=by)
    got = run.result()
    assert sum(entry.nbytes for entry in run.profile.values()) == array[6:8].nbytes
    for op in got:
        same(got[op], grouped(op, array, by, (0, 1), None), op)


def test_chunks_that_cannot_be_read_leave_their_labels_out(tmp_path: Path):
    array = hard("float32", (12, 6))
    made = zarr.create_array(tmp_path / "a.zarr", data=array, chunks=(3, 3))
    bad = tmp_path / "a.zarr" / made.metadata.encode_chunk_key((1, 1))
    bad.write_bytes(bad.read_bytes()[:-3])
    by = np.where(np.arange(12) < 6, np.arange(12) % 2, np.arange(12) % 3)
    there = np.ones(array.shape, bool)
    there[3:6, 3:6] = False
    run = cf.submit(made, ["sum", "count"], axis=0, by=by, on_bad_chunk="skip")
    got = run.result()
    assert sum(run.skipped.values()) == 9
    for group in range(3):
        for column in range(6):
            own = array[(by == group) & there[:, column], column]
            assert got["count"][group, column] == len(own)
            assert got["sum"][group, column] == CATALOGUE["sum"].evaluate(own)


def test_packed_values_are_grouped_and_packed_labels_unpacked(tmp_path: Path):
    packed = np.random.default_rng(1).integers(-99, 100, (12, 5)).astype("i2")
    attributes = {"scale_factor": 0.5, "add_offset": 3.0, "_FillValue": 7}
    made = stored(packed, (5, 5), attributes=attributes)
    zones = np.random.default_rng(2).integers(0, 4, (12, 5)).astype("u1")
    zones[3] = 255
    zarr.create_array(
        tmp_path / "zones.zarr", data=zones, chunks=(4, 4), attributes={"_FillValue": 255}
    )
    values = np.where(packed == 7, np.nan, packed * 0.5 + 3)
    got = cf.reduce(made, "mean", by=tmp_path / "zones.zarr", mask_and_scale=True, skipna=True)
    same(got, grouped(CATALOGUE["mean"].skipping(), values, zones, (0, 1), None, range(4)))
    run = cf.submit(stored(packed, (5, 5)), "sum", by=zarr.open_array(tmp_path / "zones.zarr"))
    assert run.groups.tolist() == [0, 1, 2, 3, 255]
    same(run.result(), grouped("sum", packed, zones, (0, 1), None))


SELECTIONS: list[tuple[Any, Any, Any]] = [
    ((slice(2, 20, 3), ...), (slice(2, 20, 3), slice(None), slice(None)), 0),
    ((slice(4, 17), 3), (slice(4, 17), slice(3, 4), slice(None)), 0),
    ((11, ...), (slice(11, 12), slice(None), slice(None)), ()),
]


@pytest.mark.parametrize(("selection", "cut", "axis"), SELECTIONS)
def test_a_selection_cuts_labels_too(selection: Any, cut: Any, axis: Any):
    array = hard("float32")
    got = cf.reduce(stored(array), "sum", axis=axis, by=MONTHS, selection=selection)
    want = grouped("sum", array[cut], MONTHS[cut[0]], (0,), 0)
    same(got, want.reshape(got.shape))
    assert len(got) == len(np.unique(MONTHS[cut[0]]))


def test_of_an_empty_selection_groups_that_are_named_have_the_results_of_nothing():
    given = {"axis": 0, "by": MONTHS, "by_axis": 0, "selection": slice(0, 0),
             "allow_empty": True}  # fmt: skip
    got = cf.reduce(stored(hard("float32")), ["sum", "min"], groups=[0, 4], **given)
    assert got["sum"].shape == (2, 8, 9)
    assert not np.any(got["sum"])
    assert np.isnan(got["min"]).all()
    with pytest.raises(PlanError, match="found no group"):
        cf.submit(stored(hard("float32")), **given)


def test_groups_stand_where_the_first_labelled_axis_stood():
    source = stored(hard("float32"))
    zones = np.arange(8) % 3
    assert cf.reduce(source, axis=1, by=zones, by_axis=1).shape == (23, 3, 9)
    assert cf.reduce(source, axis=(0, 1), by=zones, by_axis=1).shape == (3, 9)
    assert cf.reduce(source, axis=(0, 1), by=zones, by_axis=1, keepdims=True).shape == (1, 3, 9)
    assert cf.reduce(source, axis=(1, 2), by=ZONES, keepdims=True).shape == (23, 6, 1)
    assert cf.reduce(source, "minmax", axis=1, by=zones, by_axis=1).shape == (23, 3, 9, 2)


def test_axes_are_found_by_name_or_by_their_extents():
    array = hard("float32", (6, 4, 6))
    source = stored(array, (4, 4, 4), dimension_names=("time", "y", "x"))
    six = np.arange(6) % 2
    by_name = {n: cf.reduce(source, by=xr.DataArray(six, dims=[n])) for n in ("time", "x")}
    same(by_name["time"], grouped("sum", array, six, (0,), None))
    same(by_name["x"], grouped("sum", array, six, (2,), None))
    same(cf.reduce(source, by=six, by_axis="time"), by_name["time"])
    same(cf.reduce(source, by=six), by_name["x"])  # the last axes, as NumPy broadcasts
    same(cf.reduce(source, axis="time", by=six), grouped("sum", array, six, (0,), 0))
    zones = np.arange(24).reshape(6, 4) % 5
    want = grouped("sum", array, zones.T, (1, 2), None)
    same(cf.reduce(source, by=xr.DataArray(zones, dims=["x", "y"])), want)
    same(cf.reduce(source, by=zones, by_axis=("x", "y")), want)
    named = zarr.create_array(store={}, data=zones, chunks=(3, 3), dimension_names=("x", "y"))
    same(cf.reduce(source, by=named), want)


def test_the_plan_says_how_many_groups_and_counts_their_memory():
    source = stored(hard("float32", (40, 30, 30)), (10, 10, 10))
    few, many = (cf.plan(source, "mean", axis=0, by=np.arange(40) % n, by_axis=0) for n in (2, 40))
    assert "groups    40, from 0 to 39, by labels along axis 0: 36,000 accumulators" in str(many)
    assert many.memory.accumulators > 10 * few.memory.accumulators
    with pytest.raises(PlanError, match="make fewer groups, and keep fewer outputs"):
        cf.plan(source, "mean", axis=0, by=np.arange(40), by_axis=0, memory=many.memory.total // 4)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"by": np.zeros(7, int)}, r"labels have shape \(7,\), and .* has \(6, 4\): none of its axes"),
    ({"by": np.zeros(7, int), "by_axis": 0}, r"shape \(7,\), but axis 'time' of .* has \(6,\)"),
    ({"by": np.zeros(6, int), "by_axis": 2}, "axis 2 is out of range"),
    ({"by": np.zeros(6, int), "by_axis": "tmie"}, "did you mean 'time'"),
    ({"by": np.zeros(6, int), "axis": "y"}, "axis 'time' is not reduced: .* name it in axis="),
    ({"by": np.full(6, 1.5)}, "whole numbers, but 1.5 is among them"),
    ({"by": np.full(6, np.inf)}, "whole numbers, but inf"),
    ({"by": np.full(6, 1j)}, "labels cannot be complex128"),
    ({"by": np.array(["a", 1, 2, 3, 4, ("x",)], object)}, "labels are of several types"),
    ({"by": np.full(6, -1)}, "found no group"),
    ({"by": 3}, "labels must have at least one axis"),
    ({"by": [[1, 2], [3]]}, "NumPy makes no array"),
    ({"by": np.zeros(6, int), "groups": [1, 1]}, "groups has 1 more than once"),
    ({"by": np.zeros(6, int), "groups": []}, r"groups is \[\]"),
    ({"by": np.zeros(6, int), "groups": ["a"]}, "groups are texts, but the labels .* integers"),
    ({"by": np.zeros(6, int), "groups": [np.nan, 1]}, "a missing label is not a group"),
    ({"by_axis": 0}, "no labels are given"),
    ({"groups": [1]}, "no labels are given"),
]


@pytest.mark.parametrize(("given", "says"), REFUSED)
def test_what_is_wrong_is_told_in_a_sentence(given: dict[str, Any], says: str):
    source = stored(np.zeros((6, 4)), (3, 4), dimension_names=("time", "y"))
    with pytest.raises(PlanError, match=says):
        cf.submit(source, "sum", **given)


def test_labels_beyond_what_workers_hold_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(labels, "MOST_BYTES", 100)
    source = stored(np.zeros((60, 4)), (30, 4))
    kept = zarr.create_array(store={}, shape=(60,), chunks=(30,), dtype="i1")
    for by in (np.zeros(60, np.int8), kept):
        with pytest.raises(PlanError, match="labels of 240 B are more than the 100 B"):
            cf.submit(source, "sum", by=by)


def test_labels_may_be_in_a_file_of_numpys(tmp_path: Path):
    array = hard("float32")
    np.save(tmp_path / "month.npy", MONTHS)
    got = cf.reduce(stored(array), axis=0, by=tmp_path / "month.npy")
    same(got, grouped("sum", array, MONTHS, (0,), 0))
    np.save(tmp_path / "objects.npy", np.array([{}] * 23, object), allow_pickle=True)
    (tmp_path / "empty.npy").write_bytes(b"")
    for name in ("objects", "empty", "missing"):
        with pytest.raises(SourceError, match=f"{name}.npy: is not a .npy file"):
            cf.submit(stored(array), axis=0, by=str(tmp_path / f"{name}.npy"))


def test_remarks_tell_of_nan_in_elements_and_not_of_groups_without_any():
    array = np.arange(8.0)
    empty = cf.submit(stored(array, (3,)), "mean", by=[0] * 8, groups=[0, 1])
    assert np.isnan(empty.result()[1])
    assert not [told for told in empty.remarks() if "NaN" in told]
    array[3] = np.nan
    odd = cf.submit(stored(array, (3,)), "mean", by=np.arange(8) % 2)
    assert np.isnan(odd.result()[1])
    assert [told for told in odd.remarks() if "mean is NaN" in told]


def test_sums_that_expansions_lose_are_folded_again_where_nothing_is_kept():
    values = np.array([1e-200, 1e200, 3.0, 1e-170])
    array = zarr.create_array(store={}, data=values, chunks=(2,))
    got = cf.reduce([array, array], "dot", by=[0, 1, 0, 1])
    assert got.tolist() == [9.0, np.inf]


@pytest.mark.parametrize(
    ("labels", "groups", "sums"),
    [
        (np.array([2**53 + 1, 2**63, 2**53 + 1, 2**63], "u8"), [2**53, 2**53 + 1], [0, 4]),
        (np.array([2**53 + 1, 2**63, 5, 2**63], "u8"), [2**63, 5], [6, 3]),
        (np.array([-1, 3, 3, 2**40]), np.array([3, 2**63], "u8"), [5, 0]),
        (np.array(["a", "bb", "a", "bb"], np.dtypes.StringDType()), None, [4, 6]),
        (np.array([dt.date(2001, 1, 1), dt.date(1999, 1, 1)] * 2, object), None, [6, 4]),
    ],
)
def test_labels_are_told_apart_in_their_own_dtype(labels: np.ndarray, groups: object, sums: list):
    array = zarr.create_array(store={}, data=np.arange(4.0) + 1, chunks=(2,))
    assert cf.reduce(array, "sum", by=labels, groups=groups).tolist() == sums


def test_texts_in_a_zarr_are_labels(tmp_path: Path):
    texts = np.array(["a", "bb"] * 2, object)
    xr.Dataset({"q": ("time", texts), "t": ("time", np.arange(4.0))}).to_zarr(tmp_path / "v.zarr")
    got = cf.reduce(str(tmp_path / "v.zarr/t"), "sum", by=str(tmp_path / "v.zarr/q"))
    assert got.tolist() == [2, 4]


@pytest.mark.parametrize(
    ("terms", "said"),
    [
        ({"by": np.array([b"\xe9", b"b"] * 2)}, "not ASCII"),
        ({"by": [0, 1, 0, 1], "by_axis": ()}, "give the axes"),
        ({"by": [0, 1, 0, 1], "groups": [[0, 1], [2]]}, "give a list of labels"),
        ({"by": np.array([2**62, 2**62 + 1] * 2, np.longdouble)}, "whole numbers"),
        ({"by": xr.Dataset({"z": ("x", [1, 2, 3, 4])})}, "name one of its arrays"),
        ({"by": "https://host/labels.npy"}, "from local disks only"),
    ],
)
def test_labels_that_are_none_end_in_one_sentence(terms: dict, said: str):
    array = zarr.create_array(store={}, data=np.arange(4.0), chunks=(2,))
    with pytest.raises(cf.ChunkfoldError, match=said):
        cf.reduce(array, "sum", **terms)


def test_axes_of_labels_are_named_all_or_not_at_all():
    array = zarr.create_array(
        store={}, data=np.arange(16.0).reshape(4, 4), chunks=(2, 2), dimension_names=("time", "x")
    )
    labels = xr.DataArray(np.zeros((4, 4), int), dims=("x", "t"))
    with pytest.raises(cf.PlanError, match="has only x: say with by_axis="):
        cf.reduce(array, "sum", by=labels)
