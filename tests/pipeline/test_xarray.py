"""What xarray opened from a Zarr is read from there, and reduced as xarray reduces it."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import chunkfold as cf
import chunkfold.xarray
from chunkfold.errors import MonoidError, PlanError
from chunkfold.events import Event, RunStarted
from chunkfold.kernels import CATALOGUE

pytestmark = pytest.mark.unoptimised
RNG = np.random.default_rng(0)
SHAPE = (12, 4, 5)
METHODS = ("mean", "min", "max", "count", "any", "all")


def sample() -> xr.Dataset:
    """Floats with gaps, packed and masked integers, and what cannot be reduced."""
    time = np.array("2001-01-15", "M8[ns]") + np.arange(12) * np.timedelta64(30, "D")
    dims = ("time", "lat", "lon")
    gaps = RNG.normal(size=SHAPE)
    gaps[RNG.random(SHAPE) < 0.1] = np.nan
    numbers = RNG.integers(-90, 90, SHAPE)
    values: dict[str, Any] = {
        "plain": (dims, gaps.astype("f4"), {"units": "degC", "actual_range": [0, 1]}),
        "packed": (dims, np.where(np.isnan(gaps), np.nan, numbers * 0.5 + 3), {"units": "m"}),
        "masked": (dims, np.where(np.isnan(gaps), np.nan, numbers).astype("f4")),
        "whole": (dims, numbers.astype("i4")),
        "mask": (("lat", "lon"), numbers[0] > 0),
        "place": (("lat",), np.array(list("abcd"))),
    }
    values["when"] = (("time", "lat"), time[:, None] + np.arange(4).astype("m8[D]"))
    coords = {
        "time": time,
        "lat": ("lat", np.arange(4.0), {"units": "degrees_north"}),
        "area": (("lat", "lon"), np.ones((4, 5))),
        "season": ("time", time.astype("M8[M]").astype(int) % 12 // 3),
        "height": 2.0,
    }
    return xr.Dataset(values, coords, {"title": "sample"})


@pytest.fixture(scope="module", params=[2, 3])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    chunks = {"chunks": (5, 4, 5)}
    encoding: dict[str, Any] = {
        "plain": chunks,
        "packed": {"dtype": "i2", "scale_factor": 0.5, "add_offset": 3.0, "_FillValue": -999}
        | chunks,
        "masked": {"dtype": "u1", "_FillValue": 255, "_Unsigned": "false"} | chunks,
    }
    ds = sample()
    ds["masked"] = ds["masked"].where(ds["masked"] != -1)
    encoding["masked"] = {"dtype": "i1", "_FillValue": -1} | chunks
    made = tmp_path_factory.mktemp("xarray") / "s.zarr"
    ds.to_zarr(made, encoding=encoding, zarr_format=request.param)
    return made


@pytest.fixture
def ds(store: Path) -> xr.Dataset:
    """One format is read as xarray has it without Dask, the other as it has it with Dask."""
    third = (store / "zarr.json").exists()
    return opened(store, None if third else {})


def opened(store: Path, chunks: Any = None, **given: Any) -> xr.Dataset:
    """Open it so that what xarray itself reads does not stay in memory."""
    return xr.open_dataset(store, engine="zarr", chunks=chunks, cache=False, **given)


def close(got: Any, want: Any) -> None:
    xr.testing.assert_allclose(got, want.drop_attrs(deep=False), rtol=1e-5)
    assert set(got.coords) == set(want.coords)
    assert got.dtype == want.dtype


def test_every_method_is_as_xarrays(ds: xr.Dataset):
    got = cf.reduce(ds["packed"], METHODS, axis="time")
    for op in METHODS:
        close(got[op], getattr(ds["packed"], op)("time"))
    for name in ("plain", "masked", "whole"):
        close(ds[name].chunkfold.mean("lat"), ds[name].mean("lat"))
        close(
            ds[name].chunkfold.std(["lat", "time"], ddof=1), ds[name].std(["lat", "time"], ddof=1)
        )
    close(ds["packed"].chunkfold.max(), ds["packed"].max())
    close(ds["packed"].chunkfold.max(...), ds["packed"].max())
    close(ds["whole"].chunkfold.argmax("time"), ds["whole"].argmax("time"))
    assert {*METHODS, "argmin", "argmax"} <= {*dir(chunkfold.xarray.Reductions), *CATALOGUE}


def test_axes_are_named_by_dim_in_any_order(ds: xr.Dataset):
    first, second = ds.whole.dims[:2]
    want = ds.whole.max((first, second))
    for dims in ({first, second}, [second, first], dict.fromkeys((first, second)).keys()):
        np.testing.assert_array_equal(ds.whole.chunkfold.max(dims), want)
    for held in (ds, ds.whole):
        with pytest.raises(PlanError, match="axis is 0: name axes by dim="):
            held.chunkfold.max(axis=0)


def test_reductions_that_are_no_methods_are_told(ds: xr.Dataset):
    told = r"no method is called 'p95': write .reduce\('p95', dim\)"
    with pytest.raises(AttributeError, match=told):
        ds.whole.chunkfold.p95("time")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        ds.whole.chunkfold.nothing  # noqa: B018
    assert not hasattr(ds.whole.chunkfold, "_repr_png_")


def test_nan_are_left_out_unless_it_is_said(ds: xr.Dataset):
    for skipna in (True, False, None):
        got, want = (one.mean("time", skipna=skipna) for one in (ds.plain.chunkfold, ds.plain))
        close(got, want)


def test_results_have_names_and_attributes_that_are_true(ds: xr.Dataset):
    got = ds["plain"].chunkfold.std("time")
    assert got.name == "plain"
    assert got.attrs == {"units": "K", "cell_methods": "time: standard_deviation"}
    assert got.lat.attrs == {"units": "degrees_north"}
    renamed = ds["packed"].rename(lat="y").assign_attrs(units="km")
    labelled = cf.reduce(renamed, "max", axis="time", labels=True)
    assert (labelled.dims, labelled.units) == (("y", "lon"), "km")
    assert set(labelled.coordinates) == {"y", "area", "height"}


SELECTIONS = [
    {"time": slice(3, 9)},
    {"time": slice(None, None, 3), "lat": 2},
    {"lat": -1, "lon": slice(1, 3)},
    {"lon": [1, 3]},
    {"time": np.arange(12) > 8},
]


@pytest.mark.parametrize("chunks", [None, {}, {"time": 4, "lon": 2}])
@pytest.mark.parametrize("cut", SELECTIONS)
def test_what_is_selected_is_read_alone(store: Path, cut: dict[str, Any], chunks: Any):
    part = opened(store, chunks)["packed"].isel(cut)
    run = cf.submit(part, "max", axis="time")
    close(run.result(), part.max("time"))
    assert run.plan.layout.elements == part.size
    assert (run.plan.sources[0].local_path or "").rstrip("/") == str(store / "packed")
    twice = part.isel(time=slice(1, None))
    close(twice.chunkfold.max("time"), twice.max("time"))
    close(cf.reduce(part, "max", axis=0, selection=slice(1, 3)), part[1:3].max(part.dims[0]))


def test_weights_and_masks_are_those_of_what_is_selected(store: Path):
    part = opened(store)["whole"].isel(time=slice(2, 11), lon=1)
    weights = xr.DataArray([1.0, 0, 2, 3], dims=["lat"])
    got = cf.reduce(part, "mean", axis="lat", weights=weights)
    close(got, part.weighted(weights).mean("lat"))
    there = xr.DataArray(np.arange(9) % 2 == 0, dims=["time"])
    np.testing.assert_array_equal(
        cf.reduce(part, "max", axis="time", where=there), part[::2].max("time")
    )


def test_labels_are_those_of_what_is_selected(ds: xr.Dataset, store: Path):
    lazy = opened(store)
    for array in (ds["packed"], lazy["packed"].isel(time=slice(2, 11), lat=1)):
        got = cf.reduce(array, "mean", axis="time", by=array.season)
        want = array.compute().groupby("season").mean("time").transpose("season", ...)
        close(got, want)
        assert got.season.values.tolist() == want.season.values.tolist()
        flat = cf.reduce(array, "max", axis="lon", by=[0, 0, 1, 1, 1], by_axis="lon")
        assert flat.dims[-1] == "group"
        np.testing.assert_array_equal(flat[..., 1], array[..., 2:].max("lon"))


@pytest.mark.parametrize("op", ["mean", "count"])
def test_a_dataset_is_reduced_array_by_array(ds: xr.Dataset, op: str):
    numbers = ds.drop_vars("place")
    got, want = getattr(ds.chunkfold, op)("time"), getattr(numbers, op)("time")
    assert list(got.data_vars) == list(want.data_vars)
    xr.testing.assert_allclose(got, want, rtol=1e-5)
    assert got.attrs == ds.attrs
    assert ("cell_methods" in got["plain"].attrs) == (op != "count")


ALIKE = ("mean", "sum", "prod", "min", "max", "median", "var", "std", "count", "any", "all")


@pytest.mark.parametrize("op", ALIKE)
def test_arrays_without_the_axis_are_as_xarray_has_them(op: str):
    """Values and dtypes: some reductions leave them as they are, others take element by element."""
    number = np.array([0, 1, 2])
    held = xr.Dataset({"f": (("t", "x"), np.arange(6.0).reshape(2, 3))})
    for dtype in ("bool", "int8", "int32", "uint64", "float32", "float64", "complex64", "M8[s]"):
        if not (dtype in ("M8[s]", "complex64") and op in ("var", "std")):
            held[dtype] = ("x", number.astype("i8").astype(dtype), {"units": "1"})
    held["float64"][1] = np.nan
    held["alone"] = ((), np.int32(7))
    if op not in ("count", "any", "all", "var", "std"):
        held["name"] = ("x", list("abc"))
    got, want = getattr(held.chunkfold, op)("t"), getattr(held, op)("t")
    assert list(got) == list(want)
    assert {name: one.dtype for name, one in got.items()} == {n: o.dtype for n, o in want.items()}
    xr.testing.assert_equal(got.drop_attrs(), want.drop_attrs())
    several = held.chunkfold.reduce([op, "argmax"], "t")
    xr.testing.assert_equal(several[op], got)


def test_several_ops_and_groups_of_a_dataset_are_datasets(ds: xr.Dataset):
    two = ds[["plain", "whole", "mask"]]
    got = cf.reduce(two, ["mean", "max"], axis="time", by=two.season)
    assert list(got) == ["mean", "max"]
    want = two[["plain", "whole"]].compute().groupby("season").max("time")
    xr.testing.assert_allclose(got["max"][["plain", "whole"]], want)
    assert got["max"]["mask"].dims == ("lat", "lon")
    with pytest.raises(PlanError, match=r"no axis 'tim'; did you mean 'time'\?"):
        two.chunkfold.mean("tim")


def test_stored_numbers_are_reduced_where_xarray_was_told_so(store: Path):
    stored = opened(store, mask_and_scale=False)["packed"]
    got = stored.chunkfold.mean()
    assert got == stored.mean()
    assert got.attrs["scale_factor"] == 0.5
    with pytest.raises(PlanError, match="open it with mask_and_scale=True"):
        cf.reduce(stored, "mean", mask_and_scale=True)


@pytest.mark.parametrize("what", ["weights", "where", "by"])
def test_what_goes_along_is_of_the_same_places(what: str):
    air = xr.DataArray(
        np.arange(12.0).reshape(4, 3), dims=("time", "lat"), coords={"lat": [0, 1, 2]}
    )
    north = air.lat > 0
    given = north * 1 if what != "where" else north
    want = cf.reduce(air, "mean", **{what: given.drop_vars("lat")})
    assert cf.reduce(air, "mean", **{what: given}).equals(want)
    for other in (given[::-1], given.assign_coords(lat=[0, 1, 3])):
        with pytest.raises(PlanError, match=rf"{what}: 'lat' is . at ., where .*\.sel\(lat"):
            cf.reduce(air, "mean", **{what: other})


def test_pairs_are_aligned(store: Path):
    lazy = opened(store)
    one, two = lazy["packed"][:6], lazy["whole"][:6]
    want = (one * two).sum(skipna=False)
    assert np.isnan(want)
    assert np.isnan(cf.reduce([one, two], "dot", skipna=False))
    assert cf.reduce((one, two), "dot") == (one * two).sum()
    with pytest.raises(PlanError, match="is not aligned with"):
        cf.reduce((one, lazy["whole"][6:]), "dot")
    later = lazy["whole"][6:].assign_coords(time=one.time, season=one.season)
    assert cf.reduce((one, later), "dot", skipna=True) == (one * later).sum()
    with pytest.raises(PlanError, match="the other is not"):
        cf.reduce((one, store / "whole"), "dot")


def test_pairs_leave_nan_out_as_one_array_does():
    x = xr.DataArray([[1.0, np.nan, 3, 5], [2, 4, 7, np.nan]], dims=("y", "x"))
    y = xr.DataArray([[2.0, 1, np.nan, 4], [np.nan, 1, 1, 9]], dims=("y", "x"))
    whole = (x.fillna(0) * 2).astype("i8")
    got = cf.reduce((x, y), ["covariance", "correlation", "max_abs_diff", "first_mismatch"])
    assert got["covariance"] == xr.cov(x, y, ddof=0)
    assert got["correlation"] == pytest.approx(float(xr.corr(x, y)))
    assert got["max_abs_diff"] == float(abs(x - y).max())
    assert got["first_mismatch"] == 0
    assert cf.reduce((x, x.fillna(0)), "first_mismatch") == 1  # a gap on one side is a mismatch
    assert np.isnan(cf.reduce((x, y), "covariance", skipna=False))
    assert np.isnan(cf.reduce((x.values, y.values), "covariance"))
    for pair in ((x, whole), (whole, x)):
        assert cf.reduce(pair, "dot") == float((x * whole).sum())
    weights = xr.DataArray([[1.0, 5, 1, 1], [1, 1, 2, 9]], dims=("y", "x"))
    assert cf.reduce((x, weights), "weighted_mean") == x.weighted(weights).mean()
    assert cf.reduce((x, y), "covariance", weights=weights) == cf.reduce(
        (x.values, y.values), "covariance", weights=weights.values, skipna=True
    )


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda of: of["packed"].T, "xarray has its axes in another order"),
        (lambda of: of["when"], "xarray decodes values to datetime64[ns] in its own way"),
    ],
)
def test_what_is_not_read_directly_is_read_by_xarray(store: Path, change: Any, why: str):
    array = change(opened(store))
    run = cf.submit(array, "max", axis="time")
    close(run.result(), array.max("time"))
    assert f"read by xarray, since {why}" in " ".join(str(run.plan).replace("\n", " ").split())


def test_a_decoding_of_xarrays_own_is_xarrays(store: Path):
    ds = opened(store)
    ds["packed"].variable._data.array.func.keywords["scale_factor"] = 0.25
    close(ds["packed"].chunkfold.max("time"), ds["packed"].max("time"))


@pytest.mark.parametrize(
    "change", [lambda of: of + 1, lambda of: of[3:].load(), lambda of: of.where(of > 0)[2:, 1]]
)
def test_what_is_computed_or_in_memory_is_reduced_too(store: Path, change: Any):
    array = change(opened(store, {})["packed"])
    close(array.chunkfold.max("time"), array.max("time"))


def test_complex_arrays_of_a_dataset_have_the_results_that_they_can():
    values = np.arange(6.0).reshape(2, 3)
    held = xr.Dataset({"a": (("x", "y"), values), "z": (("x", "y"), values * 1j)})
    assert set(held.chunkfold.max("x")) == {"a"}
    assert held.chunkfold.sum("x").z.values.tolist() == (values * 1j).sum(0).tolist()


WEIGHTS = xr.DataArray([1.0, 2, 4, 3], dims="lat")


@pytest.mark.parametrize("dim", ["lat", "time", None])
@pytest.mark.parametrize("op", ["mean", "sum", "var"])
def test_arrays_that_lack_axes_of_weights_or_masks_are_the_same_along_them(op: str, dim: Any):
    both = xr.DataArray(RNG.normal(size=(3, 4)), dims=("time", "lat"))
    held = xr.Dataset({"a": both, "s": both[:, 0], "whole": (both[:, 0] * 9).astype("i4")})
    got = cf.reduce(held, op, axis=dim, weights=WEIGHTS)
    wants = {name: getattr(one.weighted(WEIGHTS), op)(dim) for name, one in held.items()}
    xr.testing.assert_allclose(got, xr.Dataset(wants))
    masked = cf.reduce(held, op, axis=dim, where=WEIGHTS > 1)
    want = getattr(held.where(WEIGHTS > 1), op)(dim)
    xr.testing.assert_allclose(masked, want)


def test_what_has_no_weighted_form_is_left_out_and_the_rest_is_not():
    times = np.array("2001-01-15", "M8[ns]") + np.arange(4) * np.timedelta64(1, "D")
    held = xr.Dataset(
        {
            "a": ("lat", np.arange(4.0)),
            "z": ("lat", np.arange(4) * (1 + 2j)),
            "when": ("lat", times),
            "took": ("lat", times - times[0]),
            "name": ("lat", list("abcd")),
        }
    )
    got = held.chunkfold.reduce(["mean", "sum", "std"], "lat", weights=WEIGHTS)
    assert {op: list(one.data_vars) for op, one in got.items()} == {
        "mean": ["a", "z"], "sum": ["a", "z"], "std": ["a"],
    }  # fmt: skip
    for op in ("mean", "sum"):
        xr.testing.assert_allclose(got[op]["z"], getattr(held.z.weighted(WEIGHTS), op)())
    told = r"DataArray 'when': 'mean' weighs numbers, but elements are datetime64\[ns\]: leave the"
    with pytest.raises(MonoidError, match=told):
        held.when.chunkfold.mean(weights=WEIGHTS)
    with pytest.raises(MonoidError, match="DataArray 'z': 'std' is not defined for complex128"):
        held.z.chunkfold.std(weights=WEIGHTS)
    with pytest.raises(PlanError, match="'max' takes no weights"):
        held[["z", "name"]].chunkfold.max(weights=WEIGHTS)


QUESTIONS = {
    "mean": cf.ask("mean", axis="time"),
    "seasons": cf.ask(["max", "count"], axis="time", by="season"),
    "windows": cf.ask("sum", coarsen={"lat": 2}),
    "above": cf.ask("count", axis=("lat", "lon"), where="x > 0"),
}


def test_questions_of_a_dataset_are_what_each_is_alone(ds: xr.Dataset):
    sel = {"lat": slice(1, 2)}
    got = cf.reduce(ds, QUESTIONS, sel=sel)
    assert list(got) == list(QUESTIONS)
    for name, question in QUESTIONS.items():
        want = cf.reduce(ds, question.op, sel=sel, **question.given)
        if name == "seasons":
            assert list(got[name]) == list(want) == ["max", "count"]
        else:
            got[name], want = {"": got[name]}, {"": want}
        for op, one in want.items():
            xr.testing.assert_identical(got[name][op], one)


def test_questions_of_a_dataset_read_an_array_once(store: Path):
    begun: list[Event] = []

    def note(event: Event) -> None:
        begun.extend([event] if isinstance(event, RunStarted) else [])

    two = opened(store)[["plain", "whole"]]
    cf.reduce(two, QUESTIONS, on_event=note)
    assert len(begun) == 2
    weights = xr.DataArray(np.arange(3.0), dims="level")
    more = {"mean": cf.ask("mean"), "levels": cf.ask("mean", weights=weights)}
    begun.clear()
    got = cf.reduce(two, more, on_event=note)
    assert len(begun) == 4  # for levels, which arrays lack, each is another array
    xr.testing.assert_allclose(got["levels"], got["mean"])


@pytest.mark.parametrize(
    ("questions", "said"),
    [
        ({}, "no question is given"),
        ({"a": "mean"}, "'a' is not a question, but a str"),
        ({"a": cf.ask(), "b": cf.ask(axis="tim")}, "b: the Dataset has no axis 'tim'"),
        ({"a": cf.ask(), "b": cf.ask(by="seasn")}, "b: by 'seasn' names nothing in the Dataset"),
        ({"a/b": cf.ask()}, "a question is called 'a/b'"),
    ],
)
def test_what_cannot_be_asked_of_a_dataset_is_refused(ds: xr.Dataset, questions: Any, said: str):
    with pytest.raises(PlanError, match=said):
        cf.reduce(ds, questions)
    with pytest.raises(PlanError, match="several questions"):
        cf.reduce(ds, QUESTIONS, compute=False)


def test_a_dataset_without_arrays_is_asked_nothing_wrong():
    empty = xr.Dataset()
    with pytest.raises(TypeError, match="no option is called 'foo'"):
        cf.reduce(empty, {"a": cf.ask("mean")}, foo=1)  # type: ignore[call-arg]
    with pytest.raises(PlanError, match="no axis 0; it has no axes"):
        cf.reduce(empty, "mean", axis=0)


def test_positions_of_extremes_have_their_coordinates(ds: xr.Dataset):
    for name in ("plain", "packed"):
        for dim in ("time", "lat"):
            for op in ("idxmin", "idxmax"):
                got = getattr(ds[name].chunkfold, op)(dim)
                want = getattr(ds[name].load(), op)(dim)
                np.testing.assert_array_equal(got, want)
                assert got.name == want.name
    assert set(ds[["plain", "whole"]].chunkfold.idxmax("time").data_vars) == {"plain", "whole"}
    gaps = xr.DataArray([[1.0, np.nan]], {"day": np.array(["2001-01-01"], "M8[ns]")}, ("day", "x"))
    assert np.isnat(gaps.chunkfold.idxmin("day")).values.tolist() == [False, True]
    for dim in ("lon", None, ["time", "lat"]):
        with pytest.raises(PlanError, match="name one axis that has a coordinate"):
            ds["plain"].chunkfold.idxmax(dim)


def test_quantiles_have_their_ranks(ds: xr.Dataset):
    held = ds["plain"].load()
    for q in (0.25, [0.1, 0.5]):
        got, want = ds["plain"].chunkfold.quantile(q, "time"), held.quantile(q, "time")
        np.testing.assert_allclose(got.transpose(*want.dims), want, rtol=1e-6)
        assert got["quantile"].values.tolist() == want["quantile"].values.tolist()
    np.testing.assert_allclose(ds["plain"].chunkfold.median("lat"), held.median("lat"), rtol=1e-6)


def test_methods_say_what_they_take():
    method = xr.DataArray([1.0]).chunkfold.mean
    names = list(inspect.signature(method).parameters)
    assert names[0] == "dim"
    assert {"by", "groups", "weights", "keepdims"} < {*names}
    assert "Return means" in method.__doc__
    assert "Group elements by labels" in method.__doc__
    assert set(names) <= {"dim", "given", *inspect.signature(cf.reduce).parameters}
