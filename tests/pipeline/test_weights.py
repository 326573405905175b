"""Weights and masks that lack axes of the data: NumPy's values, exact, whatever holds the data."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray
import zarr
from distributed import Client
from hypothesis import given
from hypothesis import strategies as st

import chunkfold as cf
from chunkfold.planning import broadcast_inputs
from chunkfold.running import sending
from tests.conftest import DEVICES

pytestmark = pytest.mark.unoptimised

SHAPE = (6, 5, 8)
DIMS = ("time", "lat", "lon")


def data(dtype: str = "float32", *, nans: bool = False) -> np.ndarray:
    """Return numbers of many magnitudes."""
    rng = np.random.default_rng(0)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 100, SHAPE).astype(dtype)
    values = rng.standard_normal(SHAPE) * 10.0 ** rng.integers(-8, 9, SHAPE)
    if nans:
        values[rng.random(SHAPE) < 0.2] = np.nan
    return values.astype(dtype)


def stored(folder: Path, values: np.ndarray, *, fill: float = 0, **given: Any) -> str:
    """Store data with names of axes in chunks of which some are absent."""
    path = folder / "a.zarr"
    made = zarr.create_array(
        path, shape=values.shape, chunks=(2, 3, 8), dtype=values.dtype, fill_value=fill,
        dimension_names=DIMS, overwrite=True, **given,
    )  # fmt: skip
    made[...] = values
    return str(path)


def exactly(values: np.ndarray, weights: np.ndarray, axis: int | None) -> np.ndarray:
    """Return weighted means, each rounded once."""
    weights = np.broadcast_to(weights, values.shape)
    x, w = (
        np.moveaxis(a, axis, -1) if axis is not None else a.reshape(-1) for a in (values, weights)
    )
    if not x.size:
        return np.full(x.shape[:-1], np.nan)
    means = []
    for row, by in zip(x.reshape(-1, x.shape[-1]), w.reshape(-1, x.shape[-1]), strict=True):
        total = sum(map(Fraction, map(float, by)), Fraction())
        parts = (Fraction(float(a)) * Fraction(float(b)) for a, b in zip(row, by, strict=True))
        means.append(float(sum(parts, Fraction()) / total) if total else np.nan)
    return np.array(means).reshape(x.shape[:-1])


@pytest.mark.parametrize("axis", [None, 0, 1, 2])
@pytest.mark.parametrize(
    "weights",
    [
        np.cos(np.linspace(-1, 1, 5))[:, None],
        np.linspace(0.5, 3, 8),
        np.random.default_rng(1).random((5, 8)),
        np.random.default_rng(2).random((6, 1, 8)),
        np.random.default_rng(3).random(SHAPE),
        np.float64(2.5),
    ],
    ids=["lat", "lon", "lat-lon", "time-lon", "all", "one"],
)
def test_means_are_exact_and_rounded_once(tmp_path: Path, axis: int | None, weights: np.ndarray):
    values = data("float64")
    got = cf.reduce(stored(tmp_path, values), "mean", axis=axis, weights=weights)
    assert np.array_equal(got, exactly(values, weights, axis))


def test_names_of_axes_say_what_weights_are_along(tmp_path: Path):
    values = data()
    weights = xarray.DataArray(np.arange(1.0, 6), dims="lat")
    found = cf.reduce(stored(tmp_path, values), ["sum", "std"], axis="lat", weights=weights)
    wanted = xarray.DataArray(values.astype("f8"), dims=DIMS).weighted(weights)
    np.testing.assert_allclose(found["sum"], wanted.sum("lat"), rtol=1e-6)
    np.testing.assert_allclose(found["std"], wanted.std("lat"), rtol=1e-6)
    turned = xarray.DataArray(np.random.default_rng(0).random((8, 5)), dims=("lon", "lat"))
    got = cf.reduce(stored(tmp_path, values), "mean", axis=("lat", "lon"), weights=turned)
    mean = xarray.DataArray(values.astype("f8"), dims=DIMS).weighted(turned).mean(("lat", "lon"))
    np.testing.assert_allclose(got, mean, rtol=1e-6)


MASKS = {
    "a map": np.random.default_rng(5).random((5, 8)) < 0.5,
    "times": (np.random.default_rng(6).random(6) < 0.5)[:, None, None],
    "all": np.random.default_rng(7).random(SHAPE) < 0.3,
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "uint64"])
@pytest.mark.parametrize("axis", [None, 0, (1, 2)])
def test_masks_leave_out_what_numpy_leaves_out(tmp_path: Path, mask: str, dtype: str, axis: Any):
    values, there = data(dtype), np.broadcast_to(MASKS[mask], SHAPE)
    some = there.any(axis=axis).all()
    path = stored(tmp_path, values)
    found = cf.reduce(path, ["sum", "count", "mean"], axis=axis, where=MASKS[mask])
    assert np.array_equal(found["count"], there.sum(axis))
    if np.dtype(dtype).kind in "iu":
        assert np.array_equal(found["sum"], values.sum(axis, where=there))
    if some:
        most = cf.reduce(path, "max", axis=axis, where=MASKS[mask])
        lowest = np.iinfo(dtype).min if np.dtype(dtype).kind in "iu" else -np.inf
        assert np.array_equal(most, values.max(axis, where=there, initial=lowest))
        wide = values.astype("f8").mean(axis, where=there)
        np.testing.assert_allclose(found["mean"], wide, rtol=1e-5)


@pytest.mark.parametrize("given", ["weights", "where", "both"])
@pytest.mark.parametrize("packed", [(True, True), (False, True), (True, False)])
@pytest.mark.parametrize("own", [("lat",), ("lat", "lon"), ("time",)])
def test_any_of_two_arrays_is_packed(
    tmp_path: Path, packed: tuple[bool, bool], own: tuple[str, ...], given: str
):
    packing = {"scale_factor": 0.25, "add_offset": 3.0, "_FillValue": -1}
    numbers = np.random.default_rng(4).integers(-1, 90, (2, *SHAPE)).astype("i2")
    paths = []
    for one, name, by_four in zip(numbers, "ab", packed, strict=True):
        (tmp_path / name).mkdir()
        paths.append(stored(tmp_path / name, one))
        zarr.open_array(paths[-1]).attrs.update(packing if by_four else {})
    a, b = (
        np.where(one == -1, np.nan, one * 0.25 + 3) if by_four else one.astype("f8")
        for one, by_four in zip(numbers, packed, strict=True)
    )
    extents = [SHAPE[DIMS.index(dim)] for dim in own]
    weights = np.random.default_rng(5).integers(1, 5, extents).astype("f8")
    options: dict[str, Any] = {
        "weights": xarray.DataArray(weights, dims=own),
        "where": xarray.DataArray(weights > 2, dims=own),
    }
    options = options if given == "both" else {given: options[given]}
    lacking = tuple(n for n, dim in enumerate(DIMS) if dim not in own)
    counted = np.broadcast_to(np.expand_dims(weights, lacking), SHAPE)
    there = (counted > 2 if given != "weights" else True) & ~np.isnan(a - b)
    by = np.where(there, counted if given != "where" else 1.0, 0)
    far = np.where(there, (a - b) ** 2, 0)
    for axis in (None, ("lat", "lon"), "time"):
        got = cf.reduce(paths, "rmse", axis=axis, mask_and_scale=True, skipna=True, **options)
        over = tuple(DIMS.index(dim) for dim in (DIMS if axis is None else np.atleast_1d(axis)))
        with np.errstate(invalid="ignore"):
            want = np.sqrt((far * by).sum(over) / by.sum(over))
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_weights_and_a_mask_and_missing_numbers_together(tmp_path: Path):
    values, weights = data("float64", nans=True), np.arange(1.0, 9)
    got = cf.reduce(
        stored(tmp_path, values), "mean", axis=(0, 2), weights=weights, where=MASKS["a map"],
        skipna=True,
    )  # fmt: skip
    there = np.broadcast_to(MASKS["a map"], SHAPE) & ~np.isnan(values)
    wanted = exactly(
        np.where(there, values, 0).transpose(1, 0, 2).reshape(5, -1),
        np.where(there, np.broadcast_to(weights, SHAPE), 0).transpose(1, 0, 2).reshape(5, -1),
        1,
    )
    assert np.array_equal(got, wanted)


@given(seed=st.integers(0, 10_000))
def test_selections_take_the_same_of_both(seed: int, tmp_path_factory):
    rng = np.random.default_rng(seed)
    starts, extents, steps = (rng.integers(*ends, 3).tolist() for ends in ((0, 3), (1, 6), (1, 4)))
    cuts = [slice(a, a + n, step) for a, n, step in zip(starts, extents, steps, strict=True)]
    selection: tuple[Any, ...] = tuple(cuts)
    if rng.random() < 0.3:
        selection = (cuts[0], int(rng.integers(0, 5)), cuts[2])
    values, weights, mask = data("float64"), rng.random((5, 8)), rng.random((6, 1, 1)) < 0.7
    path = stored(tmp_path_factory.mktemp("a"), values)
    got = cf.reduce(path, "mean", weights=weights, where=mask, selection=selection)
    there = np.broadcast_to(mask, SHAPE)[selection].ravel()
    parts = (a[selection].ravel()[there] for a in (values, np.broadcast_to(weights, SHAPE)))
    assert np.array_equal(got, exactly(*parts, None), equal_nan=True)  # type: ignore[call-arg]


def test_what_is_not_stored_is_weighed_too(tmp_path: Path):
    values = data("float64")
    values[2:4, :3] = 7.5
    path = stored(tmp_path, values, fill=7.5, config={"write_empty_chunks": False})
    weights = np.random.default_rng(3).random((5, 8))
    assert cf.plan(path).scan.unstored or len(list(Path(path).rglob("c/*/*/*"))) < 6
    got = cf.reduce(path, "mean", weights=weights)
    assert got == exactly(values, weights, None)


@pytest.mark.parametrize("most", [8, sending.INLINE_BYTES])
def test_workers_give_the_same_bits(tmp_path: Path, monkeypatch, client: Client, most: int):
    monkeypatch.setattr(sending, "INLINE_BYTES", most)
    values, weights = data("float64"), np.random.default_rng(3).random((5, 8))
    given: dict[str, Any] = {"axis": 0, "weights": weights, "where": MASKS["all"]}
    path = stored(tmp_path, values)
    here = cf.reduce(path, "mean", **given)
    assert np.array_equal(cf.reduce(path, "mean", client=client, **given), here, equal_nan=True)
    there = cf.reduce(values, "mean", client=client, **given)
    assert np.array_equal(there, here, equal_nan=True)


@pytest.fixture(scope="module")
def client() -> Any:
    made = cf.LocalOpenCLCluster(DEVICES[0].spec, workers_per_device=2, dashboard_address=None)
    with made as cluster, Client(cluster) as connected:
        yield connected


def test_a_path_and_zarrs_array_are_read(tmp_path: Path, command: Callable):
    values, mask = data(), MASKS["a map"]
    zarr.save(tmp_path / "mask.zarr", mask)
    path = stored(tmp_path, values)
    plain = cf.reduce(path, where=mask)
    assert cf.reduce(path, where=tmp_path / "mask.zarr") == plain
    assert cf.reduce(path, where=zarr.open_array(tmp_path / "mask.zarr")) == plain
    zarr.save(tmp_path / "weights.zarr", np.arange(1.0, 9))
    asked = ["--op", "mean", "--where", "x > 0", "--json"]
    told = command("reduce", path, *asked, "--mask", tmp_path / "mask.zarr", "--weights",
                     tmp_path / "weights.zarr")  # fmt: skip
    wanted = cf.reduce(path, "mean", weights=np.arange(1.0, 9), where=(mask, "x > 0"))
    assert json.loads(told.stdout)["results"]["mean"] == float(wanted)


def test_a_name_is_that_of_an_array_beside_the_data(tmp_path: Path, monkeypatch, command: Callable):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    sample = xarray.Dataset(
        {"air": (("time", "lat"), rng.normal(280, 5, (6, 4)).astype("f4")),
         "land": (("lat",), np.array([True, False, True, True]))},
        coords={"lat": [10.0, 20.0, 30.0, 40.0]},
    )  # fmt: skip
    sample.to_zarr("s.zarr")
    air = sample.air.astype("f8")
    want = float(air.weighted(sample.lat).mean())
    for path in ("s.zarr/air", tmp_path / "s.zarr" / "air"):
        assert cf.reduce(path, "mean", weights="lat") == pytest.approx(want)
    told = command("reduce", "s.zarr/air", "--op", "mean", "--weights", "lat", "--mask", "land",
                     "--json")  # fmt: skip
    want = float(air.where(sample.land).weighted(sample.lat).mean())
    assert json.loads(told.stdout)["results"]["mean"] == pytest.approx(want)
    zarr.save("lat", np.ones(4))  # what stands beside the data comes first; a path says another
    assert cf.reduce("s.zarr/air", "mean", weights="./lat") == pytest.approx(float(air.mean()))
    with pytest.raises(cf.SourceError, match=r"array 'lta' next to .* lta: no such"):
        cf.reduce("s.zarr/air", "mean", weights="lta")


def test_conditions_of_elements_and_users_monoids_go_with_weights(tmp_path: Path):
    values, weights = data("float64"), np.arange(1.0, 9)
    heavy = cf.Monoid(
        "heavy", inputs=2, weights=1, zero="lowest", lift=lambda x, w: x * w, op="max", rtol=1e-12
    )
    path = stored(tmp_path, values)
    assert cf.reduce(path, heavy, weights=weights) == max(0, (values * weights).max())
    got = cf.reduce(path, "mean", weights=weights, where=lambda x, w: (x > 0) & (w > 2))
    there = (values > 0) & (weights > 2)
    assert got == exactly(values[there], np.broadcast_to(weights, SHAPE)[there], None)


@pytest.mark.parametrize("axis", [None, (0, 1)])
@pytest.mark.parametrize("by_axis", [0, 1])
def test_groups_have_weights_and_masks_of_their_elements(tmp_path: Path, axis: Any, by_axis: int):
    values, weights, mask = data("float64"), np.random.default_rng(3).random((5, 8)), MASKS["times"]
    labels = np.array([1, 0, -1, 1, 2, 0])[: SHAPE[by_axis]]
    got = cf.reduce(
        stored(tmp_path, values), "mean", axis=axis, weights=weights, where=mask, by=labels,
        by_axis=by_axis,
    )  # fmt: skip
    each = np.broadcast_to(weights, SHAPE)
    for number, label in enumerate(np.unique(labels[labels >= 0])):
        own = np.broadcast_to(mask, SHAPE).copy()
        own[(slice(None),) * by_axis + (labels != label,)] = False
        wanted = exactly(values[own], each[own], None) if axis is None else [
            exactly(values[..., n][own[..., n]], each[..., n][own[..., n]], None)
            for n in range(SHAPE[2])
        ]  # fmt: skip
        assert np.array_equal(got[number], wanted, equal_nan=True)


def test_weights_of_other_places_than_a_zarrs_are_refused(tmp_path: Path):
    values, lat = data(), np.linspace(-60, 60, 5)
    made = xarray.DataArray(values, dims=DIMS, coords={"lat": lat.astype("f4")}, name="air")
    made.to_dataset().to_zarr(tmp_path / "a.zarr")
    weights = xarray.DataArray(np.arange(1.0, 6), dims="lat", coords={"lat": lat})
    path = tmp_path / "a.zarr" / "air"
    assert cf.reduce(path, weights=weights) == cf.reduce(path, weights=weights.values[:, None])
    turned = weights[::-1]
    for other in ({"weights": turned}, {"where": turned > 2}, {"by": turned.astype(int)}):
        with pytest.raises(cf.PlanError, match=r"'lat' is 60.0 at 0, but that of .* is -60.0"):
            cf.reduce(path, **other)


def test_weights_are_not_cut_by_a_dtype_of_integers():
    with pytest.raises(cf.PlanError, match="dtype=int32 would also truncate weights of float64"):
        cf.reduce(data(), weights=np.full(8, 0.5), dtype="i4")


def test_a_mask_and_conditions_must_all_hold(tmp_path: Path):
    values, mask = data(), MASKS["a map"]
    got = cf.reduce(stored(tmp_path, values), "count", where=(mask, "x > 0", lambda x: x < 100))
    assert got == ((values > 0) & (values < 100) & mask).sum()
    with pytest.raises(cf.PlanError, match="several masks"):
        cf.reduce(values, where=(mask, mask))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"weights": np.ones(4)}, r"weights: shape \(4,\) does not fit"),
        ({"weights": xarray.DataArray(np.ones(8), dims="lat")}, "along lat does not fit"),
        ({"weights": np.ones((1, 6, 5, 8))}, "does not fit"),
        ({"where": np.ones(8)}, "where is float64; a mask has bools"),
        ({"weights": np.ones(8, complex)}, "weights are complex128; weights must be numbers"),
        ({"weights": np.array(["a"] * 8)}, "weights: dtype"),
        ({"weights": [[1, 2], [3]]}, "weights: NumPy makes no array of list"),
        ({"where": xarray.Dataset({"a": ("x", [True])})}, "where: NumPy makes no array of Dataset"),
        ({"weights": np.ones(8), "op": "max"}, "'max' takes no weights; sum, mean, var, std, cov"),
        ({"weights": "nowhere.zarr"}, "next to .* or as a path: .*nowhere"),
        ({"weights": "a/nowhere.zarr"}, "a/nowhere.zarr: no such path"),
        ({"where": {"a": 1}}, "where"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, given: dict[str, Any], told: str):
    with pytest.raises(cf.ChunkfoldError, match=told):
        cf.reduce(stored(tmp_path, data()), **{"op": "sum", **given})


def test_too_large_ones_are_refused_and_the_plan_tells_what_is_held(tmp_path: Path, monkeypatch):
    path, mask = stored(tmp_path, data()), MASKS["a map"]
    plan = cf.plan(path, where=mask)
    assert "broadcast where, bool, along axes 1, 2: 40 B" in str(plan)
    assert plan.memory.accumulators > cf.plan(path).memory.accumulators
    monkeypatch.setattr(broadcast_inputs, "MOST_BYTES", 39)
    with pytest.raises(cf.PlanError, match="40 B are more than the 39 B"):
        cf.reduce(path, where=mask)


def test_no_mask_is_none_beside_conditions():
    values = np.arange(6.0)
    assert cf.reduce(values, "count", where=(None, "x > 3")) == 2
    assert cf.reduce(values, "count", where=(None,)) == 6


@pytest.mark.parametrize("axis", [None, 0, (1, 2)])
@pytest.mark.parametrize("weights", [np.arange(8) - 2, np.linspace(0.1, 3, 8)], ids=["i", "f"])
def test_bins_hold_sums_of_weights_as_numpys(tmp_path: Path, weights: np.ndarray, axis: Any):
    values, edges = data("float64"), [-1e3, -1, 0, 1, 100]
    path, monoid = stored(tmp_path, values), cf.histogram(edges)
    got = cf.reduce(path, [monoid, "sum"], axis=axis, weights=weights)["histogram"]
    each, kept = np.broadcast_to(weights, SHAPE), {None: 0, 0: 1, (1, 2): 0}[axis]
    rows = [a.reshape(1, -1) if axis is None else
            a.transpose(1, 2, 0).reshape(40, 6) if kept else a.reshape(6, -1)
            for a in (values, each)]  # fmt: skip
    wants = [np.histogram(x, edges, weights=w)[0] for x, w in zip(*rows, strict=True)]
    np.testing.assert_allclose(got["weight"].reshape(-1, 4), wants)
    assert got["weight"].dtype == (np.int64 if weights.dtype.kind == "i" else np.float64)
    labelled = cf.reduce(path, "histogram", axis=axis, weights=weights, labels=True)
    np.testing.assert_allclose(labelled.values["weight"].sum(-1), each.sum(axis), atol=1e-12)
    assert list(labelled.parts) == [f"histogram/{name}" for name in ("left", "right", "weight")]
    assert labelled.parts["histogram/left"].ndim == 1


def test_the_shell_weighs_bins_and_pairs(tmp_path: Path, command: Callable):
    values, out = data("float64"), tmp_path / "out.zarr"
    path = stored(tmp_path, values)
    zarr.save(tmp_path / "w.zarr", np.arange(1.0, 9))
    command("reduce", path, "--op", "histogram", "--edges", "0:9:3", "--weights",
              tmp_path / "w.zarr", "--out", out)  # fmt: skip
    want = np.histogram(values, [0, 3, 6, 9], weights=np.broadcast_to(np.arange(1.0, 9), SHAPE))
    np.testing.assert_allclose(zarr.open_array(out / "histogram" / "weight")[...], want[0])
    told = command("reduce", path, path, "--op", "covariance,correlation", "--ddof", "1",
                     "--weights", tmp_path / "w.zarr", "--json")  # fmt: skip
    found = json.loads(told.stdout)["results"]
    assert found["correlation"] == 1
    want = cf.reduce(path, "var", weights=np.arange(1.0, 9), ddof=1)
    assert found["covariance"] == want
