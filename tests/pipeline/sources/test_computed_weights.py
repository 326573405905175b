"""Weights of coordinates are computed from all of their values, or refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr

import chunkfold as cf


def stored(path: Path, lat: np.ndarray, fill: float | None) -> str:
    group = zarr.open_group(path, mode="w", zarr_format=2)
    values = group.create_array(
        "x", data=np.arange(5 * len(lat), dtype="f4").reshape(5, len(lat)), chunks=(2, len(lat))
    )
    values.attrs["_ARRAY_DIMENSIONS"] = ["time", "lat"]
    own = group.create_array("lat", shape=lat.shape, dtype=lat.dtype, fill_value=fill)
    own[...] = lat
    own.attrs["_ARRAY_DIMENSIONS"] = ["lat"]
    return str(path / "x")


def test_a_coordinate_whose_fill_value_is_one_of_its_values_is_named(tmp_path: Path):
    """In format 2 a fill value is missing: the equator here."""
    path = stored(tmp_path / "a", np.array([-60.0, 0, 60]), 0)
    with pytest.raises(
        cf.PlanError,
        match=r"weights 'cos\(lat\)': 'lat' of .* is missing at index 1, .* or give the weights",
    ):
        cf.reduce(path, "mean", weights="cos(lat)")


def test_a_coordinate_that_has_all_values_weighs(tmp_path: Path):
    lat = np.array([-60.0, 0, 60])
    path = stored(tmp_path / "a", lat, -999)
    values = np.arange(15, dtype="f8").reshape(5, 3)
    found = cf.reduce(path, "mean", weights="cos(lat)")
    weights = np.cos(np.radians(lat))
    assert found == np.float32((values * weights).sum() / (5 * weights.sum()))
