"""Weights below zero: refused with the place of the first, in any chunks; sums take them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr

import chunkfold as cf
from chunkfold.errors import MonoidError, PlanError

X = np.random.default_rng(0).normal(size=(8, 6))
Y = X**2
LAT = np.linspace(90, -90, 6, dtype="f4")
ONE = ["mean", "var", "std", "median", "p90"]
TWO = ["covariance", "correlation", "cov", "corr", "bias", "mae", "rmse"]


@pytest.mark.parametrize("op", [*ONE, *TWO])
def test_they_are_refused_with_the_place_of_the_first(op: str):
    data: Any = (X, Y) if op in TWO else X
    weights = np.ones(X.shape)
    weights[5, 2], weights[6, 0] = -0.25, -7
    says = rf"weights: -0.25 is below zero, but weights of {op} .* is at \[5, 2\] along axis 0"
    with pytest.raises(PlanError, match=says):
        cf.reduce(data, op, weights=weights)
    with pytest.raises(PlanError, match="below zero"):
        cf.reduce(data, [op] if op in TWO else ["sum", op], weights=weights[5])
    selection = (slice(1, None), slice(2, None))
    with pytest.raises(PlanError, match=r"the first is at \[5, 2\]"):
        cf.reduce(data, op, weights=weights, selection=selection)
    cf.reduce(data, op, weights=weights, selection=(slice(0, 5),))


@pytest.mark.parametrize("chunks", [(8, 6), (3, 2), (1, 5)])
@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("op", ["weighted_mean", "weighted_std", "weighted_median"])
def test_those_of_a_second_source_are_refused_in_the_read(
    tmp_path: Path, op: str, axis: int | None, chunks: tuple[int, int]
):
    weights = np.ones(X.shape)
    weights[5, 3], weights[6, 0] = -1, -2
    pair = [zarr.create_array(tmp_path / n, data=d, chunks=chunks) for n, d in
            (("x", X), ("w", weights))]  # fmt: skip
    with pytest.raises(MonoidError, match=rf"'{op}' has weights below zero: .* \[5, 3\] of the"):
        cf.reduce(pair, op, axis=axis)
    got = cf.reduce(pair, op, axis=axis, where="x1 > 0")
    np.testing.assert_array_equal(got, cf.reduce(X, op[9:], axis=axis, weights=weights.clip(0)))
    got = cf.reduce(pair, "weighted_sum", axis=axis)
    np.testing.assert_allclose(got, (X * weights).sum(axis=axis))


def test_chunks_that_are_not_stored_may_have_them():
    x = zarr.create_array({}, data=X, chunks=(3, 2))
    weights = zarr.create_array({}, shape=X.shape, chunks=(2, 2), dtype="f8", fill_value=-1.0)
    weights[:2] = 1
    with pytest.raises(MonoidError, match=r"\[2, 0\] of the selection"):
        cf.reduce((x, weights), "weighted_mean", axis=1)


def test_below_zero_by_rounding_is_zero():
    weights = np.cos(np.radians(LAT))
    assert weights.min() < 0
    want = cf.reduce(X, ONE, weights=weights.clip(0))
    assert cf.reduce(X, ONE, weights=weights) == want
    second = np.broadcast_to(weights, X.shape).copy()
    for op in ONE:
        assert cf.reduce((X, second), f"weighted_{op}") == cf.reduce(
            (X, second.clip(0)), f"weighted_{op}"
        )
    got = cf.reduce((X, second), "weighted_mean", axis=0)
    assert np.isnan(got).tolist() == [True, *[False] * 4, True]
    np.testing.assert_array_equal(got, cf.reduce(X, "mean", axis=0, weights=weights))


def test_sums_and_histograms_take_weights_of_any_sign():
    signed = np.where(np.arange(6) % 2, -1.0, 2.0)
    np.testing.assert_allclose(cf.reduce(X, "sum", weights=signed), (X * signed).sum())
    edges = [-9, 0, 9]
    got = cf.reduce(X, cf.histogram(edges), weights=signed)["weight"]
    each = np.broadcast_to(signed, X.shape)
    np.testing.assert_allclose(got, np.histogram(X, edges, weights=each)[0])
    tiny = np.array([1e9, -1, 1, 1, 1, 1])
    np.testing.assert_allclose(cf.reduce(X, "sum", weights=tiny), (X * tiny).sum())


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("cos(lat)", lambda lat, _: np.cos(np.radians(lat))),
        ("sqrt(cos(lat))", lambda lat, _: np.sqrt(np.cos(np.radians(lat)))),
        ("cos(lat) / 2 + lon", lambda lat, lon: np.cos(np.radians(lat)) / 2 + lon),
        ("cos(lat * pi / 180)", lambda lat, _: np.cos(np.radians(lat))),
        ("abs(lat) * (lat > 0)", lambda lat, _: lat * (lat > 0)),
    ],
)
def test_a_text_makes_weights_of_coordinates_in_degrees(tmp_path: Path, text: str, made: Any):
    lat, lon = LAT[1:-1], np.arange(5.0)
    air = xr.DataArray(
        np.random.default_rng(1).normal(size=(3, 4, 5)),
        dims=("time", "lat", "lon"),
        coords={"lat": ("lat", lat, {"units": "degrees_north"}), "lon": lon},
        name="air",
    )
    air.to_zarr(tmp_path / "s.zarr", consolidated=False)
    weights = made(air.lat.astype("f8"), air.lon)
    want = air.weighted(weights).mean()
    for source in (air, tmp_path / "s.zarr" / "air"):
        np.testing.assert_allclose(cf.reduce(source, "mean", weights=text), want)


def test_angles_of_coordinates_in_radians_are_such():
    lat = xr.DataArray(np.radians(LAT[1:-1].astype("f8")), dims="lat", attrs={"units": "radian"})
    air = xr.DataArray(X[:, 1:-1], dims=("time", "lat"), coords={"lat": lat})
    want = air.weighted(np.cos(lat)).mean()
    np.testing.assert_allclose(cf.reduce(air, "mean", weights="cos(lat)"), want)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("lat", r"lat: -18.0 is below zero, but weights of mean .* \[3\] along 'lat'"),
        ("sin(lat)", r"sin\(lat\): -0.309.* is below zero"),
        (
            "cos(latt)",
            "'latt' is not a coordinate of DataArray 'air', which has the coordinates lat",
        ),
        ("cosine(lat)", "no function is called 'cosine'; use one of .*angles are in degrees"),
        ("cos(90)", "name 1 to 10 coordinates"),
        ("cos(name)", "'name' of DataArray 'air' is <U1"),
    ],
)
def test_a_text_that_makes_no_weights_is_refused(text: str, says: str):
    air = xr.DataArray(
        X, dims=("time", "lat"), coords={"lat": LAT, "name": ("lat", list("abcdef"))}, name="air"
    )
    with pytest.raises(PlanError, match=says):
        cf.reduce(air, "mean", weights=text)
