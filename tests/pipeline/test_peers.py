"""What the tests of flox, xarray and Dask try: their arrays and parameters, reduced by chunkfold.

Each test says in its name what is tried, and in its first words whose case it is. Where chunkfold
differs by choice the test says so, and docs/coming-from.md says why.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr

import chunkfold as cf
import chunkfold.xarray
from chunkfold.errors import ChunkfoldError, MonoidError, PlanError

pytestmark = pytest.mark.unoptimised
nan = np.nan


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """NumPy warns of empty slices and gaps, which these cases are made of."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def stored(values: Any, chunks: Sequence[int] | None = None) -> zarr.Array:
    """An array in chunks, of three elements along each axis where nothing else is said."""
    array = np.asarray(values)
    return zarr.create_array(store={}, data=array, chunks=tuple(chunks or (3,) * array.ndim))


def close(got: Any, want: Any, rtol: float = 1e-12, atol: float = 0) -> None:
    """Of the same shape, and equal but for what others round on the way."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape
    if want.dtype.kind == "f":
        np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)
    else:
        np.testing.assert_array_equal(got, want)


def same(got: Any, want: Any) -> None:
    """As xarray's own, but for attributes and names."""
    want = want.drop_attrs(deep=False)
    xr.testing.assert_allclose(got.rename(None), want.rename(None).transpose(*got.dims))


# --- flox, tests/test_core.py -------------------------------------------------------------------

LABELS = np.array([0, 0, 2, 2, 2, 1, 1, 2, 2, 1, 1, 0])
GAPPY = np.array([np.nan] * 5 + LABELS[5:].tolist())
LETTERS = np.array(list("aacccbbccbbf"))
FOLDS: Mapping[str, Callable[..., Any]] = {
    name: getattr(np, name)
    for name in (
        "sum", "prod", "mean", "var", "std", "min", "max", "argmin", "argmax", "nansum",
        "nanprod", "nanmean", "nanvar", "nanstd", "nanmin", "nanmax", "nanargmin", "nanargmax",
    )
}  # fmt: skip
SPREADS = ["var", "std", "nanvar", "nanstd"]
ANY_GAPS = [name for name in FOLDS if name.startswith("nan") and "arg" not in name]


@pytest.mark.parametrize("dtype", ["f8", "i8"])
@pytest.mark.parametrize(
    ("shape", "labels", "sums"),
    [
        ((12,), LABELS, [3, 4, 5]),
        ((12,), GAPPY, [1, 4, 2]),
        ((2, 12), LABELS, [[3, 4, 5]] * 2),
        ((2, 12), GAPPY, [[1, 4, 2]] * 2),
        ((2, 12), np.array([LABELS] * 2), [6, 8, 10]),
        ((2, 12), np.array([GAPPY] * 2), [2, 8, 4]),
        ((2, 12), np.array([GAPPY, GAPPY[::-1]]), [2, 8, 4]),
    ],
)
def test_flox_labels_of_one_and_more_axes(
    shape: tuple[int, ...], labels: np.ndarray, sums: Any, dtype: str
):
    along = 1 if labels.ndim < len(shape) else None
    ops = ["sum", "count", "nanmean"]
    for groups in (None, [0, 1, 2]):
        found = cf.reduce(stored(np.ones(shape, dtype)), ops, axis=along, by=labels, groups=groups)
        close(found["sum"], np.array(sums, dtype))
        close(found["count"], np.array(sums, np.intp))
        close(found["nanmean"], np.ones(np.shape(sums)))
        assert found["sum"].labels.tolist() == [0, 1, 2]
        assert found["sum"].dtype == np.dtype(dtype)


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("shape", [(12,), (12, 9)])
def test_flox_every_reduction_by_several_labels(shape: tuple[int, ...], number: int, gaps: bool):
    """Positions are among all that is reduced, as flox has them; unlabelled ones are left out."""
    array = np.random.default_rng(12345).random(shape)
    holed = array.copy()
    holed[[1, 4, 5]] = np.nan
    each = [np.ones(shape[-1]) + n for n in range(number)]
    for n, labels in enumerate(each if gaps else []):
        labels[2 * n : 2 * n + 3] = np.nan
    there = np.flatnonzero(~np.isnan(sum(each)))
    by: Any = tuple(each) if number > 1 else each[0]
    along: dict[str, Any] = {"axis": -1, "by": by}
    for values, tried, ddof in ((array, [*FOLDS], 0), (holed, ANY_GAPS, 0), (array, SPREADS, 1)):
        found = cf.reduce(stored(values), [*FOLDS], ddof=ddof, **along)
        for op in tried:
            more = {"ddof": ddof} if op in SPREADS else {}
            want = FOLDS[op](values[..., there], axis=-1, **more)
            want = there[want] if "arg" in op else want
            close(found[op], np.reshape(want, [*shape[:-1], *[1] * number]))
    whole = np.round(array * 1000).astype("i2")
    got = cf.reduce(stored(whole), cf.quantile([0.45, 0.9]), **along)
    want = np.moveaxis(np.quantile(whole[..., there], [0.45, 0.9], axis=-1), 0, -1)
    close(got, np.reshape(want, [*shape[:-1], *[1] * number, 2]))


def test_flox_count_of_what_is_there():
    """flox's `count` leaves NaN out; here it does with `skipna`."""
    array, labels = np.array([0, 0, np.nan, np.nan, np.nan, 1, 1]), np.array(list("abbbccc"))
    found = cf.reduce(stored(array), "count", by=labels, skipna=True)
    close(found, [1, 1, 2])
    assert found.labels.tolist() == list("abc")
    close(cf.reduce(stored(array), "count", by=labels), [1, 3, 3])


@pytest.mark.parametrize("dtype", ["f4", "i4"])
def test_flox_dtypes_of_results(dtype: str):
    array = np.ones((2, 12), dtype)
    found = cf.reduce(stored(array), ["sum", "prod", "mean"], by=np.array([LABELS] * 2))
    assert found["sum"].dtype == found["prod"].dtype == np.sum(array).dtype
    assert found["mean"].dtype == np.mean(array).dtype


def test_flox_labels_of_the_last_axes_of_more():
    array, by = np.ones((4, 2, 12)), np.array([LABELS] * 2)
    close(cf.reduce(stored(array), "sum", axis=(1, 2), by=by), [[6, 8, 10]] * 4)
    whole = np.broadcast_to(by, array.shape)
    close(cf.reduce(stored(array), "sum", by=whole), [24, 32, 40])


PAIR = np.array([LABELS[:5], LABELS[4::-1]])


@pytest.mark.parametrize(("ndim", "axis"), [(2, 1), (3, 1), (3, 2), (3, (0, 2)), (3, 0)])
def test_flox_some_axes_of_labels_alone(ndim: int, axis: Any):
    """Labels are among what is reduced; flox keeps those of their axes that are not named."""
    by = PAIR if ndim == 2 else np.broadcast_to(PAIR, (3, *PAIR.shape))
    with pytest.raises(PlanError, match="axes"):
        cf.reduce(stored(np.ones(by.shape, "i8")), "count", axis=axis, by=by)


@pytest.mark.parametrize("axis", [(1, 2), (2, 1)])
def test_flox_labels_of_both_axes_that_are_reduced(axis: tuple[int, int]):
    array = np.random.default_rng(12345).random((3, 2, 5))
    ops = ["count", "sum", "max", "any", "std"]
    found = cf.reduce(stored(array), ops, axis=axis, by=PAIR, groups=[0, 2])
    close(found["count"], [[4, 6]] * 3)
    for op in ops[1:]:
        want = [[getattr(np, op)(one[group == PAIR]) for group in (0, 2)] for one in array]
        close(found[op], want)


@pytest.mark.parametrize("groups", [[0, 1, 2], [0, 2, 1], [0]])
@pytest.mark.parametrize("gaps", [False, True])
def test_flox_groups_come_as_they_are_named(groups: list[int], gaps: bool):
    """flox sorts them unless it is told not to."""
    array, labels = np.random.default_rng(12345).random((10, 12)), LABELS.astype(float)
    if gaps:
        labels[[0, 1, 2, -2, -1]] = np.nan
    found = cf.reduce(stored(array), ["sum", "max", "all"], axis=1, by=labels, groups=groups)
    assert found["sum"].labels.tolist() == groups
    for op, got in found.items():
        nothing = {"sum": 0.0, "max": nan, "all": True}[op]
        want = [
            getattr(np, op)(array[:, labels == one], axis=1)
            if (labels == one).any() else np.full(10, nothing)
            for one in groups
        ]  # fmt: skip
        close(got, np.stack(want, -1))


@pytest.mark.parametrize("groups", [[0, 1, 2], [0]])
def test_flox_no_labels_at_all(groups: list[int]):
    array = np.ones((3, 5, 2))
    for axis, by in ((2, np.full(2, np.nan)), (None, np.full(array.shape, np.nan))):
        found = cf.reduce(stored(array), ["count", "sum", "mean"], axis=axis, by=by, groups=groups)
        shape = (*(() if axis is None else (3, 5)), len(groups))
        close(found["count"], np.zeros(shape, np.intp))
        close(found["sum"], np.zeros(shape))
        close(found["mean"], np.full(shape, np.nan))


def test_flox_bins_that_are_closed_on_the_right():
    """`pandas.cut` and flox close them there; here it is `right=True`."""
    array, labels, edges = np.ones(6, "i8"), [0.2, 1.5, 1.9, 2, 3, 20], [1, 2, 4, 5]
    found = cf.reduce(stored(array), "count", by=cf.bins(edges, of=labels, right=True))
    close(found, [3, 1, 0])
    assert found.labels.tolist() == ["(1, 2]", "(2, 4]", "(4, 5]"]
    close(cf.reduce(stored(array), "count", by=cf.bins(edges, of=labels)), [2, 2, 0])


def test_flox_bins_without_elements():
    """The result of nothing: NaN for means, 0 for counts, where flox has what it is told."""
    array, by = np.ones((2, 3, 2)), np.broadcast_to([0, 1], (2, 3, 2))
    bins = cf.bins([-1, 0, 1, 2], of=by, right=True)
    found = cf.reduce(stored(array), ["mean", "nanmean", "count"], by=bins)
    close(found["mean"], [1, 1, np.nan])
    close(found["nanmean"], [1, 1, np.nan])
    close(found["count"], [6, 6, 0])
    sides = np.array([[-1.5, -1.5, 0.5, 1.5, 1.5] * 3]).reshape(5, 3)
    bins = cf.bins([-2, -1, 0, 1, 2], of=sides, right=True)
    close(cf.reduce(stored(np.ones((5, 3))), "count", by=bins), [6, 0, 3, 6])


def test_flox_bins_of_two_labels():
    by = np.arange(10).reshape(5, 2)
    bins = cf.bins(np.arange(2, 8), of=by, right=True)
    close(cf.reduce(stored(np.ones((5, 2))), "count", by=(bins, bins)), np.eye(5, dtype=np.intp))


@pytest.mark.parametrize("groups", [None, (np.arange(5), [2, 3]), (None, [2, 3])])
@pytest.mark.parametrize("broad", [False, True])
def test_flox_two_labels(groups: Any, broad: bool):
    first, second = np.arange(5), np.arange(2, 4)
    by: Any = (first, second)
    axes: Any = (0, 1)
    if broad:
        by, axes = tuple(np.broadcast_arrays(first[:, None], second)), None
    found = cf.reduce(stored(np.ones((5, 2), "i8")), "count", by=by, by_axis=axes, groups=groups)
    close(found, np.ones((5, 2), np.intp))


def test_flox_groups_that_are_not_there():
    """They have the result of nothing, which flox fills with NaN, or with what it is told."""
    array, by = np.array([np.nan, 1, 1, np.nan, 1, 1]), np.array([1, 2, 3, 1, 2, 3])
    for least, nothing in ((0, {"nansum": 0.0, "nanprod": 1.0}), (1, {})):
        given: dict[str, Any] = {"by": by, "groups": [0, 1, 2, 3], "min_count": least}
        for op, found in cf.reduce(stored(array), ANY_GAPS, **given).items():
            close(found, [nothing.get(op, nan)] * 2 + [FOLDS[op]([1.0, 1.0])] * 2)


def test_flox_whole_numbers_that_are_not_there():
    """flox makes floats of them if it fills them with NaN; here they stay, with 0."""
    found = cf.reduce(np.array([1, 1]), ["sum", "count"], by=[0, 1], groups=[1, 2])
    assert found["sum"].dtype == np.dtype(int)
    close(found["sum"], [1, 0])
    close(found["count"], [1, 0])
    times = np.arange(0, 20, 2)
    values = np.array([1, 2, 3, np.nan, np.nan, np.nan, 4, 5, np.nan, np.nan])
    want = np.zeros(19)
    want[times] = np.nan_to_num(values)
    close(cf.reduce(values, "nansum", by=times, groups=np.arange(19)), want)


@pytest.mark.parametrize("labels", ["f4", "f8", "i4", "i8"])
@pytest.mark.parametrize("dtype", ["f4", "i8"])
def test_flox_dtypes_of_labels(dtype: str, labels: str):
    repeats = np.array([4, 4, 12, 2, 3, 4])
    by = np.repeat(np.arange(6, dtype=labels), repeats)
    found = cf.reduce(stored(by.astype(dtype), (8,)), ["count", "sum"], by=by)
    close(found["count"], repeats)
    close(found["sum"], np.array([0, 4, 24, 6, 12, 20], np.sum(by.astype(dtype)).dtype))
    assert found["sum"].labels.tolist() == list(range(6))


def test_flox_labels_with_few_of_some():
    array = np.block([[np.ones(3), np.full(3, 2.0)], [np.full((2, 3), 3.0), np.full((2, 3), 4.0)]])
    by = array.astype("i8")
    by[0, 1], by[2, 1], by[0, 4] = 30, 40, 31
    whole = np.broadcast_to(array, (2, 3, *array.shape))
    named = [1, 2, 3, 4, 30, 31, 40]
    for op, found in cf.reduce(stored(whole), ANY_GAPS, axis=None, by=by).items():
        close(found, [FOLDS[op](whole[..., by == one]) for one in named])
        assert found.labels.tolist() == named


def test_flox_truths():
    """The least and the greatest of truths are truths; flox, as NumPy, has them so, too."""
    data = np.array([True, True, False])
    for op, found in cf.reduce(stored(data), [*FOLDS, "any", "all"], by=np.array([1] * 3)).items():
        want = getattr(np, op)(data)
        close(found, [want])
        assert found.dtype == want.dtype


def test_flox_months_of_days():
    time = pd.date_range("2000-01-01", "2000-12-31", freq="D")
    days = time.day_of_year.to_numpy()
    found = cf.reduce(stored(days, (365,)), "mean", by=time.month.to_numpy())
    close(found, pd.Series(days).groupby(time.month.to_numpy()).mean().to_numpy())
    close(cf.reduce(stored(days, (30,)), "mean", by=time.to_numpy()), days.astype(float))
    edges = pd.date_range("1999-12-31", "2000-12-31", freq="ME").to_numpy()
    binned = cf.reduce(
        stored(days, (30,)), "mean", by=cf.bins(edges, of=time.to_numpy(), right=True)
    )
    close(binned, pd.Series(days, time).resample("ME").mean().to_numpy())


@pytest.mark.parametrize(
    ("labels", "groups", "counts"),
    [
        (["El-Nino", "La-Nina", "boo", "Neutral"], ["El-Nino", "Neutral", "foo", "La-Nina"],
         [1, 1, 0, 1]),
        ([-10, 1, 10, 2, 3, 5], [0, 1, 2, 3, 4, 5], [0, 1, 1, 1, 0, 1]),
        ([-10, 1, 10, 2, 3, 5], [5, 4, 3, 2, 1, 0], [1, 0, 1, 1, 1, 0]),
        ([-1, 0, -1, 1, -1, 2, -1, 3, 4, 4], [0, 1, 2, 3, 4], [1, 1, 1, 1, 2]),
    ],
)  # fmt: skip
def test_flox_labels_beyond_those_that_are_named(labels: Any, groups: Any, counts: Any):
    by = np.array(labels)
    close(cf.reduce(np.ones(len(by)), "count", by=by, groups=groups), counts)


def test_flox_asked_dtypes():
    array = np.ones((4, 12), "f4")
    ops = ["sum", "mean", "var", "min"]
    for found in cf.reduce(stored(array), ops, axis=1, by=LETTERS, dtype="f8").values():
        assert found.dtype == np.dtype("f8")
    counts = np.array([0, 2, 1, 0, 1])
    found = cf.reduce(counts, ["sum", "prod"], by=[1, 1, 1, 2, 2], dtype="u1")
    assert found["sum"].dtype == found["prod"].dtype == np.dtype("u1")
    close(found["sum"], np.array([3, 1], "u1"))


@pytest.mark.parametrize(("q", "ndim", "skipna"), [([0.5], 1, True), ([0.5, 0.67, 0.85], 2, False)])
def test_flox_several_quantiles(q: Any, ndim: int, skipna: bool):
    """They come last; flox and NumPy have them first."""
    array = np.array([[1, -1, nan, 3, 4, 10, 5], [1, nan, nan, 3, 4, nan, nan]])
    labels, axes = np.array([0, 0, 0, 1, 0, 1, 1]), (1,)
    if ndim == 2:
        array, axes = np.broadcast_to(array[:, None], (2, 5, 7)), (1, 2)
        labels = np.broadcast_to(labels, (5, 7))
    found = cf.reduce(stored(array), cf.quantile(q), axis=axes, by=labels, skipna=skipna)
    ranked = np.nanquantile if skipna else np.quantile
    rows = [array[:, labels == group].reshape(2, -1) for group in (0, 1)]
    want = np.stack([ranked(row, q, axis=-1) for row in rows], -1)
    close(found, np.moveaxis(want, 0, -1) if np.ndim(q) else want)


def test_flox_dates():
    dates = np.array(["2000-01-01", "2000-01-02", "2000-01-03"], "M8[D]")
    found = cf.reduce(dates, ["nanmin", "nanmax"], by=[0, 0, 1])
    close(found["nanmin"], dates[[0, 2]])
    close(found["nanmax"], dates[[1, 2]])


@pytest.mark.parametrize("exponent", [2, 4, 6, 8, 10, 12])
def test_flox_variances_beside_large_means(exponent: int):
    """flox allows for 3e-8; here they are rounded once, whatever the mean."""
    array, labels = np.linspace(-1, 1, 1000) + 10.0**exponent, np.arange(1000) % 2
    for found in cf.reduce(stored(array, (100,)), ["var", "nanvar"], by=labels).values():
        want = [np.var((array - 10.0**exponent)[n::2]) for n in (0, 1)]
        close(found, want, rtol=1e-15)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"by": np.ones(5)}, "12"),  # of another extent
        ({"by": (LABELS, LABELS), "groups": ([0],)}, "groups"),  # for one of two
        ({"op": "first", "by": LABELS}, "first"),  # what depends on an order of its own
        ({"op": "cumsum", "by": LABELS}, "cumsum"),  # scans are no reductions
    ],
)
def test_flox_what_is_refused(given: Mapping[str, Any], told: str):
    with pytest.raises(ChunkfoldError, match=told):
        cf.reduce(stored(np.ones(12)), **given)


def test_flox_texts_are_no_elements():
    """flox counts texts; chunkfold reduces numbers, truths and times."""
    with pytest.raises(ChunkfoldError):
        cf.reduce(np.array(["ABC", "DEF"]), "count", by=[0, 1])


# --- flox, tests/test_xarray.py -----------------------------------------------------------------


def lettered(gaps: bool) -> xr.DataArray:
    array = np.ones((4, 12))
    if gaps:
        array[1] = np.nan
        array[[0, 2], [3, 4]] = np.nan
    coords = {"rows": ("x", [1, 2, 2, 1]), "letters": ("y", LETTERS)}
    return xr.DataArray(array, coords, ("x", "y")).expand_dims(z=4)


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize(("skipna", "least"), [(True, 0), (True, 1), (True, 3), (False, 0)])
def test_flox_sums_of_data_arrays(skipna: bool, least: int, gaps: bool):
    array = lettered(gaps)
    for dim, by in (("y", "letters"), ("x", "rows")):
        got = array.chunkfold.sum(dim, by=by, skipna=skipna, min_count=least)
        same(got, array.groupby(by).sum(skipna=skipna, min_count=least or None))


@pytest.mark.parametrize("named", [False, True])
def test_flox_two_labels_of_data_arrays(named: bool):
    """flox and xarray put axes of groups last; here they stand where the first label's axis was."""
    array = lettered(gaps=False)
    groups: Any = (["a", "b", "c", "f"], [1, 2]) if named else None
    got = array.chunkfold.count(("x", "y"), by=("letters", "rows"), groups=groups)
    want = xr.DataArray(
        [[4, 4], [8, 8], [10, 10], [2, 2]],
        {"letters": ["a", "b", "c", "f"], "rows": [1, 2]},
        ("letters", "rows"),
    )
    same(got, want.expand_dims(z=4))
    assert got.dims == ("z", "letters", "rows")
    other = array.assign_coords(more=("y", LETTERS)).isel(z=0, drop=True)
    got = other.chunkfold.count("y", by=("letters", "more"))
    close(got, [np.diag([2, 4, 5, 1])] * 4)


def test_flox_months_of_another_calendar():
    pytest.importorskip("cftime")
    time = xr.date_range("1980-09-01", "1983-09-18", freq="ME", calendar="noleap")
    values = np.random.default_rng(0).random((len(time), 5, 7))
    ds = xr.Dataset({"air": (("time", "x", "y"), values)}, {"time": time})
    same(ds.air.chunkfold.mean("time", by="time.month"), ds.air.groupby("time.month").mean())
    same(
        ds.air.chunkfold.mean(by="time.month", by_axis="time"),
        ds.air.groupby("time.month").mean(...),
    )
    ds["beside"] = "other", [1, 2, 3]
    got = ds.chunkfold.mean("time", by="time.month")
    same(got.air, ds.air.groupby("time.month").mean())
    close(got.beside, [1.0, 2, 3])


def test_flox_labels_that_come_again():
    array = xr.DataArray([1, 2, 3], [("x", [1, 1, 2])])
    same(array.chunkfold.sum("x", by="x"), array.groupby("x").sum())


def test_flox_bands_of_a_coordinate():
    ds = xr.Dataset(
        {"air": (("time", "lat", "lon"), np.random.default_rng(0).random((12, 25, 53)))},
        {"lat": np.arange(75.0, 14.9, -2.5), "lon": np.arange(200.0, 331.0, 2.5)},
    )
    bins = cf.bins([40, 50, 60, 70], of="lat", right=True)
    want = ds.groupby_bins("lat", [40, 50, 60, 70]).mean(...)
    same(ds.air.chunkfold.mean(by=bins), want.air)


@pytest.mark.parametrize("add_gaps", [False, True])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_flox_means_in_another_dtype(dtype: str, add_gaps: bool):
    data = np.linspace(0, 1, 48, dtype=dtype).reshape(4, 12)
    if add_gaps:
        data[1] = np.nan
        data[0, [0, 2]] = np.nan
    array = xr.DataArray(data, {"letters": ("t", LETTERS)}, ("x", "t"))
    got = array.chunkfold.mean("t", by="letters", dtype="float64")
    assert got.dtype == np.float64
    same(got, array.groupby("letters").mean(dtype="float64"))


def test_flox_means_of_narrow_floats_with_gaps():
    """Of float32 they are float32, and nearer to the true ones."""
    rng = np.random.default_rng(0)
    time = pd.date_range("2010-01", "2015-01", freq="6h", inclusive="left")
    values = 10 + np.cos(2e-3 * np.pi * np.arange(len(time))) + rng.normal(size=len(time))
    values[rng.integers(0, len(time), 5_000)] = np.nan
    array = xr.DataArray(values.astype("f4"), {"time": time}, ("time",))
    got = array.chunkfold.mean("time", by="time.month")
    assert got.dtype == np.float32
    want = array.astype("f8").groupby("time.month").mean()
    close(got, want.astype("f4"))
    close(array.chunkfold.mean("time", by="time.month", dtype="f8"), want)


def test_flox_spans_without_elements():
    """Sums of them are 0; xarray and flox have NaN."""
    time = pd.date_range("2000-01-01", freq="6h", periods=10)
    values = [1, 2, 3, np.nan, np.nan, np.nan, 4, 5, np.nan, np.nan]
    array = xr.DataArray(values, {"time": time}, ("time",))
    want = array.resample(time="3h").sum()
    assert np.isnan(want).any()
    same(array.chunkfold.sum("time", resample={"time": "3h"}), want.fillna(0))
    later = pd.to_datetime(["2018-06-13T03:40:36", "2018-06-13T05:50:37", "2018-06-15T03:02:34"])
    array = xr.DataArray([[1.0], [2.0], [3.0]], {"time": later}, ("time", "x"))
    same(array.chunkfold.mean("time", resample={"time": "1D"}), array.resample(time="1D").mean())


def test_flox_whole_numbers_keep_their_dtype():
    values = np.arange(1, 10, dtype="i2").reshape(3, 3)
    array = xr.DataArray(values, {"label": ("x", [1, 2, 1])}, ("x", "y"))
    for op, got in array.chunkfold.reduce([*FOLDS], "x", by="label").items():
        assert got.dtype == FOLDS[op](values, axis=0).dtype


def test_flox_medians_of_groups_of_gaps():
    values = np.random.default_rng(0).normal(size=100)
    for gap in (slice(35), slice(50, 80), slice(90, None)):
        values[gap] = np.nan
    labels = np.arange(100) // 10
    got = cf.reduce(stored(values, (30,)), "nanmedian", by=labels)
    close(got, pd.Series(values).groupby(labels).median().to_numpy())


def test_flox_axes_without_the_label():
    """xarray reduces over any axes of each group; here all of a label's axes are reduced, too."""
    values = (np.random.default_rng(0).random((2, 3)) > 0.5) * 1.0
    array = xr.DataArray(values, {"x": [10, 20]}, ("x", "y"))
    with pytest.raises(PlanError, match="reduced"):
        array.chunkfold.sum("y", by="x")
    for op, got in array.chunkfold.reduce([*FOLDS], ("x", "y"), by="x").items():
        if "arg" not in op:
            close(got, FOLDS[op](values, axis=1))


# --- xarray, tests/test_groupby.py --------------------------------------------------------------


def test_xarray_dates_as_labels():
    time = pd.date_range("2000-01-01", periods=4)
    dates = xr.DataArray(time[[0, 0, 2, 2]], {"time": time}, ("time",), name="date")
    array = xr.DataArray([1, 2, 3, 4], {"time": time}, ("time",))
    same(array.chunkfold.sum("time", by=dates), array.groupby(dates).sum())


SIX = {"x": [1, 1, 1, 2, 2, 2]}


@pytest.mark.parametrize(
    ("first", "skipna", "q"),
    [(1, None, 0.5), (1, None, [0, 1]), (nan, None, 0.5), (nan, False, 0.5)],
)
def test_xarray_quantiles_of_groups(first: float, skipna: bool | None, q: Any):
    array = xr.DataArray([first, 2, 3, 4, 5, 6], SIX, ("x",))
    array = array.astype("i2" if first == 1 else "f8")
    got = array.chunkfold.reduce(cf.quantile(q), "x", by="x", skipna=skipna)
    want = array.groupby("x").quantile(q, skipna=skipna)
    close(got, want)
    assert got.dims == want.dims


@pytest.mark.parametrize("axes", ["x", "y", None])
def test_xarray_quantiles_over_several_axes(axes: str | None):
    array = xr.DataArray(
        [[1, 11, 26], [2, 12, 22], [3, 13, 23], [4, 16, 24], [5, 15, 25]],
        {"x": [1, 1, 1, 2, 2], "y": [0, 0, 1]},
        ("x", "y"),
    ).astype("i2")
    for label in ("x", "y") if axes is None else (axes,):
        got = array.chunkfold.reduce(cf.quantile(0), axes, by=label)
        want = array.groupby(label).quantile(0, dim=... if axes is None else label)
        close(got, want.transpose(*got.dims))
    four = xr.DataArray([1, 2, 3, 4], {"x": [1, 1, 2, 2]}, ("x",)).astype("i2")
    close(four.chunkfold.reduce(cf.quantile(0.5, method="lower"), "x", by="x"), [1, 3])


def test_xarray_quantiles_of_months():
    time = pd.date_range("2000-01-01", periods=365)
    values = np.arange(730, dtype="i2").reshape(365, 2)
    array = xr.DataArray(values, {"time": time, "x": [0, 1]}, ("time", "x"))
    got = array.chunkfold.reduce(cf.quantile(0), by="time.month")
    close(got, [0.0, 62, 120, 182, 242, 304, 364, 426, 488, 548, 610, 670])
    got = array.chunkfold.reduce(cf.quantile(0), "time", by="time.month")
    close(got[:2], [[0.0, 1], [62, 63]])


def test_xarray_labels_that_are_missing():
    values = np.arange(60.0).reshape(4, 3, 5)
    numbers = np.arange(12.0).reshape(4, 3)
    numbers[[0, 3, 3], [0, 0, 2]] = np.nan
    ds = xr.Dataset({"v": (("lat", "lon", "t"), values), "id": (("lat", "lon"), numbers)})
    want = ds.v.groupby(ds.id).mean()
    same(ds.v.chunkfold.mean(("lat", "lon"), by=ds.id), want)
    array = xr.DataArray([1, 2, 3], [("x", [1, 2, 3])])
    day = np.datetime64("2001-01-01", "ns")
    for labels in ([1, 1, np.nan], np.array([day, day, np.datetime64("NaT", "ns")])):
        array["label"] = "x", labels
        same(array.chunkfold.sum("x", by="label"), array.groupby("label").sum())
    again = xr.DataArray([0, 1, 2, 4, 3, 4], [("x", [np.nan, 1, 1, np.nan, 2, np.nan])])
    same(again.chunkfold.sum("x", by="x"), again.groupby("x").sum())
    ds = xr.Dataset({"foo": ("x", [1, 2, 3, 4])}, {"bar": ("x", [1, 1, 2, np.nan])})
    same(ds.chunkfold.mean(by="bar"), ds.groupby("bar").mean(...))


def test_xarray_bins_of_dates():
    time = pd.date_range("2010-08-01", "2010-08-15", freq="15min")
    edges = pd.date_range("2010-08-01", "2010-08-15", freq="24h")
    array = xr.DataArray(np.ones(len(time)), {"time": time}, ("time",))
    got = array.chunkfold.sum("time", by=cf.bins(edges.to_numpy(), of="time", right=True))
    same(got, array.groupby_bins("time", edges).sum())


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("where", [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]])
def test_xarray_bins_along_any_order(where: list[int], right: bool):
    array = xr.DataArray([99, 1, 2, 3], {"x": where}, ("x",))
    got = array.chunkfold.sum("x", by=cf.bins([0, 1.5, 5], of="x", right=right))
    same(got, array.groupby_bins("x", [0, 1.5, 5], right=right).sum())
    table = xr.DataArray(np.arange(12).reshape(6, 2), {"x": np.arange(6)}, ("x", "y"))
    got = table.chunkfold.mean("x", by=cf.bins([0, 2, 4, 6], of="x", right=right))
    same(got, table.groupby_bins("x", [0, 2, 4, 6], right=right).mean())


def test_xarray_bins_of_few_elements():
    """The result of nothing is 0 for sums and counts; xarray has NaN."""
    array = xr.DataArray(np.arange(4), [("x", range(4))])
    close(array.chunkfold.sum("x", by=cf.bins([0, 4, 5], of="x", right=True)), [6, 0])
    places = np.random.default_rng(42).normal(5, 5, 1000)
    array = xr.DataArray(places, [("x", places)])
    got = array.chunkfold.count("x", by=cf.bins(np.logspace(-4, 1, 10), of="x", right=True))
    close(got, [0, 0, 1, 1, 1, 8, 31, 104, 542])


GRID = xr.DataArray(
    [[[0, 1], [2, 3]], [[5, 10], [15, 20]]],
    {"lon": (["ny", "nx"], [[30, 40], [40, 50]]), "lat": (["ny", "nx"], [[10, 10], [20, 20]])},
    ["time", "ny", "nx"],
)


def test_xarray_labels_of_two_axes():
    for name in ("lon", "lat"):
        same(GRID.chunkfold.sum(by=name), GRID.groupby(name).sum(...))
        same(GRID.chunkfold.sum(("ny", "nx"), by=name), GRID.groupby(name).sum())
    got = GRID.chunkfold.sum(by=cf.bins([0, 15, 20], of="lat", right=True))
    same(got, GRID.groupby_bins("lat", [0, 15, 20]).sum(...))
    with pytest.raises(PlanError):
        GRID.chunkfold.sum("nx", by="lat")


@pytest.mark.parametrize("dim", ["y", None])
def test_xarray_labels_beside_an_axis(dim: str | None):
    x = np.random.default_rng(0).random((10, 20))
    labels = ["a"] * 9 + ["c"] + ["b"] * 10
    array = xr.DataArray(x, {"y": np.arange(20), "abc": ("y", labels)}, ("x", "y"))
    ops = ["sum", "mean", "count", "max", "std"]
    for op, got in array.chunkfold.reduce(ops, dim, by="abc").items():
        same(got, getattr(array.groupby("abc"), op)(dim or ...))
    few = np.round(array * 1000).astype("i2")
    same(few.chunkfold.reduce("median", dim, by="abc"), few.groupby("abc").median(dim or ...))


@pytest.mark.parametrize("span", ["24h", "123456s", "1234567890us", "1D", "12h", "5h"])
def test_xarray_spans_of_time(span: str):
    time = pd.date_range("2000-01-01", freq="6h", periods=10)
    array = xr.DataArray(np.arange(10), [("time", time)])
    want = array.resample(time=span).mean()
    same(array.chunkfold.mean("time", resample={"time": span}), want)
    with pytest.raises(PlanError):
        array[[2, 0, 1]].chunkfold.mean("time", resample={"time": span})


def test_xarray_spans_with_gaps_and_few_elements():
    time = pd.date_range("2000-01-01", freq="6h", periods=10)
    values = np.random.default_rng(0).normal(size=(10, 5, 3))
    values[values > 1] = np.nan
    array = xr.DataArray(values, {"time": time}, ("time", "x", "y"))
    days = {"resample": {"time": "1D"}}
    for given in ({"skipna": False}, {"min_count": 1}, {"min_count": 4}):
        got = array.chunkfold.sum("time", **days, **given)
        same(got, array.resample(time="1D").sum(**given))
    got = array.chunkfold.mean("time", **days, skipna=False)
    same(got, array.resample(time="1D").mean(skipna=False))


@pytest.mark.parametrize("op", ["any", "all", "count"])
def test_xarray_spans_of_years_with_a_gap(op: str):
    times = [pd.date_range(*one, freq="D")
             for one in (("1988-12-01", "1990-11-30"), ("2000-12-01", "2001-11-30"))]  # fmt: skip
    time = times[0].append(times[1])
    values = np.random.default_rng(0).random(len(time)) > 0.5
    array = xr.DataArray(values, {"time": time}, ("time",))
    got = array.chunkfold.reduce(op, "time", resample={"time": "YS-DEC"})
    want = getattr(array.resample(time="YS-DEC"), op)()
    nothing = op == "all"  # of no elements all are true, as NumPy has it; xarray has NaN
    close(got, np.where(np.isnan(want.values.astype(float)), nothing, want).astype(got.dtype))


@pytest.mark.parametrize("op", ["sum", "prod", "mean"])
@pytest.mark.parametrize("skipna", [True, False])
@pytest.mark.parametrize("least", [0, 1])
def test_xarray_groups_of_gaps(op: str, skipna: bool, least: int):
    """`min_count` is for every reduction here; xarray has it for sums and products."""
    array = xr.DataArray([np.nan, 1, 1, np.nan, 1, 1], {"label": ("x", [1, 2, 3, 1, 2, 3])}, ("x",))
    got = array.chunkfold.reduce(op, "x", by="label", skipna=skipna, min_count=least)
    given = {} if op == "mean" or not least else {"min_count": least}
    same(got, getattr(array.groupby("label"), op)(skipna=skipna, **given))


def test_xarray_several_labels():
    array = xr.DataArray(
        [1, 2, 3, 0, 2, np.nan],
        {"one": ("d", list("abccba")), "two": ("d", list("xyzzyx"))},
        ("d",),
    )
    got = array.chunkfold.mean("d", by=("one", "two"))
    same(got, array.groupby(["one", "two"]).mean())
    coords = {"a": ("x", [0, 0, 1, 1]), "b": ("y", [0, 0, 1, 1])}
    square = xr.DataArray(np.arange(16).reshape(4, 4), coords, ("x", "y"))
    same(square.chunkfold.mean(by=("a", "b")), square.groupby(["a", "b"]).mean())
    names = {"xy": (("x", "y"), [["a", "b", "c"], ["b", "c", "c"]]), "x": [0, 1]}
    cube = xr.DataArray(np.random.default_rng(0).random((2, 3, 4)), names, ("x", "y", "z"))
    same(cube.chunkfold.mean(("x", "y"), by=("x", "xy")), cube.groupby(["x", "xy"]).mean())


def test_xarray_bins_and_labels():
    """Combinations that are nowhere are 0 of sums and counts; xarray has NaN."""
    coords = {"x": [10, 20, 30, 40], "letters": ("x", list("abba"))}
    array = xr.DataArray(np.arange(12).reshape(4, 3), coords, ("x", "y"))
    got = array.chunkfold.sum("x", by=(cf.bins([5, 15, 25], of="x", right=True), "letters"))
    close(got.transpose("y", ...), [[[n, 0], [0, n + 3]] for n in range(3)])
    along = {"x": ("z", np.arange(12)), "y": ("z", np.arange(12))}
    array = xr.DataArray(np.arange(12), along, ("z",))
    fours, twos = (cf.bins(np.arange(0, end, step), of=name, right=True)
                   for end, step, name in ((13, 4, "x"), (16, 2, "y")))  # fmt: skip
    got = array.chunkfold.count("z", by=(fours, twos))
    close(got, [[2, 2, 0, 0, 0, 0, 0], [0, 0, 2, 2, 0, 0, 0], [0, 0, 0, 0, 2, 1, 0]])


def test_xarray_seasons_in_an_order_of_ones_own():
    time = pd.date_range("2001-01-01", "2003-01-01", freq="MS")
    array = xr.DataArray(np.arange(len(time)), {"time": time}, ("time",))
    seasons = ["DJF", "MAM", "JJA", "SON"]
    want = array.groupby("time.season").sum().reindex(season=seasons)
    same(array.chunkfold.sum("time", by="time.season", groups=seasons), want)
    got = array.chunkfold.sum(
        "time", by=("time.season", "time.year"), groups=(seasons, [2002, 2001])
    )
    both = array.groupby(["time.season", "time.year"]).sum()
    same(got, both.reindex(season=seasons, year=[2002, 2001]))


def test_xarray_seasons_that_span_years():
    """Labels of one's own, where xarray has `SeasonGrouper`."""
    time = pd.date_range("2001-01-01", "2002-12-30", freq="MS")
    values = 1 + np.arange(24) % 5 * 0.25 + np.arange(24) // 5 * 0.1
    array = xr.DataArray(values, {"time": time}, ("time",))
    months = time.month.to_numpy()
    named = np.where(np.isin(months, [11, 12, 1, 2, 3]), "NDJFM", "AMJ")
    named[(months > 6) & (months < 11)] = "none"
    seasons = ["NDJFM", "AMJ"]
    got = array.chunkfold.mean("time", by=named, groups=seasons)
    close(got, array.groupby(time=xr.groupers.SeasonGrouper(seasons)).mean())


def test_xarray_means_of_datasets_of_all_kinds():
    day = pd.date_range("2021-01-01", periods=4, freq="D", unit="ns")
    holed = day.to_numpy().copy()
    holed[1] = np.datetime64("NaT")
    ds = xr.Dataset({
        "numbers": ("x", [1.0, 2.0, 3.0, 4.0]),
        "integers": ("x", [10, 20, 30, 40]),
        "strings": ("x", list("abcd")),
        "dates": ("x", day),
        "holed": ("x", holed),
        "spans": ("x", pd.timedelta_range("1 day", periods=4, freq="D", unit="ns")),
        "beside": ("y", np.arange(10)),
    })  # fmt: skip
    got, want = ds.chunkfold.mean("x"), ds.mean("x")
    assert set(got) == set(want) == set(ds) - {"strings"}
    for name in got:
        close(got[name], want[name])


def test_xarray_monthly_means_at_named_places():
    time = pd.date_range("2000-01-01", "2001-12-31", name="time")
    rng = np.random.default_rng(0)
    places = ["IA", "IN", "IL"]
    values = rng.normal(size=(len(time), 3)) * 3 + 10
    ds = xr.Dataset({"low": (("time", "place"), values)}, {"time": time, "place": places})
    got = ds.chunkfold.mean("time", resample={"time": "1MS"})
    same(got.low, ds.low.resample(time="1MS").mean())
    got = ds.low.chunkfold.mean(("time", "place"), resample={"time": "1MS"}, by="place")
    same(got, ds.low.resample(time="1MS").mean().sortby("place"))


# --- xarray, tests/test_weighted.py -------------------------------------------------------------


WEIGHED = ("sum", "mean", "var", "std")
TWO = [[1, 2], [2, 0], [0, 2], [0, 0], [-1, 1], [4, 6], [1, 0], [3.14, 3.14]]


@pytest.mark.parametrize("skipna", [True, False])
@pytest.mark.parametrize("data", [[1, 2], [nan, 2], [1, nan], [nan, nan]])
def test_xarray_weights_of_two(data: Any, skipna: bool):
    """A sum of elements that are missing is 0, as xarray has it; without weight a mean is NaN."""
    array = xr.DataArray(np.array(data, float))
    for weights in TWO:
        by = xr.DataArray(np.array(weights, float))
        ops = [*WEIGHED] if min(weights) >= 0 else ["sum"]  # others refuse those below zero
        for op, got in array.chunkfold.reduce(ops, weights=by, skipna=skipna).items():
            want = getattr(array.weighted(by), op)(skipna=skipna)
            close(got, want, atol=1e-15)
        if skipna:
            got = cf.reduce((array.values, by.values), "sum_of_weights", skipna=True)
            close(got, array.weighted(by).sum_of_weights())


def test_xarray_truths_as_weights():
    array, weights = xr.DataArray([1, 1]), xr.DataArray([True, True])
    for op, got in array.chunkfold.reduce([*WEIGHED], weights=weights).items():
        assert got == getattr(array.weighted(weights), op)()


def test_xarray_weights_that_are_missing():
    """xarray refuses them; here they make NaN of what they enter."""
    array, weights = np.array([1.0, 2.0]), np.array([nan, 2.0])
    assert all(map(np.isnan, cf.reduce(array, [*WEIGHED], weights=weights).values()))
    with pytest.raises(PlanError, match="axis"):
        cf.reduce(array, "mean", axis="bad_dim", weights=np.ones(2))


@pytest.mark.parametrize(("gaps", "skipna"), [(True, None), (True, False), (False, True)])
def test_xarray_weights_of_all_axes(gaps: bool, skipna: bool | None):
    rng = np.random.default_rng(0)
    array, weights = (xr.DataArray(rng.normal(size=(4, 4, 4)), dims=("a", "b", "c"))
                      for _ in range(2))  # fmt: skip
    weights = abs(weights)
    if gaps:
        array.values.ravel()[rng.choice(64, 16, replace=False)] = nan
    for dim in ("a", "c", ("a", "b"), None):
        found = array.chunkfold.reduce([*WEIGHED], dim, weights=weights, skipna=skipna)
        for op, got in found.items():
            want = getattr(array.weighted(weights), op)(dim, skipna=skipna)
            close(got, want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dim", ["dim_0", None])
@pytest.mark.parametrize("shapes", [((4, 4, 4), (4,)), ((4, 4, 4), (4, 4)), ((4, 4), (4,)),
                                    ((4,), (4, 4))])  # fmt: skip
def test_xarray_weights_of_other_axes(shapes: Any, dim: str | None):
    """xarray broadcasts an array to the axes of its weights, too; here Datasets are."""
    data, weights = (xr.DataArray(np.random.default_rng(n).random(one) + n, dims=[
        f"dim_{axis}" for axis in range(len(one))]) for n, one in enumerate(shapes))  # fmt: skip
    want = data.weighted(weights).mean(dim)
    if len(shapes[0]) < len(shapes[1]):
        with pytest.raises(PlanError):
            data.chunkfold.mean(dim, weights=weights)
        got = xr.Dataset({"data": data}).chunkfold.mean(dim, weights=weights).data
    else:
        got = data.chunkfold.mean(dim, weights=weights)
    close(got, want)


@pytest.mark.parametrize("q", [0.5, [0.2, 0.4, 0.6, 0.8]])
@pytest.mark.parametrize(
    "weights",
    [
        [25, 5, 15, 25, 15, 10, 5],
        [5, 5, 10, 15, 15, 25, 25],
        [1, 0, 1, 0, 1, 0, 1],
        [314] * 7,
    ],
)
def test_xarray_weighted_quantiles(weights: Any, q: Any):
    """NumPy's `inverted_cdf`: an element; xarray interpolates between elements."""
    values = np.array([1, 1.9, 2.2, 3, 3.7, 4.1, 5], "f2")
    for array in (values, np.append(values, nan).astype("f2")):
        each = np.append(weights, np.ones(len(array) - 7)).astype("i2")
        got = cf.reduce(array, cf.quantile(q), weights=each, skipna=True)
        want = np.quantile(values, q, weights=np.array(weights), method="inverted_cdf")
        close(got, np.asarray(want, "f2"))


def test_xarray_weights_at_other_places():
    """xarray takes the places that both have; here they must be the same."""
    data, weights = (xr.DataArray([0.5, 1, 1, 2], {"a": np.arange(n, n + 4)}, ("a",))
                     for n in (1, 0))  # fmt: skip
    with pytest.raises(PlanError):
        data.chunkfold.mean("a", weights=weights)


@pytest.mark.parametrize("q", [-1, 1.1, (0.5, 1.1)])
def test_xarray_quantiles_that_are_none(q: Any):
    with pytest.raises(MonoidError):
        cf.quantile(q)


# --- xarray, tests/test_coarsen.py --------------------------------------------------------------


def windowed() -> xr.Dataset:
    rng = np.random.default_rng(0)
    values = {"z1": (["y", "x"], rng.normal(size=(2, 8))),
              "z2": (["time", "y"], rng.normal(size=(10, 2)))}  # fmt: skip
    coords = {"x": np.linspace(0, 1.0, 8), "time": np.linspace(0, 1.0, 10), "c": ("y", ["a", "b"])}
    return xr.Dataset(values, coords | {"y": range(2)})


@pytest.mark.parametrize("op", ["max", "mean"])
@pytest.mark.parametrize("boundary", ["trim", "pad"])
def test_xarray_windows_of_datasets(boundary: Any, op: str):
    ds = windowed()
    got = ds.chunkfold.reduce(op, coarsen={"time": 2, "x": 3}, boundary=boundary)
    want = getattr(ds.coarsen(time=2, x=3, boundary=boundary), op)()
    for name in ("z1", "z2"):
        same(got[name], want[name])
    for name in ("time", "x"):
        close(got[name], want[name])


@pytest.mark.parametrize("window", [1, 2, 3, 4])
def test_xarray_windows_of_any_reduction(window: int):
    ds = windowed()
    holed = xr.DataArray([0, nan, 1, 2, nan, 3, 4, 5, nan, 6, 7], dims="time")
    ops = ["sum", "mean", "std", "var", "min", "max"]
    for array in (ds.z2, holed):
        found = array.chunkfold.reduce(ops, coarsen={"time": window}, boundary="trim")
        for op, got in found.items():
            same(got, getattr(array.coarsen(time=window, boundary="trim"), op)())


def test_xarray_windows_of_dates():
    time = pd.date_range("1999-12-15", periods=364, unit="ns")
    array = xr.DataArray(np.linspace(0, 365, 364), {"time": time}, ("time",))
    got, want = array.chunkfold.mean(coarsen={"time": 2}), array.coarsen(time=2).mean()
    same(got, want)
    close(got.time, want.time)


@pytest.mark.parametrize(
    ("coarsen", "told"), [({"foo": 2}, "foo"), ({"x": 3}, "not a multiple"), ({"time": 0}, "0")]
)
def test_xarray_windows_that_do_not_fit(coarsen: Mapping[str, int], told: str):
    with pytest.raises(PlanError, match=told):
        windowed().chunkfold.mean(coarsen=coarsen)


# --- xarray, tests/test_duck_array_ops.py, test_dataarray.py and test_computation.py -----------

CUBE = np.array([
    [[nan, nan, 2.0, nan], [nan, 5.0, 6.0, nan], [8.0, 9.0, 10.0, nan]],
    [[nan, 13.0, 14.0, 15.0], [nan, 17.0, 18.0, nan], [nan, 21.0, nan, nan]],
])  # fmt: skip


def test_xarray_counts_of_what_is_there():
    array = xr.DataArray(CUBE)
    assert array.chunkfold.count() == 12
    close(array.chunkfold.count("dim_2"), [[1, 2, 3], [3, 2, 1]])
    assert np.isnan(xr.DataArray([nan, nan]).chunkfold.mean())


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_xarray_means_of_dates(unit: str):
    """NaT is left out of means and counts, and wins in `min` and `max`, as xarray has it."""
    values = np.array(["2010-01-01", "NaT", "2010-01-03", "NaT", "NaT"], f"M8[{unit}]")
    array = xr.DataArray(values, dims="time")
    for one in (array, array[[1]], array[[0]], array - values[0]):
        for skipna in (None, True, False):
            close(one.chunkfold.mean(skipna=skipna), one.mean(skipna=skipna))
    close(array.chunkfold.count(), array.count())
    for op in ("min", "max"):
        assert np.isnat(array.chunkfold.reduce(op))
        assert np.isnat(getattr(array, op)())


def sampled(dims: int, dtype: str, gaps: bool) -> xr.DataArray:
    rng = np.random.default_rng(0)
    shape = (16, 8, 4)[:dims]
    values = rng.random(shape) if np.dtype(dtype).kind == "f" else rng.integers(0, 10, shape)
    values = values.astype(dtype)
    if gaps:
        values.ravel()[rng.choice(values.size, int(values.size * 0.2))] = nan
    return xr.DataArray(values, dims=("x", "y", "z")[:dims])


@pytest.mark.parametrize(
    ("dims", "dim", "dtype", "skipna"),
    [(1, None, "f8", True), (2, "x", "f8", True), (2, "x", "f8", False), (2, "x", "i8", True)],
)
def test_xarray_reductions_of_gaps(dims: int, dim: str | None, dtype: str, skipna: bool):
    array = sampled(dims, dtype, gaps=dtype == "f8")
    for ddof in (0, 5):
        ops = [*WEIGHED, "min", "max"]
        for op, got in array.chunkfold.reduce(ops, dim, skipna=skipna, ddof=ddof).items():
            more = {"ddof": ddof} if op in SPREADS else {}
            close(got, getattr(array, op)(dim, skipna=skipna, **more))


@pytest.mark.parametrize("least", [2, 3, 4, 5])
def test_xarray_sums_of_enough(least: int):
    values = np.full((6, 6), nan)
    values[np.ix_([0, 3], [0, 3])] = 2
    array = xr.DataArray(values, dims=("a", "b"))
    for dim in ("a", "b", None):
        for op, got in array.chunkfold.reduce(["sum", "prod"], dim, min_count=least).items():
            same(got, getattr(array, op)(dim, min_count=least))
    ds = xr.Dataset({"holed": array, "whole": ("a", np.arange(6))})
    got, want = ds.chunkfold.sum("a", min_count=least), ds.sum("a", min_count=least)
    for name in ("holed", "whole"):
        close(got[name], want[name])


def test_xarray_datasets_with_arrays_that_lack_the_axis():
    ds = xr.Dataset(
        {"data": (("pos", "time"), [[1.0, 2], [3, 4], [5, 6]]), "var": ("pos", [2, 3, 4])}
    )
    for op in ("mean", "max", "min", "sum"):
        got = ds.chunkfold.reduce(op, "time")
        close(got["var"], [2.0, 3, 4] if op == "mean" else [2, 3, 4])


@pytest.mark.parametrize("values", [
    np.array([0, 1, 2, 0, -2, -4, 2]),
    np.array([0.0, 1, 2, 0, -2, -4, 2]),
    np.array([1, nan, 2, nan, -2, -4, 2]),
    np.array(["2015-12-31", "2020-01-02", "2020-01-01", "2016-01-01"], "M8[ns]"),
], ids=["int", "float", "nan", "dates"])  # fmt: skip
@pytest.mark.parametrize("skipna", [None, False])
def test_xarray_extremes_and_where_they_are(values: np.ndarray, skipna: bool | None):
    array = xr.DataArray(np.stack([values, values[::-1], np.sort(values)]), dims=("y", "x"))
    ops = ["min", "max", "argmin", "argmax"]
    for op, got in array.chunkfold.reduce(ops, "x", skipna=skipna).items():
        close(got, getattr(array, op)("x", skipna=skipna))


def test_xarray_positions_of_nothing():
    """xarray and NumPy raise where all are NaN; here the position is -1."""
    array = xr.DataArray(np.array([[2.0, nan], [nan, nan]]), dims=("y", "x"))
    for op in ("argmin", "argmax"):
        with pytest.raises(ValueError, match="NaN"):
            getattr(array, op)("x")
        close(array.chunkfold.reduce(op, "x"), [0, -1])


@pytest.mark.parametrize(
    ("dim", "skipna", "q"),
    [
        (None, None, 0.25),
        (["x", "y"], True, 0.25),
        ("x", None, [0.25, 0.75]),
        (["x"], True, [0.25, 0.75]),
    ],
)
def test_xarray_quantiles(dim: Any, skipna: bool | None, q: Any):
    values = np.random.default_rng(0).random((10, 20))
    values[0, 0] = nan
    array = xr.DataArray(values, dims=("x", "y"))
    got = array.chunkfold.reduce(cf.quantile(q), dim, skipna=skipna)
    want = array.quantile(q, dim=dim, skipna=skipna)
    close(got.transpose(*want.dims), want)
    assert ("quantile" in got.dims) == bool(np.ndim(q))


METHODS = ["inverted_cdf", "averaged_inverted_cdf", "closest_observation",
           "interpolated_inverted_cdf", "hazen", "weibull", "linear", "median_unbiased",
           "normal_unbiased", "lower", "higher", "midpoint", "nearest"]  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
def test_xarray_quantiles_by_every_method(method: str):
    values = np.random.default_rng(0).integers(-999, 999, (10, 20), "i2")
    given: Any = {"method": method}
    got = cf.reduce(stored(values), cf.quantile([0.25, 0.5, 0.75], **given), axis=0)
    close(got, np.quantile(values, [0.25, 0.5, 0.75], axis=0, **given).T)


@pytest.mark.parametrize("ddof", [0, 1])
@pytest.mark.parametrize("dim", [None, "time"])
def test_xarray_covariances(dim: str | None, ddof: int):
    """With NaN left out of both, as xarray does by itself, and here `skipna`."""
    array = xr.DataArray(np.random.default_rng(0).random((3, 21, 4)), dims=("a", "time", "x"))
    moved = array.rolling(time=3, center=True).mean()
    other = moved.isel(time=slice(2, 20))
    for pair in ((array, array), (array.isel(time=slice(2, 20)), other), (moved, moved)):
        got = cf.reduce(pair, "covariance", axis=dim, ddof=ddof, skipna=True)
        close(got, xr.cov(*pair, dim=dim, ddof=ddof), rtol=1e-9)
        got = cf.reduce(pair, "correlation", axis=dim, skipna=True)
        close(got, xr.corr(*pair, dim=dim), rtol=1e-9)


@pytest.mark.parametrize("first", [0, 1, 2])
@pytest.mark.parametrize("second", [0, 1, 2])
def test_xarray_covariances_of_few(first: int, second: int):
    few = [np.array(one) for one in ([[1, 2], [1, nan]], [[1, 2], [nan, nan]], [[1.0, 2], [2, 1]])]
    arrays = [xr.DataArray(few[n], dims=("x", "time")) for n in (first, second)]
    pair = tuple(few[n] for n in (first, second))
    for axis, dim in ((None, None), (0, "x"), (1, "time")):
        got = cf.reduce(pair, "covariance", axis=axis, skipna=True)
        close(got, xr.cov(*arrays, dim=dim, ddof=0))


def test_xarray_weighted_covariances():
    """With `ddof` 0 both divide by the sum of weights."""
    rng = np.random.default_rng(0)
    pair = tuple(xr.DataArray(rng.random((3, 21, 4)), dims=("a", "time", "x")) for _ in range(2))
    weights = xr.DataArray(rng.random(4), dims="x")
    got = cf.reduce(pair, "covariance", weights=weights)
    close(got, xr.cov(*pair, weights=weights, ddof=0), rtol=1e-9)


# --- Dask, array/tests/test_reductions.py -------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "dtype"), [((5,), "f4"), ((11, 11), "f4"), ((11, 11), "i4"), ((11, 11), "c8")]
)
def test_dask_reductions_of_every_axis(shape: tuple[int, ...], dtype: str):
    """Complex numbers have no order here, and no variances; float32 is rounded once."""
    count = int(np.prod(shape))
    x = (np.arange(count) + 1j * np.arange(count)).reshape(shape).astype(dtype)
    ops = ["sum", "mean", "any", "all"]
    ops += ["var", "std", "min", "max", "argmin", "argmax"] if dtype != "c8" else []
    for axis in (None, *range(-len(shape), len(shape)), *([(1, 0)] if len(shape) > 1 else [])):
        for keepdims in (False, True) if axis in (None, 0) else (False,):
            found = cf.reduce(stored(x, (4,) * len(shape)), ops, axis=axis, keepdims=keepdims)
            for op in ops:
                if "arg" in op and isinstance(axis, tuple):
                    continue
                wide = (
                    x.astype("c16" if dtype == "c8" else "f8")
                    if op in ("var", "std", "mean")
                    else x
                )
                want = getattr(np, op)(wide, axis=axis, keepdims=keepdims)
                close(found[op], want.astype(found[op].dtype), rtol=1e-6)
                assert found[op].dtype == getattr(np, op)(x, axis=axis).dtype
    if dtype == "c8":
        for op in ("max", "var"):
            with pytest.raises(ChunkfoldError):
                cf.reduce(x, op)


@pytest.mark.parametrize("dtype", ["f4", "i4"])
def test_dask_products(dtype: str):
    x = np.arange(5).astype(dtype) + 1
    close(cf.reduce(stored(x), "prod"), np.prod(x))
    whole = np.arange(1, 122).astype(dtype)
    if dtype == "i4":  # NumPy and Dask let them wrap
        with pytest.raises(OverflowError):
            cf.reduce(stored(whole), "prod")
    else:
        close(cf.reduce(stored(whole), "prod"), np.float32(np.inf))


@pytest.mark.parametrize("shape", [(5,), (11, 11)])
def test_dask_dates(shape: tuple[int, ...]):
    x = np.arange(int(np.prod(shape))).reshape(shape).astype("M8[ns]")
    found = cf.reduce(stored(x), ["min", "max", "nanmin", "nanmax"], axis=0)
    close(found["min"], x.min(axis=0))
    close(found["max"], x.max(axis=0))
    close(found["nanmin"], x.min(axis=0))
    close(found["nanmax"], x.max(axis=0))


@pytest.mark.parametrize("values", [[np.inf, nan, -np.inf, 2], [nan, nan, 3, 2]])
def test_dask_gaps_and_infinities(values: Any):
    x = np.array(values)
    ops = ANY_GAPS
    for op, found in cf.reduce(stored(x, (1,)), ops).items():
        close(found, FOLDS[op](x))


QUARTERS = np.full((4, 4), nan)
QUARTERS[:2, :2] = [[1, 2], [3, 4]]
QUARTERS[[2, 3], [2, 3]] = 5, 6
HOLED = np.array([[1, nan, 3, 4], [5, 6, 7, nan], [9, 10, 11, 12]])


@pytest.mark.parametrize("x", [QUARTERS, HOLED], ids=["quarters", "holes"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_dask_chunks_of_gaps(axis: int | None, x: np.ndarray):
    ops = [*FOLDS]
    found = cf.reduce(stored(x, (2, 2)), ops, axis=axis)
    for op in ops:
        close(found[op], FOLDS[op](x, axis=axis))


def test_dask_positions():
    """Over several axes, too, which NumPy and Dask have not; of nothing but NaN it is -1."""
    x = np.random.default_rng(0).random((10, 10, 10))
    ops = ["argmin", "argmax", "nanargmin", "nanargmax"]
    source = stored(x, (3, 4, 5))
    for axis in (None, 0, 1, 2, -1):
        for op, got in cf.reduce(source, ops, axis=axis).items():
            close(got, FOLDS[op](x, axis=axis))
    for op, got in cf.reduce(source, ops, keepdims=True).items():
        close(got, FOLDS[op](x, keepdims=True))
    for op, got in cf.reduce(source, ops, axis=(0, 1)).items():
        close(got, FOLDS[op](x.reshape(100, 10), axis=0))
    with pytest.raises(PlanError):
        cf.reduce(source, ops, axis=3)
    x[5] = nan
    source = stored(x, (3, 4, 5))
    whole = cf.reduce(source, ops, axis=0)
    some = cf.reduce(source, ops, axis=1)
    for op in ops[2:]:
        close(whole[op], FOLDS[op](x, axis=0))
        assert (some[op][5] == -1).all()
        close(np.delete(some[op], 5, 0), FOLDS[op](np.delete(x, 5, 0), axis=1))


def test_dask_extremes_of_what_satisfies_a_condition():
    """Dask selects by `x[x < 2]`; here elements are left out, as by `where` of NumPy."""
    x = np.arange(10)
    for op, fold in (("min", np.min), ("max", np.max)):
        close(cf.reduce(stored(x, (1,)), op, where="x < 2"), fold(x[x < 2]))
        with pytest.raises(ChunkfoldError):
            cf.reduce(stored(x), op, where="x < 0")
    for shape in ((10, 0, 5), (0, 0, 0)):
        empty = np.ones(shape)
        for axis in (None, 0, 1, 2):
            close(cf.reduce(empty, "mean", axis=axis), np.mean(empty, axis=axis))
    close(cf.reduce(np.array(3), ["sum", "min"])["sum"], np.sum(3))


@pytest.mark.parametrize("shape", [(0,), (0, 0), (15, 16)])
def test_dask_counts_of_what_is_not_zero(shape: tuple[int, ...]):
    x = np.random.default_rng(0).integers(10, size=shape)
    for axis in (None, 0, (0,)):
        close(cf.reduce(x, "count_nonzero", axis=axis), np.count_nonzero(x, axis))


@pytest.mark.parametrize("k", [5, -5])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_dask_first_elements(axis: int, k: int):
    """The axis of ranks is the last one; Dask's stays where it was."""
    x = np.random.default_rng(0).random((10, 20, 30))
    ops = [cf.topk(k), cf.argtopk(k)] if k > 0 else [cf.bottomk(-k), cf.argbottomk(-k)]
    found = list(cf.reduce(stored(x, (4, 8, 8)), ops, axis=axis).values())
    order = np.moveaxis(np.argsort(x, axis=axis), axis, -1)
    want = order[..., ::-1][..., :k] if k > 0 else order[..., :-k]
    close(found[1], want)
    close(found[0], np.take_along_axis(np.moveaxis(x, axis, -1), want, -1))
    with pytest.raises(PlanError):
        cf.reduce(x, cf.topk(5), axis=3)


@pytest.mark.parametrize("chunk", [1, 4, 10])
def test_dask_first_elements_of_small_chunks(chunk: int):
    x = np.random.default_rng(0).random(10)
    close(cf.reduce(stored(x, (chunk,)), cf.topk(5)), np.sort(x)[-5:][::-1])
    with pytest.raises(PlanError):  # Dask gives all that there are
        cf.reduce(stored(x, (chunk,)), cf.topk(11))


@pytest.mark.parametrize("op", ["median", "nanmedian"])
@pytest.mark.parametrize("axis", [0, [0, 1], 1, -1])
@pytest.mark.parametrize("keepdims", [True, False])
def test_dask_medians(keepdims: bool, axis: Any, op: str):
    x = np.arange(100, dtype="i2").reshape(2, 5, 10)
    axes = tuple(axis) if isinstance(axis, list) else axis
    got = cf.reduce(stored(x, (2, 2, 2)), op, axis=axes, keepdims=keepdims)
    close(got, getattr(np, op)(x, axis=axes, keepdims=keepdims))


@pytest.mark.parametrize(
    ("axis", "skipna", "q"),
    [(3, True, 0.75), ((1, 3), True, 0.75), (3, False, [0.75, 0.4])],
)
def test_dask_quantiles(axis: Any, skipna: bool, q: Any):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(7, 10, 7, 10))
    x[rng.integers(0, 10, x.shape) >= 8] = nan
    x[:, :, :, 1] = x[1] = 1
    source = stored(x, (2, 3, 4, 5))
    fold = np.nanquantile if skipna else np.quantile
    got = cf.reduce(source, cf.quantile(q), axis=axis, skipna=skipna)
    want = fold(x, q, axis=axis)
    close(got, np.moveaxis(want, 0, -1) if np.ndim(q) else want)
    if skipna and not np.ndim(q):
        got = cf.reduce(source, cf.quantile(q, method="weibull"), axis=axis, skipna=True)
        close(got, fold(x, q, axis=axis, method="weibull"))


@pytest.mark.parametrize("q", [0.75, [0.75, 0.4]])
@pytest.mark.parametrize("axis", [0, 2, -1])
def test_dask_weighted_quantiles(axis: int, q: Any):
    rng = np.random.default_rng(0)
    x = rng.integers(-999, 999, (5, 6, 7), "i2")
    weights = rng.integers(50, 200, x.shape[axis], "i2")
    along = np.reshape(weights, [-1 if n == axis % 3 else 1 for n in range(3)])
    got = cf.reduce(stored(x), cf.quantile(q, method="inverted_cdf"), axis=axis, weights=along)
    want = np.quantile(x, q, axis=axis, weights=weights, method="inverted_cdf")
    close(got, np.moveaxis(want, 0, -1) if np.ndim(q) else want)


@pytest.mark.parametrize("dtype", ["f4", "i2", "u2"])
def test_dask_dtypes_of_quantiles(dtype: str):
    """Of float32 it is that; NumPy and Dask have the dtype of an array of quantiles, too."""
    x = np.array([100, 200, 300], dtype)
    got, want = cf.reduce(x, cf.quantile(0.5)), np.quantile(x, 0.5)
    close(got, want)
    assert got.dtype == want.dtype
    if x.itemsize == 2:
        weights = np.array([4, 6, 10], "i2")
        assert cf.reduce(x, cf.quantile(0.5), weights=weights).dtype == np.dtype(dtype)


# --- Dask, array/tests/test_percentiles.py ------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [
        np.ones(16, "i2"),
        np.array([0, 0, 5, 5, 5, 5, 20, 20], "i2"),
        np.linspace(500, 1000, 50).astype("i2"),
        np.array([5000, 4400, 6000, 6050, 6000] * 3, "i2"),
    ],
)
def test_dask_percentiles(values: np.ndarray):
    """Exact, where Dask's of several chunks are off by up to a twentieth."""
    source = stored(values, (3,))
    each = [0, 0.05, 0.5, 0.95, 1]
    close(cf.reduce(source, cf.quantile(each)), np.quantile(values, each))


# --- Dask, array/tests/test_routines.py ---------------------------------------------------------


@pytest.mark.parametrize("density", [False, True])
@pytest.mark.parametrize("weighed", [False, True])
@pytest.mark.parametrize("shape", [(100,), (50, 50)])
def test_dask_histograms(shape: tuple[int, ...], weighed: bool, density: bool):
    rng = np.random.default_rng(0)
    x, weights = rng.random(shape), np.full(shape, 5.0)
    edges = np.arange(0, 1.01, 0.1)
    given: Any = {"weights": weights} if weighed else {}
    got = cf.reduce(stored(x, (10,) * x.ndim), cf.histogram(edges, density=density), **given)
    want, ends = np.histogram(x, edges, density=density, **given)
    close(
        got[next(name for name in ("density", "weight", "count") if name in got.dtype.names)], want
    )
    close(got["left"], ends[:-1])
    close(got["right"], ends[1:])


def test_dask_histograms_with_gaps():
    edges = np.linspace(-3, 3, 11)
    x = np.array([-2, nan, 2])
    close(cf.reduce(stored(x, (1,)), cf.histogram(edges))["count"], np.histogram(x, edges)[0])
    x = np.random.default_rng(0).random(100) * 10
    whole = np.arange(11)
    close(cf.reduce(stored(x, (10,)), cf.histogram(whole))["count"], np.histogram(x, whole)[0])


@pytest.mark.parametrize("edges", [10, [[0, 1, 2]], [3, 2, 1], [1]])
def test_dask_edges_that_are_none(edges: Any):
    """A number of bins is none: without edges they follow the data."""
    with pytest.raises((MonoidError, TypeError)):
        cf.reduce(np.random.default_rng(0).random(10), cf.histogram(edges))


def test_dask_histograms_of_two():
    """Two labels that are bins count what falls into both."""
    rng = np.random.default_rng(0)
    x, y = rng.random((2, 800))
    weights = rng.uniform(0.2, 1.1, 800)
    edges = [0.0, 0.2, 0.6, 0.9, 1.0], [0.0, 0.1, 0.4, 0.5, 1.0]
    by: Any = tuple(cf.bins(ends, of=of) for ends, of in zip(edges, (x, y), strict=True))
    close(cf.reduce(stored(x, (200,)), "count", by=by), np.histogram2d(x, y, edges)[0].astype(int))
    got = cf.reduce(stored(weights, (200,)), "sum", by=by)
    close(got, np.histogram2d(x, y, edges, weights=weights)[0])


@pytest.mark.parametrize("weights", [None, np.array([1, 2, 1, 0.5, 1], "f4"),
                                     np.array([1, 2, 1, 0, 1], "i4")])  # fmt: skip
def test_dask_counts_of_whole_numbers(weights: np.ndarray | None):
    """`bincount` is a count, or a sum of weights, by labels."""
    x = np.array([2, 1, 5, 2, 1])
    if weights is None:
        got = cf.reduce(np.ones(5), "count", by=x, groups=range(6))
    else:
        got = cf.reduce(weights, "sum", by=x, groups=range(6), dtype="f8")
    close(got, np.bincount(x, weights, minlength=6))


def test_dask_covariances():
    x, y = np.arange(56).reshape(7, 8), np.arange(8)
    close(cf.cov(stored(x)), np.cov(x))
    close(cf.cov(stored(x), axis=1), np.cov(x, rowvar=False))
    close(cf.cov(x, ddof=0), np.cov(x, bias=True))
    close(cf.cov(np.vstack([x, y])), np.cov(x, y))
    close(cf.cov(x, ddof=10), np.full((7, 7), np.inf))
    close(cf.corrcoef(stored(x)), np.corrcoef(x), rtol=1e-9)
    close(cf.corrcoef(stored(x), axis=1), np.corrcoef(x, rowvar=False), rtol=1e-9)
    assert np.isnan(cf.corrcoef(np.array([[1, 2]]), axis=1)).all()


def test_dask_covariances_with_frequencies():
    """Matrices take no weights; covariances of two arrays do, as `fweights`."""
    a, b = np.array([[0, 2], [1, 1], [2, 0]]).T.astype(float)
    frequencies = np.array([1, 4, 1])
    got = cf.reduce((a, b), "covariance", weights=frequencies, ddof=1)
    close(got, np.cov(a, b, fweights=frequencies)[0, 1])
    close(got, -0.4)


def test_dask_windows():
    x = np.random.default_rng(0).integers(10, size=(24, 24))
    found = cf.reduce(stored(x, (4, 8)), ["sum", "mean"], coarsen={0: 2, 1: 4})
    tiles = x.reshape(12, 2, 6, 4)
    close(found["sum"], tiles.sum(axis=(1, 3)))
    close(found["mean"], tiles.mean(axis=(1, 3)))
    single = cf.reduce(stored(x, (4, 8)), "mean", coarsen={0: 2, 1: 4}, dtype="f4")
    assert single.dtype == np.float32
    close(single, tiles.mean(axis=(1, 3)).astype("f4"))
    ten = stored(np.arange(10), (5,))
    close(cf.reduce(ten, "min", coarsen={0: 5}, boundary="trim"), [0, 5])
    close(cf.reduce(ten, "sum", coarsen={0: 3}, boundary="trim"), [3, 12, 21])


@pytest.mark.parametrize("chunk", [5, 16, 23, 31])
def test_dask_windows_in_any_chunks(chunk: int):
    x = np.arange(3 * max(chunk, 16))
    got = cf.reduce(stored(x, (chunk,)), "sum", coarsen={0: 10}, boundary="trim")
    close(got, x[: len(x) // 10 * 10].reshape(-1, 10).sum(axis=1))


@pytest.mark.parametrize("x", [np.arange(11), np.arange(6).reshape(3, 2)], ids=["one", "two"])
def test_dask_averages(x: np.ndarray):
    close(cf.reduce(stored(x, (2,) * x.ndim), "mean"), np.average(x))
    if x.ndim == 2:
        weights = np.array([0.25, 0.75])
        for keepdims in (False, True):
            got = cf.reduce(x, "mean", axis=1, weights=weights, keepdims=keepdims)
            close(got, np.average(x, axis=1, weights=weights, keepdims=keepdims))
    else:
        assert np.isnan(cf.reduce(x, "mean", weights=np.zeros(11)))
        with pytest.raises(PlanError):
            cf.reduce(x, "mean", weights=[1, 2, 3])


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_dask_spreads(axis: int | None):
    """`ptp` is the difference of what one read gives."""
    x = np.random.default_rng(0).integers(0, 10, (10, 15, 20))
    found = cf.reduce(stored(x, (5, 5, 5)), "minmax", axis=axis)
    close(found[..., 1] - found[..., 0], np.ptp(x, axis))


@pytest.mark.parametrize("shape", [(10,), (4, 5), (20, 20)])
def test_dask_different_values(shape: tuple[int, ...]):
    """`unique` itself is none: how many there are, and how often each in whole numbers' bins."""
    x = np.random.default_rng(23).integers(0, 10, shape).astype("i2")
    values, counts = np.unique(x, return_counts=True)
    assert cf.reduce(stored(x), "nunique") == len(values)
    assert cf.reduce(stored(x), "mode") == values[counts.argmax()]
    got = cf.reduce(stored(x), cf.histogram(range(11)))["count"]
    close(got[got > 0], counts)
