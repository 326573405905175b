"""Windows: each result is what NumPy says of a window's elements, and where it is, xarray."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkfold as cf
from chunkfold.errors import PlanError
from chunkfold.kernels import as_monoid
from chunkfold.kernels.catalogue import radix
from chunkfold.planning import blocks, planner
from chunkfold.reading import tile_leaves
from chunkfold.worker import per_thread
from chunkfold.workflows.job.schema import Job
from chunkfold.workflows.transforms.project import project
from tests.pipeline.test_by import SHAPE, hard, stored
from tests.pipeline.test_skipping import damaged, removed

pytestmark = pytest.mark.unoptimised
OPS = ["sum", "mean", "std", "count", "min", "max", "any", "argmax"]
DIMS = ("t", "y", "x")


@pytest.fixture(autouse=True)
def _small_leaves(monkeypatch):
    """Several chunks to a leaf, several leaves to a block, several blocks."""
    monkeypatch.setattr(planner, "LEAF_BYTES", 1024)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", (2048, 4096))
    monkeypatch.setattr(tile_leaves, "READ_BYTES", 100)


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
        cuts(size, windows[n], boundary) if n in windows else [slice(0, size)]
        for n, size in enumerate(shape)
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
        own = monoid.evaluate(*rows, axis=tuple(reduced))
        done[number] = np.expand_dims(own, tuple(axis))
    return np.block(done.tolist()).squeeze(tuple(axis))


def same(got: Any, want: np.ndarray, what: object = "") -> None:
    assert np.shape(got) == want.shape, what
    np.testing.assert_array_equal(got, want, str(what))


EACH = {0: st.integers(1, 25), 1: st.integers(1, 9), 2: st.integers(1, 10)}
WINDOWS = st.fixed_dictionaries({}, optional=EACH).filter(bool)
CHUNKS = st.tuples(*(st.integers(1, size) for size in SHAPE))
BOUNDARY = st.sampled_from(["trim", "pad"])


@given(
    windows=WINDOWS,
    chunks=CHUNKS,
    boundary=BOUNDARY,
    dtype=st.sampled_from(["float32", "int16"]),
    data=st.data(),
)
@settings(max_examples=8)
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


def reduced(array: Any, op: Any = "mean", **given: Any) -> Any:
    """Reduce windows of axes of 23 and 9 elements: both have some left."""
    return cf.reduce(array, op, **{"coarsen": {0: 4, 2: 2}, "boundary": "pad", **given})


def test_positions_are_those_in_a_window_also_where_it_is_shorter():
    array = hard("float32")
    got = reduced(stored(array), "argmax")
    for t, y, x in np.ndindex(got.shape):
        own = array[4 * t : 4 * t + 4, y, 2 * x : 2 * x + 2]
        at = np.unravel_index(got[t, y, x], (4, 2))
        assert own[at] == own.max()


def test_windows_are_exact_where_expansions_lose_sums():
    rng = np.random.default_rng(1)
    array = rng.standard_normal((40, 30)) * 2.0 ** rng.integers(-900, 900, (40, 30))
    array[3] = np.repeat([1e300, 1.0, -1e300], 10)
    for windows in ({0: 8}, {1: 30}, {0: 40, 1: 7}):
        got = cf.reduce(stored(array, (7, 9)), ["sum", "mean"], coarsen=windows, boundary="pad")
        for op in got:
            same(got[op], windowed(op, array, windows, "pad"), (op, windows))


@pytest.mark.parametrize("windows", [{0: 4, 1: 3}, {0: 1}, {1: 9}, {0: 7, 1: 2}])
@pytest.mark.parametrize("selection", [None, (slice(1, None, 2), slice(2, 10))])
def test_what_is_not_stored_is_fill_and_what_is_bad_is_left_out(tmp_path: Path, windows, selection):
    rng = np.random.default_rng(len(windows) + windows.get(0, 0))
    array = rng.standard_normal((17, 11))
    rest = damaged(tmp_path / "a", array, rng.random((6, 4)) < 0.3, chunks=(3, 3))
    removed(tmp_path / "a", rest, rng.random((6, 4)) < 0.4)
    rest = rest if selection is None else rest[selection]
    given: dict[str, Any] = {"coarsen": windows, "boundary": "pad", "selection": selection}
    run = cf.submit(tmp_path / "a", ["sum", "count"], on_bad_chunk="skip", **given)
    got = run.result()
    assert sum(run.skipped.values()) == rest.mask.sum()
    there = np.where(rest.mask, 0, rest.data), (~rest.mask).astype("i8")
    for op, array in zip(("sum", "count"), there, strict=True):
        same(got[op], windowed("sum", array, windows, "pad"), op)


def test_fill_is_the_window_where_nothing_is_stored_also_for_positions(tmp_path: Path):
    path = str(tmp_path / "a")
    made = zarr.create_array(path, shape=(12, 12), chunks=(3, 4), dtype="f4", fill_value=2)
    array = np.full((12, 12), 2, "f4")
    array[3:6, 4:8] = made[3:6, 4:8] = hard("float32", (3, 4))
    for windows in ({0: 3}, {0: 5, 1: 6}, {1: 12}):
        got = cf.reduce(tmp_path / "a", OPS, coarsen=windows, boundary="trim")
        for op in OPS:
            same(got[op], windowed(op, array, windows), (op, windows))


@pytest.mark.parametrize("windows", [{0: 4, 2: 2}, {0: 23}, {2: 3, 1: 8}])
def test_masks_weights_and_conditions_go_with_windows(windows):
    array, rng = hard("float32"), np.random.default_rng(3)
    mask, weights = rng.random((8, 9)) < 0.6, rng.random(9)
    given: dict[str, Any] = {"coarsen": windows, "boundary": "pad"}
    got = cf.reduce(
        stored(array), ["mean", "sum"], where=(mask, "x > -1"), weights=weights, **given
    )
    kept = np.broadcast_to(mask, SHAPE) & (array > -1)
    wide = np.broadcast_to(weights, SHAPE)
    counted = np.where(kept, array, np.float32(0)), np.where(kept, wide, 0.0)
    same(got["sum"], windowed("weighted_sum", counted, windows, "pad"))
    same(got["mean"], windowed("weighted_mean", counted, windows, "pad"))


def test_two_inputs_cut_unlike_and_dtypes_go_with_windows():
    one, two = hard("float32"), hard("float32", seed=1)
    pair = [stored(one), stored(two, (2, 8, 9))]
    same(reduced(pair, "dot"), windowed("dot", [one, two], {0: 4, 2: 2}, "pad"))
    wide = windowed("sum", one.astype("f8"), {0: 4, 2: 2}, "pad")
    same(reduced(stored(one), "sum", dtype="f8"), wide)


def test_values_that_numbers_stand_for_are_reduced_and_nan_is_absent():
    packed = np.random.default_rng(0).integers(-5, 100, SHAPE).astype("i2")
    attributes = {"scale_factor": 0.5, "add_offset": 3.0, "_FillValue": -5}
    made = stored(packed, attributes=attributes)
    got = reduced(made, ["mean", "max"], mask_and_scale=True, skipna=True)
    values = np.where(packed == -5, np.nan, packed * 0.5 + 3.0)
    for op in got:
        same(got[op], windowed(f"nan{op}", values, {0: 4, 2: 2}, "pad"), op)


def test_a_window_larger_than_a_leaf_is_folded_by_all_threads(monkeypatch):
    """Where one output is folded from much, on the threads that read."""
    monkeypatch.setattr(planner, "LEAF_BYTES", 1 << 15)
    monkeypatch.setattr(per_thread, "PIECE_BYTES", 1 << 10)
    monkeypatch.setattr(per_thread, "FOLD_BYTES", 1 << 12)
    array = hard("float32", (90_000,))
    for compressors in ("auto", None):
        made = stored(array, (1_000,), compressors=compressors)
        same(cf.reduce(made, "sum", coarsen={0: 40_000}, boundary="pad"),
             windowed("sum", array, {0: 40_000}, "pad"))  # fmt: skip


def dataset() -> xr.Dataset:
    rng = np.random.default_rng(0)
    days = np.arange("2020-01-01", "2020-01-24", dtype="M8[D]").astype("M8[ns]")
    coords = {
        "t": ("t", days), "y": ("y", np.linspace(-10, 10, 8)), "x": np.arange(9),
        "name": ("y", list("abcdefgh")), "area": (("y", "x"), rng.random((8, 9))), "level": 3,
    }  # fmt: skip
    data = {"air": (DIMS, hard("float32"), {"units": "K"}), "height": ("y", np.arange(8.0))}
    return xr.Dataset({**data, "one": 1.0}, coords)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    dataset().to_zarr(tmp_path / "a", zarr_format=3, encoding={"air": {"chunks": (5, 3, 4)}})
    return tmp_path / "a"


@pytest.mark.parametrize("boundary", ["trim", "pad"])
def test_coordinates_are_xarrays_means(path: Path, boundary: Any):
    want = dataset().air.drop_vars("name").coarsen({"t": 5, "x": 2}, boundary=boundary).mean()
    terms: dict[str, Any] = {"coarsen": {"t": 5, "x": 2}, "boundary": boundary}
    labelled = cf.reduce(path / "air", "mean", labels=True, **terms).to_xarray()
    held = cf.reduce(xr.open_zarr(path).air, "mean", **terms)
    project(path / "air", path.parent / "out.zarr", "mean", **terms)
    written = xr.open_zarr(path.parent / "out.zarr")["mean"].load()
    for one in (labelled, held, written):
        got = one.drop_vars("name", errors="ignore").rename("air")
        xr.testing.assert_allclose(got, want.drop_vars({*want.coords} - {*got.coords}))
        assert {"t", "x", "area"} <= {*got.coords}
    assert labelled.attrs["cell_methods"] == "t: x: mean"


def test_a_dataset_is_coarsened_as_xarray_does():
    held = dataset().drop_vars("name")
    want = held.coarsen(t=4, x=2, boundary="pad").mean()
    got = cf.reduce(held, "mean", coarsen={"t": 4, "x": 2}, boundary="pad")
    xr.testing.assert_allclose(got, want)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"coarsen": {"t": 10**23}, "boundary": "pad"}, "a window of 10{23} for axis 't'; give 1"),
        (
            {"coarsen": {"t": 2}},
            "'t' has 23 elements .* is not a multiple of its windows of 2: .*trim",
        ),
        ({"coarsen": {"time": 2}}, "has no axis 'time'"),
        ({"coarsen": {}}, "coarsen is {}; give"),
        ({"coarsen": 2}, "coarsen is 2; give"),
        ({"coarsen": {"t": 0}}, "window of 0 for axis 't'"),
        ({"coarsen": {"t": True}}, "window of True"),
        ({"coarsen": {"t": 23, 0: 23}}, "axis 0 is named twice"),
        ({"coarsen": {"t": 23}, "axis": "t"}, "reduced whole by axis=, too"),
        ({"coarsen": {"t": 23}, "boundary": "wrap"}, "boundary is 'wrap'; use one of"),
        ({"coarsen": {"t": 23}, "boundary": {"x": "pad"}}, "boundary names axis 'x'"),
        ({"boundary": "pad"}, "no windows are given"),
        ({"coarsen": {"t": 23}, "by": [1] * 8}, "coarsen= and by= cannot be combined"),
        ({"coarsen": {"t": 23}, "selection": 0}, "'t' cannot be reduced"),
    ],
)  # fmt: skip
def test_windows_that_cannot_be_are_refused_in_a_sentence(path: Path, given, said: str):
    with pytest.raises(PlanError, match=said):
        cf.reduce(path / "air", "mean", **given)


def test_of_no_elements_there_are_no_windows():
    array = hard("float32")
    assert cf.reduce(stored(array), "mean", coarsen={0: 24}, boundary="trim").shape == (0, 8, 9)
    assert cf.reduce(stored(array), "mean", coarsen={0: 24}, boundary="pad").shape == (1, 8, 9)
    empty = cf.reduce(stored(array), "sum", coarsen={0: 2}, selection=slice(0, 0), allow_empty=True)
    assert empty.shape == (0, 8, 9)


def test_windows_on_the_command_line_and_in_job_files(path: Path, command: Callable):
    words = ("--coarsen", "t=5, 2=3", "--boundary", "pad", "--axis", "y", "--op", "max", "--json")
    told = json.loads(command("reduce", path / "air", *words, "-q").stdout)
    want = windowed("max", hard("float32"), {0: 5, 2: 3}, "pad", (1,))
    np.testing.assert_array_equal(np.array(told["results"]["max"], "f4"), want)
    said = command("reduce", path / "air", "--coarsen", "t", code=2).stderr
    assert "coarsen 't' is not an axis and its window, as in 'y=2,x=2'" in said
    terms = {"statistics": ["max"], "axes": ["y"], "coarsen": {"t": 5, "2": 3}, "boundary": "pad"}
    job = Job.model_validate(
        {"schema": 1, "sources": ["a"], "reduce": terms, "output": {"path": "o.zarr"}}
    )
    assert job.options.coarsen == {"t": 5, 2: 3}
    assert job.options.boundary == "pad"
    same(cf.reduce(path / "air", job.options.op[0], axis="y", coarsen=job.options.coarsen,
                   boundary="pad"), want)  # fmt: skip


def test_medians_of_windows_are_read_as_often_as_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(radix, "TABLE_BYTES", 4 << 20)  # each leaf clears and adds a table
    array = hard("float32")
    windows = {0: 5, 2: 2}
    got = reduced(stored(array), ["median", "max"], coarsen=windows)
    for op in got:
        same(got[op], windowed(op, array, windows, "pad"), op)
    made = project(stored(array), tmp_path / "out", "median", coarsen=windows, boundary="pad")
    same(made["median"][...], got["median"])


@pytest.mark.parametrize(
    "selection",
    [
        (slice(None, None, -1), slice(None), slice(7, 1, -2)),
        ([22, 3, 3, 9, 0, 1, 17], slice(1, 7), slice(None)),
        (slice(None), [5, 1, 7, 0], [0, 8, 4]),
    ],
)
@pytest.mark.parametrize("windows", [{0: 3, 2: 2}, {1: 4}])
def test_windows_are_of_elements_in_the_order_that_was_asked_for(
    selection, windows, tmp_path: Path
):
    """Those of axes without windows are put in that order, too."""
    array = hard("float32")
    chosen = array[selection[0]][:, selection[1]][:, :, selection[2]]
    given: dict[str, Any] = {"coarsen": windows, "boundary": "pad", "selection": selection}
    got = cf.reduce(stored(array), ["mean", "max"], **given)
    made = project(stored(array), tmp_path / "out", ["mean", "max"], **given)
    for op in got:
        same(got[op], windowed(op, chosen, windows, "pad"), op)
        same(made[op][...], got[op], op)


@pytest.mark.parametrize("windows", [{0: 3, 2: 2}, {1: 8}])
def test_dask_arrays_of_windows_are_what_reduce_gives(windows):
    array = stored(hard("float32"))
    given: dict[str, Any] = {"coarsen": windows, "boundary": "pad"}
    want = cf.reduce(array, "mean", **given)
    got = cf.reduce(array, "mean", compute=False, **given)
    assert got.shape == want.shape
    same(got.compute(scheduler="synchronous"), want)
